"""In which precision a scaler's training step runs: always bf16, never, decided at run time, or unknown.

Gradients follow the compute dtype, so the autocast regions around a scaler's uses decide what it does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..python.bindings import default_at
from ..python.callers import callers_of
from ..python.conditions import conditions_in, excludes
from ..python.names import FunctionNode, ModuleNames, string_of
from ..python.paths import guards
from ..python.precision_words import DTYPES
from ..source.facts import memo
from ..source.project import Project
from ..torch.dtypes import BF16, FP16, HALVES, UNKNOWN, TextCondition, as_dtype
from ..torch.scalers import Scaler
from .regions import MAX_REGIONS, Region, bf16_givens, entry_givens, regions_of

FEATURE_TESTS = ("torch", "has_", "_has", "is_old", "old_")
"""How names begin that ask which release is there, not whether to scale: ``TORCH_HAS_OLD_GRADSCALER``."""
NEGATIONS = ("no", "not", "non", "disable", "disabled", "without", "skip")


@dataclass(frozen=True, slots=True)
class Regime:
    """The verdict on one scaler."""

    verdict: str
    """``always-bf16``, ``never-bf16``, ``run-time`` or ``unknown``."""
    regions: tuple[Region, ...]
    active: bool | None = None
    """For ``always-bf16`` and ``run-time``: whether the scaler is switched on under bf16. None: it cannot be told,
    its condition speaks of precision."""
    own_condition: ast.expr | None = None
    """The test that makes the scaler *because* of bf16 (``enabled=dtype == "bfloat16"``), when there is one."""

    @property
    def serves_bf16_alone(self) -> bool:
        """Whether nothing that the scaler is on for computes in float16: its scale and its state say nothing then."""
        made_for_it = self.own_condition is not None and not any(FP16 in region.values for region in self.regions)
        return self.verdict == "always-bf16" or made_for_it


@memo
def regime_of(project: Project, scaler: Scaler) -> Regime:
    """What ``scaler`` is used with, and whether it is active when that is bf16."""
    if scales_float8(scaler):
        return Regime("unknown", ())
    own = _own_bf16_condition(project, scaler)
    regions = tuple(regions_of(project, scaler))
    if len(regions) > MAX_REGIONS:
        return Regime("unknown", ())
    values = {value for region in regions for value in region.values}
    if own is not None and (BF16 in values or FP16 not in values):
        return Regime("run-time", regions, True, own)
    if BF16 not in values:
        return Regime("unknown" if not values or UNKNOWN in values else "never-bf16", regions)
    if values == {BF16}:
        is_active = active_under_bf16(project, scaler, regions)
        is_asked = is_active is None and _is_asked_for_bf16_too(project, scaler)
        return Regime("always-bf16", regions, True if is_asked else is_active)
    if _mixes(project, regions):
        return Regime("unknown", regions)
    return Regime("run-time", regions, active_under_bf16(project, scaler, regions))


def _mixes(project: Project, regions: Sequence[Region]) -> bool:
    """Whether a step that computes in bf16 somewhere computes in fp16 elsewhere: no alternatives, both in one run."""
    halves = [region for region in regions if region.values == {FP16}]
    if not halves:
        return False
    for region in regions:
        for scenario in region.scenarios:
            if scenario.value == BF16:
                given = bf16_givens(project, region, scenario)
                if not all(_are_alternatives(given, entry_givens(project, half)) for half in halves):
                    return True
    return False


def _are_alternatives(given: Sequence[TextCondition], others: Sequence[TextCondition]) -> bool:
    return any(excludes(item, others) for item in given)


def scales_float8(scaler: Scaler) -> bool:
    """Whether the scaler serves MS-AMP, whose float8 gradients need one although autocast computes in bf16."""
    return "msamp" in scaler.module.imported_packages


def active_under_bf16(project: Project, scaler: Scaler, regions: Sequence[Region]) -> bool | None:
    """Whether the scaler works while a region computes in bf16; None when its conditions speak of precision."""
    if any(isinstance(parent, ast.match_case) for parent in scaler.module.ancestors(scaler.call)):
        return None
    outcomes: set[bool | None] = set()
    for region in regions:
        for scenario in region.scenarios:
            if scenario.value == BF16:
                outcomes.add(_active(project, scaler, bf16_givens(project, region, scenario)))
    if True in outcomes:
        return True
    return None if None in outcomes else False


def _active(project: Project, scaler: Scaler, given: Sequence[TextCondition]) -> bool | None:
    outcomes: set[bool | None] = set()
    for module, test, holds in conditions_of(project, scaler):
        outcome = _holds(project, module, test, holds, given)
        outcomes.add(None if outcome and _is_switch_of_scaler(project, module, test, given) else outcome)
    if False in outcomes or _no_use_reached(project, scaler, given):
        return False
    return None if None in outcomes else True


def _is_switch_of_scaler(project: Project, module: ModuleNames, test: ast.expr, given: Sequence[TextCondition]) -> bool:
    """Whether a test that nothing decides asks for scaling itself (``cfg.use_grad_scaler``): the user's own switch."""
    if conditions_in(project, module).decide(test, given) is not None:
        return False
    tests = [test, *_passed_for(project, module, test)]
    words = (word for item in tests for word in map(_word_of, ast.walk(item)) if not word.startswith(FEATURE_TESTS))
    return any("scaler" in word or "scaling" in word for word in words)


