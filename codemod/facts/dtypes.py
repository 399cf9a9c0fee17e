"""Which dtypes an expression can have, and under which conditions: the values behind ``autocast(dtype=...)``.

An expression yields *scenarios*: a constant value, and what must be *given* for it (``args.amp_dtype == "bf16"``).
Conditions elsewhere (``GradScaler(enabled=amp_dtype == torch.float16)``) are then decided under those givens:
true, false, or unknown. Nothing is executed, everything is bounded, and unknown is always an allowed answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..project import Project
from .exits import earlier_tests
from .functions import FunctionTarget, called_function, returns_of
from .names import Binding, ModuleNames, Scope, attribute_chain, names_of, project_module, resolve

MAX_DEPTH = 10
MAX_SCENARIOS = 24


@dataclass(frozen=True, slots=True)
class Dtype:
    """A floating-point type by PyTorch's canonical name: ``bfloat16``, ``float16``, ``float32``, ``float64``."""

    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that cannot be told from the source."""


Constant: TypeAlias = Dtype | Unknown | str | bool | int | float | None

BF16, FP16, FP32, FP64 = Dtype("bfloat16"), Dtype("float16"), Dtype("float32"), Dtype("float64")
UNKNOWN = Unknown()

TORCH_DTYPES = {
    "torch.bfloat16": BF16,
    "torch.float16": FP16,
    "torch.half": FP16,
    "torch.float32": FP32,
    "torch.float": FP32,
    "torch.float64": FP64,
    "torch.double": FP64,
}
DTYPE_WORDS = {
    "bf16": BF16,
    "bfloat16": BF16,
    "fp16": FP16,
    "float16": FP16,
    "half": FP16,
    "fp32": FP32,
    "float32": FP32,
    "full": FP32,
    "fp64": FP64,
    "float64": FP64,
}
"""Words that name a dtype inside strings and enum members (``"bf16-mixed"``, ``Precision.AMP_FP16``)."""


@dataclass(frozen=True, slots=True)
class Given:
    """``text`` has (``equal``) or has not one of ``values``; for a plain truth test the value is ``True``."""

    text: str
    values: tuple[Constant, ...]
    equal: bool
    node: ast.expr
    scope: Scope


@dataclass(frozen=True, slots=True)
class Scenario:
    """One value an expression can have, and what must hold for it."""

    value: Constant
    given: tuple[Given, ...] = ()

    def under(self, *more: Given) -> Scenario:
        return Scenario(self.value, self.given + more)


def as_dtype(value: Constant) -> Constant:
    """The dtype a constant names (``"bf16"``, ``"torch.half"``, ``"16-mixed"``); other constants stay as they are."""
    if not isinstance(value, str):
        return value
    words = [word for word in _words(value) if word in DTYPE_WORDS]
    if len({DTYPE_WORDS[word] for word in words}) == 1:
        return DTYPE_WORDS[words[0]]
    return FP16 if value in ("16", "16-mixed", "16-true") else value


def _words(text: str) -> list[str]:
    return text.lower().replace("torch.", "").replace("_", "-").replace(" ", "-").split("-")


class DtypeValues:
    """Evaluates expressions of one module; made per project through ``values_of``."""

    def __init__(self, project: Project, module: ModuleNames) -> None:
        self.project = project
        self.module = module

    # --- values -----------------------------------------------------------------------------------------------------

    def scenarios(self, node: ast.expr, depth: int = 0) -> tuple[Scenario, ...]:
        """All values ``node`` can have; contains an unknown one where the source does not say."""
        if depth > MAX_DEPTH:
            return (Scenario(UNKNOWN),)
        found: list[Scenario] = []
        for scenario in self._scenarios(node, depth + 1):
            if scenario not in found:
                found.append(scenario)
            if len(found) > MAX_SCENARIOS:
                return (Scenario(UNKNOWN),)
        return tuple(found) or (Scenario(UNKNOWN),)

    def _scenarios(self, node: ast.expr, depth: int) -> Iterator[Scenario]:
        qualified = resolve(self.project, self.module, node) if isinstance(node, ast.Name | ast.Attribute) else None
        if qualified in TORCH_DTYPES:
            yield Scenario(TORCH_DTYPES[qualified])
        elif isinstance(node, ast.Constant):
            plain = isinstance(node.value, str | bool | int | float) or node.value is None
            yield Scenario(node.value if plain else UNKNOWN)  # type: ignore[arg-type]
        elif isinstance(node, ast.Name):
            yield from self._name(node, depth)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, depth)
        elif isinstance(node, ast.IfExp):
            for branch, holds in ((node.body, True), (node.orelse, False)):
                yield from self._branch(branch, node.test, holds, depth)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            for value in node.values:
                yield from self.scenarios(value, depth)
        elif isinstance(node, ast.NamedExpr):
            yield from self.scenarios(node.value, depth)
        elif isinstance(node, ast.Subscript):
            yield from self._lookup(node.value, node.slice, depth)
        elif isinstance(node, ast.Call):
            yield from self._call(node, depth)
        else:
            yield Scenario(UNKNOWN)

    def _branch(self, branch: ast.expr, test: ast.expr, holds: bool, depth: int) -> Iterator[Scenario]:
        given = self.given(test, holds)
        for scenario in self.scenarios(branch, depth):
            yield scenario.under(*given)

    def _name(self, node: ast.Name, depth: int) -> Iterator[Scenario]:
        scope = self.module.scope_of(node)
        bindings = reaching(self.module, scope.lookup(node.id), node)
        if not bindings:
            yield Scenario(UNKNOWN)
        for binding in bindings:
            yield from self._binding(binding, depth)

    def _binding(self, binding: Binding, depth: int) -> Iterator[Scenario]:
        if binding.kind == "import" and binding.qualified:
            yield from self._imported(binding.qualified, depth)
        elif binding.kind == "parameter":
            yield from self._parameter(binding, depth)
        elif binding.value is None:
            yield Scenario(UNKNOWN)
        else:
            given = self.path_given(binding.node, binding.scope)
            for scenario in self.scenarios(binding.value, depth):
                yield scenario.under(*given)

    def _imported(self, qualified: str, depth: int) -> Iterator[Scenario]:
        module_name, _, name = qualified.rpartition(".")
        document = project_module(self.project, module_name)
        bindings = names_of(self.project, document).module_scope.lookup(name) if document else []
        assigned = [binding for binding in bindings if binding.value is not None]
        if document is None or not assigned:
            yield Scenario(UNKNOWN)
            return
        other = DtypeValues(self.project, names_of(self.project, document))
        for binding in assigned:
            yield from other._binding(binding, depth)

    def _parameter(self, binding: Binding, depth: int) -> Iterator[Scenario]:
        yield Scenario(UNKNOWN)
        default = default_of(binding)
        if default is not None and not (isinstance(default, ast.Constant) and default.value is None):
            yield from self.scenarios(default, depth)

    def _attribute(self, node: ast.Attribute, depth: int) -> Iterator[Scenario]:
        chain = attribute_chain(node)
        scope = self.module.scope_of(node)
        if chain is not None and len(chain) == 2 and chain[0] == "self" and scope.enclosing_class is not None:
            found = False
            for value, statement in attribute_assignments(self.module, scope.enclosing_class, chain[1]):
                found = True
                given = self.path_given(statement, self.module.scope_of(statement))
                for scenario in self.scenarios(value, depth):
                    yield scenario.under(*given)
            if found:
                return
        qualified = self.module.qualified(node)
        if qualified is not None and not qualified.startswith("torch."):
            yield from self._imported(qualified, depth)
            return
        yield Scenario(UNKNOWN)

    def _lookup(self, table: ast.expr, key: ast.expr, depth: int) -> Iterator[Scenario]:
        dictionary = self._dictionary(table)
        if dictionary is None:
            yield Scenario(UNKNOWN)
            return
        scope = self.module.scope_of(key)
        for name, value in zip(dictionary.keys, dictionary.values, strict=True):
            if not isinstance(name, ast.Constant):
                yield Scenario(UNKNOWN)
                continue
            constant = name.value if isinstance(name.value, str | bool | int | float) or name.value is None else UNKNOWN
            given = Given(ast.unparse(key), (constant,), True, key, scope)
            for scenario in self.scenarios(value, depth):
                yield scenario.under(given)

    def _dictionary(self, node: ast.expr) -> ast.Dict | None:
        if isinstance(node, ast.Dict):
            return node
        if isinstance(node, ast.Name):
            bindings = self.module.scope_of(node).lookup(node.id)
            if len(bindings) == 1 and isinstance(bindings[0].value, ast.Dict):
                return bindings[0].value
        return None

    def _call(self, node: ast.Call, depth: int) -> Iterator[Scenario]:
        name = self.module.qualified(node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            yield from self._getattr(node, depth)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            yield from self._lookup(node.func.value, node.args[0], depth)
            if len(node.args) > 1:
                yield from self.scenarios(node.args[1], depth)
        elif name is not None and name.startswith("torch."):
            yield Scenario(UNKNOWN)
        else:
            target = called_function(self.project, self.module, node)
            yield from self._returned(target, node, depth) if target else (Scenario(UNKNOWN),)

    def _getattr(self, node: ast.Call, depth: int) -> Iterator[Scenario]:
        if self.module.qualified(node.args[0]) != "torch":
            yield Scenario(UNKNOWN)
            return
        key = node.args[1]
        for scenario in self.scenarios(key, depth):
            named = TORCH_DTYPES.get(f"torch.{scenario.value}") if isinstance(scenario.value, str) else None
            if named is not None:
                yield Scenario(named, scenario.given)
                continue
            scope = self.module.scope_of(node)
            for dtype in (BF16, FP16, FP32):
                yield Scenario(dtype, (Given(ast.unparse(key), (dtype.name,), True, key, scope),))

    def _returned(self, target: FunctionTarget, call: ast.Call, depth: int) -> Iterator[Scenario]:
        inner = DtypeValues(self.project, target.module)
        arguments = target.arguments(call)
        scope = self.module.scope_of(call)
        for returned in returns_of(target.node):
            if returned.value is None:
                continue
            given = inner.path_given(returned, target.module.scope_of(returned))
            for scenario in inner.scenarios(returned.value, depth):
                outer = tuple(_renamed(item, arguments, scope) for item in (*scenario.given, *given))
                yield Scenario(scenario.value, outer)

    # --- conditions -------------------------------------------------------------------------------------------------

    def path_given(self, node: ast.AST, scope: Scope) -> tuple[Given, ...]:
        """What must hold for ``node`` to be reached inside its function: the tests of the ``if`` s around it."""
        found: list[Given] = []
        for test, holds in self.path_tests(node, scope):
            found.extend(self.given(test, holds))
        return tuple(found)

    def path_tests(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.expr, bool]]:
        """The ``if`` tests around ``node`` up to its function and the guards before it, each with its outcome."""
        child: ast.AST = node
        for parent in self.module.ancestors(node):
            yield from earlier_tests(parent, child)
            if parent is scope.node:
                return
            if isinstance(parent, ast.If) and child is not parent.test:
                yield parent.test, child not in parent.orelse
            elif isinstance(parent, ast.IfExp) and child is not parent.test:
                yield parent.test, child is parent.body
            child = parent

    def given(self, test: ast.expr, holds: bool) -> tuple[Given, ...]:
        """What a test says about its operands when its outcome is ``holds``; empty where it says nothing certain."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.given(test.operand, not holds)
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.And) == holds
            return tuple(item for value in test.values for item in self.given(value, holds)) if decisive else ()
        scope = self.module.scope_of(test)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison(test, holds, scope)
        if isinstance(test, ast.Name | ast.Attribute):
            return (Given(ast.unparse(test), (True,), holds, test, scope),)
        return ()

    def _comparison(self, test: ast.Compare, holds: bool, scope: Scope) -> tuple[Given, ...]:
        operator, left, right = test.ops[0], test.left, test.comparators[0]
        if isinstance(left, ast.Constant) and isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            left, right = right, left
        if isinstance(operator, ast.Eq | ast.Is):
            values, equal = self.operand_values(right), holds
        elif isinstance(operator, ast.NotEq | ast.IsNot):
            values, equal = self.operand_values(right), not holds
        elif isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
            values = tuple(value for item in right.elts for value in self.operand_values(item))
            equal = isinstance(operator, ast.In) == holds
        else:
            return ()
        return (Given(ast.unparse(left), values, equal, left, scope),) if values else ()

    def operand_values(self, node: ast.expr) -> tuple[Constant, ...]:
        """The constant a comparison is made with: a literal, a torch dtype, or an enum member that names a dtype."""
        if isinstance(node, ast.Constant):
            value = node.value
            return (value,) if isinstance(value, str | bool | int | float) or value is None else ()
        chain = attribute_chain(node)
        if chain is None:
            return ()
        qualified = self.module.qualified(node)
        if qualified in TORCH_DTYPES:
            return (TORCH_DTYPES[qualified],)
        if len(chain) >= 2 and chain[-2][:1].isupper():
            named = as_dtype(chain[-1])
            return (named,) if isinstance(named, Dtype) else ()
        return ()

    def decide(self, test: ast.expr, givens: Sequence[Given], depth: int = 0) -> bool | None:
        """Whether ``test`` holds under ``givens``; None when they do not settle it."""
        if depth > MAX_DEPTH:
            return None
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.decide(test.operand, givens, depth + 1)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            return self._decide_all(test, givens, depth)
        for item in self.given(test, True):
            settled = _settle(item, givens)
            if settled is not None:
                return settled
        if isinstance(test, ast.Name | ast.Attribute):
            return self._decide_named(test, givens, depth)
        return None

    def _decide_all(self, test: ast.BoolOp, givens: Sequence[Given], depth: int) -> bool | None:
        outcomes = [self.decide(value, givens, depth + 1) for value in test.values]
        stop = isinstance(test.op, ast.Or)
        if stop in outcomes:
            return stop
        return None if None in outcomes else not stop

    def _decide_named(self, test: ast.Name | ast.Attribute, givens: Sequence[Given], depth: int) -> bool | None:
        values = self.assigned_values(test)
        outcomes = {self.decide(value, givens, depth + 1) for value in values}
        return outcomes.pop() if len(outcomes) == 1 else None

    def assigned_values(self, node: ast.Name | ast.Attribute) -> list[ast.expr]:
        """The expressions a variable or ``self`` attribute is assigned; empty when any of its values is hidden."""
        scope = self.module.scope_of(node)
        if isinstance(node, ast.Name):
            bindings = reaching(self.module, scope.lookup(node.id), node)
            if any(binding.value is None for binding in bindings):
                return []
            return [binding.value for binding in bindings if binding.value is not None]
        chain = attribute_chain(node)
        if chain is None or len(chain) != 2 or chain[0] != "self" or scope.enclosing_class is None:
            return []
        return [value for value, _ in attribute_assignments(self.module, scope.enclosing_class, chain[1])]


