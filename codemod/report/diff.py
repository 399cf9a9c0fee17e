"""Changes as a patch that ``git apply`` accepts, and as small text edits.

A patch is bytes: a file may mix encodings and line endings, and git splits lines at ``\\n`` only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..model import Span
from ..outcome import FileChange
from . import TextEdit
from .matching import ChangedBlock, changed_blocks

CONTEXT = 3
_BYTE_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_TEXT_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ESCAPES = {0x07: b"a", 0x08: b"b", 0x09: b"t", 0x0A: b"n", 0x0B: b"v", 0x0C: b"f", 0x0D: b"r", 0x22: b'"', 0x5C: b"\\"}


def unified_diff(changes: Sequence[FileChange], below: str = "") -> bytes:
    """A patch from ``before`` to ``after`` for ``git apply``.

    ``below`` is the project's folder as seen from the top of its repository (``training/``): git takes the names of
    a patch from there, wherever it is called, and says nothing when it finds them outside the current folder.
    Unchanged files leave no trace; file modes are not mentioned, so they stay as they are. Names are quoted the way
    git quotes them (``core.quotePath``).
    """
    return b"".join(_file_diff(change, below) for change in changes if change.before != change.after)


def line_counts(change: FileChange) -> tuple[int, int]:
    """How many lines a change adds and removes."""
    blocks = changed_blocks(_BYTE_LINE.findall(change.before), _BYTE_LINE.findall(change.after))
    return sum(j2 - j1 for _, _, j1, j2 in blocks), sum(i2 - i1 for i1, i2, _, _ in blocks)


def _file_diff(change: FileChange, below: str) -> bytes:
    name = os.fsencode(below + change.path)
    old, new = _quoted(b"a/" + name), _quoted(b"b/" + name)
    tab = b"\t" if b" " in name else b""  # without it a reader takes what follows the blank for a time stamp
    parts = [b"diff --git " + old + b" " + new + b"\n--- " + old + tab + b"\n+++ " + new + tab + b"\n"]
    before, after = _BYTE_LINE.findall(change.before), _BYTE_LINE.findall(change.after)
    parts.extend(_hunk(before, after, group) for group in _groups(changed_blocks(before, after)))
    return b"".join(parts)


def _quoted(name: bytes) -> bytes:
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in name):
        return name
    return b'"' + b"".join(_quoted_byte(byte) for byte in name) + b'"'


def _quoted_byte(byte: int) -> bytes:
    if byte in _ESCAPES:
        return b"\\" + _ESCAPES[byte]
    return bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte


def _groups(blocks: Sequence[ChangedBlock]) -> list[list[ChangedBlock]]:
    """Blocks whose context would touch share a hunk."""
    groups: list[list[ChangedBlock]] = []
    for block in blocks:
        if groups and block[0] - groups[-1][-1][1] <= 2 * CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _hunk(before: Sequence[bytes], after: Sequence[bytes], group: Sequence[ChangedBlock]) -> bytes:
    lead = min(CONTEXT, group[0][0])
    trail = min(CONTEXT, len(before) - group[-1][1])
    i, j = group[0][0] - lead, group[0][2] - lead
    end_i, end_j = group[-1][1] + trail, group[-1][3] + trail
    parts = [b"@@ -" + _range(i, end_i) + b" +" + _range(j, end_j) + b" @@\n"]
    for i1, i2, j1, j2 in group:
        parts.extend(_marked(b" ", before[i:i1]))
        parts.extend(_marked(b"-", before[i1:i2]))
        parts.extend(_marked(b"+", after[j1:j2]))
        i = i2
    parts.extend(_marked(b" ", before[i:end_i]))
    return b"".join(parts)


def _range(low: int, high: int) -> bytes:
    if high - low == 1:
        return b"%d" % high
    return b"%d,%d" % (low + 1 if high > low else low, high - low)


def _marked(mark: bytes, lines: Sequence[bytes]) -> list[bytes]:
    return [mark + (line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n") for line in lines]


def line_edits(path: str, before: str, after: str) -> tuple[TextEdit, ...]:
    """The edits that turn ``before`` into ``after``: one per changed group of rows, without the equal ends.

    Rows end at ``\\n``, ``\\r\\n`` or ``\\r``. The edits are in order, do not overlap, and all refer to ``before``.
    """
    old, new = _TEXT_LINE.findall(before), _TEXT_LINE.findall(after)
    edits = []
    for i1, i2, j1, j2 in changed_blocks(old, new):
        removed, added = "".join(old[i1:i2]), "".join(new[j1:j2])
        head, tail = _equal_ends(removed, added)
        row, column = _advance(i1 + 1, 1, removed[:head])
        end_row, end_column = _advance(row, column, removed[head : len(removed) - tail])
        edits.append(TextEdit(path, Span(row, column, end_row, end_column), added[head : len(added) - tail]))
    return tuple(edits)


def _equal_ends(old: str, new: str) -> tuple[int, int]:
    """How many characters are equal at the start and at the end; never parts ``\\r\\n``."""
    limit = min(len(old), len(new))
    head = next((n for n in range(limit) if old[n] != new[n]), limit)
    if head and old[head - 1] == "\r" and "\n" in (old[head : head + 1], new[head : head + 1]):
        head -= 1
    limit -= head
    tail = next((n for n in range(limit) if old[-1 - n] != new[-1 - n]), limit)
    if tail and old[-tail] == "\n" and "\r" in (old[-tail - 1 : -tail], new[-tail - 1 : -tail]):
        tail -= 1
    return head, tail


def _advance(row: int, column: int, text: str) -> tuple[int, int]:
    """The position after ``text`` when it starts at ``row`` and ``column``."""
    lines = _TEXT_LINE.findall(text)
    if not lines:
        return row, column
    if lines[-1][-1] in "\r\n":
        return row + len(lines), 1
    return row + len(lines) - 1, len(lines[-1]) + (column if len(lines) == 1 else 1)
