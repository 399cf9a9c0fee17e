"""Declarations of one place that do not go together, by the tables of its framework."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...model import Applicability, Fix, Place
from ...proof.needs import SameResult
from ...proof.proving import proved
from ...purpose.files import purpose_of
from ...purpose.given import is_given
from ...python.bindings import only_value
from ...python.conditions import conditions_in
from ...python.names import modules_with, names_of
from ...python.options import options_in
from ...source.project import Project
from ..framework import Contradiction, by_machine
from ..reading.conditions import all_hold, settings_in
from ..reading.declarations import checked_scopes, scopes_of
from ..reading.handed import handed_to
from ..reading.hydra_picks import is_left_out
from ..reading.loaded_files import is_only_composed, loaders_of
from ..reading.parsed_files import interfaces_reading
from ..reading.program_files import command_lines, file_named
from ..reading.recognition import runs_program
from ..reading.runs import runs_with
from ..reading.scopes import FALSE, TRUE, Setting, SettingKind, SettingScope, token_of_constant
from ..reading.setting_reads import names_read
from ..reading.source import GIVEN, ValueSource, literal_source
from .edits import ScopeChange, change_of
from .picked_values import picked_for
from .steps import ChangeStep

RELEASES = "PF505"
"""The rule about flags and values that a release does not know (any more)."""
_BY_SEVERITY = {
    "crash": Applicability.SAFE,
    "deprecated": Applicability.SAFE,
    "surprise": Applicability.UNSAFE,
    "ignored": Applicability.UNSAFE,
    "quality": Applicability.UNSAFE,
    "info": Applicability.DISPLAY_ONLY,
}
UNREAD = "nothing here is known to read it as this trainer's arguments"
TESTING = (ast.IfExp, ast.Compare, ast.BoolOp)


@dataclass(frozen=True, slots=True)
class Clash:
    """A contradiction that holds in one place."""

    scope: SettingScope
    contradiction: Contradiction
    settings: tuple[Setting, ...]
    """The declarations it is about; the first one is where it is reported."""
    change: ScopeChange | None
    """What mends it, where the regime of the place is known; None: nothing is known or can be written."""
    doubt: str = ""
    """Why it may not be the trainer's at all."""

    @property
    def place(self) -> Place:
        return self.settings[0].place if self.settings else self.scope.place

    @property
    def message(self) -> str:
        return f"{self.contradiction.message} [{self.contradiction.id}]"

    def fixes(self, project: Project, name: str) -> tuple[Fix, ...]:
        item, change = self.contradiction, self.change
        if change is None:
            return ()
        level = Applicability(item.applicability) if item.applicability else _BY_SEVERITY[item.severity]
        if level is not Applicability.SAFE:
            return (Fix.of(name, level, change.done, *change.edits),)
        if self.doubt:
            return (change.unsafe(name, f"; unsafe, as {self.doubt}"),)
        stops = SameResult(f"the table of {self.scope.framework.id} says that this is refused, or means the same")
        return (proved(project, name, change.done, change.edits, stops),)


def clashes_of(project: Project, code: str) -> Iterator[Clash]:
    """The contradictions that the rule ``code`` reports, in what is checked."""
    for scope in checked_scopes(project):
        if purpose_of(scope.path).is_foreign or (code == RELEASES and _is_its_own(project, scope)):
            continue
        for contradiction in scope.framework.contradictions:
            if contradiction.rule != code:
                continue
            holds = all_hold(project, scope, contradiction.when)
            if holds:
                yield from _unless_own(project, scope, _clash(project, scope, contradiction))
            elif holds is None and contradiction.severity == "crash" and scope.call is not None:
                yield from _of_values(project, scope, contradiction)
                picked = tuple(_of_code(project, scope, contradiction))
                yield from picked or _of_branches(project, scope, contradiction)
            elif holds is None and contradiction.severity == "deprecated" and scope.call is not None:
                yield from _of_branches(project, scope, contradiction)


