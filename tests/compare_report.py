"""The comparison of two installs as Markdown, for `tests.compare`: two tables, then every difference by tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .compare_findings import Difference, Kind, Seen
from .compare_runs import Result

KINDS = tuple(kind for kind in Kind if kind is not Kind.MESSAGE)
MAX_LINE = 140


@dataclass(frozen=True, slots=True)
class Compared:
    """One tree: both results, what became of the findings, and the files whose patches differ."""

    tree: Path
    old: Result
    new: Result
    differences: tuple[Difference, ...]
    diffs: tuple[str, ...]


def markdown(compared: Sequence[Compared]) -> str:
    """The tables always have the same columns, and rows in the order of the trees and codes."""
    parts = [_by_tree(compared), _by_rule(compared), *(_details(each) for each in compared)]
    return "\n\n".join(part for part in parts if part)


def _by_tree(compared: Sequence[Compared]) -> str:
    rows = []
    for each in compared:
        kinds = Counter(difference.kind for difference in each.differences)
        findings = [str(len(result.report.get("diagnostics", ()))) for result in (each.old, each.new)]
        seconds = [f"{result.seconds:.0f}" for result in (each.old, each.new)]
        counts = [str(kinds[kind] or "") for kind in KINDS]
        rows.append([each.tree.name, *seconds, *findings, *counts, str(len(each.diffs) or "")])
    heads = ["tree", "old s", "new s", "old findings", "new findings", *(kind.value for kind in KINDS), "other patches"]
    return _table(heads, rows)


def _by_rule(compared: Sequence[Compared]) -> str:
    counts = Counter((difference.any.code, difference.kind) for each in compared for difference in each.differences)
    codes = sorted({code for code, _ in counts})
    rows = [[code, *(str(counts[code, kind] or "") for kind in KINDS)] for code in codes]
    return _table(["rule", *(kind.value for kind in KINDS)], rows) if rows else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _details(each: Compared) -> str:
    lines = [f"- {problem}" for problem in _problems(each)]
    lines += [line for difference in each.differences for line in _lines(each.tree, difference)]
    lines += [f"- other patch: {path}" for path in each.diffs]
    return "\n".join([f"## {each.tree.name}", "", *lines]) if lines else ""


def _problems(each: Compared) -> Iterator[str]:
    for label, result in (("old", each.old), ("new", each.new)):
        if result.problem:
            yield f"{label} has no result: {result.problem}"
        for failed in result.report.get("failed_rules", ()):
            yield f"{label}: {failed['code']} failed: {failed['reason']}"
    before, after = (
        {(skip["filename"], skip["reason"]) for skip in result.report.get("skipped", ())}
        for result in (each.old, each.new)
    )
    for label, skips in (("no longer", before - after), ("now", after - before)):
        yield from (f"{label} skipped: {path}: {reason}" for path, reason in sorted(skips))


def _lines(tree: Path, difference: Difference) -> Iterator[str]:
    seen = difference.any
    yield f"- **{difference.kind.value}** {seen.code} {_place(seen)}: {seen.message} {_fixes(seen)}"
    yield f"  `{_source(tree, seen)}`"
    if difference.old is None or difference.new is None:
        return
    new = difference.new
    if difference.kind in (Kind.MOVED, Kind.RECODED, Kind.MESSAGE):
        yield f"  now {new.code} {_place(new)}: {new.message} {_fixes(new)}"
    else:
        yield f"  now {_fixes(new)}"
    if difference.kind is Kind.FIXES:
        yield from (f"  only {label}: {edits}" for label, edits in _other_edits(difference.old, new))


def _other_edits(old: Seen, new: Seen) -> Iterator[tuple[str, str]]:
    for label, one, other in (("old", old, new), ("new", new, old)):
        theirs = {edit for _, edits in other.fixes for edit in edits}
        mine = {edit for _, edits in one.fixes for edit in edits}
        for path, _, row, column, *_, content in sorted(mine - theirs, key=str):
            yield label, f"{path}:{row}:{column} `{_short(content)}`"


def _place(seen: Seen) -> str:
    cell, row, column = seen.start
    return f"{seen.path}:{f'cell {cell}:' if cell else ''}{row}:{column}"


def _fixes(seen: Seen) -> str:
    return f"[{', '.join(level for level, _ in seen.fixes) or 'no fix'}]"


def _source(tree: Path, seen: Seen) -> str:
    if seen.start[0]:
        return "in a notebook"
    try:
        return _short((tree / seen.path).read_text("utf-8", "replace").splitlines()[seen.line - 1].strip())
    except (OSError, IndexError):
        return ""


def _short(text: str) -> str:
    line = text.replace("\n", "⏎").replace("`", "'")
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"
