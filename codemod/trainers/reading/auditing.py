"""The ledger of a project: every declaration, and what each run makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...model import Finding, Place
from ...outcome import Declaration, RunEntry, RunReport
from ...purpose.files import purpose_of
from ...purpose.training import only_infers, only_launches_inference, training_modules
from ...source.project import Project
from ..framework import FAMILIES
from .code_declarations import TORCH, code_declarations
from .declarations import scopes_of
from .documented import documented
from .followed import NOT_GIVEN, followed_in
from .handed import HandedSetting, handed_to
from .left_open import ELSEWHERE, by_switches, is_left, open_defaults, passed_together
from .loaded_files import serves_inference
from .programs_started import trains_among_tests
from .run_code import is_used
from .run_files import reads_python_file
from .run_members import Run, RunMember
from .run_regimes import by_default, is_started, otherwise, regime_of_code, regime_of_run
from .run_settings import TEXT, off_by, settings_of, standing_of
from .runs import all_runs_of
from .scopes import NULL, Setting, SettingScope, TextOrigin
from .silent_runs import silent_runs
from .source import ValueSource
from .stated_shell import stated_in_texts
from .stated_words import SHOWN, text_of

OFF = "false"
SHOWN_IN = "shown in a read-me"
CHOSEN = "where it is chosen"
UNKNOWN = "unknown"
OF_ANYBODY = (TORCH, "shell")
"""What declarations belong to that no trainer reads."""
IMPORTED = "imported by"
"""How the link of what a run only imports begins."""
WORDS_OF_FAMILY = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True, slots=True)
class Ledger:
    """All declarations of a project and its runs."""

    declarations: tuple[Declaration, ...]
    runs: tuple[RunReport, ...]
    elsewhere: tuple[RunReport, ...] = ()
    """By file what no run reaches: libraries, models, configurations that nothing is seen to start; and programs in
    which neither a training step nor a regime is seen."""
    silent: tuple[RunReport, ...] = ()
    """Runs that train and of which nothing is declared: no audit lists them, and a move names them."""


def ledger_of(project: Project, findings: Iterable[Finding] = ()) -> Ledger:
    """The ledger; ``findings`` say which declarations contradict."""
    said: dict[tuple[str, int], list[Finding]] = {}
    for finding in findings:
        for path, span in ((finding.path, finding.span), *((place.path, place.span) for place in finding.evidence)):
            said.setdefault((path, span.row), []).append(finding)
    by_path: dict[str, list[Declaration]] = {}
    followed = code_declarations(project)
    known = {(item.path, item.span.row, item.key) for item in followed}
    further = (item for item in stated_in_texts(project) if (item.path, item.span.row, item.key) not in known)
    for item in (*followed, *further, *_likenesses(project)):
        by_path.setdefault(item.path, []).append(item)
    made = [(run, _report(project, run, by_path, said)) for run in all_runs_of(project)]
    stated = {(entry.declaration.path, entry.declaration.span.row) for _, told in made for entry in told.entries}
    rest = (item for items in by_path.values() for item in items if item.value != NOT_GIVEN)
    alone = _of_code(project, [item for item in rest if (item.path, item.span.row) not in stated], said)
    pairs: list[tuple[Run | None, RunReport]] = [*made, *((None, told) for told in alone)]
    listed = [(run, told) for run, told in pairs if told.entries]
    declarations = sorted({entry.declaration for _, told in listed for entry in told.entries}, key=_place)
    started: list[RunReport] = []
    others: list[RunReport] = []
    for run, told in listed:
        says = any(entry.declaration.role != "cast" for entry in told.entries)
        counts = told.regime != "unknown" or (told.trains and says)
        (started if counts and is_started(project, run, told.path, told.regime) else others).append(told)
    return Ledger(tuple(declarations), tuple(started), tuple(others), tuple(silent_runs(project, made)))


def _likenesses(project: Project) -> Iterator[Declaration]:
    """Entries of files that look like what a call reads, and belong to none of the runs."""
    seen = set()
    for scope in scopes_of(project):
        for item in handed_to(project, scope) if scope.kind in ("call", "mapping") else ():
            source, setting = item.source, item.setting
            if source.is_guessed and (source.path, source.span) not in seen:
                seen.add((source.path, source.span))
                feeds = f"feeds {scope.path}:{setting.place.span.row}; no program is seen to load the file"
                where = (source.path, source.span, scope.framework.id, source.key)
                yield Declaration(*where, setting.key.role, source.word or item.value, feeds=feeds)


def _place(item: Declaration) -> tuple[str, object, str, str, str]:
    return item.path, item.span, item.key, item.role, item.feeds


def _is_stated(item: Declaration, others: Iterable[Declaration]) -> bool:
    """Whether a framework's call states it already; of a text, only what stands in the same place."""
    beside = (other for other in others if other.path == item.path and other.span.row == item.span.row)
    return any(other.span == item.span or item.framework != TEXT for other in beside)


