"""TOML texts: a scanner that knows the places, checked against a real parser that knows the data.

Where both do not agree the text is unreadable: what is not understood is never edited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..model import EditRefused, ReplaceText
from .delimited import Members, skip_blank
from .json_text import members, separator
from .lines import line_end, line_start, newline_of, row_of, whole_lines
from .nesting import Dialect, read_value
from .text import MAX_DEPTH, ConfigText, ConfigUnreadable, Scalar, TextEntry
from .toml_scalars import loads, read_key, read_scalar, spell, spell_key
from .tree import Node, TreeText, replacing, unchanged_unless_scalar

_DIALECT = Dialect("=", "#", read_key, read_scalar)


def open_toml(text: str) -> ConfigText:
    """Read a TOML text. Raises ConfigUnreadable."""
    scan = _Scan(text)
    scan.read()
    try:
        data = loads(text)
    except RecursionError as error:
        raise ConfigUnreadable(1, "nested too deeply") from error
    except ValueError as error:
        raise ConfigUnreadable(1, f"not TOML: {error}") from error
    if not _agree(scan.found, data):
        raise ConfigUnreadable(1, "TOML whose layout is not understood")
    return TomlText(text, scan.found, scan.root, scan.tables)


@dataclass
class _Scan:
    """The state of one pass over the lines."""

    text: str
    root: Node = field(default_factory=lambda: Node((), 0, 0, 0, 0, container="mapping", style="block"))
    found: list[Node] = field(default_factory=list)
    tables: list[Node] = field(default_factory=list)
    lengths: dict[tuple[str | int, ...], int] = field(default_factory=dict)
    """How many ``[[tables]]`` each array of tables has so far."""

    def read(self) -> None:
        table, offset = self.root, skip_blank(self.text, 0, "#")
        while offset < len(self.text):
            if self.text[offset] == "[":
                table, offset = self._header(offset)
            else:
                offset = self._pair(table, offset)
            offset = skip_blank(self.text, self._finish_line(offset), "#")

    def _finish_line(self, offset: int) -> int:
        end = Members(self.text, 0, len(self.text), (), "#").rest_of_line(offset)
        if end < 0:
            raise ConfigUnreadable(row_of(self.text, offset), "text after the end of a TOML value")
        return end

    def _header(self, offset: int) -> tuple[Node, int]:
        bracket = "[[" if self.text.startswith("[[", offset) else "["
        key_start = skip_blank(self.text, offset + len(bracket), "#")
        parts, key_end = read_key(self.text, key_start)
        closed = skip_blank(self.text, key_end, "#")
        if not self.text.startswith(bracket.replace("[", "]"), closed) or len(parts) > MAX_DEPTH:
            raise ConfigUnreadable(row_of(self.text, offset), "a table header that does not end")
        end = closed + len(bracket)
        path = self._path(parts, grows=bracket == "[[")
        table = Node(path, offset, end, key_start, key_end, container="mapping", style="block", item_start=offset)
        self.tables.append(table)
        self.found.append(table)
        return table, end

    def _path(self, parts: tuple[str, ...], grows: bool) -> tuple[str | int, ...]:
        path: tuple[str | int, ...] = ()
        for number, part in enumerate(parts):
            path = (*path, part)
            if grows and number == len(parts) - 1:
                self.lengths[path] = self.lengths.get(path, 0) + 1
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)
        return path

    def _pair(self, table: Node, offset: int) -> int:
        parts, key_end = read_key(self.text, offset)
        equals = skip_blank(self.text, key_end, "#")
        if not self.text.startswith("=", equals) or len(parts) > MAX_DEPTH:
            raise ConfigUnreadable(row_of(self.text, offset), "expected 'key = value' or a table header")
        node = Node((*table.key, *parts), offset, offset, offset, key_end, parent=table, item_start=offset)
        table.children.append(node)
        read_value(self.text, skip_blank(self.text, equals + 1, "#"), _DIALECT, self.found, node)
        table.end = node.end
        return node.end


class TomlText(TreeText):
    """A TOML text and its edits."""

    def __init__(self, text: str, nodes: list[Node], root: Node, tables: list[Node]) -> None:
        super().__init__(text, nodes)
        self._root = root
        self._tables = tables

    def set(self, entry: TextEntry, value: Scalar) -> ReplaceText:
        """Write ``value`` over the present one, with the same kind of quotes where possible."""
        node = self._node(entry)
        unchanged_unless_scalar(node)
        return replacing(node, spell(value, self._text[node.start : node.end]))

    def remove(self, entry: TextEntry, *, with_value: bool = True) -> ReplaceText:
        """Remove a key with its line, a member with its comma, or a table with everything below it."""
        node = self._node(entry)
        if node.parent is None:
            first, last = self._extent(node)
        elif node.parent.style == "flow":
            return members(self._text, node.parent, "#").remove(node.parent.children.index(node))
        else:
            first, last = node.item_start, node.end
        return ReplaceText(*whole_lines(self._text, first, line_end(self._text, last)), "")

    def insert(self, section: TextEntry | None, key: str, value: Scalar) -> ReplaceText:
        """Add a key after the last one of the table itself (never of a table below it)."""
        table = self._root if section is None else self._node(section)
        if table.container != "mapping":
            raise EditRefused("keys can only be added to a table")
        pair = f"{spell_key(key)}{separator(self._text, table, ' = ')}{spell(value, '')}"
        if table.style == "flow":
            return members(self._text, table, "#").insert(pair)
        if not table.children and table is self._root:
            return self._insert_first(pair)
        before = table.children[-1].item_start if table.children else table.start
        lead = self._text[line_start(self._text, before) : before]
        at = line_end(self._text, table.end)
        return ReplaceText(at, at, f"{newline_of(self._text)}{lead}{pair}")

    def _insert_first(self, pair: str) -> ReplaceText:
        """The first top-level key: above the first table and the comment that belongs to it."""
        text = self._text
        newline = newline_of(text)
        if not self._tables:
            gap = "" if not text or text.endswith("\n") else newline
            return ReplaceText(len(text), len(text), f"{gap}{pair}{newline}")
        at = line_start(text, self._tables[0].start)
        while at and text[line_start(text, at - 1) : at].lstrip(" \t").startswith("#"):
            at = line_start(text, at - 1)
        return ReplaceText(at, at, f"{pair}{newline}")

    def _extent(self, table: Node) -> tuple[int, int]:
        size = len(table.key)
        below = [number for number, other in enumerate(self._tables) if other.key[:size] == table.key]
        if below != list(range(below[0], below[0] + len(below))):
            raise EditRefused("the table is written in several places")
        return table.start, self._tables[below[-1]].end


def _agree(found: list[Node], data: dict[str, object]) -> bool:
    """Whether the scanner's leaves are exactly the parser's, value for value."""
    boxes = {node.key for node in found if node.container}
    mine = [node for node in found if not node.container]
    theirs: dict[tuple[str | int, ...], object] = {}
    pending: list[tuple[tuple[str | int, ...], object]] = [((), data)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending.extend(((*path, str(key)), inner) for key, inner in value.items())
        elif isinstance(value, list):
            pending.extend(((*path, number), inner) for number, inner in enumerate(value))
        else:
            theirs[path] = value
            continue
        if path and not value and path not in boxes:
            return False
    if len(mine) != len(theirs):
        return False
    return all(node.key in theirs and _same(node.value, theirs[node.key]) for node in mine)


def _same(mine: Scalar, theirs: object) -> bool:
    if isinstance(theirs, float) and math.isnan(theirs):
        return isinstance(mine, float) and math.isnan(mine)
    if isinstance(theirs, str | int | float):
        return type(mine) is type(theirs) and mine == theirs
    return isinstance(mine, str)  # dates and times are kept as written
