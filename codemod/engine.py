"""Runs rules over a project and carries their fixes out, round after round, until nothing changes.

A fix is applied whole or not at all, across all its files. Two fixes that touch the same text are not merged: the
first by place wins the round, the other is looked for again in the next one. Nothing is lost silently: what was
refused, what failed and what did not settle is in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .asking import RuleAnswer
from .model import (
    AddDecorator,
    AddImport,
    Applicability,
    DropImport,
    Edit,
    EditRefused,
    Finding,
    Fix,
    InsertStatement,
    Operation,
    PythonOperation,
    ReplaceText,
    Rule,
    Span,
    WrapStatements,
)
from .outcome import UNUSED_SUPPRESSION, FileChange, Report, Screened, Skipped, Target
from .processes import ask_in_processes
from .source.documents import Document, FileKind
from .source.parsing import Unparsable, parse_python
from .source.project import Project

MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Options:
    """What the user allows."""

    unsafe_fixes: bool = False
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Rule code -> name of the alternative to use instead of the best one."""
    progress: Callable[[str], None] | None = None
    """Called with a short sentence when a new step begins."""
    screen: Callable[[Project, tuple[Finding, ...]], Screened] | None = None
    """Says which findings of a round count; what does not is neither reported as found nor repaired."""
    decide: Callable[[Project, Finding, Fix], Fix | None] | None = None
    """Asked before a fix is used (``--interactive``): this fix, another one of the finding, or None to leave it."""
    first: str = ""
    """The code of the rule whose fixes are carried out before those of all others: these judge what it leaves."""
    jobs: int = 1
    """How many processes may check at the same time."""
    ask: Callable[[Project, Sequence[Rule], Callable[[Rule], None]], list[RuleAnswer]] | None = None
    """Asks rules in place of `ask_in_processes`: where an earlier run has left its findings."""


@dataclass(slots=True)
class _Round:
    project: Project
    texts: dict[str, str] = field(default_factory=dict)
    applied: list[tuple[Finding, Fix]] = field(default_factory=list)
    refused: list[Skipped] = field(default_factory=list)


def check(project: Project, rules: Sequence[Rule], target: Target, options: Options | None = None) -> Report:
    """Find mistakes; change nothing."""
    found, failed = _findings(project, rules, options or Options())
    report = Report(target, found.findings, remaining=found.findings, skipped=project.skipped, failed_rules=failed)
    report = replace(report, silenced=found.silenced, rules=tuple(rules))
    seen, parsed = len(project.paths), len(project.parsed)
    return replace(report, files_seen=seen, files_parsed=parsed, left_out=project.left_out)


def migrate(project: Project, rules: Sequence[Rule], target: Target, options: Options | None = None) -> Report:
    """Find mistakes and apply the fixes that ``options`` allow, in memory; ``Report.changes`` holds the new bytes."""
    options = options or Options()
    first, failed = _findings(project, rules, options)
    current, findings = project, first.findings
    applied: list[tuple[Finding, Fix]] = []
    refused: list[Skipped] = []
    for _ in range(MAX_ROUNDS):
        done = _next_round(current, findings, options)
        refused += [item for item in done.refused if item not in refused]
        if not done.texts:
            break
        applied += done.applied
        current = current.with_texts(done.texts)
        found, failed = _findings(current, rules, options)
        findings = found.findings
    else:
        if any(_chosen(current, finding, options) for finding in findings):
            refused.append(Skipped(".", f"fixes did not settle after {MAX_ROUNDS} rounds; run precfix again"))
    return Report(
        target,
        first.findings,
        remaining=_still_found(project, first.findings, findings, applied),
        changes=_changes(project, current),
        applied=tuple(applied),
        skipped=(*project.skipped, *refused),
        failed_rules=failed,
        files_seen=len(project.paths),
        files_parsed=len(project.parsed),
        silenced=first.silenced,
        rules=tuple(rules),
        left_out=project.left_out,
    )


