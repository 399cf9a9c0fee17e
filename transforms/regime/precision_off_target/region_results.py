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
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.scaler_edits.needs_of_disabling import SHARDED
from ....codemod.torch.tables.kernels import FLOAT16_ALONE
from .inner_code import Inner, inner_code, loads_of
from .known_callables import followed_call, returns_in_sight
from .narrowed import call_name, is_made_a_number, is_narrowed, loses
from .readers_of_results import called, chain, is_handed_out, is_step, readers_of
from .stored_names import COMPREHENSIONS, TAKING, contents_of, given_by, without_numbers

CONVERTING = ("numpy", "asarray", "array")
"""Methods and functions that make an array."""
ARRAY_PACKAGES = ("matplotlib.", "sklearn.", "scipy.", "pandas.", "seaborn.", "PIL.", "cv2.", "skimage.", "imageio.")
"""Libraries whose functions make arrays of the tensors that they are passed."""
KEEPING = frozenset({
    "to", "cuda", "cpu", "detach", "clone", "contiguous", "view", "reshape", "permute", "transpose", "squeeze",
    "unsqueeze", "flatten", "expand", "repeat", "get", "items", "values", "pop", "zip", "enumerate", "dict",
    "list", "tuple", "next", "iter", "getattr",
})  # fmt: skip
"""Calls that compute nothing: what they give has the dtype of what they are given."""
PASSES = 3
"""How often the statements of a function are read for what their values are computed from."""
MAX_FUNCTIONS = 60
"""How many functions are read for one region."""
MAX_INNER = 300
"""How many of what its modules run."""


StatementBlock: TypeAlias = "tuple[tuple[ModuleNames, ast.stmt], ...]"
"""Statements that run under autocast, each with its module."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Where what a block computes, or what is computed from that, becomes an array."""

    conversions: dict[ast.Call, ModuleNames]
    passed: dict[ast.expr, ModuleNames]
    """What functions of libraries are passed that make arrays of it themselves, or have no kernel for bfloat16."""
    held: dict[tuple[ModuleNames, ast.AST], set[str]]
    """The names in the functions that hold it."""
    unread: set[ast.AST]
    """The functions that return it to callers of which not all that are seen are followed, or none is."""


def arrays_behind(project: Project, block: StatementBlock) -> Behind:
    """The places behind a block at which arrays are made."""
    return project.memo(_behind, block)


def _behind(project: Project, block: StatementBlock) -> Behind:
    spread = _Spread(project, block)
    return Behind(spread.conversions, spread.passed, spread.held, spread.unread)


def arrays_inside(project: Project, module: ModuleNames, block: StatementBlock) -> Behind:
    """The places at which arrays are made in what the modules run that a block calls."""
    return project.memo(_inside, (module, block))


def _inside(project: Project, place: tuple[ModuleNames, StatementBlock]) -> Behind:
    module, block = place
    spread = _Spread(project, (), inner_code(project, module, [statement for _, statement in block]))
    return Behind(spread.conversions, spread.passed, spread.held, spread.unread)


def block_of(project: Project, region: Autocast) -> StatementBlock:
    """The statements that run inside a region, wherever it is entered."""
    places = {entry.node: entry.module for entry in entries_of(project, region)} or {region.node: region.module}
    return tuple(
        (module, statement)
        for module, block in ((module, module.statement_of(node)) for node, module in places.items())
        if isinstance(block, ast.With | ast.AsyncWith | FunctionNode)
        for statement in block.body
    )


def block_of_steps(project: Project, module: ModuleNames) -> StatementBlock:
    """The steps of the LightningModules of a file, which a mixed Trainer runs inside autocast."""
    classes = [item for item in module.of_type(ast.ClassDef) if is_lightning_module(project, module, item)]
    methods = [
        item for owner in classes for item in owner.body if isinstance(item, FunctionNode) and item.name in STEPS
    ]
    return tuple((module, statement) for method in methods for statement in method.body)


def block_of_trainers(module: ModuleNames) -> StatementBlock:
    """What stands under ``accelerator.autocast()`` or ``fabric.autocast()``; where FSDP shards a model, all."""
    if any((module.qualified(call.func) or "").endswith(SHARDED) for call in module.calls):
        functions = module.of_type(ast.FunctionDef)
        return tuple((module, statement) for function in functions for statement in function.body)
    blocks = [item for item in module.of_type(ast.With) if any(_is_of_trainer(module, each) for each in item.items)]
    return tuple((module, statement) for block in blocks for statement in block.body)


