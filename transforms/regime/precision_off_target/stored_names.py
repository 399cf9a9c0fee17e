"""What a function stores, in which names, and what it reads for that: told once for all regions that come to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.functions import called_function
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from .narrowed import call_name, loses
from .readers_of_results import called, chain

COLLECTING = ("append", "extend", "add", "update")
"""Methods with which a list, a set or a meter takes what it is given."""
COUNTING = ("items", "enumerate")
"""Calls that give each value behind a key or a number."""
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
TAKING = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.Expr
MAX_HOPS = 4
"""Functions in a row of which each returns what the next one gives."""
LOOPING = ast.For | ast.AsyncFor | ast.comprehension


@dataclass(frozen=True, slots=True)
class Taking:
    """A statement, or a loop, that gives a value to names."""

    value: ast.expr
    mentioned: frozenset[str]
    """Every name in the value: one that mentions no result gives none."""
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The nodes of a function, what it takes over from name to name, and its calls."""

    nodes: tuple[ast.AST, ...]
    takings: tuple[Taking, ...]
    calls: tuple[tuple[ast.Call, frozenset[str] | None], ...]
    """Each with every name in it; None inside of comprehensions, whose variables may hold results."""
    given: frozenset[str]


def contents_of(project: Project, module: ModuleNames, function: ast.AST) -> Contents:
    """What stands in a function, or in a module outside of any."""
    return project.memo(_contents, (module, function))


def _contents(project: Project, place: tuple[ModuleNames, ast.AST]) -> Contents:
    module, function = place
    nodes = list(ast.walk(function))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    is_lambda = isinstance(function, ast.Lambda)
    inner = {part for node in nodes if isinstance(node, COMPREHENSIONS) for part in ast.walk(node)}
    given = frozenset(name for node in nodes for name in _stored(node))
    nodes += [ast.Expr(function.body)] if isinstance(function, ast.Lambda) else []
    takings = tuple(
        taking
        for node in nodes
        if isinstance(node, TAKING | LOOPING)
        for taking in _takings(without_numbers(project, module, node))
    )
    mentioned = tuple((call, None if is_lambda or call in inner else _mentioned(call)) for call in calls)
    return Contents(tuple(nodes), takings, mentioned, given)


def _takings(node: ast.AST) -> Iterator[Taking]:
    for part in _parts(node):
        value = part.iter if isinstance(part, LOOPING) else part.value if isinstance(part, TAKING) else None
        given = tuple(dict.fromkeys(given_by(part))) if value is not None else ()
        if value is not None and given:
            yield Taking(value, _mentioned(value), given)


def without_numbers(project: Project, module: ModuleNames, node: ast.AST) -> ast.AST:
    """``loss, count = step(batch)`` without the targets that get numbers from a function of the project."""
    target, call = (node.targets[0], node.value) if isinstance(node, ast.Assign) else (None, None)
    if not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call):
        return node
    found = project.memo(_numbers_returned, (module, call, MAX_HOPS))
    if len(found) != len(target.elts) or not any(found):
        return node
    kept = [item for item, is_number in zip(target.elts, found, strict=True) if not is_number]
    return ast.Assign([ast.Tuple(kept, ast.Store())], call)


def _numbers_returned(project: Project, asked: tuple[ModuleNames, ast.Call, int]) -> tuple[bool, ...]:
    """Of each of the values that a call gives whether it is no tensor of a region, whichever ``return`` gives it.

    Nothing of methods, which a class below may have its own of.
    """
    module, call, hops = asked
    target = called_function(project, module, call) if hops else None
    if target is None or target.scope.enclosing_class is not None:
        return ()
    values = (node.value for node in ast.walk(target.node) if isinstance(node, ast.Return))
    found = {_numbers_in(project, target.module, value, hops - 1) for value in values}
    return tuple(map(all, zip(*found, strict=True))) if len({len(each) for each in found}) == 1 else ()


def _numbers_in(project: Project, module: ModuleNames, value: ast.expr | None, hops: int) -> tuple[bool, ...]:
    if isinstance(value, ast.Call):
        return project.memo(_numbers_returned, (module, value, hops))
    return tuple(_is_number(module, item) for item in value.elts) if isinstance(value, ast.Tuple) else ()


def _is_number(module: ModuleNames, node: ast.expr) -> bool:
    """``batch.size(0)``, also behind a variable that is nothing else."""
    given = [item.value for item in module.bindings_of(node)]
    return loses(node) or (bool(given) and all(value is not None and loses(value) for value in given))


def _mentioned(node: ast.AST) -> frozenset[str]:
    parts = (part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute | ast.Call))
    return frozenset(called(part) if isinstance(part, ast.Call) else chain(part) for part in parts)


def given_by(node: ast.AST) -> Iterator[str]:
    """The variables that a statement gives something to: by assignment, as a loop's, by ``seen.append(x)``."""
    for inner in _targets(node):
        yield from _stored(inner)


def _stored(node: ast.AST) -> Iterator[str]:
    """The variable that is stored to right here."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield chain(node.value)
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield chain(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _collects(node):
        yield chain(holder_of(node.func.value))


def _collects(call: ast.Call) -> bool:
    """``seen.append(x)``; not ``scaler.update()``, which takes nothing."""
    return call_name(call) in COLLECTING and bool(call.args or call.keywords)


def holder_of(node: ast.expr) -> ast.expr:
    """What holds a list: ``seen`` of ``seen["a"]`` and of ``seen.setdefault("a", [])``."""
    while isinstance(node, ast.Subscript | ast.Call):
        inner = node.value if isinstance(node, ast.Subscript) else node.func
        node = inner.value if isinstance(node, ast.Call) and isinstance(inner, ast.Attribute) else inner
    return node


def _targets(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement stores to; of a loop not what its body does, and no key or count."""
    if not isinstance(node, LOOPING):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from () if isinstance(child, ast.comprehension) else _targets(child)
        return
    is_counted = isinstance(node.iter, ast.Call) and call_name(node.iter) in COUNTING
    parts = node.target.elts[1:] if is_counted and isinstance(node.target, ast.Tuple) else [node.target]
    yield from (item for part in parts for item in ast.walk(part))


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """A statement; of ``a, b = x, y`` each pair."""
    target, value = (node.targets[0], node.value) if isinstance(node, ast.Assign) else (None, None)
    is_pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and is_pair:
        yield from (ast.Assign([one], other) for one, other in zip(target.elts, value.elts, strict=True))
    else:
        yield node
