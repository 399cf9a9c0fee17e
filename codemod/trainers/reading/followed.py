"""What gives a dtype of the code its value, and the way there: options, flags, entries of files, each at its place.

``--dtype float16`` of ``run.sh`` is a declaration because ``getattr(torch, args.dtype)`` reaches an autocast region;
the row says which one, and through which calls.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...outcome import Declaration
from ...purpose.files import purpose_of
from ...purpose.switches import is_set
from ...python.names import ModuleNames, modules_with
from ...python.trace import trace
from ...source.facts import fact
from ...source.project import Project
from ...torch.api import LOAD_KEYS, LOADERS
from ...torch.autocast import DEFAULT_DTYPE, Autocast, autocasts, dtype_scenarios
from ...torch.dtype_values import scenarios_of
from ...torch.dtypes import HALVES, MIXED, TRUE, UNKNOWN, Constant, Dtype, Scenario
from ...torch.machine_tests import tells_of_bf16
from .knobs import Knob, knobs_of
from .links import sources
from .numerals import truths
from .region_switches import TESTS, condition_of, dtypes_when_on, is_fixed_off, made_if, main_switch
from .setting_reads import is_of_settings, read_of
from .source import GIVEN, ValueSource, literal_source
from .stated_apex import apex_gates, followed_levels
from .stated_casts import frozen, is_model, set_aside
from .stated_words import shortened, text_of
from .word_tests import word_tests

SPOKEN = frozenset(("option", "field", "parameter", "fallback", *GIVEN))
"""Kinds that somebody sets; constants and literals in branches are the code's own."""
BY_MACHINE = "where the machine has bfloat16, else float16"
"""The condition of a choice that a test of the hardware makes."""
OR_FLOAT32 = "where the machine has bfloat16, else float32"
"""The same of one that leaves mixed precision off."""
OF_COMMAND = "; of one of several commands"
"""How it ends what a default feeds that another command of the program does not have."""
NOT_GIVEN = "not given"
"""The value of a switch that a launch line leaves out: no place, but it decides the run."""


@dataclass(frozen=True, slots=True, eq=False)
class Acting:
    """A place where a dtype acts."""

    module: ModuleNames
    node: ast.expr
    title: str
    role: str
    knobs: tuple[Knob, ...]
    condition: str = ""
    """What must hold for it to count."""

    @property
    def where(self) -> str:
        return f"{self.module.path}:{self.module.document.span(self.node).row}"


@fact
def followed_declarations(project: Project) -> tuple[Declaration, ...]:
    """A declaration for every place that a dtype of the code has its value from, by place."""
    found: dict[tuple[str, object], Declaration] = {}
    for _, item in project.fact(_by_module):
        found.setdefault((item.path, item.span), item)
    return tuple(sorted(found.values(), key=lambda item: (item.path, item.span, item.key)))


def _acting(project: Project) -> tuple[Acting, ...]:
    return (*_regions(project), *_loads(project), *(cast for _, cast in casts_of_models(project)))


def followed_in(project: Project, item: Declaration, modules: Collection[str]) -> Declaration:
    """``item`` as it acts in these modules: a field that other programs of the project read says nothing there."""
    ways = project.fact(_ways).get((item.path, item.span), ()) if item.feeds and item.role == "option" else ()
    own = (other for module, other in ways if module in modules or not module)
    return next(own, replace(item, regime="", condition="", feeds="") if ways else item)


def acts_in(project: Project, item: Declaration, modules: Collection[str]) -> bool:
    """Whether what is followed to a place acts in one of these modules, as far as that is known."""
    ways = project.fact(_ways).get((item.path, item.span), ())
    return not ways or any(not module or module in modules for module, _ in ways)


def regimes_given(project: Project, path: str) -> frozenset[str]:
    """What the places ask for that the code of one module has its precision from."""
    return frozenset(item.regime for module, item in project.fact(_by_module) if module == path and item.regime)


def _ways(project: Project) -> Mapping[tuple[str, object], Sequence[tuple[str, Declaration]]]:
    found: dict[tuple[str, object], list[tuple[str, Declaration]]] = {}
    for module, item in project.fact(_by_module):
        found.setdefault((item.path, item.span), []).append((module, item))
    return found


def _by_module(project: Project) -> tuple[tuple[str, Declaration], ...]:
    """Every place that gives a value, with the module in which that acts; what counts first comes first."""
    found = [*_switched(project), *(("", item) for item in followed_levels(project))]
    for acting in sorted(project.fact(_acting), key=_serves_no_training):
        for knob in acting.knobs:
            found += ((acting.module.path, item) for item in _declared(acting, knob, knob.sources(project)))
    return tuple(found)