def _is_of_trainer(module: ModuleNames, item: ast.withitem) -> bool:
    """``accelerator.autocast()``; torch's own is a region."""
    func = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
    is_named = isinstance(func, ast.Attribute) and func.attr == "autocast"
    return is_named and func is not None and not (module.qualified(func) or "").startswith("torch.")


class _Spread:
    """Reads one function after the other, with the names in it that hold results of the region."""

    def __init__(self, project: Project, block: StatementBlock, inner: Inner | None = None) -> None:
        self._project, self._inner = project, inner
        self._outside = project if inner is None else None  # what is stored in an argument is looked at outside only
        self._packages = ARRAY_PACKAGES if inner is None else (*ARRAY_PACKAGES, "numpy.")
        self._limit = MAX_FUNCTIONS if inner is None else MAX_INNER
        self.held: dict[tuple[ModuleNames, ast.AST], set[str]] = {}
        self.unread: set[ast.AST] = set()
        self._returning: set[ast.AST] = set()
        self._waiting: deque[tuple[ModuleNames, ast.AST]] = deque()
        self._entered = {node for _, statement in block for node in ast.walk(statement)}
        self.conversions: dict[ast.Call, ModuleNames] = {}
        self.passed: dict[ast.expr, ModuleNames] = {}
        for module, statement in block:
            self._add(module, function_of(module, statement), _computed(project, module, statement))
        for module, function, names in inner.starts if inner is not None else ():
            self._add(module, function, names)
        while self._waiting:
            self._read(*self._waiting.popleft())

    def _add(self, module: ModuleNames, function: ast.AST, names: Iterable[str]) -> None:
        key, added = (module, function), set(names)
        if is_test(module.path) or (key not in self.held and len(self.held) >= self._limit):
            return
        if key not in self.held or not added <= self.held[key]:
            self.held.setdefault(key, set()).update(added)
            self._waiting.append(key)

    def _read(self, module: ModuleNames, function: ast.AST) -> None:
        names = self.held[module, function]
        contents = contents_of(self._project, module, function)
        for _ in range(PASSES):
            seen = [item for item in contents.takings if not item.mentioned.isdisjoint(names)]
            names |= {name for item in seen if self._carries(module, item.value, names) for name in item.given}
        for call, mentioned in contents.calls:
            if mentioned is None or call in self._entered or not mentioned.isdisjoint(names):
                self._read_call(module, call, names)
        if isinstance(function, FunctionNode):
            self._follow_attributes(module, function, names)
        if self._inner is not None and isinstance(function, FunctionNode | ast.Lambda):
            self._follow_readers(module, function, contents.given & names)
        elif isinstance(function, FunctionNode):
            self._follow_results(module, function, contents.nodes, names)

    def _carries(self, module: ModuleNames, node: ast.AST, names: set[str]) -> bool:
        return _carries(self._outside, module, node, names)

    def _read_call(self, module: ModuleNames, call: ast.Call, names: set[str]) -> None:
        seen = names_at(self._outside, module, call, names)
        is_entered = call in self._entered
        given = [
            item for item in _passed(call) if self._carries(module, item, seen) or (is_entered and _computes(item))
        ]
        given = [item for item in given if not is_narrowed(module, item)]
        if not given:
            return
        if is_conversion(call):
            self.conversions[call] = module
        self._follow_arguments(module, call, given)
        qualified = module.qualified(call.func) or ""
        if qualified.startswith(self._packages) or (qualified in FLOAT16_ALONE and not _has_window(call)):
            self.passed |= {item: module for item in call.args if item in given}

    def _follow_arguments(self, module: ModuleNames, call: ast.Call, given: list[ast.expr]) -> None:
        target = followed_call(self._project, module, call)
        if target is not None:
            names = [key for key, value in target.passed(call) if value in given]
            self._add(target.module, target.node, names)
        elif self._inner is not None:
            for start in self._inner.methods(call):
                self._add(*start)

    def _follow_results(
        self, module: ModuleNames, function: FunctionNode, nodes: Iterable[ast.AST], names: set[str]
    ) -> None:
        if function in self._returning:
            return
        results = [node.value for node in nodes if isinstance(node, ast.Return | ast.Yield) and node.value is not None]
        inside = (item for item in results if item in self._entered)
        if any(self._carries(module, item, names) for item in results) or any(_computes(item) for item in inside):
            self._returning.add(function)
            readers = list(readers_of(self._project, module, function))
            for other, reader, name in readers:
                self._add(other, reader, [name])
            is_whole = all((other, reader) in self.held or is_test(other.path) for other, reader, _ in readers)
            is_seen = is_whole and bool(readers or is_step(self._project, module, function))
            if not is_seen or is_handed_out(self._project, module, function):
                self.unread.add(function)

    def _follow_attributes(self, module: ModuleNames, function: FunctionNode, names: set[str]) -> None:
        owner = module.scopes[function].enclosing_class
        stored = {name for name in names if name.startswith("self.")}
        for node in ast.walk(owner.node) if owner is not None and stored else ():
            if isinstance(node, FunctionNode) and node is not function:
                self._add(module, node, stored & _loaded(node))

    def _follow_readers(
        self, module: ModuleNames, function: FunctionNode | ast.Lambda, stored: Collection[str]
    ) -> None:
        """What others read of what is stored outside of a function: attributes, lists of the functions around it."""
        for name in sorted(stored):
            root, _, last = name.rpartition(".")
            for other, load in loads_of(self._project, last) if root else ():
                self._add(other, function_of(other, load), [chain(load)])
            for item in module.scopes[function].lookup(name) if not root else ():
                if item.scope.node is not function:
                    self._add(module, item.scope.node, [name])


