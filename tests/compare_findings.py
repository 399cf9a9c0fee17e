"""What differs between two results of one tree, for `tests.compare`. Wording does not count unless asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

Edit: TypeAlias = tuple[Any, ...]
NEAR = 5
"""Lines between two places of one finding: a rule that now points at another line of the same statement."""


class Kind(str, Enum):
    """What became of a finding. The values head the columns of the table."""

    GONE = "gone"
    NEW = "new"
    MOVED = "moved"
    RECODED = "other rule"
    APPLICABILITY = "applicability"
    FIXES = "fixes"
    MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Seen:
    """One finding as a report holds it. ``fixes`` are pairs of applicability and edits; names do not count."""

    code: str
    path: str
    start: tuple[int, int, int]
    end: tuple[int, int]
    message: str
    fixes: tuple[tuple[str, frozenset[Edit]], ...]

    @property
    def line(self) -> int:
        """The line of its beginning; in a notebook, of the cell."""
        return self.start[1]


@dataclass(frozen=True, slots=True)
class Difference:
    """A finding that is not the same under both installs; one side is missing when it is gone or new."""

    kind: Kind
    old: Seen | None
    new: Seen | None

    @property
    def any(self) -> Seen:
        """The side to name it by: the old one, where there is one."""
        seen = self.old or self.new
        assert seen is not None
        return seen


def findings_of(report: dict[str, Any]) -> list[Seen]:
    """The findings of a report that ``--output-format json`` wrote."""
    return [_seen(each) for each in report.get("diagnostics", [])]


def _seen(each: dict[str, Any]) -> Seen:
    place, end = each["location"], each["end_location"]
    fixes = [fix for fix in (each["fix"], *each["alternatives"]) if fix]
    return Seen(
        each["code"],
        each["filename"],
        (each.get("cell") or 0, place["row"], place["column"]),
        (end["row"], end["column"]),
        each["message"],
        tuple((fix["applicability"], frozenset(map(_edit, fix["edits"]))) for fix in fixes),
    )


def _edit(edit: dict[str, Any]) -> Edit:
    place, end = edit["location"], edit["end_location"]
    where = (edit["filename"], edit.get("cell"), place["row"], place["column"], end["row"], end["column"])
    return (*where, edit["content"])


def differences(old: Iterable[Seen], new: Iterable[Seen], messages: bool = False) -> list[Difference]:
    """Every difference, in order of path and place. A finding that only changed its place is one, not two."""
    left, right = list(old), list(new)
    found: list[Difference] = []
    for one, other in _pairs(left, right, lambda a, b: _spot(a) == _spot(b)):
        found += _changes(one, other, messages)
    for near in (0, NEAR):
        for one, other in _pairs(left, right, partial(_is_near, lines=near)):
            found.append(Difference(Kind.MOVED, one, other))
            found += _changes(one, other, messages)
    for one, other in _pairs(left, right, lambda a, b: a.path == b.path and a.start[:2] == b.start[:2]):
        found.append(Difference(Kind.RECODED, one, other))
    found += [Difference(Kind.GONE, one, None) for one in left] + [Difference(Kind.NEW, None, one) for one in right]
    return sorted(found, key=lambda each: (each.any.path, each.any.start, each.any.code, each.kind.value))


def _spot(seen: Seen) -> tuple[object, ...]:
    return seen.code, seen.path, seen.start


def _is_near(one: Seen, other: Seen, *, lines: int) -> bool:
    same = (one.code, one.path, one.start[0]) == (other.code, other.path, other.start[0])
    return same and abs(one.line - other.line) <= lines


def _pairs(left: list[Seen], right: list[Seen], same: Callable[[Seen, Seen], bool]) -> Iterator[tuple[Seen, Seen]]:
    """Takes what belongs together out of both lists; of several candidates the one that says the same."""
    for one in [*left]:
        candidates = [other for other in right if same(one, other)]
        if candidates:
            best = min(candidates, key=lambda other: (other.message != one.message, abs(other.line - one.line)))
            left.remove(one)
            right.remove(best)
            yield one, best


def _changes(old: Seen, new: Seen, messages: bool) -> Iterator[Difference]:
    if set(old.fixes) != set(new.fixes):
        same_edits = {edits for _, edits in old.fixes} == {edits for _, edits in new.fixes}
        yield Difference(Kind.APPLICABILITY if same_edits else Kind.FIXES, old, new)
    if messages and old.message != new.message:
        yield Difference(Kind.MESSAGE, old, new)


def diff_changes(old: str, new: str) -> list[str]:
    """The paths for which two patches do not say the same, whatever the line numbers are."""
    before, after = _by_path(old), _by_path(new)
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


def _by_path(patch: str) -> dict[str, str]:
    parts = re.split(r"^diff --git a/", patch, flags=re.MULTILINE)[1:]
    return {part.partition(" b/")[0]: re.sub(r"^@@ .*?@@", "@@", part, flags=re.MULTILINE) for part in parts}
