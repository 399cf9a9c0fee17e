"""What switches a region on: ``autocast(enabled=args.amp)``, and ``if args.amp:`` around it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...model import Span
from ...purpose.switches import is_set
from ...python.callers import callers_of
from ...python.creations import creations_of
from ...python.names import FunctionNode, ModuleNames
from ...python.paths import guards
from ...python.trace import Domain, Trace, trace
from ...python.trace_steps import FromBinding, TraceStep
from ...source.project import Project
from ...torch.autocast import Autocast, autocasts, dtype_scenarios
from ...torch.dtype_values import constants_of
from ...torch.dtypes import FP32, Constant, Scenario
from .links import sources, unfollowed_argument
from .setting_reads import read_of
from .stated_words import is_switch, text_of
from .word_tests import word_tests

ENABLED = "enabled="
"""How the condition of a region begins, and of what switches it."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionSwitch:
    """An expression, and the truth value of it with which the region computes in 16 bits."""

    node: ast.expr
    opens: bool

    @property
    def condition(self) -> str:
        """How the ledger says it."""
        return f"{ENABLED}{'' if self.opens else 'not '}{ast.unparse(self.node)}"


def switches_of(region: Autocast) -> Iterator[RegionSwitch]:
    """All switches of a region: its ``enabled=``, and the tests around it that speak of precision, inner ones first."""
    if region.enabled_node is not None:
        yield from _switches(region.enabled_node, True)
    yield from _switches_around(region.module, region.node)


def _switches_around(module: ModuleNames, node: ast.AST) -> Iterator[RegionSwitch]:
    for guard in reversed(guards(module, node)):
        for switch in _switches(guard.test, guard.holds):
            if _is_speaking(module, switch.node):
                yield switch


def main_switch(project: Project, region: Autocast) -> RegionSwitch | None:
    """The innermost switch of a region; of one without any that around every call of its function."""
    own, module = next(switches_of(region), None), region.module
    function = module.scope_of(region.node).function.node
    if own is not None or region.enabled_node is not None or not isinstance(function, FunctionNode):
        return own
    callers = callers_of(project, module, function)
    if not callers.complete or any(site.module is not module for site in callers.sites):
        return None
    found = [next(_switches_around(module, site.call), None) for site in callers.sites]
    is_one = len({item.condition if item is not None else "" for item in found}) == 1
    return found[0] if is_one else None


def is_fixed_off(project: Project, region: Autocast) -> bool:
    """Whether code alone keeps a region from computing in 16 bits: ``use_amp = False``, or all callers pass that."""
    switch = next(switches_of(region), None)
    found = sources(project, region.module, switch.node) if switch is not None else ()
    if switch is None or not found or any(item.value is not (not switch.opens) for item in found):
        return False
    if all(item.kind == "argument" for item in found):
        return unfollowed_argument(project, region.module, switch.node) is None
    off = {not switch.opens}
    if constants_of(project, region.module, switch.node) != off and not _is_passed(project, region.module, switch, off):
        return False
    near = region.module.path if isinstance(switch.node, ast.Name) else ""
    return all(item.kind == "constant" and (item.path == near or not is_set(project, item.key)) for item in found)


def _is_passed(project: Project, module: ModuleNames, switch: RegionSwitch, off: set[bool]) -> bool:
    """Whether every call that is seen passes a variable that is certainly this constant: ``step(net, use_amp=amp)``."""
    node, function = switch.node, module.scope_of(switch.node).function.node
    if not isinstance(node, ast.Name) or not isinstance(function, FunctionNode):
        return False
    sites = callers_of(project, module, function).sites
    given = [(site.module, site.target.arguments(site.call).get(node.id)) for site in sites]
    only = len(module.bindings_of(node)) == 1
    return (
        only
        and bool(given)
        and all(value is not None and constants_of(project, caller, value) == off for caller, value in given)
    )


def tests_of(project: Project, region: Autocast) -> Iterator[tuple[ModuleNames, ast.Compare]]:
    """The comparisons that have to hold for a region to compute in 16 bits, also behind variables and parameters."""
    held = [guard.test for guard in guards(region.module, region.node) if guard.holds]
    nodes = (*held, *([region.enabled_node] if region.enabled_node is not None else []))
    for node in nodes:
        yield from filter(None, trace(project, region.module, node, TESTS))


def dtypes_when_on(project: Project, region: Autocast) -> set[Constant]:
    """What a region can compute in, without the float32 that its own switch picks when it is off."""
    off = {(ast.unparse(switch.node), not switch.opens) for switch in switches_of(region)}
    scenarios = dtype_scenarios(project, region)
    others = [item for item in scenarios if item.value != FP32 or off.isdisjoint(_truths(item))]
    return {item.value for item in others or scenarios}


def _truths(scenario: Scenario) -> Iterator[tuple[str, bool]]:
    """The switches that a scenario takes to be on or off."""
    for given in scenario.given:
        yield from ((given.text, value is given.equal) for value in given.values if isinstance(value, bool))