def _report(
    project: Project,
    run: Run,
    code: Mapping[str, Sequence[Declaration]],
    said: Mapping[tuple[str, int], Sequence[Finding]],
) -> RunReport:
    weaker = dict(run.superseded())
    winner = run.winner
    entries = [*by_default(run)]
    effective: dict[str, str] = {}
    off: set[Declaration] = set()
    followed = {
        (item.source.path, item.source.span.row, item.source.key) for member in run.members for item in member.handed
    }
    for member in run.members:
        for setting in member.scope.effective():
            is_told = (setting.place.path, setting.place.span.row, setting.name) in followed  # as what feeds a call
            if setting.key.role == "context" or setting.kind == "section" or is_told:
                continue
            handed = [item for item in member.handed if item.setting is setting]
            if handed:
                told = [item for item in handed if _is_written(item) and not item.is_of_another]
                entries += [_handed(member, item, winner, weaker) for item in told]
                passed = list(_passed_on(member.scope, setting, handed))
                entries += [RunEntry(each, member.link, "", "") for each in passed]
                counts = [item.value for item in member.effective_handed if item.setting is setting]
                off |= {*passed} if set(counts) == {OFF} else set()
                continue
            declaration = declaration_of(member.scope, setting, CHOSEN if member.is_picked else "")
            status, note = _status(member, setting, winner, weaker, said)
            entries.append(RunEntry(declaration, member.link, status, note))
            if setting.value is not None and setting.key.role != "compute" and run.counts(member):
                effective.setdefault(setting.key.role, setting.value)
    said_by_code = list(_code_of(project, run, code))
    left = open_defaults(project, run, said_by_code)
    said_by_code = [left.get(item, item) for item in said_by_code]
    followed_there = {(item.path, item.span.row) for item in said_by_code if item.feeds and item.regime}
    left_open = [item.declaration for item in entries if item.declaration.value == ELSEWHERE]
    settled = {item for item in left_open if (item.path, item.span.row) in followed_there}
    entries = [entry for entry in entries if entry.declaration not in settled]
    decided = [entry.declaration for entry in entries]
    overridden = {entry.declaration for entry in entries if entry.status == "overridden"}
    said_here = [replace(item, value=OFF) if item in off else item for item in decided if item not in overridden]
    open_ones = [item.place for member in run.members for item in member.scope.settings if _is_idle(member, item)]
    idle = {(place.path, place.span.row) for place in open_ones}
    deciding = [item for item in said_here if (item.path, item.span.row) not in idle]
    own = _scalers_off(run, [item for item in said_by_code if not _is_stated(item, decided)])
    standing = standing_of(run, own) if winner is None else {}
    entries += [_code_entry(item, said, standing.get(item, "")) for item in own if item.value != NOT_GIVEN]
    entries += [RunEntry(item, SHOWN_IN, "", "") for item in documented(project, run, own)]
    regime = winner.regime if winner is not None else None
    left_out = regime is None and is_left(project, run)
    if regime is None:
        regime = "unknown" if left_out or any(map(_decides, deciding)) else regime_of_run(run, own)
    if regime == "unknown" and not left_out and all(map(_states_nothing, own)) and _are_off(said_here):
        regime = "fp32"
    default, other = _besides(project, run, own, left, regime)
    if regime == UNKNOWN:
        entries += [RunEntry(item, member.link, "", "") for member, item in passed_together(run)]
    if regime != UNKNOWN and default != UNKNOWN:
        effective["compute"] = WORDS_OF_FAMILY[FAMILIES[default or regime]]
    place, values = (run.place.path, run.place.span.row), tuple(sorted(effective.items()))
    infers = run.command is not None and only_launches_inference(place[0], run.command.script)
    program = run.modules[0] if run.command is not None and run.modules else place[0]
    trains = not infers and _trains(project, program, run.modules, entries)
    return RunReport(run.title, *place, regime, values, tuple(entries), other, default, trains)


