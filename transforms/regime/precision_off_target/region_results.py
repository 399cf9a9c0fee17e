"""Where what is computed under autocast goes: variables, attributes, calls it is passed to, callers it is returned to.

By name, and rather too far than not far enough: what is found here is only asked for what is known of it.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ....codemod.purpose.entered import entries_of
from ....codemod.purpose.files import is_test
from ....codemod.purpose.lightning import STEPS, is_lightning_module
from ....codemod.python.functions import called_function
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from .readers_of_results import called, chain, is_step, readers_of

COLLECTING = ("append", "extend", "add", "update")
"""Methods with which a list, a set or a meter takes what it is given."""
CONVERTING = ("numpy", "asarray", "array")
"""Methods and functions that make an array."""
ARRAY_PACKAGES = ("matplotlib.", "sklearn.", "scipy.", "pandas.", "seaborn.", "PIL.", "cv2.", "skimage.", "imageio.")
"""Libraries whose functions make arrays of the tensors that they are passed."""
LOSING = frozenset({
    "item", "tolist", "float", "double", "int", "long", "bool", "argmax", "argmin", "argsort", "size", "dim", "numel",
    "backward", "len", "str", "isinstance", "numpy", "no_grad", "autocast", "range", "print", "type",
})  # fmt: skip
"""Calls whose result is no floating tensor of a dtype that somebody chose before."""
KEEPING = frozenset({
    "to", "cuda", "cpu", "detach", "clone", "contiguous", "view", "reshape", "permute", "transpose", "squeeze",
    "unsqueeze", "flatten", "expand", "repeat", "get", "items", "values", "keys", "pop", "zip", "enumerate", "dict",
    "list", "tuple", "next", "iter", "getattr",
})  # fmt: skip
"""Calls that compute nothing: what they give has the dtype of what they are given."""
LOST = frozenset({"shape", "dtype", "device", "ndim", "requires_grad"})
"""Attributes of the same kind."""
TAKING = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.Expr
LOOPING = ast.For | ast.AsyncFor | ast.comprehension
PASSES = 3
"""How often the statements of a function are read for what their values are computed from."""
MAX_FUNCTIONS = 60
"""How many functions are read for one region."""


Block: TypeAlias = "tuple[tuple[ModuleNames, ast.stmt], ...]"
"""Statements that run under autocast, each with its module."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Where what a block computes, or what is computed from that, becomes an array."""

    conversions: dict[ast.Call, ModuleNames]
    passed: dict[ast.expr, ModuleNames]
    """What functions of libraries are passed that make arrays of it themselves."""
    held: dict[tuple[ModuleNames, ast.AST], set[str]]
    """The names in the functions that hold it."""
    unread: set[ast.AST]
    """The functions that return it to callers of which not all that are seen are followed, or none is."""


def arrays_behind(project: Project, block: Block) -> Behind:
    """The places behind a block at which arrays are made."""
    spread = _Spread(project, block)
    return Behind(spread.conversions, spread.passed, spread.held, spread.unread)


def block_of(project: Project, region: Autocast) -> Block:
    """The statements that run inside a region, wherever it is entered."""
    places = {entry.node: entry.module for entry in entries_of(project, region)} or {region.node: region.module}
    return tuple(
        (module, statement)
        for module, block in ((module, module.statement_of(node)) for node, module in places.items())
        if isinstance(block, ast.With | ast.AsyncWith | FunctionNode)
        for statement in block.body
    )


def block_of_steps(project: Project, module: ModuleNames) -> Block:
    """The steps of the LightningModules of a file, which a mixed Trainer runs inside autocast."""
    classes = [item for item in module.of_type(ast.ClassDef) if is_lightning_module(project, module, item)]
    methods = [
        item for owner in classes for item in owner.body if isinstance(item, FunctionNode) and item.name in STEPS
    ]
    return tuple((module, statement) for method in methods for statement in method.body)