def made_if(project: Project, region: Autocast) -> tuple[ModuleNames, ast.expr] | None:
    """``amp`` of ``enabled=scaler is not None``, where ``scaler = GradScaler() if amp else None`` made the object.

    And of ``enabled=backend == "native"``, where ``if amp: backend = "native"``; also of a test around the region.
    And of ``enabled=scaler.is_enabled()`` with ``scaler = GradScaler(enabled=amp)``.
    """
    around = list(reversed(guards(region.module, region.node)))
    asked = [(region.enabled_node, True), *((item.test, item.holds) for item in around)]
    found = (_made_of(project, region, node, ast.IsNot if holds else ast.Is) for node, holds in asked)
    made = next(filter(None, found), None) or _enabled_with(project, region)
    nodes = [node for node, holds in asked if holds] if made is None else ()
    picked = (_picked_by(project, region.module, node) for node in nodes if isinstance(node, ast.Compare))
    return made or next(filter(None, picked), None)


def _enabled_with(project: Project, region: Autocast) -> tuple[ModuleNames, ast.expr] | None:
    made = _switch_of_scaler(project, region.module, region.enabled_node)
    return made if made is not None and isinstance(made[1], ast.Name | ast.Attribute | ast.Subscript) else None


def _switch_of_scaler(
    project: Project, module: ModuleNames, node: ast.expr | None
) -> tuple[ModuleNames, ast.expr] | None:
    """What ``scaler.is_enabled()`` says: the ``enabled=`` of the one call that makes the object."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "is_enabled":
        return None
    made = creations_of(project, module, node.func.value)
    given = [item.value for item in made[0].call.keywords if item.arg == "enabled"] if len(made) == 1 else []
    return (made[0].module, given[0]) if given else None


def _picked_by(project: Project, module: ModuleNames, test: ast.Compare) -> tuple[ModuleNames, ast.expr] | None:
    """What decides whether a variable has the word that a test asks for, where all that it can be is written down."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.In):
        return None
    words = [item.value for item in ast.walk(test.comparators[0]) if isinstance(item, ast.Constant)]
    picks = trace(project, module, test.left, PICKS)
    fitting = {item for item in picks if item is not None and item[0] in words}
    decided = fitting.pop() if len(fitting) == 1 and None not in picks else None
    if decided is None or decided[1] is None or decided[2] is None:
        return None
    speaking = (item.node for item in _switches(decided[2], True) if item.opens and _is_speaking(decided[1], item.node))
    node = next(speaking, None)
    return (decided[1], node) if node is not None else None


def _is_speaking(module: ModuleNames, node: ast.expr) -> bool:
    read = read_of(module, node)
    return is_switch(node.id if isinstance(node, ast.Name) else read.name if read is not None else "")


def made_around(project: Project, region: Autocast) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """The same of each of the tests around a region: ``if scaler is not None:``."""
    own = made_if(project, region)
    yield from [own] if own is not None else ()
    for guard in guards(region.module, region.node):
        made = _made_of(project, region, guard.test, ast.IsNot if guard.holds else ast.Is)
        if made is not None:
            yield made


def _made_of(
    project: Project, region: Autocast, node: ast.expr | None, kind: type[ast.cmpop]
) -> tuple[ModuleNames, ast.expr] | None:
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], kind) or not _is_nothing(node.comparators[0]):
        return None
    made, *others = trace(project, region.module, node.left, MADE) or (None,)
    if made is None or others:
        return None
    part = _compared_with_true(made[1]) if isinstance(made[1], ast.Compare) else None
    return (made[0], part.node) if part is not None and part.opens else made


def condition_of(project: Project, region: Autocast) -> str:
    """What the ledger says of the switch of a region; empty for one that is always on."""
    switch = main_switch(project, region)
    if switch is not None:
        return project.fact(_first_names).get(_leads_to(project, region.module, switch), switch.condition)
    if region.enabled_node is not None:
        return f"{ENABLED}{text_of(region.enabled_node)}"
    picked = made_if(project, region)
    if picked is not None:
        return f"{ENABLED}{ast.unparse(picked[1])}"
    tests = word_tests(project, region)
    return f"{ENABLED}{tests.text}" if tests is not None else ""


def _leads_to(project: Project, module: ModuleNames, switch: RegionSwitch) -> frozenset[tuple[str, Span, bool]]:
    """The places that set a switch, each with whether the region is on then."""
    found = sources(project, module, switch.node)
    return frozenset((item.path, item.span, item.value is switch.opens) for item in found)


def _first_names(project: Project) -> Mapping[frozenset[tuple[str, Span, bool]], str]:
    """What the first region calls a switch that several read by other names: ``self.amp`` of ``cfg.amp``."""
    found: dict[frozenset[tuple[str, Span, bool]], str] = {}
    for region in autocasts(project):
        switch = main_switch(project, region)
        places = _leads_to(project, region.module, switch) if switch is not None else frozenset()
        if switch is not None and places:
            found.setdefault(places, switch.condition)
    return found


