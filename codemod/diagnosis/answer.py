"""The answer to a log: each message that is known, with its causes, its place and its fix; what is not known."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..model import Applicability, Finding
from ..outcome import RunReport
from ..source.project import Project
from .catalog import KnownMessage, load_catalog
from .deciding import FaultSeen, Judged, Sureness, faults_seen, judge
from .evidence import Evidence
from .locating import Located, locate
from .log import Log, read_log
from .matching import Match, matches, telling
from .project_side import OBSERVED, Explaining, Met, explaining, met_at, precision_of_runs
from .tracebacks import Raised

MAX_ANSWERS = 6
MAX_FINDINGS = 3


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of one message."""

    evidence: Evidence
    causes: tuple[Judged, ...]
    faults: tuple[FaultSeen, ...]
    located: tuple[Located, ...] = ()
    findings: tuple[Explaining, ...] = ()
    met: tuple[Met, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def entry(self) -> KnownMessage:
        return self.evidence.match.entry

    @property
    def place(self) -> tuple[str, int] | None:
        """The line to look at: what the fix changes, else the finding, else the innermost frame in the project."""
        if self.findings:
            first = self.findings[0]
            return first.rows[0] if first.rows else (first.finding.path, first.finding.span.row)
        return (self.located[0].path, self.located[0].row) if self.located else None


@dataclass(frozen=True, slots=True)
class Explanations:
    """What is said of a whole log."""

    known: tuple[Explanation, ...]
    unknown: Raised | None
    """The last error that ended something and that the catalog does not know; None where there is none."""
    log: Log
    runs: tuple[str, ...] = ()
    """What the project's runs compute in."""
    project: str = ""

    @property
    def is_explained(self) -> bool:
        return bool(self.known)


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A project, and how its rules are asked."""

    project: Project
    name: str
    """The folder as the user wrote it."""
    check: Callable[[Sequence[str]], Sequence[Finding]]
    """The findings of the rules with these codes."""
    runs: Callable[[], Sequence[RunReport]] = field(default=lambda: ())


def answers_to(data: bytes, view: ProjectView | None = None, log_name: str = "LOG") -> Explanations:
    """What the catalog, and the project if there is one, say of a log; ``log_name`` is how commands name it."""
    entries = load_catalog()
    log = read_log(data, telling(entries))
    found = matches(log, entries)[:MAX_ANSWERS]
    by_code = _findings(view, found)
    runs = [run for run in view.runs() if run.regime != "unknown"] if view is not None and found else []
    regimes = tuple(dict.fromkeys(run.regime for run in runs))
    known = [_answer(Evidence(match, log, regimes), view, by_code, log_name) for match in found]
    name = view.name if view is not None else ""
    return Explanations(tuple(known), _unknown(log, found), log, tuple(precision_of_runs(runs)), name)


def _findings(view: ProjectView | None, found: Iterable[Match]) -> dict[str, list[Finding]]:
    """All findings that may explain something, by code."""
    codes = [code for match in found for code in match.entry.rules]
    if view is None or not codes:
        return {}
    by_code: dict[str, list[Finding]] = {}
    for finding in view.check([*dict.fromkeys([*codes, OBSERVED])]):
        by_code.setdefault(finding.code, []).append(finding)
    return by_code


def _answer(
    evidence: Evidence, view: ProjectView | None, by_code: Mapping[str, list[Finding]], log_name: str
) -> Explanation:
    match = evidence.match
    located = tuple(locate(view.project, evidence.frames)) if view is not None else ()
    fitting = [finding for code in (*match.entry.rules, OBSERVED) for finding in by_code.get(code, ())]
    explained = explaining(view.project, fitting, located) if view is not None else []
    near = _near(explained, bool(located))
    at_frame = [item for item in near if item.nearness == 0]
    codes = {item.finding.code for item in (at_frame or near)}
    causes = judge(evidence, codes, bool(at_frame))
    ordered = _of_best_cause(near, causes)
    met = met_at(view.project, located) if view is not None and not at_frame else []
    faults = faults_seen(evidence, view.project if view is not None else None)
    commands = dict.fromkeys(_commands(match.entry, causes, ordered, view, log_name))
    return Explanation(evidence, causes, faults, located, tuple(ordered), tuple(met), tuple(commands))


def _near(explained: Sequence[Explaining], has_frames: bool) -> list[Explaining]:
    """The findings to show: those as near as the nearest, or all where no frame says where to look."""
    if not explained:
        return []
    nearest = explained[0].nearness
    return [item for item in explained if item.nearness == nearest or not has_frames][:MAX_FINDINGS]


def _of_best_cause(near: Sequence[Explaining], causes: Sequence[Judged]) -> list[Explaining]:
    """The findings in the order of nearness; among equals those of the likeliest cause first."""
    rank = {code: at for at, each in reversed([*enumerate(causes)]) for code in each.cause.rules}
    order = {id(item): at for at, item in enumerate(near)}
    return sorted(
        near, key=lambda item: (order[id(item)] if item.nearness == 0 else 0, rank.get(item.finding.code, 99))
    )


def _unknown(log: Log, found: Iterable[Match]) -> Raised | None:
    """The error that the catalog does not know, where none of those it knows ended the run."""
    if any(match.entry.kind == "error" for match in found):
        return None
    errors = [failure for failure in log.failures if not failure.is_warning]
    known = {match.statement.row for match in found}
    return next((failure for failure in reversed(errors) if failure.row not in known), None)


def _commands(
    entry: KnownMessage, causes: Sequence[Judged], near: Sequence[Explaining], view: ProjectView | None, log_name: str
) -> Iterable[str]:
    """What to run next, exactly."""
    folder = shlex.quote(view.name) if view is not None else "."
    fixable = [item for item in near if item.fix is not None]
    if fixable:
        codes = ",".join(dict.fromkeys(item.finding.code for item in fixable))
        unsafe = any(item.fix.applicability is Applicability.UNSAFE for item in fixable if item.fix is not None)
        yield f"precfix migrate {folder} --select {codes}{' --unsafe-fixes' if unsafe else ''} --dry-run"
    elif causes and causes[0].cause.rules and view is None:
        yield f"precfix explain {shlex.quote(log_name)} --project {folder}"
        yield f"precfix check {folder} --select {','.join(causes[0].cause.rules)}"
    if causes and causes[0].cause.environment:
        yield "precfix probe"
    if any(each.cause.id in ("contradicting-settings", "two-sources", "two-switches") for each in causes[:2]):
        yield f"precfix audit {folder}"
    if entry.next and entry.next != "precfix probe":
        yield f"{entry.next} -- COMMAND"
    elif entry.next:
        yield entry.next
    elif (
        causes
        and not causes[0].cause.environment
        and causes[0].sureness is not Sureness.SHOWN
        and entry.kind == "error"
    ):
        yield "precfix rehearse --steps 2 -- COMMAND"