def values_of(project: Project, module: ModuleNames) -> DtypeValues:
    """The evaluator for one module of ``project``."""
    return DtypeValues(project, module)


def same_operand(left: str, right: str) -> bool:
    """Whether two expressions speak of the same setting: same text, or same last attribute (``args.x``, ``x``)."""
    return left == right or left.rpartition(".")[2] == right.rpartition(".")[2]


def _settle(item: Given, givens: Sequence[Given]) -> bool | None:
    """Whether ``item`` is true, false or open, seen from ``givens``."""
    wanted = {as_dtype(value) for value in item.values}
    for given in givens:
        if not same_operand(item.text, given.text):
            continue
        known = {as_dtype(value) for value in given.values}
        if given.equal and known <= wanted:
            return item.equal
        if given.equal and not known & wanted and not (_truth(known) or _truth(wanted)):
            return not item.equal
        if not given.equal and wanted <= known:
            return not item.equal
    return None


def _truth(values: set[Constant]) -> bool:
    return any(isinstance(value, bool) for value in values)


def _renamed(item: Given, arguments: dict[str, ast.expr], scope: Scope) -> Given:
    """``item`` as the caller sees it: a parameter's name replaced by the argument passed for it."""
    root, dot, rest = item.text.partition(".")
    argument = arguments.get(root)
    if argument is None:
        return item
    return Given(ast.unparse(argument) + dot + rest, item.values, item.equal, argument if not dot else item.node, scope)


