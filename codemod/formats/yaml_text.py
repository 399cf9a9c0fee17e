"""YAML texts: edits by span, in block and in flow layout."""

from __future__ import annotations

from ..model import EditRefused, ReplaceText
from .delimited import Members
from .json_text import members
from .lines import YAML_BREAKS, is_blank, line_end, line_start, newline_of, next_line, whole_lines
from .text import ConfigText, Scalar, TextEntry
from .tree import Node, TreeText, replacing, unchanged_unless_scalar
from .yaml_nodes import YamlReader, mark_templates
from .yaml_scalars import is_plain_text, spell


def open_yaml(text: str) -> ConfigText:
    """Read a YAML stream of any number of documents. Raises ConfigUnreadable."""
    reader = YamlReader(text)
    reader.read()
    return YamlText(text, mark_templates(text, reader.nodes), reader.roots)


class YamlText(TreeText):
    """A YAML stream and its edits."""

    def __init__(self, text: str, nodes: list[Node], roots: list[Node]) -> None:
        super().__init__(text, nodes)
        self._roots = roots

    def set(self, entry: TextEntry, value: Scalar) -> ReplaceText:
        """Write ``value`` over the present one; tag and anchor stay."""
        node = self._node(entry)
        unchanged_unless_scalar(node)
        raw = self._text[node.start : node.end]
        if any(mark in raw for mark in YAML_BREAKS):
            raise EditRefused("the value is written over several lines")
        written = spell(value, node.style, raw, node.tag)
        if node.style == "absent":
            self._needs_colon(node)
            glued = not self._text[node.start - 1 : node.start].isspace()
            return ReplaceText(node.start, node.start, f" {written}" if glued else written)
        return replacing(node, written)

    def remove(self, entry: TextEntry, *, with_value: bool = True) -> ReplaceText:
        """Remove a key or list item with its line and own comment, or with its comma in flow layout."""
        node = self._node(entry)
        if node.parent is None:
            raise EditRefused("the whole document cannot be removed")
        self._keeps_anchors(node)
        if node.parent.style == "flow":
            if self._text[node.parent.start] not in "[{":
                raise EditRefused("a pair without braces inside a list")
            return self._members(node.parent).remove(node.parent.children.index(node))
        return self._remove_block(node, node.parent)

    def insert(self, section: TextEntry | None, key: str, value: Scalar) -> ReplaceText:
        """Add a key after the last one of ``section``; None means the first document's top level."""
        if section is None and not self._roots:
            return self._first_key(key, value)
        box = self._roots[0] if section is None else self._node(section)
        if box.container != "mapping":
            raise EditRefused("keys can only be added to a mapping")
        pair = self._pair(box, key, value)
        if box.style == "flow":
            return self._members(box).insert(pair)
        last = box.children[-1]
        head = self._head(box.children[0])
        indent = " " * (head - line_start(self._text, head, YAML_BREAKS))
        newline = newline_of(self._text)
        at = self._content_end(last)
        tail = _deepest(last)
        if tail.style == "block" and "+" in self._text[tail.start : tail.start + 3]:
            # Every newline behind a kept block is data, so the new key begins where the block ends.
            return ReplaceText(tail.end, tail.end, f"{indent}{pair}{newline}")
        if tail.style == "block" and at == len(self._text) and "-" not in self._text[tail.start : tail.start + 3]:
            raise EditRefused("the block of text before it would gain a newline")
        at = self._comment_end(at)
        return ReplaceText(at, at, f"{newline}{indent}{pair}")

    def _remove_block(self, node: Node, parent: Node) -> ReplaceText:
        text, head = self._text, self._head(node)
        first = line_start(text, head, YAML_BREAKS)
        last = self._comment_end(self._content_end(node))
        if len(parent.children) == 1:
            return ReplaceText(head, last, self._emptied(parent, head - first))
        if is_blank(text, first, head):
            if node.container:
                last = self._deeper_comments(last, head - first)
            return ReplaceText(*self._lines(first, last), "")
        number = parent.children.index(node)
        if number + 1 == len(parent.children):
            raise EditRefused("the key shares its line with something else")
        following = self._head(parent.children[number + 1])
        if text[last:following].strip():
            raise EditRefused("a comment between this key and the next would be lost")
        return ReplaceText(head, following, "")

    def _lines(self, first: int, last: int) -> tuple[int, int]:
        """Like `whole_lines`, but the newline that ends a block of text above is data and stays."""
        text = self._text
        start, end = whole_lines(text, first, last, YAML_BREAKS)
        above = [
            node
            for node in self._nodes
            if node.style == "block" and not node.container and node.start < first <= node.end
        ]
        keeps = any("+" in text[node.start : node.start + 3] for node in above)
        if keeps and end < len(text) and is_blank(text, end, line_end(text, end, YAML_BREAKS)):
            raise EditRefused("the block of text before it would gain a newline")
        return (first if above else start), end

    def _emptied(self, parent: Node, column: int) -> str:
        """What stands for a block without members; dashes may stand right below their key, brackets may not."""
        if parent.container == "mapping":
            return "{}"
        key_column = parent.item_start - line_start(self._text, parent.item_start, YAML_BREAKS)
        return "  []" if parent.key_end > parent.key_start and key_column >= column else "[]"

    def _head(self, node: Node) -> int:
        """Where a block pair or item begins: its key, or its dash."""
        if node.parent is None or node.parent.container == "mapping":
            if self._text[node.item_start : node.item_start + 1] == "?" or self._is_explicit(node):
                raise EditRefused("the key is written with '?'")
            return node.item_start
        at = node.item_start
        while at and self._text[at - 1] in " \t":
            at -= 1
        if not at or self._text[at - 1] != "-":
            raise EditRefused("the dash of the list item is on another line")
        return at - 1

    def _is_explicit(self, node: Node) -> bool:
        lead = self._text[line_start(self._text, node.item_start, YAML_BREAKS) : node.item_start].rstrip(" \t")
        return lead.endswith("?")

    def _content_end(self, node: Node) -> int:
        """Offset behind the last character that belongs to the value (not the blank tail of a block)."""
        tail = _deepest(node)
        if tail.style == "block" and not tail.container:
            return tail.start + len(self._text[tail.start : tail.end].rstrip())
        if tail.style == "absent" and tail.key_end > tail.start:
            return tail.key_end
        return tail.end

    def _comment_end(self, offset: int) -> int:
        end = line_end(self._text, offset, YAML_BREAKS)
        rest = self._text[offset:end]
        if rest.strip(" \t") and not rest.lstrip(" \t").startswith("#"):
            raise EditRefused("something else is on the same line")
        return end

    def _deeper_comments(self, end: int, column: int) -> int:
        """The end of the last comment line behind ``end`` that is indented deeper than ``column``."""
        at = next_line(self._text, end, YAML_BREAKS)
        while at < len(self._text):
            stop = line_end(self._text, at, YAML_BREAKS)
            line = self._text[at:stop]
            bare = line.lstrip(" ")
            if bare.startswith("#") and len(line) - len(bare) > column:
                end = stop
            elif bare.strip():
                break
            at = next_line(self._text, at, YAML_BREAKS)
        return end

    def _members(self, box: Node) -> Members:
        line = self._text[box.start : line_end(self._text, box.end)]
        if any(mark in line for mark in "\x85\u2028\u2029"):
            raise EditRefused("a line ends in an unusual character")
        if any(self._text[: child.item_start].rstrip().endswith("?") for child in box.children):
            raise EditRefused("a key is written with '?'")
        return members(self._text, box, "#")

    def _needs_colon(self, node: Node) -> None:
        if node.parent is not None and node.parent.container == "mapping":
            between = self._text[node.key_end : node.start]
            if ":" not in between:
                raise EditRefused("the key has no ':' to put a value after")

    def _keeps_anchors(self, node: Node) -> None:
        below = {id(part) for part in node.inner()}
        for other in self._nodes:
            if other.alias_of is not None and id(other.alias_of) in below and id(other) not in below:
                raise EditRefused(f"*{other.anchor} refers to what would be removed")

    def _pair(self, box: Node, key: str, value: Scalar) -> str:
        sample = self._text[box.children[-1].key_start : box.children[-1].key_end] if box.children else ""
        style = "double" if sample.startswith('"') else "single" if sample.startswith("'") else "plain"
        written = key if style == "plain" and is_plain_text(key) else spell(key, style, "", "")
        quoted_value = "double" if style == "double" and box.style == "flow" else "plain"
        return f"{written}: {spell(value, quoted_value, '', '')}"

    def _first_key(self, key: str, value: Scalar) -> ReplaceText:
        newline = newline_of(self._text)
        gap = "" if not self._text or self._text[-1] in YAML_BREAKS else newline
        size = len(self._text)
        return ReplaceText(
            size,
            size,
            f"{gap}{key if is_plain_text(key) else spell(key, 'single', '', '')}: "
            f"{spell(value, 'plain', '', '')}{newline}",
        )


def _deepest(node: Node) -> Node:
    """The node whose end is the end of ``node``."""
    while node.container and node.style == "block" and node.children:
        node = node.children[-1]
    return node
