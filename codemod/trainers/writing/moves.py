"""Declarations that are not at the target yet, and the moves of the places that a known trainer reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from ...model import Edit, EditRefused, Finding, Fix, Place, ReplaceText, Rule, Span
from ...proof.needed_today import is_newer_anyway
from ...proof.needs import Known, Need, Release
from ...proof.proving import proved
from ...purpose.files import purpose_of
from ...purpose.training import only_infers, only_launches_inference
from ...python.names import ModuleNames, modules_at
from ...releases.manifests import directory_of
from ...releases.pins import allowed
from ...source.project import Project
from ..framework import by_machine
from ..reading.chosen_alternatives import is_unused
from ..reading.conditions import holds
from ..reading.declarations import scopes_of
from ..reading.handed import handed_to
from ..reading.known_readers import code_reading, looks_alike_only
from ..reading.links import joined_sources
from ..reading.loaded_files import serves_inference
from ..reading.picked_calls import is_picked_by_word
from ..reading.runs import is_said_over, runs_with
from ..reading.scopes import AUTO, FALSE, Setting, SettingScope, TextOrigin
from .added_keys import key_not_taken, read_by_name, value_not_taken
from .alternatives import is_chosen_by_switches, one_of_several
from .counterparts import beside
from .doubts import MORE, why_unproved
from .edits import edits_of, exchanged
from .handed_deepspeed import beside_unseen_arguments
from .handed_values import (
    FP8,
    UNREAD,
    asks_for_a_device_only,
    asks_the_machine,
    edits_at_sources,
    edits_of_likenesses,
)
from .origins import is_unset, set_at_origin
from .steps import ChangeStep, Plan, in_words, plan_of, said
from .unscaled import UNSCALED, raw_step, would_be_unscaled


@dataclass(frozen=True, slots=True)
class Move:
    """One declaration that is not at the target, and the edits that take it there."""

    path: str
    span: Span
    message: str
    effect: str = ""
    """What is written, and what changes for the run."""
    edits: tuple[Edit, ...] = ()
    """Empty: only reported."""
    evidence: tuple[Place, ...] = ()
    unproved: str = ""
    """Why the edits may not be right for every run; empty where they are."""
    needs: tuple[Need, ...] = ()
    """What else has to be known for them to be safe."""
    aside: bool = False
    """Whether it decides no run: an old copy, a default that nothing uses, a region that is fixed on purpose."""
    follows: bool = False
    """Whether the place only takes over what another one asks for (``auto``): alone it has nothing to move for."""
    firm: bool = False
    """Whether it stays whatever else is edited at its place."""
    doubt: str = ""
    """Why the rest of the run may not be right beside this place, which itself holds nothing back."""
    command: int | None = None
    """Where the only command line begins that it changes, as an offset; None: it is about the whole file."""
    settled_by: tuple[Place, ...] = ()
    """Where a switch is given that picks this value: what changes all of them changes this as well."""
    beside: bool = False
    """Whether it stands in a file that nothing is seen to read, or others decide: it goes where its readers go."""

    @property
    def place(self) -> Place:
        return Place(self.path, self.span, self.message)

    def only_reported(self, why: str, *because: Place, aside: bool = False) -> Move:
        """The same without its edits."""
        message = f"{self.message}; not changed automatically: {why}"
        evidence = (*self.evidence, *because)
        return replace(self, message=message, edits=(), evidence=evidence, aside=self.aside or aside, firm=True)

    def fix(self, project: Project) -> Fix | None:
        """What carries it out, safe where all is known, because this very change was asked for; None: nothing does."""
        if not self.edits:
            return None
        return proved(project, "move", self.effect, self.edits, Known(not self.unproved, self.unproved), *self.needs)

    def finding(self, project: Project, rule: Rule) -> Finding:
        """The finding, with what carries it out."""
        fix = self.fix(project)
        return rule.found(self.place, self.evidence, [fix] if fix is not None else [])


def moves_of(project: Project) -> Iterator[Move]:
    """A move for every place that a trainer reads and that is off the project's target; none without a target."""
    target = project.target
    if target is None:
        return
    found = list(_all_moves(project, target))
    halves = {_siblings(scope) for scope, move in found if scope.kind == "mapping" and not move.edits}
    for scope, move in found:
        half = move.edits and scope.kind == "mapping" and _siblings(scope) in halves
        yield move.only_reported("the same code builds another one that is decided elsewhere") if half else move