def _switches(node: ast.expr, opens: bool) -> Iterator[RegionSwitch]:
    """The parts of a test that all have to come out so: ``args.amp`` of ``args.amp and scaler is not None``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _switches(node.operand, not opens)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And if opens else ast.Or):
        for value in node.values:
            yield from _switches(value, opens)
    elif isinstance(node, ast.Compare):
        part = _compared_with_true(node)
        yield from _switches(part.node, opens is part.opens) if part is not None else ()
    elif isinstance(node, ast.IfExp) and _arms(node) in ((True, False), (False, True)):
        yield from _switches(node.test, opens == _arms(node)[0])
    elif isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        yield RegionSwitch(node, opens)


def _compared_with_true(node: ast.Compare) -> RegionSwitch | None:
    """``args.amp`` of ``args.amp is True``; of a comparison with False something that is not set counts as well."""
    other, operator = node.comparators[0], node.ops[0]
    if len(node.ops) != 1 or not isinstance(other, ast.Constant) or other.value is not True:
        return None
    is_known = isinstance(operator, ast.Is | ast.Eq | ast.IsNot | ast.NotEq)
    return RegionSwitch(node.left, isinstance(operator, ast.Is | ast.Eq)) if is_known else None


def _arms(node: ast.IfExp) -> tuple[object, object]:
    """``True if args.amp else False``: what the two arms are, where they are written down."""
    return getattr(node.body, "value", None), getattr(node.orelse, "value", None)


SwitchTest: TypeAlias = "tuple[ModuleNames, ast.Compare] | None"


def _tests(question: Trace[SwitchTest], module: ModuleNames, node: ast.expr) -> Iterable[SwitchTest] | None:
    if isinstance(node, ast.Compare):
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.IsNot) or not _is_nothing(node.comparators[0]):
            return ((module, node),)
        return question.of(module, node.left)  # ``scaler is not None``: what decided whether to make one
    scaled = _switch_of_scaler(question.project, module, node)
    if scaled is not None:
        return question.of(*scaled)
    if isinstance(node, ast.IfExp) and _is_nothing(node.orelse):
        return _all_of(question, module, (node.test, node.body))
    if isinstance(node, ast.BoolOp):
        return _all_of(question, module, node.values) if isinstance(node.op, ast.And) else (None,)
    return () if _is_nothing(node) else None


def _all_of(question: Trace[SwitchTest], module: ModuleNames, parts: Sequence[ast.expr]) -> list[SwitchTest]:
    """The tests of what all has to hold; nobody has to know the rest of it."""
    return [found for part in parts for found in question.of(module, part) if found is not None] or [None]


def _made(_question: Trace[MadeRegion], module: ModuleNames, node: ast.expr) -> Iterable[MadeRegion] | None:
    if isinstance(node, ast.IfExp) and _is_nothing(node.orelse):
        return ((module, node.test),)
    return () if _is_nothing(node) else None


def _made_under(question: Trace[MadeRegion], step: TraceStep, found: Iterable[MadeRegion]) -> Iterable[MadeRegion]:
    """``if amp: scaler = GradScaler()`` beside ``scaler = None``: the test under which the object is made."""
    if not isinstance(step, FromBinding) or step.binding.value is None or len(step.rivals) != 2:
        return found
    values = [item.value for item in step.rivals if item is not step.binding]
    tests = guards(step.module, step.binding.node)
    is_other_none = all(value is not None and _is_nothing(value) for value in values)
    if not is_other_none or _is_nothing(step.binding.value) or len(tests) != 1 or not tests[0].holds:
        return found
    return ((step.module, tests[0].test),)


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, False)


TESTS: Domain[SwitchTest] = Domain(_tests, lambda *_gap: (None,), setting=lambda *_setting: (None,))
"""The comparisons that all have to hold for an expression to be true; None where something else decides."""

MadeRegion: TypeAlias = "tuple[ModuleNames, ast.expr] | None"
MADE: Domain[MadeRegion] = Domain(_made, lambda *_gap: (None,), _made_under, setting=lambda *_setting: (None,))
"""The tests with which an object is made in place of None; None where something else decides."""

RegionPick: TypeAlias = "tuple[object, ModuleNames | None, ast.expr | None] | None"


def _picks(_question: Trace[RegionPick], module: ModuleNames, node: ast.expr) -> Iterable[RegionPick] | None:
    if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Constant) and isinstance(node.orelse, ast.Constant):
        return (node.body.value, module, node.test), (node.orelse.value, None, None)
    return ((node.value, None, None),) if isinstance(node, ast.Constant) else None


def _picked_under(_question: Trace[RegionPick], step: TraceStep, found: Iterable[RegionPick]) -> Iterable[RegionPick]:
    """``if args.native_amp: backend = "native"``: the innermost test that holds there."""
    tests = guards(step.module, step.binding.node) if isinstance(step, FromBinding) else ()
    test = next((item.test for item in reversed(tests) if item.holds), None)
    if test is None or not isinstance(step, FromBinding):
        return found
    return tuple((item[0], step.module, test) if item is not None and item[2] is None else item for item in found)


PICKS: Domain[RegionPick] = Domain(_picks, lambda *_gap: (None,), _picked_under, setting=lambda *_setting: (None,))
"""The values that a variable can have, each with the test that picks it; None for what is not written down."""