def _scalers_off(run: Run, own: Sequence[Declaration]) -> list[Declaration]:
    off = {item.condition for item in off_by(run, own)} if run.command is not None else set()
    return [replace(it, value="off") if it.role == "scaler" and it.condition in off else it for it in own]


def _besides(
    project: Project, run: Run, own: Sequence[Declaration], left: Mapping[Declaration, Declaration], regime: str
) -> tuple[str, str]:
    """What a run computes in by default, where ``regime`` is not it, and what else it can compute in."""
    winner = run.winner
    if winner is not None:
        other = winner.regime_without_bf16
        return "", f"{other} where the machine has no bfloat16" if other not in ("", regime) else ""
    default, other = otherwise(run, own, regime)
    is_open = not default and regime not in ("fp32", UNKNOWN)
    return (by_switches(project, run, own, left, regime) if is_open else None) or (default, other)


def _trains(project: Project, path: str, modules: Sequence[str], entries: Iterable[RunEntry]) -> bool:
    """Whether a run trains, as far as its path, its code and the trainers that it asks tell."""
    if purpose_of(path).is_foreign or (path.endswith(".py") and only_infers(project, path)):
        return trains_among_tests(project, path)
    if not modules and serves_inference(project, path):
        return False
    own = (entry.declaration for entry in entries if not entry.link.startswith(IMPORTED))
    if any(item.framework not in OF_ANYBODY and item.role != "weights" for item in own):
        return True
    seen = project.fact(_training_paths)
    return not modules or not seen.isdisjoint(modules) or reads_python_file(project, modules)


def _training_paths(project: Project) -> frozenset[str]:
    return frozenset(module.document.path for module in training_modules(project))


def _states_nothing(item: Declaration) -> bool:
    """Whether it is a cast to what another place says, or the default of a switch that a trainer is passed."""
    return item.role == "cast" or (item.role == "option" and item.value.lower() in ("true", OFF))


def _are_off(decided: Iterable[Declaration]) -> bool:
    """Whether each switch that a trainer is given says no."""
    switches = [item.value for item in decided if item.role == "compute"]
    return bool(switches) and all(value in ("false", "no") for value in switches)


def _is_idle(member: RunMember, setting: Setting) -> bool:
    """Whether a word elsewhere picks what a call is passed, or nothing gives it a value."""
    given = [item.value for item in member.handed if item.setting is setting]
    return member.is_picked or (bool(given) and all(value == NULL for value in given))


def _decides(item: Declaration) -> bool:
    """Whether a trainer's setting switches something on, or may: then its code alone does not tell."""
    return item.role == "compute" and item.value not in ("false", "null", "auto", "no")


def _code_of(project: Project, run: Run, code: Mapping[str, Sequence[Declaration]]) -> Iterator[Declaration]:
    """What the launch script says beside the command, and what the code says that the run uses."""
    yield from settings_of(project, run, code)
    for path in run.modules:
        told = code.get(path, ())
        named = path in run.configured
        used = (item for item in told if named or is_used(project, run.modules[0], path, item.span.row))
        yield from (followed_in(project, item, run.modules) for item in used)


def _passed_on(scope: SettingScope, setting: Setting, handed: Sequence[HandedSetting]) -> Iterator[Declaration]:
    """The argument that passes a value on, unless the value stands in it."""
    argument = scope.argument(setting)
    place = setting.place
    told = {(item.source.path, item.source.span.row) for item in handed}
    if argument is not None and (place.path, place.span.row) not in told:
        key, framework = setting.name, scope.framework.id
        yield Declaration(place.path, place.span, framework, key, setting.key.role, text_of(argument[1]))


def _is_written(item: HandedSetting) -> bool:
    """Whether a value stands where it comes from; a launch line that leaves a switch out says nothing."""
    return item.source.kind != "flag" or item.source.entry is not None


