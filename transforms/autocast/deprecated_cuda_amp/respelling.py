"""The edits that write a call of the old AMP interface in the new one: same arguments, same layout, same comments."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import pairwise

from ....codemod.model import Edit
from ....codemod.source.documents import Document
from .deprecated_uses import OLD_AUTOCAST, Use


class NotExact(Exception):
    """A use has no new spelling that is certainly the same; the message says why."""


def respelled(use: Use, name: str) -> Edit:
    """The edit of one use; ``name`` is what the new API is called there. Raises NotExact."""
    document = use.module.document
    quote = "'" if document.text.count("'") > document.text.count('"') else '"'
    device = f"{quote}{use.entry.device}{quote}"
    span = document.span(use.whole)
    if use.form == "reference":
        raise NotExact("it is passed on here and called elsewhere")
    if any(isinstance(parent, ast.JoinedStr) for parent in use.module.ancestors(use.node)):
        raise NotExact("it is inside an f-string")
    if use.form == "decorator":
        if use.entry.kind != "custom":
            raise NotExact("as a bare decorator it works in no release")
        return use.module.replace(span, f"{name}(device_type={device})")
    assert use.call is not None
    text = _Call(document, use.call)
    if use.form == "partial":
        _respell_partial(text, use, name, device)
    else:
        _respell_call(text, use, name, device)
    indentation = _indentation(document, use.module.statement_of(use.call))
    return use.module.replace(span, text.written(indentation))


def _respell_call(text: _Call, use: Use, name: str, device: str) -> None:
    call = text.call
    text.replace(call.func, name)
    if use.entry.kind == "custom":
        given = f"device_type={device}"
        if call.args:
            text.append(given)
        else:
            text.insert_first(given)
        return
    if use.entry.kind == "autocast":
        if any(keyword.arg == "device_type" for keyword in call.keywords):
            raise NotExact("it is passed a device_type, which it does not take")
        for index, argument in enumerate(call.args):
            if isinstance(argument, ast.Starred) or index >= len(OLD_AUTOCAST.names):
                raise NotExact("*args hide which argument is which")
            text.name_argument(index, OLD_AUTOCAST.names[index])
    text.insert_first(device)


def _respell_partial(text: _Call, use: Use, name: str, device: str) -> None:
    if use.entry.kind not in ("autocast", "GradScaler"):
        raise NotExact("its arguments are passed in two steps")
    if use.entry.kind == "autocast" and len(text.call.args) > 1:
        raise NotExact("its positional arguments are passed in two steps")
    text.replace(text.call.args[0], f"{name}, {device}")


@dataclass(slots=True)
class _Call:
    """The source of a call, with the changes wanted so far: offsets are those of the document's text."""

    document: Document
    call: ast.Call
    changes: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, node: ast.expr, text: str) -> None:
        """Write ``text`` in the place of a node."""
        self.changes.append((self._start(node), self._end(node), text))

    def insert_first(self, text: str) -> None:
        """Give a new first argument; a line of its own where the old first one has one."""
        opening = self._opening()
        if not self._starts():
            if "#" in self._text(opening, self._end(self.call)):
                raise NotExact("its empty parentheses contain a comment")
            self.changes.append((opening, opening, text))
            return
        at = self._after_blanks(opening, self._starts()[0])
        line = self._text(opening, at).rpartition(self._end_of_line)
        separator = f"{self.document.newline}{line[2]}" if line[1] and not line[2].strip() else " "
        self.changes.append((at, at, f"{text},{separator}"))

    def name_argument(self, index: int, name: str) -> None:
        """Turn a positional argument into a keyword."""
        start = self._start(self.call.args[index])
        if index:
            comma = self._after_blanks(self._end(self.call.args[index - 1]), start, skipped=")")
            at = self._after_blanks(comma + 1, start)
        else:
            at = self._after_blanks(self._opening(), start)
        self.changes.append((at, at, f"{name}="))

    def append(self, text: str) -> None:
        """Give a new last argument."""
        last, end = max(map(self._end, [*self.call.args, *self.call.keywords])), self._end(self.call) - 1
        tail = self._text(last, end)
        if "#" in tail:
            raise NotExact("a comment follows its last argument")
        kept = tail.rstrip()
        self.changes.append((last + len(kept), last + len(kept), f" {text}" if "," in kept else f", {text}"))

    def written(self, indentation: str) -> str:
        """The new source; the editor adds the block's ``indentation`` to every line again."""
        start = self._start(self.call)
        parts, at = [], start
        # At the same place, what was asked for last stands first: the device before the name of the old first argument.
        for _, (begin, end, text) in sorted(enumerate(self.changes), key=lambda pair: (pair[1][0], -pair[0])):
            parts += [self._text(at, begin), text]
            at = end
        source = "".join([*parts, self._text(at, self._end(self.call))])
        if '"""' in source or "'''" in source:
            raise NotExact("it contains a multi-line string")
        rows = source.split(self._end_of_line)
        below = [self._bare(row, above, indentation) for above, row in pairwise(rows)]
        return self._end_of_line.join([rows[0], *below])

    def _bare(self, row: str, above: str, indentation: str) -> str:
        """A row without the block's indentation, which nobody adds again behind a backslash."""
        is_continued = above.rstrip("\r").endswith("\\") and "#" not in above
        return row if is_continued else row.removeprefix(indentation)

    @property
    def _end_of_line(self) -> str:
        """The character that ends each line of the file."""
        return self.document.newline[-1]

    def _starts(self) -> list[int]:
        return sorted(map(self._start, [*self.call.args, *self.call.keywords]))

    def _opening(self) -> int:
        """The offset after the parenthesis that opens the arguments."""
        end = self._end(self.call.func)
        return end + self._text(end, self._end(self.call)).index("(") + 1

    def _after_blanks(self, begin: int, end: int, skipped: str = "") -> int:
        """The first offset that is no blank, comment or one of ``skipped``; a parenthesis may belong to an argument."""
        text, at = self.document.text, begin
        while at < end and (text[at].isspace() or text[at] in f"#\\{skipped}"):
            at = max(text.find(self._end_of_line, at), at) if text[at] == "#" else at
            at += 1
        return at

    def _start(self, node: ast.AST) -> int:
        span = self.document.span(node)
        return self.document.offset(span.row, span.column)

    def _end(self, node: ast.AST) -> int:
        span = self.document.span(node)
        return self.document.offset(span.end_row, span.end_column)

    def _text(self, begin: int, end: int) -> str:
        return self.document.text[begin:end]


def _indentation(document: Document, statement: ast.stmt) -> str:
    line = document.line(statement.lineno)
    return line[: len(line) - len(line.lstrip())]