def default_of(binding: Binding) -> ast.expr | None:
    """The default value of a parameter binding, or None."""
    node = binding.scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return None
    positional = [*node.args.posonlyargs, *node.args.args]
    with_default = dict(zip([item.arg for item in reversed(positional)], reversed(node.args.defaults), strict=False))
    keyword_only = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    with_default.update({item.arg: value for item, value in keyword_only if value is not None})
    return with_default.get(binding.name)


def attribute_assignments(module: ModuleNames, owner: Scope, name: str) -> list[tuple[ast.expr, ast.stmt]]:
    """Every ``self.<name> = value`` in the class and ``<name> = value`` in its body, with its statement."""
    found: list[tuple[ast.expr, ast.stmt]] = []
    for node in ast.walk(owner.node):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is None or not isinstance(node, ast.stmt):
            continue
        for target in targets:
            in_body = isinstance(target, ast.Name) and target.id == name and module.scope_of(node) is owner
            if in_body or attribute_chain(target) == ["self", name]:
                found.append((value, node))
    return found


def reaching(module: ModuleNames, bindings: list[Binding], use: ast.AST) -> list[Binding]:
    """The bindings of a name that may be seen at ``use``: those before the last one that certainly runs are dropped.

    Only bindings of the using function are ordered by position; those of outer scopes are all kept.
    """
    scope = module.scope_of(use)
    line = getattr(use, "lineno", 0)
    if not bindings or bindings[0].scope is not scope:
        return bindings
    before = [item for item in bindings if getattr(item.node, "lineno", 0) < line or item.kind == "parameter"]
    candidates = before or bindings
    holders = set(module.ancestors(use))
    certain = [item for item in candidates if item.kind == "parameter" or module.parents.get(item.node) in holders]
    if not certain:
        return candidates
    last = max(certain, key=lambda item: 0 if item.kind == "parameter" else getattr(item.node, "lineno", 0))
    start = 0 if last.kind == "parameter" else getattr(last.node, "lineno", 0)
    return [
        item
        for item in candidates
        if item is last or (item.kind != "parameter" and getattr(item.node, "lineno", 0) > start)
    ]
