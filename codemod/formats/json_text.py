"""JSON texts, read tolerantly: comments, trailing commas, NaN, odd numbers, any layout."""

from __future__ import annotations

import json
import re

from ..model import EditRefused, ReplaceText
from .delimited import Members, skip_blank
from .lines import row_of
from .nesting import Dialect, read_value
from .text import ConfigText, ConfigUnreadable, Scalar, TextEntry
from .tree import Node, TreeText, replacing, unchanged_unless_scalar

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_WORD = re.compile(r"[^\s,:\[\]{}\"/#]+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORDS: dict[str, Scalar] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_LONGEST_INTEGER = 4000
"""Digits; Python refuses to convert more than 4300."""


def open_json(text: str) -> ConfigText:
    """Read a JSON text. Raises ConfigUnreadable."""
    found: list[Node] = []
    start = skip_blank(text, 0, "//")
    root = read_value(text, start, _JSON, found, Node((), start, start, start, start, item_start=start))
    rest = skip_blank(text, root.end, "//")
    if rest < len(text):
        raise ConfigUnreadable(row_of(text, rest), "text after the end of the JSON value")
    return JsonText(text, found[1:] if root.container else found, root)


class JsonText(TreeText):
    """A JSON text and its edits."""

    def __init__(self, text: str, nodes: list[Node], root: Node) -> None:
        super().__init__(text, nodes)
        self._root = root

    def set(self, entry: TextEntry, value: Scalar) -> ReplaceText:
        """Write ``value`` over the present one."""
        node = self._node(entry)
        unchanged_unless_scalar(node)
        return replacing(node, spell(value))

    def remove(self, entry: TextEntry, *, with_value: bool = True) -> ReplaceText:
        """Remove the member with its comma."""
        node = self._node(entry)
        if node.parent is None:
            raise EditRefused("the whole document cannot be removed")
        return members(self._text, node.parent, "//").remove(node.parent.children.index(node))

    def insert(self, section: TextEntry | None, key: str, value: Scalar) -> ReplaceText:
        """Add a member after the last one of ``section``."""
        box = self._root if section is None else self._node(section)
        if box.container != "mapping":
            raise EditRefused("keys can only be added to an object")
        member = f"{json.dumps(key)}{separator(self._text, box, ': ')}{spell(value)}"
        return members(self._text, box, "//").insert(member)


def members(text: str, box: Node, comment: str) -> Members:
    """The members of a bracketed container."""
    spans = tuple((child.item_start, child.end) for child in box.children)
    return Members(text, box.start + 1, box.end - 1, spans, comment)


def separator(text: str, box: Node, default: str) -> str:
    """What stands between key and value in the last member, when it is the separator and blanks only."""
    if not box.children:
        return default
    last = box.children[-1]
    written = text[last.key_end : last.start]
    return written if written.strip(" \t") == default.strip() else default


def spell(value: Scalar) -> str:
    """``value`` as JSON. Raises EditRefused for NaN and infinities."""
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
        written.encode()
    except ValueError as error:
        raise EditRefused(f"{value!r} has no JSON spelling") from error
    return written


def _key(text: str, offset: int) -> tuple[tuple[str, ...], int]:
    match = _STRING.match(text, offset)
    if match is None:
        raise ConfigUnreadable(row_of(text, offset), "expected a key in double quotes")
    return (_string(text, match),), match.end()


def _scalar(text: str, offset: int) -> tuple[Scalar, int, str]:
    match = _STRING.match(text, offset)
    if match is not None:
        return _string(text, match), match.end(), "double"
    word = _WORD.match(text, offset)
    if word is None:
        raise ConfigUnreadable(row_of(text, offset), "expected a JSON value")
    return _word(text, word), word.end(), "plain"


def _string(text: str, match: re.Match[str]) -> str:
    try:
        return str(json.loads(match[0], strict=False))
    except ValueError as error:
        raise ConfigUnreadable(row_of(text, match.start()), "a string with an invalid escape") from error


def _word(text: str, match: re.Match[str]) -> Scalar:
    word = match[0]
    if word in _WORDS:
        return _WORDS[word]
    if not _NUMBER.fullmatch(word):
        raise ConfigUnreadable(row_of(text, match.start()), f"{word[:40]!r} is not a JSON value")
    if word.lstrip("+-").isdigit() and len(word) < _LONGEST_INTEGER:
        return int(word)
    return float(word)


_JSON = Dialect(":", "//", _key, _scalar)
