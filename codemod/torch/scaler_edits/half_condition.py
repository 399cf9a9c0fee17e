"""The condition that switches a scaler on for float16 and off for bfloat16, where it is chosen at run time."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...proof.attributes import has_attribute
from ...purpose.regions import Region, bf16_givens
from ...python.bindings import reaching, self_stores
from ...python.bound import is_bound_at
from ...python.callers import CallSite, callers_of
from ...python.conditions import excludes
from ...python.functions import lineage
from ...python.names import Binding, FunctionNode, Scope, attribute_chain, last_name
from ...source.project import Project
from ..dtypes import BF16, FP16, UNKNOWN, Constant, Dtype, Scenario, TextCondition, as_dtype
from ..imported import torch_at
from ..scalers import Scaler

MAX_HOPS = 3
ASKING = ("get", "lower", "upper", "strip", "is_bf16_supported", "is_available", "getattr")
"""What a condition may call: asked twice, these answer the same."""


def half_condition(project: Project, scaler: Scaler, regions: Sequence[Region]) -> str | None:
    """Source text that is true for float16 and false for bfloat16 where the scaler is made; None if there is none."""
    chosen = [region for region in regions if BF16 in region.values]
    named = {_dtype_comparison(project, scaler, region) for region in chosen}
    if len(named) == 1 and None not in named:
        return named.pop()
    return _Selection(project, scaler, chosen).text()


def _dtype_comparison(project: Project, scaler: Scaler, region: Region) -> str | None:
    node = region.autocast.dtype_node
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    scope = region.autocast.module.scope_of(node)
    spelled = respelled(project, scaler, ast.unparse(node), scope, node)
    return f"({spelled} == {torch_at(scaler.module, scaler.call) or 'torch'}.float16)" if spelled is not None else None


class _Selection:
    """Looks for one setting that tells all float16 cases from all bfloat16 cases."""

    def __init__(self, project: Project, scaler: Scaler, regions: Sequence[Region]) -> None:
        self.project = project
        self.scaler = scaler
        scenarios = [item for region in regions for item in region.scenarios]
        self.half = [item for item in scenarios if item.value == FP16]
        self.unknown = any(item.value == UNKNOWN for item in scenarios)
        self.bf16: list[tuple[Scenario, Sequence[TextCondition]]] = [
            (item, bf16_givens(project, region, item))
            for region in regions
            for item in region.scenarios
            if item.value == BF16
        ]

    def text(self) -> str | None:
        """The first condition that is true for every float16 case and false for every bfloat16 case."""
        for given in (*(() if self.unknown else self._for_half()), *self._against_bf16()):
            spelled = respelled(self.project, self.scaler, given.text, given.scope, given.node)
            condition = _condition(spelled, given) if spelled is not None else None
            if condition is not None:
                return condition
        return None

    def _for_half(self) -> Iterator[TextCondition]:
        """``precision in ("fp16", ...)``: what all float16 cases say about one setting and no bfloat16 case allows."""
        for given in _last_first(self.half):
            joined = _joined(given, [item.given for item in self.half])
            if joined is not None and all(excludes(joined, others) for _, others in self.bf16):
                yield joined

    def _against_bf16(self) -> Iterator[TextCondition]:
        """``precision not in ("bf16", ...)``: everything but bfloat16 keeps its scaler."""
        for given in _last_first([scenario for scenario, _ in self.bf16]):
            joined = _joined(given, [scenario.given for scenario, _ in self.bf16])
            if joined is None or not given.equal or {as_dtype(value) for value in given.values} <= {FP16}:
                continue
            others = replace(joined, equal=False)
            if not any(excludes(others, item.given) for item in self.half):
                yield others


def _last_first(scenarios: Sequence[Scenario]) -> Iterator[TextCondition]:
    if scenarios:
        yield from reversed(scenarios[0].given)


def _joined(given: TextCondition, cases: Sequence[Sequence[TextCondition]]) -> TextCondition | None:
    """``given`` with the values of all cases; None where a case says nothing of the kind about the same setting."""
    values: list[Constant] = []
    for case in cases:
        same = [item for item in case if item.text == given.text and item.equal == given.equal]
        if not same:
            return None
        narrowest = min(same, key=lambda item: len(item.values))
        values += [value for value in narrowest.values if value not in values]
    excluded = (
        {value for item in case if item.text == given.text and not item.equal for value in item.values}
        for case in cases
    )
    if not given.equal and any(each != set(values) for each in excluded):
        return None
    return replace(given, values=tuple(values))


def _condition(text: str, given: TextCondition) -> str | None:
    values = given.values
    if len(values) == 1 and isinstance(values[0], bool):
        return text if given.equal == values[0] else f"not {text}"
    if any(isinstance(value, Dtype | bool) or value is UNKNOWN for value in values):
        return None
    spelled = [_literal(value) for value in values]
    if len(spelled) == 1:
        return f"({text} {'==' if given.equal else '!='} {spelled[0]})"
    return f"({text} {'in' if given.equal else 'not in'} ({', '.join(spelled)}))"


def _literal(value: Constant) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value and "\\" not in value else repr(value)


# --- how a condition is spelled there ---------------------------------------------------------------------------------


def respelled(project: Project, scaler: Scaler, text: str, scope: Scope, node: ast.AST) -> str | None:
    """``text``, an expression of ``scope`` near ``node``, as it must be written where ``scaler`` is made; or None.

    None where a name is not bound there yet, can have another value there, or cannot be reached from there.
    """
    try:
        expression = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    return _Respelling(project, scaler).spelled(expression, scope, node, 0)


class _Respelling:
    def __init__(self, project: Project, scaler: Scaler) -> None:
        self.project = project
        self.scaler = scaler
        self.module = scaler.module
        self.here = scaler.module.scope_of(scaler.call)

    def spelled(self, expression: ast.expr, scope: Scope, node: ast.AST, hops: int) -> str | None:
        """The expression with every name in the words of the scaler's scope."""
        if not _can_be_asked_again(expression):
            return None
        names = {item.id for item in ast.walk(expression) if isinstance(item, ast.Name)}
        spelling: dict[str, str] = {}
        for name in names:
            found = self._name(name, expression, scope, node, hops)
            if found is None:
                return None
            spelling[name] = found
        return ast.unparse(_Renamed(spelling).visit(expression))

    def _name(self, name: str, expression: ast.expr, scope: Scope, node: ast.AST, hops: int) -> str | None:
        there, here = scope.lookup(name), self.here.lookup(name)
        if not there:
            return name if hasattr(builtins, name) and not here else None
        if name == "self" and isinstance(there[0].node, ast.arg) and there[0].scope.enclosing_class is not None:
            return name if self._holds_on_self(expression, scope) else None
        if here is there or _are_same_import(here, there):
            return name if self._has_same_value(here, node) else None
        return self._passed(there[0], hops)

    def _has_same_value(self, bindings: list[Binding], node: ast.AST) -> bool:
        """Whether the name is bound when the scaler is made, and nothing gives it another value before ``node``."""
        if not is_bound_at(self.module, bindings[0].name, self.scaler.call):
            return False
        if bindings[0].kind == "import":
            return True
        made, used = (reaching(self.module, bindings, place) for place in (self.scaler.call, node))
        together = node in self.module.parents and self.module.scope_of(node).function is self.here.function
        return not together or {id(item) for item in made} == {id(item) for item in used}

    # --- a parameter, seen from the function that makes the scaler ----------------------------------------------------

    def _passed(self, parameter: Binding, hops: int) -> str | None:
        """What the scaler's function passes for a parameter of the function that enters the region."""
        function = parameter.scope.node
        if parameter.kind != "parameter" or hops >= MAX_HOPS or not isinstance(function, FunctionNode):
            return None
        module = next((module for module in self.scaler.modules if function in module.scopes), None)
        sites = callers_of(self.project, module, function).sites if module is not None else ()
        texts = {self._argument(site, parameter.name, hops) for site in sites}
        return texts.pop() if len(texts) == 1 else None

    def _argument(self, site: CallSite, name: str, hops: int) -> str | None:
        argument = site.target.arguments(site.call).get(name)
        if argument is None or not isinstance(argument, ast.Name | ast.Attribute):
            return None
        copy = ast.parse(ast.unparse(argument), mode="eval").body
        return self.spelled(copy, site.module.scope_of(site.call), argument, hops + 1)

    def _holds_on_self(self, expression: ast.expr, scope: Scope) -> bool:
        owner = self.here.enclosing_class
        classes = lineage(self.project, self.module, owner) if owner is not None else ()
        if owner is None or all(item is not scope.enclosing_class for _, item in classes):
            return False
        attributes = {
            item.attr
            for item in ast.walk(expression)
            if isinstance(item, ast.Attribute) and attribute_chain(item.value) == ["self"]
        }
        uses = sum(isinstance(item, ast.Name) and item.id == "self" for item in ast.walk(expression))
        return bool(attributes) and uses >= len(attributes) and all(self._is_set(owner, name) for name in attributes)

    def _is_set(self, owner: Scope, name: str) -> bool:
        """Whether ``self.<name>`` has its value, and keeps it, when the scaler is made."""
        function = self.here.function.node
        places = [(self.module.scope_of(item).function.node, item) for _, item in self_stores(self.module, owner, name)]
        named = self.module.calls_by_name.get(getattr(function, "name", ""), [])
        calls = [(self.module.scope_of(call).function.node, call) for call in named]
        for place, item in places:
            above = item.lineno < self.scaler.call.lineno
            early = above if place is function else getattr(place, "name", "") == "__init__"
            if not early or any(caller is place and call.lineno < item.lineno for caller, call in calls):
                return False  # given later, or by a constructor that comes here first
        return bool(places) and has_attribute(self.module, name, self.scaler.call)


class _Renamed(ast.NodeTransformer):
    """Replaces names by the expressions that stand for them."""

    def __init__(self, spelling: dict[str, str]) -> None:
        self.spelling = spelling

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self.spelling.get(node.id, node.id), mode="eval").body


def _are_same_import(here: list[Binding], there: list[Binding]) -> bool:
    names = {(item.kind, item.qualified) for item in (*here, *there)}
    return bool(here) and len(names) == 1 and here[0].kind == "import"


def _can_be_asked_again(expression: ast.expr) -> bool:
    """Whether evaluating the expression a second time has no effect and the same answer."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            if last_name(node.func) not in ASKING:
                return False
        elif isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda | ast.comprehension):
            return False
    return True
