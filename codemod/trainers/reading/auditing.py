"""The ledger of a project: every declaration, and what each run makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...model import Finding
from ...outcome import Declaration, RunEntry, RunReport
from ...source.project import Project
from ..framework import FAMILIES
from .code_declarations import code_declarations
from .handed import Handed
from .runs import Member, Run, runs_of
from .scopes import Scope, Setting

WORDS_OF_FAMILY = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True, slots=True)
class Ledger:
    """All declarations of a project and its runs."""

    declarations: tuple[Declaration, ...]
    runs: tuple[RunReport, ...]


def ledger_of(project: Project, findings: Iterable[Finding] = ()) -> Ledger:
    """The ledger; ``findings`` say which declarations contradict."""
    said: dict[tuple[str, int], list[Finding]] = {}
    for finding in findings:
        for path, span in ((finding.path, finding.span), *((place.path, place.span) for place in finding.evidence)):
            said.setdefault((path, span.row), []).append(finding)
    by_path: dict[str, list[Declaration]] = {}
    for item in code_declarations(project):
        by_path.setdefault(item.path, []).append(item)
    runs = [_report(run, by_path, said) for run in runs_of(project)]
    in_runs = {entry.declaration for run in runs for entry in run.entries}
    rest = (item for items in by_path.values() for item in items)
    runs += _of_code([item for item in rest if not _is_stated(item, in_runs)], said)
    declarations = sorted({entry.declaration for run in runs for entry in run.entries}, key=_place)
    return Ledger(tuple(declarations), tuple(runs))


def _place(item: Declaration) -> tuple[str, object, str]:
    return item.path, item.span, item.key


def _is_stated(item: Declaration, others: Iterable[Declaration]) -> bool:
    """Whether a framework's call states it already."""
    return any(other.path == item.path and other.span == item.span for other in others)


def _report(
    run: Run, code: Mapping[str, Sequence[Declaration]], said: Mapping[tuple[str, int], Sequence[Finding]]
) -> RunReport:
    weaker = dict(run.overridden())
    winner = run.winner
    entries = []
    effective: dict[str, str] = {}
    followed = {
        (item.source.path, item.source.span.row, item.source.key) for member in run.members for item in member.handed
    }
    for member in run.members:
        for setting in member.scope.effective():
            if setting.key.role == "context" or setting.kind == "section":
                continue
            if (setting.place.path, setting.place.span.row, setting.name) in followed:
                continue  # told already as what feeds the script's call
            if any(item.setting is setting for item in member.handed):
                entries += [_handed(member, item, winner, weaker) for item in member.handed if item.setting is setting]
                continue
            declaration = declaration_of(member.scope, setting)
            status, note = _status(member, setting, winner, weaker, said)
            entries.append(RunEntry(declaration, member.link, status, note))
            if setting.value is not None and setting.key.role != "compute":
                effective.setdefault(setting.key.role, setting.value)
    stated = {entry.declaration for entry in entries}
    for path in run.modules:
        entries += [_code_entry(item, said) for item in code.get(path, ()) if not _is_stated(item, stated)]
    regime = winner.regime if winner is not None and winner.regime is not None else "unknown"
    if regime != "unknown":
        effective["compute"] = WORDS_OF_FAMILY[FAMILIES[regime]]
    return RunReport(
        run.title, run.place.path, run.place.span.row, regime, tuple(sorted(effective.items())), tuple(entries)
    )


def _handed(member: Member, item: Handed, winner: Member | None, weaker: Mapping[Member, Member]) -> RunEntry:
    """A place that gives a call's setting its value."""
    source, setting = item.source, item.setting
    call = setting.place
    declaration = Declaration(
        source.path, source.span, member.scope.framework.id, source.key, setting.key.role, item.value, item.regime or ""
    )
    status, note = "", f"feeds {call.path}:{call.span.row}"
    if item not in member.effective_handed:
        first = member.effective_handed[0].source
        status, note = "overridden", f"by {first.path}:{first.span.row}"
    elif member is winner and item.regime is not None:
        status = "wins"
    elif member in weaker:
        status = "overridden"
    return RunEntry(declaration, member.link, status, note)


def declaration_of(scope: Scope, setting: Setting) -> Declaration:
    """A setting as an entry of the ledger."""
    value = setting.value if setting.value is not None else "decided elsewhere"
    regime = setting.key.meaning(setting.value) if setting.value is not None else None
    return Declaration(
        setting.place.path, setting.place.span, scope.framework.id, setting.name, setting.key.role, value, regime or ""
    )


def _status(
    member: Member,
    setting: Setting,
    winner: Member | None,
    weaker: Mapping[Member, Member],
    said: Mapping[tuple[str, int], Sequence[Finding]],
) -> tuple[str, str]:
    place = setting.place
    contradicting = [
        finding for finding in said.get((place.path, place.span.row), ()) if finding.code not in ("PF503", "PF001")
    ]
    if contradicting:
        return "contradicts", ", ".join(sorted({finding.code for finding in contradicting}))
    leads = bool(setting.key.means)
    if leads and member in weaker:
        other = weaker[member].scope
        return "overridden", f"by {other.path}:{other.span.row}"
    if leads and member is winner:
        return "wins", ""
    return "", ""


def _code_entry(item: Declaration, said: Mapping[tuple[str, int], Sequence[Finding]]) -> RunEntry:
    codes = sorted({finding.code for finding in said.get((item.path, item.span.row), ())} - {"PF001"})
    note = "; ".join(part for part in (", ".join(codes), item.feeds) if part)
    return RunEntry(item, "code", "contradicts" if codes else "", note)


def _of_code(items: Sequence[Declaration], said: Mapping[tuple[str, int], Sequence[Finding]]) -> list[RunReport]:
    """Plain code, file by file."""
    by_path: dict[str, list[Declaration]] = {}
    for item in items:
        by_path.setdefault(item.path, []).append(item)
    reports = []
    for path, listed in sorted(by_path.items()):
        regimes = {item.regime for item in listed if item.regime}
        entries = [_code_entry(item, said) for item in listed]
        regime = regimes.pop() if len(regimes) == 1 else "unknown"
        effective = (("compute", WORDS_OF_FAMILY[FAMILIES[regime]]),) if regime in FAMILIES else ()
        reports.append(RunReport(path, path, listed[0].span.row, regime, effective, tuple(entries)))
    return reports