def _still_found(
    project: Project, first: Sequence[Finding], last: Sequence[Finding], applied: Sequence[tuple[Finding, Fix]]
) -> tuple[Finding, ...]:
    """What is left. What a rehearsal saw of the old text is not seen in the new one: only a fix takes it away."""
    if project.observation is None:
        return tuple(last)
    from .rehearsed import seen_failures

    done = {id(finding) for finding, _ in applied}
    kept = [each for each in seen_failures(project, first) if id(each) not in done and each not in last]
    return tuple(sorted((*last, *kept), key=lambda each: (each.path, each.span, each.code, each.message)))


def _chosen(project: Project, finding: Finding, options: Options) -> Fix | None:
    """The fix to carry out, when whoever is asked agrees."""
    fix = choose(finding, options)
    return fix if fix is None or options.decide is None else options.decide(project, finding, fix)


def choose(finding: Finding, options: Options) -> Fix | None:
    """The fix that will be used: the chosen alternative, else the best one whose applicability is allowed."""
    wanted = options.chosen.get(finding.code)
    for fix in finding.fixes:
        if wanted is not None and fix.name != wanted:
            continue
        if fix.applicability is Applicability.SAFE:
            return fix
        if fix.applicability is Applicability.UNSAFE and (options.unsafe_fixes or wanted == fix.name):
            return fix
    return None


def texts_with(project: Project, fixes: Iterable[Fix]) -> dict[str, str]:
    """The new text of every file that ``fixes`` change, all applied together.

    Raises EditRefused when one of them cannot be carried out; nothing is applied then.
    """
    operations: dict[str, list[Operation]] = {}
    for fix in fixes:
        for edit in fix.edits:
            if edit.operation not in operations.setdefault(edit.path, []):
                operations[edit.path].append(edit.operation)
    return {path: _edited(project, path, listed) for path, listed in operations.items()}


def documents_with(project: Project, fixes: Iterable[Fix]) -> list[tuple[Document, Document]]:
    """Every document that ``fixes`` change, before and after, by path; raises EditRefused as `texts_with`."""
    pairs = []
    for path, text in sorted(texts_with(project, fixes).items()):
        document = project.document(path)
        if document is not None:
            pairs.append((document, document.with_text(text)))
    return pairs


def _edited(project: Project, path: str, operations: Sequence[Operation]) -> str:
    document = project.document(path)
    if document is None:
        raise EditRefused(f"{path} cannot be read")
    replacements = [item for item in operations if isinstance(item, ReplaceText)]
    structural: list[PythonOperation] = [item for item in operations if not isinstance(item, ReplaceText)]
    if replacements and structural:
        raise EditRefused(f"{path}: text edits and structural edits cannot be made in one step")
    if structural:
        from .rewrite import rewrite

        text = rewrite(document.text, structural)
    else:
        text = _spliced(document.text, replacements)
        _require_python(document, text)
    document.encode(text)
    return text


def _require_python(document: Document, text: str) -> None:
    """Raise EditRefused when text edits would turn Python into something else."""
    if document.kind in (FileKind.PYTHON, FileKind.NOTEBOOK):
        try:
            parse_python(text)
        except Unparsable as error:
            raise EditRefused(f"{document.path} would not be valid Python: {error}") from error


def _spliced(text: str, edits: Sequence[ReplaceText]) -> str:
    parts, position = [], 0
    for edit in sorted(edits, key=lambda item: (item.start, item.end)):
        if edit.start < position:
            raise EditRefused("two edits touch the same text")
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def _next_round(project: Project, findings: Sequence[Finding], options: Options) -> _Round:
    """Comments that silence nothing go when all else has settled: a repair may bring what they are there for."""
    first = [finding for finding in findings if finding.code == options.first]
    done = _apply_round(project, first, options)
    if done.texts:
        return done
    later = _without_the_first(project, [finding for finding in findings if finding.code != options.first], options)
    later.refused[:0] = done.refused
    return later


def _without_the_first(project: Project, findings: Sequence[Finding], options: Options) -> _Round:
    last = [finding for finding in findings if finding.code == UNUSED_SUPPRESSION]
    done = _apply_round(project, [finding for finding in findings if finding.code != UNUSED_SUPPRESSION], options)
    if done.texts or not last:
        return done
    final = _apply_round(project, last, options)
    final.refused[:0] = done.refused
    return final


