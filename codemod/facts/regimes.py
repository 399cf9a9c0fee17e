"""In which precision a scaler's training step runs: always bf16, never, decided at run time, or unknown.

Gradients follow the compute dtype, so the autocast regions around a scaler's uses decide what it does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..project import Project
from .autocast import Autocast, autocasts, dtype_scenarios, is_float32_island, runs_without_gradients
from .dtypes import BF16, FP16, UNKNOWN, Dtype, Given, Scenario, as_dtype
from .functions import FunctionTarget, called_function
from .names import ModuleNames, Scope
from .scalers import Scaler
from .values import DtypeValues, values_of

HALF_WORDS = ("fp16", "float16", "half", "bf16", "bfloat16", "dtype", "precision")
EVALUATION_NAMES = ("eval", "valid", "test", "infer", "predict", "sample", "generate")
CONTEXT_WORDS = ("autocast", "amp", "precision", "context", "ctx")
"""How functions are called that make an autocast for others."""
NEGATIONS = ("no", "not", "non", "disable", "disabled", "without", "skip")
MAX_CALL_STEPS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """An autocast region that a scaler's step runs in, and what it can compute in."""

    autocast: Autocast
    scenarios: tuple[Scenario, ...]

    @property
    def values(self) -> set[object]:
        return {scenario.value for scenario in self.scenarios}


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


def regime_of(project: Project, scaler: Scaler) -> Regime:
    """What ``scaler`` is used with, and whether it is active when that is bf16."""
    if scales_float8(scaler):
        return Regime("unknown", ())
    own = _own_bf16_condition(project, scaler)
    regions = tuple(regions_of(project, scaler))
    values = {value for region in regions for value in region.values}
    if own is not None and (BF16 in values or FP16 not in values):
        return Regime("run-time", regions, True, own)
    if BF16 not in values:
        return Regime("unknown" if not values or UNKNOWN in values else "never-bf16", regions)
    if values == {BF16}:
        return Regime("always-bf16", regions, active_under_bf16(project, scaler, regions))
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


def _are_alternatives(given: Sequence[Given], others: Sequence[Given]) -> bool:
    return any(excludes(item, others) for item in given)


def excludes(given: Given, others: Sequence[Given]) -> bool:
    """Whether ``given`` cannot hold together with ``others``."""
    for other in others:
        if other.text != given.text:
            continue
        mine, theirs = {as_dtype(value) for value in given.values}, {as_dtype(value) for value in other.values}
        if given.equal and other.equal and not mine & theirs:
            return True
        if given.equal != other.equal and mine == theirs:
            return True
    return False


def scales_float8(scaler: Scaler) -> bool:
    """Whether the scaler serves MS-AMP, whose float8 gradients need one although autocast computes in bf16."""
    imports = [
        item for group in scaler.module.module_scope.bindings.values() for item in group if item.kind == "import"
    ]
    return any((item.qualified or "").partition(".")[0] == "msamp" for item in imports)


def regions_of(project: Project, scaler: Scaler) -> Iterator[Region]:
    """The autocast regions of the training step that ``scaler`` serves: its functions first, else its files."""
    inside = [
        item
        for item in autocasts(project)
        if item.module in scaler.modules and item.form not in ("statement", "reference")
    ]
    inside += _through_helpers(project, scaler)
    training = [
        item
        for item in inside
        if not is_float32_island(project, item) and not runs_without_gradients(item) and not _in_evaluation(item)
    ]
    functions = {_function(use.module, use.node) for use in scaler.uses_of("scale", "step", "called")}
    near = [item for item in training if _function(item.module, item.node) in functions]
    reached = [] if near else _reached(training, functions, scaler.modules)
    for item in near or reached or training:
        yield Region(item, dtype_scenarios(project, item))


