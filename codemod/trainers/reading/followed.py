"""What gives a dtype of the code its value, and the way there: options, flags, entries of files, each at its place.

``--dtype float16`` of ``run.sh`` is a declaration because ``getattr(torch, args.dtype)`` reaches an autocast region;
the row says which one, and through which calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...outcome import Declaration
from ...purpose.files import purpose_of
from ...python.names import ModuleNames, names_of
from ...source.project import Project
from ...torch.api import LOAD_KEYS, LOADERS
from ...torch.autocast import autocasts, dtype_scenarios
from ...torch.dtype_values import scenarios_of
from ...torch.dtypes import BF16, FP16, FP32, Dtype, Scenario
from ...torch.machine_tests import tells_of_bf16
from .knobs import Knob, knobs_of
from .links import sources
from .region_switches import is_fixed_off, switches_of
from .source import Source
from .stated_apex import followed_levels
from .stated_casts import is_model
from .stated_words import shortened

MIXED = {BF16: "bf16-mixed", FP16: "fp16-mixed", FP32: "fp32"}
TRUE = {BF16: "bf16-true", FP16: "fp16-true"}
"""What weights ask for, where no region and no trainer decides."""
GIVEN = frozenset(("argument", "flag", "variable", "entry"))
"""Kinds of places that win over the defaults of the code."""
SPOKEN = frozenset(("option", "field", "parameter", "fallback", *GIVEN))
"""Kinds that somebody sets; constants and literals in branches are the code's own."""
BY_MACHINE = "where the machine has bfloat16, else float16"
"""The condition of a choice that a test of the hardware makes."""
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

    @property
    def where(self) -> str:
        return f"{self.module.path}:{self.module.document.span(self.node).row}"


def followed_declarations(project: Project) -> tuple[Declaration, ...]:
    """A declaration for every place that a dtype of the code has its value from, by place."""
    return project.fact(_followed)


def _acting(project: Project) -> tuple[Acting, ...]:
    return (*_regions(project), *_loads(project), *(cast for _, cast in casts_of_models(project)))


def _followed(project: Project) -> tuple[Declaration, ...]:
    found: dict[tuple[str, object], Declaration] = {}
    for item in (*_switched(project), *followed_levels(project, GIVEN)):
        found.setdefault((item.path, item.span), item)
    for acting in sorted(project.fact(_acting), key=_serves_no_training):
        for knob in acting.knobs:
            for item in _declared(acting, knob, knob.sources(project)):
                found.setdefault((item.path, item.span), item)
    return tuple(sorted(found.values(), key=lambda item: (item.path, item.span, item.key)))


def _regions(project: Project) -> Iterator[Acting]:
    for item in autocasts(project):
        if item.dtype_node is not None and not isinstance(item.dtype_node, ast.Constant):
            knobs = knobs_of(project, item.module, dtype_scenarios(project, item), item.dtype_node)
            yield Acting(item.module, item.dtype_node, "autocast", "compute", knobs)


def _loads(project: Project) -> Iterator[Acting]:
    for document in project.python_documents(LOADERS, LOAD_KEYS):
        module = names_of(project, document)
        for name in LOADERS:
            for call in module.calls_by_name.get(name, ()):
                for keyword in call.keywords:
                    if keyword.arg in LOAD_KEYS and not isinstance(keyword.value, ast.Constant):
                        scenarios: tuple[Scenario, ...] = scenarios_of(project, module, keyword.value)
                        knobs = knobs_of(project, module, scenarios, keyword.value)
                        yield Acting(module, keyword.value, name, "weights", knobs)


def casts_of_models(project: Project) -> tuple[tuple[ast.Call, Acting], ...]:
    """``model.to(device, dtype=dtype)``, where something else says the dtype."""
    return project.fact(_casts_of_models)


def _casts_of_models(project: Project) -> tuple[tuple[ast.Call, Acting], ...]:
    return tuple(_casts(project))


