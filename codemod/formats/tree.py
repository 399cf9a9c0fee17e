"""The tree behind the entries of YAML, JSON and TOML texts: spans of keys, values and brackets, nothing constructed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..model import EditRefused, ReplaceText
from .text import CommandLine, Heredoc, Scalar, TextEntry


@dataclass(slots=True, eq=False)
class Node:
    """A value, with the key before it. Offsets as in `TextEntry`."""

    key: tuple[str | int, ...]
    start: int
    end: int
    key_start: int
    key_end: int
    value: Scalar = None
    style: str = "plain"
    container: str = ""
    parent: Node | None = None
    item_start: int = -1
    """Where the key, or the list item with its tag and anchor, begins."""
    children: list[Node] = field(default_factory=list)
    document: int = 0
    anchor: str = ""
    tag: str = ""
    alias_of: Node | None = None
    index: int = -1

    def inner(self) -> Iterator[Node]:
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children)


class TreeText:
    """Entries of a tree of nodes; the formats add the edits."""

    heredocs: tuple[Heredoc, ...] = ()
    commands: tuple[CommandLine, ...] = ()

    def __init__(self, text: str, nodes: list[Node]) -> None:
        self._text = text
        self._nodes = nodes
        for index, node in enumerate(nodes):
            node.index = index
        self.entries = tuple(self._entry(node) for node in nodes)
        self._by_key: dict[tuple[str | int, ...], list[TextEntry]] = {}
        for entry in self.entries:
            self._by_key.setdefault(entry.key, []).append(entry)

    def find(self, *key: str | int) -> tuple[TextEntry, ...]:
        """All entries with exactly this key path."""
        return tuple(self._by_key.get(key, ()))

    def _entry(self, node: Node) -> TextEntry:
        return TextEntry(
            key=node.key,
            value=node.value,
            raw="" if node.container else self._text[node.start : node.end],
            start=node.start,
            end=node.end,
            key_start=node.key_start,
            key_end=node.key_end,
            index=node.index,
            document=node.document,
            style=node.style,
            container=node.container,
            kind="item" if node.parent is not None and node.parent.container == "sequence" else "pair",
            anchor=node.anchor,
            alias_of=None if node.alias_of is None else node.alias_of.index,
            tag=node.tag,
        )

    def _node(self, entry: TextEntry) -> Node:
        return self._nodes[entry.index]


def unchanged_unless_scalar(node: Node) -> None:
    """Raise EditRefused for values that have no one place to respell."""
    if node.container or node.style == "template":
        raise EditRefused("the value is not a scalar")
    if node.style == "alias":
        raise EditRefused(f"the value is written elsewhere, at the anchor &{node.anchor}")
    if node.style == "block":
        raise EditRefused("the value is a block of several lines")


def replacing(node: Node, text: str) -> ReplaceText:
    """The edit that writes ``text`` over the value."""
    return ReplaceText(node.start, node.end, text)
