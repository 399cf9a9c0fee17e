"""Two half precisions are switched on in one place.

## What goes wrong

`TrainingArguments(fp16=True, bf16=True)` raises ``ValueError: At most one of fp16 and bf16 can be True, but not both``.
Other trainers do not complain and take one of the two: axolotl takes bf16, fairseq fp16, so the run is not what the
other line says. A text such as ``bf16: "False"`` counts as true.

## Why

Each switch is a boolean of its own. Who turns one on in a copied file or command line forgets the other.

## Fix

`respell` [safe] where the trainer would stop, `respell` [unsafe] where it takes one silently: one of the two is
switched off. Which one stays is the target asked for with `--to`; without a target only what is certain is written,
the rest is reported. `default-off` [unsafe]: where a launch line asks for one type and a default of the script has the
other one on (`--bf16 True` beside `fp16: bool = field(default=True)`), the default is switched off.

## Not flagged

`bf16: auto` beside `fp16: auto` in DeepSpeed sections, switches that are chosen at run time
(`bf16=is_bf16_supported(), fp16=not is_bf16_supported()`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import EditRefused, Finding, Fix, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.reading.run_switches import BothOn, both_on
from ...codemod.trainers.writing.findings import findings_of

ERROR = "ValueError: At most one of fp16 and bf16 can be True, but not both"


def check(project: Project) -> Iterator[Finding]:
    """A finding for every contradiction of this kind that the frameworks' tables know."""
    yield from findings_of(project, rule)
    told = set()
    for launch in both_on(project):
        place = str(launch.default.place(""))
        if place not in told:
            told.add(place)
            yield _by_default(launch)


def _by_default(launch: BothOn) -> Finding:
    """A launch line asks for one type, and a default has the other one on: what was typed stays."""
    other = launch.default.key
    place = launch.default.place(f"{other} is on by default, and a launch switches {launch.asked} on: {ERROR}")
    evidence = [launch.typed.saying(f"{launch.asked} is switched on here"), launch.run.place.saying("by this launch")]
    return rule.found(place, evidence, _switched_off(launch))


def _switched_off(launch: BothOn) -> list[Fix]:
    message = f"{launch.default.key} is off by default; launches that do not ask for it run without it"
    try:
        return [Fix.unsafe("default-off", message, launch.default.respelled(False))]
    except EditRefused:
        return []


rule = Rule.of("PF402", check)