def _passed_for(project: Project, module: ModuleNames, test: ast.expr) -> Iterator[ast.expr]:
    """What callers pass for a parameter that is the whole test: ``build(enabled=cfg.use_grad_scaler)``."""
    function = module.scope_of(test).function.node
    if isinstance(test, ast.Name) and isinstance(function, FunctionNode):
        for site in callers_of(project, module, function).sites:
            passed = site.target.arguments(site.call).get(test.id)
            if passed is not None:
                yield passed


def conditions_of(project: Project, scaler: Scaler) -> Iterator[tuple[ModuleNames, ast.expr, bool]]:
    """The tests that decide whether the scaler is made and switched on; not whether it has been made before."""
    for module, test, holds in _birth_conditions(scaler.module, scaler.call, scaler.enabled_node):
        together = holds and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
        for part in test.values if together and isinstance(test, ast.BoolOp) else [test]:
            if not _asks_for_itself(scaler, part):
                yield module, part, holds
    for module, call in scaler.inner[:1] if len(scaler.inner) == 1 else ():
        enabled = next((item.value for item in call.keywords if item.arg == "enabled"), None)
        passed = scaler.enabled_node is not None and isinstance(enabled, ast.Name) and enabled.id == scaler.switch
        yield from _birth_conditions(module, call, None if passed else default_at(module, enabled) or enabled)


def _asks_for_itself(scaler: Scaler, test: ast.expr) -> bool:
    """``if _scaler is None``, ``if not hasattr(self, "scaler")``."""
    own = {use.node for use in scaler.uses_of("none-test")}
    asked = [node for node in ast.walk(test) if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr"]
    named = {node.args[1].value for node in asked if len(node.args) == 2 and isinstance(node.args[1], ast.Constant)}
    return not own.isdisjoint(ast.walk(test)) or not named.isdisjoint(alias.name for alias in scaler.aliases)


def _birth_conditions(
    module: ModuleNames, call: ast.Call, enabled: ast.expr | None
) -> Iterator[tuple[ModuleNames, ast.expr, bool]]:
    yield from ((module, guard.test, guard.holds) for guard in guards(module, call))
    if enabled is not None:
        yield module, enabled, True


def _no_use_reached(project: Project, scaler: Scaler, given: Sequence[TextCondition]) -> bool:
    """Whether every ``scale(loss)`` stands behind a test that fails (or speaks of precision) under ``given``."""
    uses = scaler.uses_of("scale", "called")
    own_tests = {use.node for use in scaler.uses_of("none-test")}
    return bool(uses) and all(
        any(
            _holds(project, use.module, guard.test, guard.holds, given) is not True
            or _is_switch_of_scaler(project, use.module, guard.test, given)
            for guard in guards(use.module, use.node)
            if own_tests.isdisjoint(ast.walk(guard.test))
        )
        for use in uses
    )


def _holds(
    project: Project, module: ModuleNames, test: ast.expr, holds: bool, given: Sequence[TextCondition]
) -> bool | None:
    """True: nothing in the way. False: certainly not. None: undecided, and the test speaks of precision."""
    decided = conditions_in(project, module).decide(test, given)
    if decided is not None:
        return decided is holds
    return None if speaks_of_precision(project, module, test) else True


def speaks_of_precision(project: Project, module: ModuleNames, test: ast.expr, depth: int = 0) -> bool:
    """Whether a test names a 16-bit type or compares a dtype, here or in the value of a name it reads.

    A plain switch (``args.amp``, ``cfg.mixed_precision``) does not: it turns mixed precision on, not fp16.
    """
    for node in ast.walk(test):
        text = _word_of(node)
        if any(word in text for word in DTYPES) or text.endswith("dtype"):
            return True
        if isinstance(node, ast.Compare) and any("precision" in _word_of(child) for child in ast.walk(node)):
            return True
        if depth < 3 and isinstance(node, ast.Name | ast.Attribute):
            inner = conditions_in(project, module).assigned_values(node)
            if any(speaks_of_precision(project, module, value, depth + 1) for value in inner):
                return True
    return False


def _word_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id.lower()
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    return (string_of(node) or "").lower()


def _own_bf16_condition(project: Project, scaler: Scaler) -> ast.expr | None:
    """The test that switches the scaler on for bf16: ``elif precision == "bf16"``, or an inverted ``enabled``."""
    conditions = conditions_in(project, scaler.module)
    for _, test, holds in conditions_of(project, scaler):
        for item in conditions.given(test, holds):
            named = {as_dtype(value) for value in item.values}
            switch = named == {True} and switches_bf16_on(item.text)
            if item.equal and (named == {BF16} or switch):
                return test
    return None


def _is_asked_for_bf16_too(project: Project, scaler: Scaler) -> bool:
    """Whether the scaler is made for either 16-bit dtype: ``enabled=args.dtype in ("float16", "bfloat16")``."""
    conditions = conditions_in(project, scaler.module)
    asked = [
        {as_dtype(value) for value in item.values}
        for _, test, holds in conditions_of(project, scaler)
        for item in conditions.given(test, holds)
        if item.equal
    ]
    return any(BF16 in named and named <= {*HALVES} for named in asked)


def switches_bf16_on(text: str) -> bool:
    """Whether the truth of ``args.use_bf16`` means bf16; that of ``args.no_bf16`` does not."""
    name = text.rpartition(".")[2].lower()
    return as_dtype(name) == BF16 and not any(word in name.replace("-", "_").split("_") for word in NEGATIONS)
