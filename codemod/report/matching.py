"""Which lines two texts share: a line diff whose cost stays near n log n for any input.

``difflib`` alone is quadratic or worse on large files, so lines that occur once on both sides are paired first
(patience diff) and ``difflib`` sees only the small gaps between them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias, TypeVar

AnyLine = TypeVar("AnyLine", str, bytes)
ChangedBlock: TypeAlias = tuple[int, int, int, int]
"""``a[i1:i2]`` became ``b[j1:j2]``."""
EqualLines: TypeAlias = tuple[int, int, int]
"""``a[i:i+n] == b[j:j+n]``."""

GAP_PRODUCT = 100_000
"""Largest product of line counts that is handed to ``difflib``."""
MAX_DEPTH = 12
"""How often the gaps between unique lines are searched for lines that are unique inside the gap."""


def changed_blocks(a: Sequence[AnyLine], b: Sequence[AnyLine]) -> list[ChangedBlock]:
    """The ranges of lines that differ, in order, never empty on both sides and never touching."""
    blocks: list[ChangedBlock] = []
    i = j = 0
    for at_a, at_b, size in [*sorted(_equal_runs(a, b)), (len(a), len(b), 0)]:
        if i < at_a or j < at_b:
            blocks.append((i, at_a, j, at_b))
        i, j = at_a + size, at_b + size
    return blocks


def _equal_runs(a: Sequence[AnyLine], b: Sequence[AnyLine]) -> Iterator[EqualLines]:
    todo = [(0, len(a), 0, len(b), 0)]
    while todo:
        a_low, a_high, b_low, b_high, depth = todo.pop()
        head = _common_head(a, a_low, a_high, b, b_low, b_high)
        a_low, b_low = a_low + head, b_low + head
        tail = _common_tail(a, a_low, a_high, b, b_low, b_high)
        a_high, b_high = a_high - tail, b_high - tail
        yield from [run for run in ((a_low - head, b_low - head, head), (a_high, b_high, tail)) if run[2]]
        if a_low == a_high or b_low == b_high:
            continue
        block = (a_low, a_high, b_low, b_high)
        anchors = _unique_pairs(a, b, block) if depth < MAX_DEPTH else []
        if not anchors:
            yield from _without_anchors(a, b, block)
            continue
        i, j = a_low, b_low
        for at_a, at_b in anchors:
            yield at_a, at_b, 1
            todo.append((i, at_a, j, at_b, depth + 1))
            i, j = at_a + 1, at_b + 1
        todo.append((i, a_high, j, b_high, depth + 1))


def _common_head(a: Sequence[AnyLine], i: int, a_high: int, b: Sequence[AnyLine], j: int, b_high: int) -> int:
    limit = min(a_high - i, b_high - j)
    return next((n for n in range(limit) if a[i + n] != b[j + n]), limit)


def _common_tail(a: Sequence[AnyLine], a_low: int, i: int, b: Sequence[AnyLine], b_low: int, j: int) -> int:
    limit = min(i - a_low, j - b_low)
    return next((n for n in range(limit) if a[i - 1 - n] != b[j - 1 - n]), limit)


def _unique_pairs(a: Sequence[AnyLine], b: Sequence[AnyLine], block: ChangedBlock) -> list[tuple[int, int]]:
    """Lines that occur once in each range, as the longest series that rises on both sides."""
    a_low, a_high, b_low, b_high = block
    in_b = _once(b, b_low, b_high)
    pairs = [(i, in_b[line]) for line, i in _once(a, a_low, a_high).items() if line in in_b]
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        before.append(ends[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(j)
            ends.append(at)
        else:
            tops[pile], ends[pile] = j, at
    chain: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _once(lines: Sequence[AnyLine], low: int, high: int) -> dict[AnyLine, int]:
    first: dict[AnyLine, int] = {}
    repeated: set[AnyLine] = set()
    for at in range(low, high):
        if first.setdefault(lines[at], at) != at:
            repeated.add(lines[at])
    return {line: at for line, at in first.items() if line not in repeated}


def _without_anchors(a: Sequence[AnyLine], b: Sequence[AnyLine], block: ChangedBlock) -> Iterator[EqualLines]:
    a_low, a_high, b_low, b_high = block
    if (a_high - a_low) * (b_high - b_low) <= GAP_PRODUCT:
        matcher = SequenceMatcher(None, a[a_low:a_high], b[b_low:b_high], autojunk=False)
        for i, j, size in matcher.get_matching_blocks():
            if size:
                yield a_low + i, b_low + j, size
    elif a_high - a_low == b_high - b_low:
        # Thousands of repeated lines (numbers in JSON) with as many after as before: compare row by row.
        for n in range(a_high - a_low):
            if a[a_low + n] == b[b_low + n]:
                yield a_low + n, b_low + n, 1