def _of_branches(project: Project, scope: SettingScope, contradiction: Contradiction) -> Iterator[Clash]:
    """What a call chooses by a test that holds in a stated run: ``precision=16 if args.fp16 else 32``."""
    for setting in scope.settings:
        module, node = scope.argument(setting) or (None, None)
        if module is None or not isinstance(node, ast.IfExp):
            continue
        for value, holds in ((node.body, True), (node.orelse, False)):
            source = (
                literal_source("constant", module, value, setting.name) if isinstance(value, ast.Constant) else None
            )
            token = token_of_constant(source.value) if source is not None else None
            asked = conditions_in(project, module).given(node.test, holds)
            if token is None or not asked or not is_given(project, module, asked):
                continue
            place = module.place(
                value, f"{setting.name} is {token} {'if' if holds else 'unless'} {ast.unparse(node.test)}"
            )
            given = replace(setting, value=token, kind="string", place=place)
            found = replace(scope, settings=tuple(given if each is setting else each for each in scope.settings))
            if all_hold(project, found, contradiction.when):
                yield Clash(found, contradiction, (given,), None)


def _of_values(project: Project, scope: SettingScope, contradiction: Contradiction) -> Iterator[Clash]:
    """What a call is handed from elsewhere: ``Trainer(precision=cfg["precision"])`` and a file that says ``fp16``.

    The default of an option counts where no run is given another value.
    """
    read = {other.path for other in scopes_of(project) if other.framework is scope.framework}
    handed = list(handed_to(project, scope))
    stated = {item.setting for item in handed if item.source.kind in GIVEN}
    for item in handed:
        source, setting = item.source, item.setting
        is_taken = source.kind in GIVEN or (source.kind == "option" and setting not in stated)
        is_taken = is_taken and not (source.is_guessed or source.picked_by or source.word or item.without)
        if not is_taken or source.path in read - {scope.path} or not _is_as_stored(scope, setting, source.key):
            continue
        if source.is_reference or _is_for_others(project, scope, source):
            continue
        yield from _with_value(project, scope, contradiction, setting, source, item.value)


def _of_code(project: Project, scope: SettingScope, contradiction: Contradiction) -> Iterator[Clash]:
    """What code picks for a call and no framework takes: ``Trainer(precision=name)``, ``precision=chosen(args)``."""
    if len(contradiction.when) != 1:
        return
    for setting, source, value in picked_for(project, scope):
        yield from _with_value(project, scope, contradiction, setting, source, value)


def _with_value(
    project: Project,
    scope: SettingScope,
    contradiction: Contradiction,
    setting: Setting,
    source: ValueSource,
    value: str,
) -> Iterator[Clash]:
    """The clash of a call whose setting has a value from elsewhere."""
    kind: SettingKind = "bool" if value in (TRUE, FALSE) else "string"
    given = replace(setting, value=value, kind=kind, place=source.place(f"{source.key} is {value}"))
    found = replace(scope, settings=tuple(given if each is setting else each for each in scope.settings))
    if all_hold(project, found, contradiction.when):
        yield Clash(found, contradiction, (given, setting), None)


def _is_for_others(project: Project, scope: SettingScope, source: ValueSource) -> bool:
    """Whether no run is seen to compose the file of a value, or another trainer is passed it as well."""
    if is_only_composed(project, source.path) and is_left_out(project, source.path):
        return True
    others = (item for item in scopes_of(project) if item.kind == "call" and item.framework is not scope.framework)
    where = (source.path, source.span)
    return any((item.source.path, item.source.span) == where for other in others for item in handed_to(project, other))


def _is_as_stored(scope: SettingScope, setting: Setting, key: str) -> bool:
    """Whether the code of a call passes on what it reads under a key: it tests nothing, and stores nothing there."""
    module, node = scope.argument(setting) or (None, None)
    value = only_value(module, node) if module is not None and isinstance(node, ast.Name) else node
    if module is None or value is None or any(isinstance(each, TESTING) for each in ast.walk(value)):
        return False
    name = key.rpartition(".")[2]
    stored = (each.slice for each in module.of_type(ast.Subscript) if isinstance(each.ctx, ast.Store))
    return name not in module.attribute_stores and not any(
        isinstance(each, ast.Constant) and each.value == name for each in stored
    )


