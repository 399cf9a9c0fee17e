"""Dtypes that a switch picks: ``torch.bfloat16 if args.bf16 else torch.float32``.

The switch moves, never the value of a branch: that would make ``--bf16`` compute in float16.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ....codemod.model import Place
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import name_parts
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import HALVES, Dtype, Scenario, as_dtype
from ....codemod.trainers.reading.knobs import SPEAKING, Knob, knobs_of
from ....codemod.trainers.reading.source import ValueSource
from ....codemod.trainers.writing.moves import Move


def is_picked(scenarios: Iterable[Scenario], wanted: Dtype) -> bool:
    """Whether a test that speaks of precision picks another 16-bit dtype than ``wanted``."""
    return any(
        not name_parts(given.node).isdisjoint(SPEAKING) or any(as_dtype(value) in HALVES for value in given.values)
        for scenario in scenarios
        if scenario.value in HALVES and scenario.value != wanted
        for given in scenario.given
    )


def picked_moves(
    project: Project, module: ModuleNames, node: ast.expr, scenarios: tuple[Scenario, ...], wanted: Dtype
) -> Iterator[Move]:
    """A report for every switch that is on and picks another 16-bit dtype here, while none picks ``wanted``."""
    document = module.document
    for knob in knobs_of(project, module, scenarios, node):
        on = [source for source in knob.sources(project) if _is_wrong(knob, source, wanted)]
        if on:
            picked = sorted({dtype.name for source in on if (dtype := knob.meaning(source.value)) is not None})
            message = (
                f"{knob.text} picks {' or '.join(picked)} here, and no value of it picks {wanted.name}; the target is "
                f"{project.target}: give the code a branch for {wanted.name}"
            )
            given = tuple(source.place(f"{source.key} is {source.text or source.value}") for source in on)
            yield Move(document.path, document.span(node), message, evidence=given, settled_by=_places(given))


def left_open(knob: Knob, source: ValueSource, wanted: Dtype) -> Move:
    """A report for what a command line gives by a variable that is not followed: ``--dtype $1``."""
    message = f"{source.value} gives {source.key} here and is not followed; make it {knob.literal(wanted)!r}"
    starts = [source.config.text.commands[call].start for call in source.calls[:1]] if source.config is not None else []
    return Move(source.path, source.span, message, command=next(iter(starts), None))


def _is_wrong(knob: Knob, source: ValueSource, wanted: Dtype) -> bool:
    meant = knob.meaning(source.value)
    return meant in HALVES and meant != wanted


def _places(given: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(given))