def _reached(training: Sequence[Autocast], functions: set[Scope], modules: Sequence[ModuleNames]) -> list[Autocast]:
    """The regions in functions that the scaler's functions call, by name, over a few steps."""
    names: set[str] = set()
    scopes = set(functions)
    for _ in range(MAX_CALL_STEPS):
        called = {
            name
            for module in modules
            for name, calls in module.calls_by_name.items()
            if any(_function(module, call) in scopes for call in calls)
        }
        if called <= names:
            break
        names |= called
        scopes |= {
            scope
            for module in modules
            for node, scope in module.scopes.items()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in called
        }
    return [item for item in training if getattr(_function(item.module, item.node).node, "name", "") in names]


def _function(module: ModuleNames, node: ast.AST) -> Scope:
    return module.scope_of(node).function


def _in_evaluation(item: Autocast) -> bool:
    scope = _function(item.module, item.node)
    name = getattr(scope.node, "name", "").lower()
    return any(name.startswith(word) or f"_{word}" in name for word in EVALUATION_NAMES) and "train" not in name


def _through_helpers(project: Project, scaler: Scaler) -> list[Autocast]:
    """Autocasts made by the project's own helper functions that the scaler's files call for a context."""
    helpers: list[FunctionTarget] = []
    for module in scaler.modules:
        for name, calls in module.calls_by_name.items():
            if not any(word in name.lower() for word in CONTEXT_WORDS):
                continue
            targets = (called_function(project, module, call) for call in calls)
            helpers += [target for target in targets if target is not None and target.module not in scaler.modules]
    nodes = {target.node for target in helpers}
    return [
        item
        for item in (autocasts(project) if nodes else ())
        if item.form not in ("statement", "reference") and not nodes.isdisjoint(item.module.ancestors(item.node))
    ]


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


def bf16_givens(project: Project, region: Region, scenario: Scenario) -> tuple[Given, ...]:
    """Everything that holds when ``region`` runs in the dtype of ``scenario``."""
    autocast = region.autocast
    entry = entry_givens(project, region)
    if autocast.dtype_node is None or not isinstance(scenario.value, Dtype):
        return (*scenario.given, *entry)
    scope = autocast.module.scope_of(autocast.node)
    itself = Given(ast.unparse(autocast.dtype_node), (scenario.value,), True, autocast.dtype_node, scope)
    return (*(item for item in scenario.given if item.text != itself.text), itself, *entry)


def entry_givens(project: Project, region: Region) -> tuple[Given, ...]:
    """What holds when ``region`` is entered and switched on, whatever it computes in."""
    autocast = region.autocast
    values = values_of(project, autocast.module)
    given = list(values.path_given(autocast.node, autocast.module.scope_of(autocast.node)))
    if autocast.enabled_node is not None:
        given.extend(values.given(autocast.enabled_node, True))
    return (*given, *_given_by_table(autocast))


def _given_by_table(autocast: Autocast) -> tuple[Given, ...]:
    """``{"bf16": autocast(...), "fp16": autocast(...)}[args.precision]``: the key that picks this one."""
    module = autocast.module
    table = module.parents.get(autocast.node)
    lookup = module.parents.get(table) if isinstance(table, ast.Dict) else None
    if not isinstance(table, ast.Dict) or not isinstance(lookup, ast.Subscript) or autocast.node not in table.values:
        return ()
    key = table.keys[table.values.index(autocast.node)]
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return ()
    return (Given(ast.unparse(lookup.slice), (key.value,), True, lookup.slice, module.scope_of(lookup)),)


def _active(project: Project, scaler: Scaler, given: Sequence[Given]) -> bool | None:
    outcomes: set[bool | None] = set()
    for module, test, holds in conditions_of(project, scaler):
        outcome = _holds(project, module, test, holds, given)
        outcomes.add(None if outcome and _is_switch_of_scaler(project, module, test, given) else outcome)
    if False in outcomes or _no_use_reached(project, scaler, given):
        return False
    return None if None in outcomes else True