def _siblings(scope: SettingScope) -> tuple[str, str]:
    return scope.path, scope.framework.id


def _all_moves(project: Project, target: str) -> Iterator[tuple[SettingScope, Move]]:
    for scope in scopes_of(project):
        actions = scope.framework.actions(target)
        if actions and not purpose_of(scope.path).is_foreign and not _is_idle(project, scope):
            plan = _by_machine(project, scope, plan_of(project, scope, actions))
            idle = is_said_over(project, scope) and all(step.verb in ("set", "put") for step in plan.steps)
            is_others = idle or _is_passed_on(project, scope, plan)
            move = _move(project, scope, plan, target) if not is_others else None
            if move is not None:
                yield scope, move
            for step in plan.unknown if not is_others else ():
                for source, edit in edits_of_likenesses(project, scope, step):
                    said = f"{source.key} is {source.text}; the target is {target}"
                    effect = f"sets {source.key} to {step.value} ({target} was asked for)"
                    where = (Place(scope.path, scope.span, "this reads such a key"),)
                    yield scope, Move(source.path, source.span, said, effect, (edit,), where, UNREAD, beside=True)


def stands_aside(project: Project, scope: SettingScope) -> bool:
    """Whether the table says that a place computes on a CPU or trains nothing, which a move leaves as it is."""
    return any(holds(project, scope, condition) is True for condition in scope.framework.aside)


def _is_idle(project: Project, scope: SettingScope) -> bool:
    """Whether a place serves no training, or none on an accelerator, or is a branch of the code."""
    if stands_aside(project, scope):
        return True
    if scope.kind == "call":
        is_branch = is_picked_by_word(project, scope) or is_chosen_by_switches(project, scope)
        return is_branch or is_unused(project, scope) or only_infers(project, scope.path)
    if scope.kind == "file":
        return serves_inference(project, scope.path)
    return scope.command is not None and only_launches_inference(scope.path, scope.command.script)


def _by_machine(project: Project, scope: SettingScope, plan: Plan) -> Plan:
    """``plan`` where the machine decides all of it, or nothing: of two halves both might be on."""
    open_steps = [step for step in plan.unknown if by_machine(step.value) and step.key.means]
    if scope.kind != "call" or not open_steps:
        return plan
    asked = [step for step in open_steps if asks_the_machine(project, scope, step)]
    known = tuple(step for step in open_steps if asks_for_a_device_only(scope, step))
    left = tuple(step for step in plan.unknown if step not in known and step not in asked)
    if asked or any(step in left for step in open_steps):
        steps = tuple(step for step in plan.steps if not by_machine(step.value))
        return Plan(steps, plan.reports, (*left, *known))
    return Plan((*plan.steps, *known), plan.reports, left)