def _regions(project: Project) -> Iterator[Acting]:
    for item in autocasts(project):
        if item.dtype_node is not None and not isinstance(item.dtype_node, ast.Constant):
            knobs = knobs_of(project, item.module, dtype_scenarios(project, item), item.dtype_node)
            yield Acting(item.module, item.dtype_node, "autocast", "compute", knobs)


def _loads(project: Project) -> Iterator[Acting]:
    for module in modules_with(project, LOADERS, LOAD_KEYS):
        for name in LOADERS:
            for call in module.calls_by_name.get(name, ()):
                for keyword in call.keywords:
                    if keyword.arg in LOAD_KEYS and not isinstance(keyword.value, ast.Constant):
                        scenarios: tuple[Scenario, ...] = scenarios_of(project, module, keyword.value)
                        knobs = knobs_of(project, module, scenarios, keyword.value)
                        yield Acting(module, keyword.value, name, "weights", knobs, set_aside(project, module, call))


@fact
def casts_of_models(project: Project) -> tuple[tuple[ast.Call, Acting], ...]:
    """``model.to(device, dtype=dtype)``, where something else says the dtype."""
    return tuple(_casts(project))


def _casts(project: Project) -> Iterator[tuple[ast.Call, Acting]]:
    for module in modules_with(project, ("dtype", "float16", "half"), ("to",)):
        for call in module.calls_by_name.get("to", ()):
            if not isinstance(call.func, ast.Attribute) or not is_model(call.func.value):
                continue
            for node in (*call.args, *(item.value for item in call.keywords if item.arg in LOAD_KEYS)):
                named = isinstance(node, ast.Name | ast.Attribute) and "dtype" in ast.unparse(node)
                scenarios = scenarios_of(project, module, node) if named or isinstance(node, ast.Subscript) else ()
                if named or any(item.value in HALVES for item in scenarios):
                    knobs = knobs_of(project, module, scenarios, node)
                    condition = frozen(module, call.func.value)
                    yield call, Acting(module, node, f"{ast.unparse(call.func)}()", "weights", knobs, condition)


def _declared(acting: Acting, knob: Knob, sources: Iterable[ValueSource]) -> Iterator[Declaration]:
    found = [source for source in sources if not purpose_of(source.path).is_left_alone]
    alone = [source for source in found if source.kind == "constant"] if len(found) == 1 else []
    for source in (*(source for source in found if source.kind in SPOKEN), *alone):
        meant = knob.meaning(source.value)
        is_told = isinstance(meant, Dtype) or source.value in knob.undecided or source.is_left_open
        if not is_told or (source.is_tested and not is_by_machine(source.text)):
            continue
        decides = not source.is_guessed and not (knob.rivals and source.value is False)
        regime = (MIXED if acting.role == "compute" else TRUE).get(meant, "") if meant and decides else ""
        value = source.text or str(source.value).lower()
        role = acting.role if source.kind in (*GIVEN, "constant") else "option"
        place = (source.path, source.span, "torch", source.key)
        condition = BY_MACHINE if source.is_tested or source.value in knob.by_machine else acting.condition
        yield Declaration(*place, role, shortened(value), regime, condition, _way(acting, knob, source))


def is_by_machine(text: str) -> bool:
    """``"bfloat16" if torch.cuda.is_bf16_supported() else "float16"``: the first where the machine has it."""
    other = text.rpartition(" else ")[2]
    return tells_of_bf16(text) and ("float16" in other or "fp16" in other) and "bfloat16" not in other


def _serves_no_training(acting: Acting) -> bool:
    return purpose_of(acting.module.document.path).is_left_alone