def is_conversion(node: ast.AST) -> bool:
    """Whether it is a call that makes an array."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CONVERTING


def _has_window(call: ast.Call) -> bool:
    """``stft`` multiplies by its window, mostly float32, before it looks for a kernel."""
    return call_name(call) in ("stft", "istft") and any(item.arg == "window" for item in call.keywords)


def _passed(call: ast.Call) -> Iterator[ast.expr]:
    """What a call is given, the object whose method it is included."""
    yield from call.args
    yield from (item.value for item in call.keywords)
    if isinstance(call.func, ast.Attribute):
        yield call.func.value


def _computed(project: Project, module: ModuleNames, statement: ast.stmt) -> Iterator[str]:
    """The variables that a statement of a region gives a result to, of whatever it computes it."""
    for node in ast.walk(statement):
        value = node.value if isinstance(node, TAKING) else None
        if value is not None and _computes(value):
            yield from given_by(without_numbers(project, module, node))


def _carries(project: Project | None, module: ModuleNames, node: ast.AST, names: set[str]) -> bool:
    """Whether what an expression gives may be a floating tensor, or hold one, of what ``names`` hold.

    Without a project what a call gives may hold all that it is passed, whichever function is called.
    """
    if loses(node):
        return False
    if isinstance(node, COMPREHENSIONS):
        inner = names_inside(project, module, node, names)
        given = (node.value, node.key) if isinstance(node, ast.DictComp) else (node.elt,)
        return any(_carries(project, module, item, inner) for item in given)
    if is_result(node, names) and not is_made_a_number(module, node):
        return True
    if project is not None and isinstance(node, ast.Call) and returns_in_sight(project, module, node):
        return _carries(project, module, node.func, names)  # what it returns of its arguments has a name: ``step()``
    return any(_carries(project, module, child, names) for child in ast.iter_child_nodes(node))


def names_inside(project: Project | None, module: ModuleNames, node: ast.AST, names: set[str]) -> set[str]:
    """What names hold results inside a comprehension: its own variables do where it goes over results."""
    for part in getattr(node, "generators", ()):
        own = {chain(item) for item in ast.walk(part.target) if isinstance(item, ast.Name)}
        names = names | set(given_by(part)) if _carries(project, module, part.iter, names) else names - own
    return names


def names_at(project: Project | None, module: ModuleNames, node: ast.AST, names: set[str]) -> set[str]:
    """What names hold results at an expression, which may stand in comprehensions."""
    around = [item for item in module.ancestors(node) if isinstance(item, COMPREHENSIONS)]
    for item in reversed(around):
        names = names_inside(project, module, item, names)
    return names


def is_result(node: ast.AST, names: Collection[str]) -> bool:
    """Whether an expression is one of these variables, or a call that gives what they hold."""
    if isinstance(node, ast.Call):
        return called(node) in names
    is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    return is_read and chain(node) in names


def _computes(node: ast.AST) -> bool:
    """Whether an expression gives what some call in it computes: ``model(x)["out"].cpu()``, not ``x.cuda()``."""
    if loses(node):
        return False
    if isinstance(node, ast.Call) and call_name(node) not in KEEPING:
        return True
    return any(_computes(child) for child in ast.iter_child_nodes(node))


def _loaded(function: ast.AST) -> set[str]:
    return {chain(node) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