def _casts(project: Project) -> Iterator[tuple[ast.Call, Acting]]:
    for document in project.python_documents(("dtype",), ("to",)):
        module = names_of(project, document)
        for call in module.calls_by_name.get("to", ()):
            if not isinstance(call.func, ast.Attribute) or not is_model(call.func.value):
                continue
            for node in (*call.args, *(item.value for item in call.keywords if item.arg in LOAD_KEYS)):
                if isinstance(node, ast.Name | ast.Attribute) and "dtype" in ast.unparse(node):
                    knobs = knobs_of(project, module, scenarios_of(project, module, node), node)
                    yield call, Acting(module, node, f"{ast.unparse(call.func)}()", "weights", knobs)


def _declared(acting: Acting, knob: Knob, sources: Iterable[Source]) -> Iterator[Declaration]:
    found = [source for source in sources if not purpose_of(source.path).is_left_alone]
    alone = [source for source in found if source.kind == "constant"] if len(found) == 1 else []
    for source in (*(source for source in found if source.kind in SPOKEN), *alone):
        meant = knob.meaning(source.value)
        if not (isinstance(meant, Dtype) or source.value in knob.undecided) or (
            source.is_tested and not is_by_machine(source.text)
        ):
            continue
        decides = not source.is_guessed and not (knob.rivals and source.value is False)
        regime = (MIXED if acting.role == "compute" else TRUE).get(meant, "") if meant and decides else ""
        value = source.text or str(source.value).lower()
        role = acting.role if source.kind in (*GIVEN, "constant") else "option"
        place = (source.path, source.span, "torch", source.key)
        condition = BY_MACHINE if source.is_tested or source.value in knob.by_machine else ""
        yield Declaration(*place, role, shortened(value), regime, condition, _way(acting, knob, source))


def is_by_machine(text: str) -> bool:
    """``"bfloat16" if torch.cuda.is_bf16_supported() else "float16"``: the first where the machine has it."""
    other = text.rpartition(" else ")[2]
    return tells_of_bf16(text) and ("float16" in other or "fp16" in other) and "bfloat16" not in other


def _serves_no_training(acting: Acting) -> bool:
    return purpose_of(acting.module.document.path).is_left_alone


def _switched(project: Project) -> Iterator[Declaration]:
    """What switches regions on and off: ``--amp`` of a launch line, where code at the region reads it."""
    for region in autocasts(project):
        switch = next(switches_of(region), None)
        if switch is None:
            continue
        node, opens = switch.node, switch.opens
        values = {scenario.value for scenario in dtype_scenarios(project, region)}
        dtype = next(iter(values)) if len(values) == 1 else None
        on = MIXED.get(dtype, "") if isinstance(dtype, Dtype) else ""
        row = region.module.document.span(region.node).row
        feeds = f"feeds {ast.unparse(node)}, autocast ({region.module.path}:{row})"
        found = sources(project, region.module, node)
        told = (*SPOKEN, "constant") if len(found) == 1 and is_fixed_off(project, region) else SPOKEN
        for source in found:
            if isinstance(source.value, bool) and source.kind in told and not source.is_guessed:
                is_absent = source.kind == "flag" and source.entry is None
                role = "compute" if source.kind in (*GIVEN, "constant") else "option"
                yield Declaration(
                    *(source.path, source.span, "torch", source.key, role),
                    NOT_GIVEN if is_absent else str(source.value).lower(),
                    on if source.value is opens else "fp32",
                    switch.condition,
                    feeds,
                )


def _way(acting: Acting, knob: Knob, source: Source) -> str:
    """``feeds args.dtype (train.py:12), autocast (loop.py:8)``: what reads it, the calls between, where it acts."""
    read = f"{knob.module.path}:{knob.module.document.span(knob.node).row}"
    steps = [f"{knob.text} ({read})"] if read != acting.where else []
    steps += [f"a call ({place})" for place in source.via]
    unread = "; no program is seen to load the file" if source.is_guessed else ""
    return f"feeds {', '.join((*steps, f'{acting.title} ({acting.where})'))}{unread}"
