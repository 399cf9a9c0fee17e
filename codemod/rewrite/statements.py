"""Rebuilding a block: statements removed, inserted, wrapped; comments and blank lines kept in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import libcst as cst

from ..model import EditRefused
from .lines import (
    deepened,
    joined,
    kept_without,
    own_comment,
    without_leading_blanks,
    without_trailing_blanks,
)
from .locate import Suite
from .plan import EditPlan, Wrap

StatementLine: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
EmptyLines: TypeAlias = Sequence[cst.EmptyLine]


@dataclass(frozen=True)
class BlockStatement:
    """One statement of a block: as it was, as its inside has become, and where on its line it stands."""

    original: cst.BaseSmallStatement | cst.BaseCompoundStatement
    updated: cst.BaseSmallStatement | cst.BaseCompoundStatement
    leading: EmptyLines = ()
    trailing: cst.TrailingWhitespace = field(default_factory=cst.TrailingWhitespace)
    """Of the whole line; comments that follow it."""
    line: int = 0
    """Number of the source line among those of the block."""


@dataclass
class NewBlock:
    """The new content of a block: ``footer`` holds the comments after the last statement."""

    body: list[StatementLine]
    footer: list[cst.EmptyLine]


def entries_of(original: Suite, updated: Suite) -> list[BlockStatement]:
    """The statements of a block, those sharing a line told apart."""
    entries: list[BlockStatement] = []
    if isinstance(original, cst.SimpleStatementSuite) and isinstance(updated, cst.SimpleStatementSuite):
        pairs = zip(original.body, updated.body, strict=True)
        return [BlockStatement(old, new, (), updated.trailing_whitespace, 0) for old, new in pairs]
    for number, (old, new) in enumerate(zip(original.body, updated.body, strict=True)):
        if isinstance(old, cst.SimpleStatementLine) and isinstance(new, cst.SimpleStatementLine):
            for index, (small, now) in enumerate(zip(old.body, new.body, strict=True)):
                leading = new.leading_lines if index == 0 else ()
                entries.append(BlockStatement(small, now, leading, new.trailing_whitespace, number))
        elif isinstance(old, cst.BaseCompoundStatement) and isinstance(new, cst.BaseCompoundStatement):
            entries.append(BlockStatement(old, new, leading_lines(new), new_line(), number))
    return entries


def new_line() -> cst.TrailingWhitespace:
    """The end of a line without a comment."""
    return cst.TrailingWhitespace()


def leading_lines(node: cst.CSTNode) -> EmptyLines:
    """The lines above a statement that belong to its node."""
    lines = getattr(node, "leading_lines", ())
    return lines if isinstance(lines, Sequence) else ()


class BlockWriter:
    """Writes the statements of one block anew, following the plan."""

    def __init__(self, plan: EditPlan, parse: Callable[[str], list[StatementLine]], suite: tuple[Suite, Suite]) -> None:
        self.plan = plan
        self.parse = parse
        self.suite = suite
        self.entries = entries_of(*suite)
        self._gone_lines = self._lines_removed()
        self._body: list[StatementLine] = []
        self._pending: list[cst.EmptyLine] = []
        self._open: list[cst.BaseSmallStatement] = []
        self._open_entry: BlockStatement | None = None
        self._leading: EmptyLines = ()

    def write(self, wraps: Sequence[Wrap], above: EmptyLines, footer: EmptyLines) -> NewBlock:
        """The new block; ``above`` are the lines before its first statement that are not part of it."""
        self._range(0, len(self.entries), self._ranges(wraps))
        self._strip_start(above)
        if not without_leading_blanks(footer):
            kept = without_trailing_blanks(self._pending) if self._body else self._pending
            return NewBlock(self._body, [*kept, *footer])
        return NewBlock(self._body, joined(self._pending, footer))

    def _strip_start(self, above: EmptyLines) -> None:
        """Blank lines that separated the first statement from a removed one would now open the block."""
        apart = not above or not without_trailing_blanks(above[-1:])
        if self._body and apart and self.entries[0].original in self.plan.removed:
            first = self._body[0]
            self._body[0] = first.with_changes(leading_lines=without_leading_blanks(leading_lines(first)))

    def _lines_removed(self) -> set[int]:
        lines = {entry.line for entry in self.entries}
        return lines - {entry.line for entry in self.entries if entry.original not in self.plan.removed}

    def _ranges(self, wraps: Sequence[Wrap]) -> list[tuple[int, int, str]]:
        index = {entry.original: number for number, entry in enumerate(self.entries)}
        ranges = [(index[wrap.first], index[wrap.last] + 1, wrap.header) for wrap in wraps]
        ranges.sort(key=lambda each: (each[0], -each[1]))
        for (start, stop, header), (other, other_stop, _) in pairwise(ranges):
            if (other < stop < other_stop) or (start, stop) == (other, other_stop):
                raise EditRefused(f"statements cannot go under {header!r} and another header at once")
        return ranges

    def _range(self, start: int, stop: int, wraps: list[tuple[int, int, str]]) -> None:
        at = start
        while at < stop:
            wrap = next((each for each in wraps if each[0] == at), None)
            if wrap is None:
                self._entry(self.entries[at])
                at += 1
            else:
                self._wrapped(wrap, [each for each in wraps if each != wrap])
                at = wrap[1]
        self._flush()

    def _wrapped(self, wrap: tuple[int, int, str], wraps: list[tuple[int, int, str]]) -> None:
        start, stop, header = wrap
        first, last = self.entries[start].original, self.entries[stop - 1].original
        self._flush()
        inner = BlockWriter(self._inner_plan(first, last), self.parse, self.suite)
        inner._range(start, stop, wraps)
        lines: EmptyLines = []
        if inner._body:
            above, comment = own_comment(leading_lines(inner._body[0]))
            inner._body[0] = inner._body[0].with_changes(leading_lines=comment)
            lines = above
        self._inserted(self.plan.before.get(first, ()), lines if inner._body else ())
        if inner._body:
            rest = [] if self.plan.before.get(first) else lines
            self._put(self._under(header, inner), rest)
        else:
            self._pending = joined(self._pending, inner._pending)
        self._inserted(self.plan.after.get(last, ()), ())

    def _inner_plan(self, first: cst.CSTNode, last: cst.CSTNode) -> EditPlan:
        """The plan less what is inserted at the edges of the wrapped statements: that stays outside."""
        before = {node: texts for node, texts in self.plan.before.items() if node is not first}
        after = {node: texts for node, texts in self.plan.after.items() if node is not last}
        return EditPlan(removed=self.plan.removed, before=before, after=after)

    def _under(self, header: str, inner: BlockWriter) -> StatementLine:
        parsed = self.parse(f"{header}\n    pass\n")
        if len(parsed) != 1 or not hasattr(parsed[0], "body") or isinstance(parsed[0], cst.SimpleStatementLine):
            raise EditRefused(f"{header!r} cannot be the header of a block")
        block = cst.IndentedBlock(body=inner._body, footer=inner._pending)
        return parsed[0].with_changes(body=deepened(block) if isinstance(self.suite[0], cst.Module) else block)

    def _entry(self, entry: BlockStatement) -> None:
        node, lines = entry.original, entry.leading
        if self._open_entry is not None and self._open_entry.line != entry.line:
            self._flush()
        gone = node in self.plan.removed
        respelled = isinstance(node, cst.Import | cst.ImportFrom) and node in self.plan.before
        if entry.line in self._gone_lines and lines and not respelled:
            only = len({each.line for each in self.entries}) == len(self._gone_lines)
            lines = kept_without(lines, emptied=only)
        if before := self.plan.before.get(node, ()):
            self._flush()
            self._inserted(before, [*self._leading, *lines])
            self._leading, lines = (), ()
        if gone:
            self._remove(entry, lines)
        elif isinstance(entry.updated, cst.BaseSmallStatement):
            self._open.append(entry.updated)
            self._open_entry = entry
            self._leading = [*self._leading, *lines]
        elif isinstance(entry.updated, cst.BaseCompoundStatement):
            self._put(entry.updated, lines)
        if after := self.plan.after.get(node, ()):
            self._flush()
            self._inserted(after, ())

    def _remove(self, entry: BlockStatement, lines: EmptyLines) -> None:
        if entry.line in self._gone_lines:
            self._pending = joined(self._pending, lines)
        else:
            self._leading = [*self._leading, *lines]

    def _inserted(self, texts: Sequence[str], lines: EmptyLines) -> None:
        for text in texts:
            for statement in self.parse(text):
                self._put(statement, [*lines, *leading_lines(statement)])
                lines = ()

    def _flush(self) -> None:
        """End the line of small statements that is being collected."""
        entry = self._open_entry
        if entry is None:
            return
        later = self.entries[self.entries.index(entry) + 1 :]
        ends = not any(each.line == entry.line and each.original not in self.plan.removed for each in later)
        closes_line = not any(each.line == entry.line for each in later)
        if not closes_line:
            self._open[-1] = self._open[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        line = cst.SimpleStatementLine(self._open, trailing_whitespace=entry.trailing if ends else new_line())
        lines, self._leading, self._open, self._open_entry = self._leading, (), [], None
        self._put(line, lines)

    def _put(self, statement: StatementLine, lines: EmptyLines) -> None:
        self._body.append(statement.with_changes(leading_lines=joined(self._pending, lines)))
        self._pending = []