def _is_switch_of_scaler(project: Project, module: ModuleNames, test: ast.expr, given: Sequence[Given]) -> bool:
    """Whether a test that nothing decides asks for scaling itself (``cfg.use_grad_scaler``): the user's own switch."""
    if values_of(project, module).decide(test, given) is not None:
        return False
    return any("scaler" in word or "scaling" in word for word in map(_word_of, ast.walk(test)))


def conditions_of(project: Project, scaler: Scaler) -> Iterator[tuple[ModuleNames, ast.expr, bool]]:
    """The tests that decide whether the scaler is made and switched on."""
    yield from _birth_conditions(project, scaler.module, scaler.call, scaler.enabled_node)
    for module, call in scaler.inner[:1] if len(scaler.inner) == 1 else ():
        enabled = next((item.value for item in call.keywords if item.arg == "enabled"), None)
        yield from _birth_conditions(project, module, call, enabled)


def _birth_conditions(
    project: Project, module: ModuleNames, call: ast.Call, enabled: ast.expr | None
) -> Iterator[tuple[ModuleNames, ast.expr, bool]]:
    for test, holds in values_of(project, module).path_tests(call, module.scope_of(call)):
        yield module, test, holds
    for parent in module.ancestors(call):
        if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
            yield module, parent.values[0], True
        if isinstance(parent, ast.stmt):
            break
    if enabled is not None:
        yield module, enabled, True


def _no_use_reached(project: Project, scaler: Scaler, given: Sequence[Given]) -> bool:
    """Whether every ``scale(loss)`` stands behind a test that fails (or speaks of precision) under ``given``."""
    uses = scaler.uses_of("scale", "called")
    own_tests = {use.node for use in scaler.uses_of("none-test")}
    return bool(uses) and all(
        any(
            _holds(project, use.module, test, holds, given) is not True
            or _is_switch_of_scaler(project, use.module, test, given)
            for test, holds in values_of(project, use.module).path_tests(use.node, use.module.scope_of(use.node))
            if own_tests.isdisjoint(ast.walk(test))
        )
        for use in uses
    )


def _holds(project: Project, module: ModuleNames, test: ast.expr, holds: bool, given: Sequence[Given]) -> bool | None:
    """True: nothing in the way. False: certainly not. None: undecided, and the test speaks of precision."""
    values = values_of(project, module)
    decided = values.decide(test, given)
    if decided is not None:
        return decided is holds
    return None if speaks_of_precision(values, test) else True


def speaks_of_precision(values: DtypeValues, test: ast.expr, depth: int = 0) -> bool:
    """Whether a test names a 16-bit type or compares a dtype, here or in the value of a name it reads.

    A plain switch (``args.amp``, ``cfg.mixed_precision``) does not: it turns mixed precision on, not fp16.
    """
    for node in ast.walk(test):
        text = _word_of(node)
        if any(word in text for word in HALF_WORDS[:5]) or text.endswith("dtype"):
            return True
        if isinstance(node, ast.Compare) and any("precision" in _word_of(child) for child in ast.walk(node)):
            return True
        inner = values.assigned_values(node) if depth < 3 and isinstance(node, ast.Name | ast.Attribute) else []
        if any(speaks_of_precision(values, value, depth + 1) for value in inner):
            return True
    return False


def _word_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id.lower()
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    return node.value.lower() if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _own_bf16_condition(project: Project, scaler: Scaler) -> ast.expr | None:
    """The test that switches the scaler on for bf16: ``elif precision == "bf16"``, or an inverted ``enabled``."""
    values = values_of(project, scaler.module)
    for _, test, holds in conditions_of(project, scaler):
        for item in values.given(test, holds):
            named = {as_dtype(value) for value in item.values}
            switch = named == {True} and _switches_bf16_on(item.text)
            if item.equal and (named == {BF16} or switch):
                return test
    return None


def _switches_bf16_on(text: str) -> bool:
    """Whether the truth of ``args.use_bf16`` means bf16; that of ``args.no_bf16`` does not."""
    name = text.rpartition(".")[2].lower()
    return as_dtype(name) == BF16 and not any(word in name.replace("-", "_").split("_") for word in NEGATIONS)