def _handed(
    member: RunMember, item: HandedSetting, winner: RunMember | None, weaker: Mapping[RunMember, RunMember]
) -> RunEntry:
    """A place that gives a call's setting its value."""
    source, setting = item.source, item.setting
    call = setting.place
    declaration = Declaration(
        *(source.path, source.span, member.scope.framework.id, source.key or setting.name),
        *(setting.key.role, item.shown or ELSEWHERE, item.regime or ""),
        condition=_condition(source),
    )
    status, note = "", f"feeds {call.path}:{call.span.row}"
    note += f"; unless {item.left_to} says it" if item.left_to else ""
    if item not in member.effective_handed:
        first = member.effective_handed[0].source
        status, note = "overridden", f"by {first.path}:{first.span.row}"
    elif source.is_guessed:
        note = f"may feed {call.path}:{call.span.row}; no program is seen to load the file"
    elif member is winner and item.regime is not None:
        status = "wins"
    elif member in weaker:
        status = "overridden"
    return RunEntry(declaration, member.link, status, note)


def _condition(source: ValueSource) -> str:
    opposite = f"not {source.key.lstrip('-')}" if source.is_negated else ""
    return f"if {source.picked_by}" if source.picked_by else opposite


def declaration_of(scope: SettingScope, setting: Setting, condition: str = "") -> Declaration:
    """A setting as an entry of the ledger."""
    value = setting.value if setting.value is not None else _written(scope, setting)
    regime = setting.key.meaning(setting.value) if setting.value is not None else None
    return Declaration(
        *(setting.place.path, setting.place.span, scope.framework.id, setting.name, setting.key.role, value),
        *(regime or "", condition),
    )


def _written(scope: SettingScope, setting: Setting) -> str:
    """A value that is filled in when the program runs, as it stands in a text."""
    if not isinstance(scope.origin, TextOrigin) or scope.origin.section is not None:
        return ELSEWHERE
    raw = scope.origin.config.text.entries[setting.index].raw
    return raw if raw and "\n" not in raw and len(raw) <= SHOWN else ELSEWHERE


def _status(
    member: RunMember,
    setting: Setting,
    winner: RunMember | None,
    weaker: Mapping[RunMember, RunMember],
    said: Mapping[tuple[str, int], Sequence[Finding]],
) -> tuple[str, str]:
    place = setting.place
    codes = {finding.code for finding in said.get((place.path, place.span.row), ())} - {"PF503", "PF001"}
    if codes:
        return "contradicts", ", ".join(sorted(codes))
    leads = bool(setting.key.means)
    if leads and member in weaker:
        other = weaker[member].scope
        return "overridden", f"by {other.path}:{other.span.row}"
    if leads and member is winner:
        return "wins", ""
    return "", ""


def _code_entry(item: Declaration, said: Mapping[tuple[str, int], Sequence[Finding]], standing: str = "") -> RunEntry:
    codes = sorted({finding.code for finding in said.get((item.path, item.span.row), ())} - {"PF001"})
    status = "contradicts" if codes else "overridden" if standing.startswith("by ") else standing
    note = standing if status == "overridden" else "; ".join(part for part in (", ".join(codes), item.feeds) if part)
    return RunEntry(item, "code", status, note)


def _of_code(
    project: Project, items: Sequence[Declaration], said: Mapping[tuple[str, int], Sequence[Finding]]
) -> list[RunReport]:
    """Plain code, file by file."""
    by_path: dict[str, list[Declaration]] = {}
    for item in items:
        by_path.setdefault(item.path, []).append(item)
    reports = []
    for path, listed in sorted(by_path.items()):
        entries = tuple(_code_entry(item, said) for item in listed)
        regime = UNKNOWN if reads_python_file(project, (path,)) else regime_of_code(listed)
        default, other = otherwise(Run(path, Place(path, listed[0].span, path), (), None, (path,)), listed, regime)
        family = FAMILIES.get(default or regime)
        effective = (("compute", WORDS_OF_FAMILY[family]),) if family is not None else ()
        trains = _trains(project, path, (path,) if path.endswith((".py", ".ipynb")) else (), entries)
        reports.append(RunReport(path, path, listed[0].span.row, regime, effective, entries, other, default, trains))
    return reports
