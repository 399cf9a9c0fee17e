"""The condition that switches a scaler on for float16 and off for bfloat16, where it is chosen at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...purpose.regions import Region, bf16_givens
from ...python.conditions import excludes
from ...source.project import Project
from ..dtypes import BF16, FP16, UNKNOWN, Constant, Dtype, Given, Scenario, as_dtype
from ..imported import torch_at
from ..scalers import Scaler
from .available_text import respelled


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
        self.bf16: list[tuple[Scenario, Sequence[Given]]] = [
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

    def _for_half(self) -> Iterator[Given]:
        """``precision in ("fp16", ...)``: what all float16 cases say about one setting and no bfloat16 case allows."""
        for given in _last_first(self.half):
            joined = _joined(given, [item.given for item in self.half])
            if joined is not None and all(excludes(joined, others) for _, others in self.bf16):
                yield joined

    def _against_bf16(self) -> Iterator[Given]:
        """``precision not in ("bf16", ...)``: everything but bfloat16 keeps its scaler."""
        for given in _last_first([scenario for scenario, _ in self.bf16]):
            joined = _joined(given, [scenario.given for scenario, _ in self.bf16])
            if joined is None or not given.equal or {as_dtype(value) for value in given.values} <= {FP16}:
                continue
            if not any(excludes(_negated(joined), item.given) for item in self.half):
                yield _negated(joined)


def _last_first(scenarios: Sequence[Scenario]) -> Iterator[Given]:
    if scenarios:
        yield from reversed(scenarios[0].given)


def _joined(given: Given, cases: Sequence[Sequence[Given]]) -> Given | None:
    """``given`` with the values of all cases; None where a case says nothing of the kind about the same setting."""
    values: list[Constant] = []
    for case in cases:
        same = [item for item in case if item.text == given.text and item.equal == given.equal]
        if not same:
            return None
        narrowest = min(same, key=lambda item: len(item.values))
        values += [value for value in narrowest.values if value not in values]
    if not given.equal and any(_excluded_by(case, given.text) != set(values) for case in cases):
        return None
    return Given(given.text, tuple(values), given.equal, given.node, given.scope)


def _excluded_by(case: Sequence[Given], text: str) -> set[Constant]:
    return {value for item in case if item.text == text and not item.equal for value in item.values}


def _negated(given: Given) -> Given:
    return Given(given.text, given.values, not given.equal, given.node, given.scope)


def _condition(text: str, given: Given) -> str | None:
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