def _switched(project: Project) -> Iterator[tuple[str, Declaration]]:
    """What switches regions on and off: ``--amp`` of a launch line, where code at the region reads it."""
    gates = [(item, text_of(item.reference)) for item in apex_gates(project)]
    for region, title in (*((item, "autocast") for item in autocasts(project)), *gates):
        condition = condition_of(project, region)
        if not condition:
            continue
        default: Constant = DEFAULT_DTYPE.get(region.device or "cuda", UNKNOWN)
        values = dtypes_when_on(project, region) if region.form != "reference" else {default}
        dtype = next(iter(values)) if len(values) == 1 else None
        on = MIXED.get(dtype, "") if isinstance(dtype, Dtype) else ""
        row = region.module.document.span(region.node).row
        told = list(_switching(project, region))
        plain = any(not source.picked_by for _, _, source in told)
        asked = any(source.kind == "option" for _, _, source in told)
        made = {source.key for _, _, source in told if source.kind == "field"}
        # Some of several settings objects are made with a value, and others keep the default: any may be chosen.
        for node, is_on, source in told:
            if is_on and not on and isinstance(source.value, str):
                continue  # the same word says which dtype, and is told for that
            decides = not (plain and source.picked_by) and not (asked and source.kind == "field")
            is_absent = source.kind == "flag" and source.entry is None
            item = Declaration(
                *(source.path, source.span, "torch", source.key),
                "option"
                if source.kind not in (*GIVEN, "constant") or (source.kind == "argument" and source.key in made)
                else "compute",
                NOT_GIVEN if is_absent else str(source.value).lower(),
                (on if is_on else "fp32") if decides else "",
                condition,
                f"feeds {ast.unparse(node)}, {title} ({region.module.path}:{row}){_of_command(source)}",
            )
            yield region.module.path, item


def _switching(project: Project, region: Autocast) -> Iterator[tuple[ast.expr, bool, ValueSource]]:
    """What a region's switch reads, whether it is on then, and where that is said: a truth value, or a word for one."""
    switch = main_switch(project, region)
    found = truths(project, region.module, switch.node) if switch is not None else ()
    if switch is not None and not found:
        found = tuple(_of_classes(project, region.module, switch.node))
    told = (*SPOKEN, "constant") if len(found) == 1 and is_fixed_off(project, region) else SPOKEN
    for source in found:
        if switch is not None and isinstance(source.value, bool) and source.kind in told and not source.is_guessed:
            yield switch.node, source.value is switch.opens, source
    made = made_if(project, region)
    for source in sources(project, *made) if made is not None else ():
        if made is not None and isinstance(source.value, bool) and source.kind in told and not source.is_guessed:
            yield made[1], source.value, source
    tests = word_tests(project, region) if not found and made is None else None
    for source in tests.found if tests is not None else ():
        if tests is not None and source.kind in SPOKEN and not source.is_guessed and isinstance(source.value, str):
            yield tests.node, tests.opens(source.value), source
    node = region.enabled_node if not found and made is None else None
    only, *others = trace(project, region.module, node, TESTS) if node is not None else (None,)
    if only is not None and not others:  # of several it is not known which one says no
        module, test = only
        words, is_equal = _words(test.comparators[0]), isinstance(test.ops[0], ast.Eq | ast.In)
        is_plain = is_equal or isinstance(test.ops[0], ast.NotEq | ast.NotIn)
        for source in sources(project, module, test.left) if words and is_plain else ():
            if isinstance(source.value, str) and source.kind in SPOKEN and not source.is_guessed:
                yield test.left, (source.value in words) is is_equal, source


def _of_classes(project: Project, module: ModuleNames, node: ast.expr) -> Iterator[ValueSource]:
    """What plain classes of settings hold under a name that nothing else sets: ``self.amp = False``."""
    read = read_of(module, node) if isinstance(node, ast.Attribute) else None
    if read is None or read.owner is None or not is_of_settings(project, read) or is_set(project, read.name):
        return
    if isinstance(read.owner, ast.Name) and read.owner.id in ("self", "cls"):
        return
    for holder in modules_with(project, (read.name,)):
        for receiver, value, _ in holder.attribute_stores.get(read.name, ()):
            source = literal_source("field", holder, value, read.name) if value is not None else None
            if source is not None and receiver in (None, ["self"]):
                yield source


def _words(node: ast.expr) -> list[object]:
    """The literals that something is compared with: ``"fp16"``, ``("fp16", "16-mixed")``."""
    listed = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [item.value for item in listed if isinstance(item, ast.Constant)]


def _way(acting: Acting, knob: Knob, source: ValueSource) -> str:
    """``feeds args.dtype (train.py:12), autocast (loop.py:8)``: what reads it, the calls between, where it acts."""
    read = f"{knob.module.path}:{knob.module.document.span(knob.node).row}"
    steps = [f"{knob.text} ({read})"] if read != acting.where else []
    steps += [f"a call ({place})" for place in source.via]
    unread = "; no program is seen to load the file" if source.is_guessed else ""
    return f"feeds {', '.join((*steps, f'{acting.title} ({acting.where})'))}{unread}{_of_command(source)}"


def _of_command(source: ValueSource) -> str:
    is_default = source.kind == "option" and source.option is not None and source.option.is_of_command
    return OF_COMMAND if is_default else ""
