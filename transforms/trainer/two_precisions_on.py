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

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import EditRefused, Finding, Fix, Place, Rule
from ...codemod.python.names import ModuleNames, modules_at, resolve
from ...codemod.python.options import Option, options_in
from ...codemod.source.project import Project
from ...codemod.trainers.reading.handed import HandedSetting
from ...codemod.trainers.reading.joined_switches import is_joined
from ...codemod.trainers.reading.run_members import Run, RunMember
from ...codemod.trainers.reading.runs import runs_of
from ...codemod.trainers.reading.scopes import FALSE, TRUE
from ...codemod.trainers.reading.source import ValueSource, literal_source
from ...codemod.trainers.writing.findings import findings_of

ERROR = "ValueError: At most one of fp16 and bf16 can be True, but not both"
SWITCHES = ("bf16", "fp16")
REFUSING = ("hf_trainer", "trl")
"""Trainers that refuse both: ``At most one of fp16 and bf16 can be True, but not both``."""
PACKAGES = ("transformers.", "trl.")
TYPED = ("flag", "variable", "entry")


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


@dataclass(frozen=True, slots=True, eq=False)
class BothOn:
    """A launch that asks for ``typed`` while ``default`` is on as well."""

    run: Run
    asked: str
    """The switch that the user typed."""
    typed: Place
    default: ValueSource
    """What has the other one on."""


def both_on(project: Project) -> Iterator[BothOn]:
    """Every such launch."""
    for run in runs_of(project):
        members = [member for member in run.members if member.scope.framework.id in REFUSING]
        if run.command is None or not members:
            continue
        typed, given = _said(members)
        for asked in typed:
            other = SWITCHES[1 - SWITCHES.index(asked)]
            if other not in given and not any(_gives_way(member, other) for member in members):
                found = _default(project, run, other)
                if found is not None:
                    yield BothOn(run, asked, typed[asked], found)


def _said(members: list[RunMember]) -> tuple[dict[str, Place], set[str]]:
    """The switches that are typed on, and all that are typed, on or off."""
    typed: dict[str, Place] = {}
    given: set[str] = set()
    for member in members:
        stated = [(item.setting, item.value, item.source.place("")) for item in member.effective_handed if _typed(item)]
        if member.scope.kind in ("command", "file"):
            stated += [(item, item.value or "", item.place) for item in member.scope.effective()]
        for setting, value, place in stated:
            if setting.key.name in SWITCHES and value in (TRUE, FALSE):
                given.add(setting.key.name)
                if value == TRUE:
                    typed[setting.key.name] = place
    return typed, given


def _gives_way(member: RunMember, name: str) -> bool:
    """Whether a switch is not passed on as it is: ``fp16=args.fp16 and not args.bf16``."""
    handed = [item for item in member.effective_handed if item.setting.key.name == name]
    return any(is_joined(item.source) for item in handed)


def _typed(item: HandedSetting) -> bool:
    """Whether a value stands on a command line or in a file; a switch that is left out has its default."""
    return item.source.kind in TYPED and item.source.entry is not None


def _default(project: Project, run: Run, name: str) -> ValueSource | None:
    """The default of an option, or of a field of a subclass of the trainer's arguments, that has the switch on."""
    for module in modules_at(project, run.modules):
        for option in options_in(project, module).get(name, ()):
            known = option.kind == "option" or _is_trainers(project, module, option)
            if known and option.default is not None and _is_on(option):
                return literal_source(option.kind, module, option.default, name)
    return None


def _is_on(option: Option) -> bool:
    return isinstance(option.default, ast.Constant) and option.default.value is True


def _is_trainers(project: Project, module: ModuleNames, option: Option) -> bool:
    owner = module.scope_of(option.node).node
    bases = owner.bases if isinstance(owner, ast.ClassDef) else []
    return any((resolve(project, module, base) or "").startswith(PACKAGES) for base in bases)


rule = Rule.of("PF402", check)