def _move(project: Project, scope: SettingScope, plan: Plan, target: str) -> Move | None:
    reports = list(plan.reports)
    other = beside(project, scope, plan)
    whole, plan = plan, plan.without(other.steps) if other is not None else plan
    edits: list[Edit] = [*other.edits] if other is not None else []
    half_known, doubt = False, other.doubt if other is not None else ""
    leading = other is not None or any(step.key.means for step in plan.steps)
    settings = [step.setting for step in whole.steps if step.setting is not None]
    settings += [step.setting for step in other.steps if step.setting is not None] if other is not None else []
    done = ", ".join(
        part for part in (other.done if other is not None else "", in_words(exchanged(scope, plan.steps))) if part
    )
    try:
        edits += edits_of(project, scope, plan.steps) if plan.steps else ()
    except EditRefused as refusal:
        reports.append(f"cannot be written: {refusal}")
        half_known = leading
    for step in plan.unknown:
        if step.setting is None or (target != "fp32" and asks_the_machine(project, scope, step)):
            continue
        if by_machine(step.value):
            settings.append(step.setting)
            reports.append(_not_asked(scope, step, step.setting))
            continue
        found = edits_at_sources(project, scope, step)
        if found is None and is_unset(project, scope, step.setting):
            continue
        if found is None:
            reports.append(set_at_origin(project, scope, step))
            half_known = half_known or bool(step.key.means)
        elif found.edits:
            edits += found.edits
            doubt = doubt or found.doubt
            leading = leading or bool(step.key.means)
            done = ", ".join(
                part for part in (done, f"sets {step.setting.name} to {step.value} where it comes from") if part
            )
            settings.append(step.setting)
    if half_known and leading and target != "fp32":
        # One switch alone would turn mixed precision off, or both halves on: they move together or not at all.
        edits = []
    firm = _why_not(project, scope, plan, target) if edits else ""
    if firm:
        reports.append(firm)
        edits = []
    if not edits and not settings and not (reports and _states_something_else(scope, target)):
        return None
    place = settings[0].place if settings else scope.place
    evidence = tuple(setting.place for setting in settings) if len(settings) > 1 else ()
    effect = f"{done} ({target} was asked for)"
    needs = tuple(_releases(project, scope, (*whole.steps, *whole.unknown))) if edits else ()
    unproved = why_unproved(project, scope, whole, target) or doubt or (MORE if plan.reports else "")
    command = _only_command(scope, edits)
    said = _message(scope, target, reports)
    aside = not (edits or firm or half_known or leading or plan.reports)
    written = tuple(edits)
    moved = Move(place.path, place.span, said, effect, written, evidence, unproved, needs, aside, _follows(scope))
    moved = replace(moved, firm=bool(firm), command=command)
    return moved.only_reported(unproved, aside=True) if written and looks_alike_only(project, scope) else moved


def _is_passed_on(project: Project, scope: SettingScope, plan: Plan) -> bool:
    """Whether options of a program do not take what a move needs, and code passes each of them to a trainer's call.

    Then the call gets what they lack.
    """
    passed = project.fact(_passed_flags) if scope.kind == "command" else frozenset()
    leading = [setting.place for setting in scope.settings if setting.key.means]
    if not leading or any((place.path, place.span.row, place.span.column) not in passed for place in leading):
        return False
    return any(why(project, scope, plan.steps) for why in (key_not_taken, value_not_taken))


def _passed_flags(project: Project) -> frozenset[tuple[str, int, int]]:
    calls = (scope for scope in scopes_of(project) if scope.kind == "call")
    flags = (item.source for scope in calls for item in handed_to(project, scope) if item.source.kind == "flag")
    return frozenset((source.path, source.span.row, source.span.column) for source in flags)


def _follows(scope: SettingScope) -> bool:
    leading = [setting for setting in scope.settings if setting.key.means]
    return bool(leading) and all(item.value == AUTO and item.key.meaning(AUTO) is None for item in leading)


def _only_command(scope: SettingScope, edits: Sequence[Edit]) -> int | None:
    """The offset of the scope's command line where all the edits lie in it: other lines of the file are other runs."""
    if scope.command is None or not isinstance(scope.origin, TextOrigin):
        return None
    start = scope.command.start
    after = (item.start for item in scope.origin.config.text.commands if item.start > start)
    end = min(after, default=len(scope.origin.config.document.text))
    operations = [edit.operation for edit in edits if edit.path == scope.path]
    inside = all(isinstance(item, ReplaceText) and start <= item.start <= item.end <= end for item in operations)
    return start if inside and len(operations) == len(edits) else None