def _apply_round(project: Project, findings: Sequence[Finding], options: Options) -> _Round:
    done = _Round(project)
    accepted: list[tuple[Finding, Fix]] = []
    taken: list[Edit] = []
    for finding in findings:
        fix = _chosen(project, finding, options)
        if fix is not None and fix.edits and not any(collide(mine, other) for mine in fix.edits for other in taken):
            accepted.append((finding, fix))
            taken += fix.edits
    if not accepted:
        return done
    try:
        texts = texts_with(project, (fix for _, fix in accepted))
        done.applied = accepted
    except EditRefused:
        texts = _one_by_one(project, accepted, done)
    done.texts = {path: text for path, text in texts.items() if text != project.text(path)}
    return done


def _one_by_one(project: Project, accepted: Sequence[tuple[Finding, Fix]], done: _Round) -> dict[str, str]:
    """Some fix was refused: find out which, keep the others."""
    texts: dict[str, str] = {}
    for finding, fix in accepted:
        try:
            texts = texts_with(project, [*(item for _, item in done.applied), fix])
        except EditRefused as refusal:
            place = f"{finding.path}:{finding.span.row}"
            done.refused.append(Skipped(place, f"{finding.code} fix {fix.name!r} was not applied: {refusal}"))
        else:
            done.applied.append((finding, fix))
    return texts


def collide(one: Edit, other: Edit) -> bool:
    """Whether two edits of different fixes must not be made in the same round."""
    if one.path != other.path or one.operation == other.operation:
        return False
    if isinstance(one.operation, ReplaceText) != isinstance(other.operation, ReplaceText):
        return True
    if isinstance(one.operation, ReplaceText) and isinstance(other.operation, ReplaceText):
        return _touch(one.operation, other.operation)
    if isinstance(one.operation, AddImport) or isinstance(other.operation, AddImport):
        return False
    mine, theirs = _span(one.operation), _span(other.operation)
    if isinstance(one.operation, DropImport) and isinstance(other.operation, DropImport):
        return False
    same = mine == theirs
    return same or mine.overlaps(theirs)


def _touch(one: ReplaceText, other: ReplaceText) -> bool:
    """Whether two edits change the same characters, or what one inserts stands where the other one begins or ends."""
    if one.start == one.end or other.start == other.end:
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end


def _span(operation: Operation) -> Span:
    if isinstance(operation, WrapStatements):
        return Span(operation.first.row, operation.first.column, operation.last.end_row, operation.last.end_column)
    if isinstance(operation, AddImport | ReplaceText):
        return Span(0, 0, 0, 0)
    if isinstance(operation, InsertStatement | AddDecorator):
        row, column = operation.span.row, operation.span.column
        return Span(row, column, row, column)
    return operation.span


def _findings(project: Project, rules: Sequence[Rule], options: Options) -> tuple[Screened, tuple[Skipped, ...]]:
    def begins(rule: Rule) -> None:
        if options.progress is not None:
            options.progress(f"{rule.code} {rule.name}")

    in_order = sorted(rules, key=lambda item: item.code)
    if options.ask is not None:
        answers = options.ask(project, in_order, begins)
    else:
        answers = ask_in_processes(project, in_order, options.jobs, begins)
    unique = {(item.path, item.span, item.code, item.message): item for each in answers for item in each.findings}
    ordered = _with_sight(project, tuple(unique[key] for key in sorted(unique)))
    screened = Screened(ordered) if options.screen is None else options.screen(project, ordered)
    failed = [Skipped(rule.code, each.failure) for rule, each in zip(in_order, answers, strict=True) if each.failure]
    if failed:  # nobody can say which comments are unused while a rule says nothing
        known = (finding for finding in screened.findings if finding.code != UNUSED_SUPPRESSION)
        screened = replace(screened, findings=tuple(known))
    return screened, tuple(failed)


def _with_sight(project: Project, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings and what a rehearsal saw at their places; without one, nothing of that is imported."""
    if project.observation is None:
        return findings
    from .rehearsed import with_sight

    return with_sight(project, findings)


def _changes(before: Project, after: Project) -> tuple[FileChange, ...]:
    changes = []
    for path in sorted(after.replaced_paths):
        old, new = before.document(path), after.document(path)
        if old is not None and new is not None and old.data != new.data:
            changes.append(FileChange(path, old.data, new.data))
    return tuple(changes)
