"""Which callables give what a backward pass goes through: they compute with operations of torch that have gradients.

An array on the way would have cut the graph. So nobody has to know such a callable to know that it takes tensors.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

from ....codemod.purpose.lightning import is_lightning_module
from ....codemod.python.functions import called_function
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain, modules_with
from ....codemod.python.paths import function_of
from ....codemod.python.scopes import last_name
from ....codemod.source.project import Project
from .narrowed import loses
from .region_results import PASSES

BACKWARDS = ("backward", "manual_backward")
TRAINING = "training_step"
DETACHING = ("detach", "data", "detach_")
MAX_READ = 200
"""How many values are read for one project."""
_Asked = tuple[ModuleNames, ast.expr]


def is_differentiated(project: Project, call: ast.Call) -> bool:
    """Whether what is called gives, here or at another call of its name, what is differentiated."""
    return last_name(call.func) in project.fact(_callees)


def _callees(project: Project) -> frozenset[str]:
    waiting, seen, found = deque(_roots(project)), set[ast.expr](), set[str]()
    while waiting and len(seen) < MAX_READ:
        module, value = waiting.popleft()
        if value in seen:
            continue
        seen.add(value)
        for call in _behind(module, value):
            found.add(last_name(call.func) or "")
            target = called_function(project, module, call)
            if target is not None:
                waiting.extend((target.module, item) for item in _returned(target.node))
    return frozenset(found - {""})


def _roots(project: Project) -> Iterator[_Asked]:
    """What ``backward`` is called on or with, and what a step gives Lightning, which calls it."""
    for module in modules_with(project, (), (*BACKWARDS, TRAINING)):
        for call in (call for name in BACKWARDS for call in module.calls_by_name.get(name, ())):
            yield from ((module, item) for item in call.args)
            if isinstance(call.func, ast.Attribute):
                yield module, call.func.value
        for owner in module.of_type(ast.ClassDef):
            steps = [item for item in owner.body if isinstance(item, FunctionNode) and item.name == TRAINING]
            if steps and is_lightning_module(project, module, owner):
                yield from ((module, item) for step in steps for item in _returned(step))


def _returned(function: ast.AST) -> Iterator[ast.expr]:
    yield from (item.value for item in ast.walk(function) if isinstance(item, ast.Return) and item.value is not None)


def _behind(module: ModuleNames, value: ast.expr) -> Iterator[ast.Call]:
    """The calls that a value is computed by, also those that gave the variables in it."""
    values, names = [value], _read([value])
    stored = [item for item in ast.walk(function_of(module, value)) if isinstance(item, ast.Assign | ast.AugAssign)]
    for _ in range(PASSES):
        fitting = [item.value for item in stored if not _given(item).isdisjoint(names)]
        values += [item for item in fitting if item not in values]
        names |= _read(fitting)
    for item in values:
        yield from (node for node in _kept(item) if isinstance(node, ast.Call))


def _given(node: ast.Assign | ast.AugAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {
        ".".join(attribute_chain(item) or ())
        for target in targets
        for item in ast.walk(target)
        if isinstance(item, ast.Name | ast.Attribute) and isinstance(item.ctx, ast.Store)
    }


def _read(values: list[ast.expr]) -> set[str]:
    nodes = (node for value in values for node in _kept(value))
    return {".".join(attribute_chain(node) or ()) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}


def _kept(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression through which gradients go."""
    is_cut = isinstance(node, ast.Call | ast.Attribute) and last_name(getattr(node, "func", node)) in DETACHING
    if not is_cut and not loses(node):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _kept(child)
