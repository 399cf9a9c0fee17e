"""Where what is computed under autocast goes: variables, attributes, calls it is passed to, callers it is returned to.

By name, and rather too far than not far enough: what is found here is only asked for what is known of it.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from ....codemod.purpose.entered import entries_of
from ....codemod.purpose.files import is_test
from ....codemod.purpose.lightning import STEPS, is_lightning_module
from ....codemod.python.callers import COMMON
from ....codemod.python.functions import FunctionTarget, called_function, lineage
from ....codemod.python.limits import MAX_CALLER_FILES
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain, names_of, parameters_of
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.entering_calls import sites_of

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
OUTPUTS = "outputs"
HOOKS = ("_batch_end", "_step_end", "_epoch_end")
"""The parameter of Lightning's hooks that takes what a step returns, and how their names end."""
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


def arrays_behind(project: Project, block: Block) -> Behind:
    """The places behind a block at which arrays are made."""
    spread = _Spread(project, block)
    return Behind(spread.conversions, spread.passed, spread.held)


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
            for other, call in _calls_of(self._project, module, function):
                self._add(other, function_of(other, call), [_called(call)])
            for other, hook in _hooks_of(self._project, module, function):
                self._add(other, hook, [OUTPUTS])
            for target, name in _handed_on(self._project, module, function):
                self._add(target.module, target.node, [f"{name}()"])

    def _follow_attributes(self, module: ModuleNames, function: FunctionNode, names: set[str]) -> None:
        owner = module.scopes[function].enclosing_class
        stored = {name for name in names if name.startswith("self.")}
        for node in ast.walk(owner.node) if owner is not None and stored else ():
            if isinstance(node, FunctionNode) and node is not function:
                self._add(module, node, stored & _loaded(node))


def _calls_of(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The calls that reach a function, and those that may: of an object whose class is not known, of a base class."""
    yield from sites_of(project, module, function)
    is_method = module.scopes[function].enclosing_class is not None
    for other in _modules_that_name(project, module, function) if is_method else ():
        for call in other.calls_by_name.get(function.name, ()):
            target = called_function(project, other, call)
            may_be = target is None or _is_overridden(project, module, function, target)
            if may_be and isinstance(call.func, ast.Attribute):
                yield other, call


def _modules_that_name(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[ModuleNames]:
    """The modules in which the name of a function is likely to mean it."""
    everywhere = function.name not in COMMON and not function.name.startswith("__")
    documents = project.python_documents((function.name,)) if everywhere else (module.document,)
    yield from (names_of(project, document) for document in islice(documents, MAX_CALLER_FILES))


def _hooks_of(
    project: Project, module: ModuleNames, function: FunctionNode
) -> Iterator[tuple[ModuleNames, FunctionNode]]:
    """The hooks of callbacks and modules to which Lightning passes what a step returns."""
    owner = module.scopes[function].enclosing_class
    if function.name not in STEPS or owner is None or not isinstance(owner.node, ast.ClassDef):
        return
    if not is_lightning_module(project, module, owner.node):
        return
    for document in project.python_documents((OUTPUTS,), HOOKS):
        other = names_of(project, document)
        for hook in other.of_type(ast.FunctionDef):
            if hook.name.endswith(HOOKS) and any(item.arg == OUTPUTS for item in parameters_of(hook)):
                yield other, hook


def _handed_on(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[tuple[FunctionTarget, str]]:
    """The functions that are passed this one, each with its name there."""
    for other in _modules_that_name(project, module, function):
        for node in (*other.name_loads.get(function.name, ()), *other.attribute_loads.get(function.name, ())):
            call = other.parents.get(node)
            if isinstance(call, ast.Call) and node in call.args:
                target = called_function(project, other, call)
                name = target.parameter_for(call, node) if target is not None else None
                if target is not None and name is not None:
                    yield target, name


def _is_overridden(project: Project, module: ModuleNames, function: FunctionNode, target: FunctionTarget) -> bool:
    """Whether the method that a call names stands in a base of the function's class."""
    own, base = module.scopes[function].enclosing_class, target.scope.enclosing_class
    if own is None or base is None or target.node is function:
        return False
    return any(scope is base for _, scope in lineage(project, module, own))


def is_conversion(node: ast.AST) -> bool:
    """Whether it is a call that makes an array."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CONVERTING


def _called(call: ast.Call) -> str:
    """A name for what a call gives: the callers' own variables are found by it."""
    return f"{_chain(call.func)}()"


def _name(call: ast.Call) -> str:
    return _chain(call.func).rpartition(".")[2] if not isinstance(call.func, ast.Attribute) else call.func.attr


def _chain(node: ast.AST) -> str:
    return ".".join(attribute_chain(node) or ())


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
            yield _chain(inner.value)
        elif is_stored:
            yield _chain(inner)
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in COLLECTING:
            yield _chain(_holder(inner.func.value))


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
    if _loses(node):
        return False
    return is_result(node, names) or any(_carries(child, names) for child in ast.iter_child_nodes(node))


def is_result(node: ast.AST, names: Collection[str]) -> bool:
    """Whether an expression is one of these variables, or a call that gives what they hold."""
    if isinstance(node, ast.Call):
        return _called(node) in names
    is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    return is_read and _chain(node) in names


def _loses(node: ast.AST) -> bool:
    """Whether an expression gives a number, an integer tensor, or one whose dtype it states itself."""
    if isinstance(node, ast.Call):
        return _name(node) in LOSING
    return isinstance(node, ast.Compare | ast.Constant) or (isinstance(node, ast.Attribute) and node.attr in LOST)


def _computes(node: ast.AST) -> bool:
    """Whether an expression gives what some call in it computes: ``model(x)["out"].cpu()``, not ``x.cuda()``."""
    if _loses(node):
        return False
    if isinstance(node, ast.Call) and _name(node) not in KEEPING:
        return True
    return any(_computes(child) for child in ast.iter_child_nodes(node))


def _loaded(function: ast.AST) -> set[str]:
    return {_chain(node) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