def _is_its_own(project: Project, scope: SettingScope) -> bool:
    """Whether the project is the framework itself, or its parser defines the flags: then that decides what is known."""
    packages = (project.python_path(name) or "" for name in scope.framework.packages)
    if any(path.rpartition("/")[2] == "__init__.py" for path in packages):
        return True
    names = {setting.name.lstrip("-").replace("-", "_") for setting in scope.settings}
    is_script = scope.kind == "command" and scope.title not in scope.framework.recognize.launchers
    return is_script and bool(names) and all(_defines(project, name) for name in names)


def _defines(project: Project, name: str) -> bool:
    documents = project.python_documents((name, name.replace("_", "-")), ("add_argument", "option"))
    options = (options_in(project, names_of(project, document)).get(name, ()) for document in documents)
    return any(option.flags for found in options for option in found)


def _unless_own(project: Project, scope: SettingScope, clash: Clash) -> Iterator[Clash]:
    """The clash; where only marks that many programs share say whose file it is, no key is taken away, and no fix safe.

    Nothing where code of the project reads the very keys then, and no fix where it reads one that would be taken away.
    """
    framework = scope.framework
    if scope.kind != "file" or not (framework.recognize.generic or framework.parsed_by_scripts):
        yield clash
        return
    is_own = any(_reads(project, item.name.rpartition(".")[2]) for item in clash.settings)
    taken_away = clash.change is not None and any(step.verb in ("drop", "rename") for step in clash.change.steps)
    if framework.parsed_by_scripts and not _is_taken_as_arguments(project, scope):
        if not is_own:
            yield replace(clash, change=clash.change if not taken_away else None, doubt=UNREAD)
    elif is_own and taken_away and not interfaces_reading(project, scope.path):
        yield replace(clash, change=None)
    else:
        yield clash


def _is_taken_as_arguments(project: Project, scope: SettingScope) -> bool:
    """Whether a parser, a program of the framework or a call of its arguments is seen to get what a file says."""
    if any(item.frameworks for item in scope.readers):
        return True
    for config, command in command_lines(project, (scope.path.rpartition("/")[2],)):
        named = (file_named(project, config.document.path, word.rpartition("=")[2]) for word in command.words)
        if runs_program(scope.framework, command.words) and scope.path in named:
            return True
    near = {*loaders_of(project, scope.path), *(path for run in runs_with(project, scope) for path in run.modules)}
    calls = (item for item in scopes_of(project) if item.kind == "call" and item.framework is scope.framework)
    return any(
        (call.is_open and call.path in near) or any(item.source.path == scope.path for item in handed_to(project, call))
        for call in calls
    )


def _reads(project: Project, name: str) -> bool:
    return any(name in names_read(module) for module in modules_with(project, (name,)))


def _clash(project: Project, scope: SettingScope, contradiction: Contradiction) -> Clash:
    settings = tuple(settings_in(scope, contradiction.when))
    change = change_of(project, scope, contradiction.patch(project.target or scope.regime))
    if change is not None and _leads_away(project, scope, change.steps):
        change = None
    return Clash(scope, contradiction, settings, change)


def _leads_away(project: Project, scope: SettingScope, steps: Iterable[ChangeStep]) -> bool:
    """Whether a step writes another value than the project's target wants there: the next round would take it back."""
    wanted = {
        action.key: action.value
        for action in scope.framework.actions(project.target or "") or ()
        if action.verb in ("set", "put", "add") and not by_machine(action.value)
        if not action.conditions or all_hold(project, scope, action.conditions) is True
    }
    return any(step.verb in ("set", "put") and wanted.get(step.key.name, step.value) != step.value for step in steps)