class _Spread:
    """Reads one function after the other, with the names in it that hold results of the region."""

    def __init__(self, project: Project, block: Block) -> None:
        self._project = project
        self.held: dict[tuple[ModuleNames, ast.AST], set[str]] = {}
        self.unread: set[ast.AST] = set()
        self._returning: set[ast.AST] = set()
        self._waiting: deque[tuple[ModuleNames, ast.AST]] = deque()
        self._entered = {statement for _, statement in block}
        self.conversions: dict[ast.Call, ModuleNames] = {}
        self.passed: dict[ast.expr, ModuleNames] = {}
        for module, statement in block:
            self._add(module, function_of(module, statement), _computed(statement))
        while self._waiting:
            self._read(*self._waiting.popleft())

    def _add(self, module: ModuleNames, function: ast.AST, names: Iterable[str]) -> None:
        key, added = (module, function), set(names)
        if is_test(module.path) or (key not in self.held and len(self.held) >= MAX_FUNCTIONS):
            return
        if key not in self.held or not added <= self.held[key]:
            self.held.setdefault(key, set()).update(added)
            self._waiting.append(key)

    def _read(self, module: ModuleNames, function: ast.AST) -> None:
        names = self.held[module, function]
        nodes = list(ast.walk(function))
        for _ in range(PASSES):
            names |= {name for node in nodes for part in _parts(node) if _takes(part, names) for name in _given(part)}
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            carries = any(_carries(item, names) for item in _passed(node))
            if is_conversion(node) and (carries or self._computes_here(module, node)):
                self.conversions[node] = module
            if carries:
                self._follow_arguments(module, node, names)
                if (module.qualified(node.func) or "").startswith(ARRAY_PACKAGES):
                    self.passed |= {item: module for item in node.args if _carries(item, names)}
        if isinstance(function, FunctionNode):
            self._follow_results(module, function, nodes, names)
            self._follow_attributes(module, function, names)

    def _computes_here(self, module: ModuleNames, call: ast.Call) -> bool:
        """Whether a call of the block itself is given what is computed there: ``model(x).numpy()``."""
        is_entered = not self._entered.isdisjoint(module.ancestors(call))
        return is_entered and any(_computes(item) for item in _passed(call))

    def _follow_arguments(self, module: ModuleNames, call: ast.Call, names: set[str]) -> None:
        target = called_function(self._project, module, call)
        if target is not None:
            given = target.arguments(call)
            self._add(target.module, target.node, {key for key, value in given.items() if _carries(value, names)})

    def _follow_results(
        self, module: ModuleNames, function: FunctionNode, nodes: Iterable[ast.AST], names: set[str]
    ) -> None:
        if function in self._returning:
            return
        results = [node.value for node in nodes if isinstance(node, ast.Return | ast.Yield) and node.value is not None]
        inside = [item for item in results if not self._entered.isdisjoint({item, *module.ancestors(item)})]
        if any(_carries(item, names) for item in results) or any(_computes(item) for item in inside):
            self._returning.add(function)
            readers = list(readers_of(self._project, module, function))
            for other, reader, name in readers:
                self._add(other, reader, [name])
            is_whole = all((other, reader) in self.held or is_test(other.path) for other, reader, _ in readers)
            if not is_whole or not (readers or is_step(self._project, module, function)):
                self.unread.add(function)

    def _follow_attributes(self, module: ModuleNames, function: FunctionNode, names: set[str]) -> None:
        owner = module.scopes[function].enclosing_class
        stored = {name for name in names if name.startswith("self.")}
        for node in ast.walk(owner.node) if owner is not None and stored else ():
            if isinstance(node, FunctionNode) and node is not function:
                self._add(module, node, stored & _loaded(node))


def is_conversion(node: ast.AST) -> bool:
    """Whether it is a call that makes an array."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CONVERTING


def _name(call: ast.Call) -> str:
    return chain(call.func).rpartition(".")[2] if not isinstance(call.func, ast.Attribute) else call.func.attr


def _passed(call: ast.Call) -> Iterator[ast.expr]:
    """What a call is given, the object whose method it is included."""
    yield from call.args
    yield from (item.value for item in call.keywords)
    if isinstance(call.func, ast.Attribute):
        yield call.func.value


def _computed(statement: ast.stmt) -> Iterator[str]:
    """The variables that a statement of a region gives a result to, of whatever it computes it."""
    for node in ast.walk(statement):
        value = node.value if isinstance(node, TAKING) else None
        if value is not None and _computes(value):
            yield from _given(node)


def _given(node: ast.AST) -> Iterator[str]:
    """The variables that a statement gives something to: by assignment, as a loop's, by ``seen.append(x)``."""
    for inner in _targets(node):
        is_stored = isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store)
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store):
            yield chain(inner.value)
        elif is_stored:
            yield chain(inner)
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in COLLECTING:
            yield chain(_holder(inner.func.value))


def _holder(node: ast.expr) -> ast.expr:
    """What holds a list: ``seen`` of ``seen["a"]`` and of ``seen.setdefault("a", [])``."""
    while isinstance(node, ast.Subscript | ast.Call):
        inner = node.value if isinstance(node, ast.Subscript) else node.func
        node = inner.value if isinstance(node, ast.Call) and isinstance(inner, ast.Attribute) else inner
    return node


def _targets(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement stores to; of a loop not what its body does."""
    yield from ast.walk(node.target if isinstance(node, LOOPING) else node)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """A statement; of ``a, b = x, y`` each pair."""
    target, value = (node.targets[0], node.value) if isinstance(node, ast.Assign) else (None, None)
    is_pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and is_pair:
        yield from (ast.Assign([one], other) for one, other in zip(target.elts, value.elts, strict=True))
    else:
        yield node


def _takes(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement, or a loop, takes over what one of ``names`` holds."""
    if isinstance(node, TAKING):
        return node.value is not None and _carries(node.value, names)
    return isinstance(node, LOOPING) and _carries(node.iter, names)


def _carries(node: ast.AST, names: set[str]) -> bool:
    """Whether what an expression gives may be a floating tensor, or hold one, of what ``names`` hold."""
    if loses(node):
        return False
    return is_result(node, names) or any(_carries(child, names) for child in ast.iter_child_nodes(node))


def is_result(node: ast.AST, names: Collection[str]) -> bool:
    """Whether an expression is one of these variables, or a call that gives what they hold."""
    if isinstance(node, ast.Call):
        return called(node) in names
    is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    return is_read and chain(node) in names


def loses(node: ast.AST) -> bool:
    """Whether an expression gives a number, an integer tensor, or one whose dtype it states itself."""
    if isinstance(node, ast.Call):
        return _name(node) in LOSING
    return isinstance(node, ast.Compare | ast.Constant) or (isinstance(node, ast.Attribute) and node.attr in LOST)


def _computes(node: ast.AST) -> bool:
    """Whether an expression gives what some call in it computes: ``model(x)["out"].cpu()``, not ``x.cuda()``."""
    if loses(node):
        return False
    if isinstance(node, ast.Call) and _name(node) not in KEEPING:
        return True
    return any(_computes(child) for child in ast.iter_child_nodes(node))


def _loaded(function: ast.AST) -> set[str]:
    return {chain(node) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