def _releases(project: Project, scope: SettingScope, steps: Sequence[ChangeStep]) -> Iterator[Release]:
    """The releases of the trainer that take what is written."""
    packages = scope.framework.packages
    for step in steps:
        key, value = step.key, step.value
        if step.verb == "rename":  # a section, of which the switch is on
            key = next((item for item in scope.framework.keys if item.name == f"{value}.enabled"), key)
            value = "true"
        release = key.release(value) if step.verb in ("set", "put", "add", "rename") else None
        today = key.release(step.setting.value or "") if step.setting is not None else None
        if release is not None and packages and (today is None or Version(today) < Version(release)):
            programs = list(_programs_of(project, scope))
            nears = [item.path for item in programs] or [scope.path]  # what stands beside a launch line says nothing
            stated = next((item for item in packages if allowed(project, item, nears[0]) is not None), None)
            if stated is None and scope.framework.since_by_pins:
                continue
            named = stated or packages[0]
            if not programs or not all(is_newer_anyway(project, item, named, release) for item in programs):
                for near in {directory_of(near): near for near in nears}.values():
                    yield Release(named, release, near, f"{key.name}: {value}")


def _programs_of(project: Project, scope: SettingScope) -> Iterator[ModuleNames]:
    """Where the programs begin that read a place."""
    runs = runs_with(project, scope)
    paths = [scope.path] if scope.kind in ("call", "mapping") else [path for run in runs for path in run.modules[:1]]
    if all(run.modules for run in runs):
        yield from modules_at(project, dict.fromkeys(paths))


def _message(scope: SettingScope, target: str, reports: Sequence[str]) -> str:
    asked = sorted(scope.regimes)
    title = scope.framework.title
    if asked and asked != [target]:
        message = f"{title} runs {' and '.join(asked)} here, the target is {target}"
    else:
        message = f"{title} is set to {target} here, but not all of its settings are"
        message = message if asked else f"{title} is not set to {target} here"
    return ": ".join(part for part in (message, "; ".join(reports)) if part)


def _why_not(project: Project, scope: SettingScope, plan: Plan, target: str) -> str:
    """Why a place must not be edited though it could be."""
    if would_be_unscaled(project, scope, target):
        return f"not changed automatically: {UNSCALED}"
    raw = raw_step(project, code_reading(project, scope)) if target == "fp16-mixed" else ""
    if raw:
        return f"not changed automatically: {raw}"
    if any(step.setting is not None and step.setting.value == FP8 for step in plan.steps):
        return "not changed automatically: it computes in float8, for GPUs that have it"
    choice = one_of_several(project, scope) or beside_unseen_arguments(project, scope, target)
    reason = _would_be_dead(project, scope, plan) or key_not_taken(project, scope, plan.steps)
    reason = reason or value_not_taken(project, scope, plan.steps) or read_by_name(project, scope, plan.steps)
    return reason or (f"not changed automatically: {choice}" if choice else "")


def _would_be_dead(project: Project, scope: SettingScope, plan: Plan) -> str:
    """Why a switch cannot be written out beside one that options decide: both might be on, and the option would die."""
    added = next((step for step in plan.steps if step.setting is None and step.key.means and step.value != FALSE), None)
    if added is None or scope.kind != "call":
        return ""
    for setting in scope.settings:
        argument = scope.argument(setting) if setting.key.means and setting.value is None else None
        if argument is not None and any(source.kind != "constant" for source in joined_sources(project, *argument)):
            return f"{setting.name} is decided by an option: give the code one for {added.key.name} beside it"
    return ""


def _not_asked(scope: SettingScope, step: ChangeStep, setting: Setting) -> str:
    if scope.kind == "call":
        return f"{setting.name} is decided elsewhere: let the machine decide there ({said(step.value)})"
    where = {"file": "a file", "command": "a command line", "environment": "a variable"}.get(scope.kind, "a mapping")
    return f"{where} cannot ask the machine: keep what the weakest one has in {setting.name}, or decide in Python code"


def _states_something_else(scope: SettingScope, target: str) -> bool:
    """Whether the place asks for another regime, so that what cannot be written matters."""
    return any(regime != target for regime in scope.regimes) or not scope.is_decided
