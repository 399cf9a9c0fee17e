"""One loop that reads bracketed values (JSON, TOML inline) into nodes; a dialect knows keys and scalars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .delimited import skip_blank
from .lines import row_of
from .text import MAX_DEPTH, ConfigUnreadable, Scalar
from .tree import Node


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a notation spells keys and scalars; both readers get (text, offset) and raise ConfigUnreadable."""

    separator: str
    comment: str
    key: Callable[[str, int], tuple[tuple[str, ...], int]]
    """Reads a (dotted) key; returns its parts and its end."""
    scalar: Callable[[str, int], tuple[Scalar, int, str]]
    """Reads a scalar; returns value, end and style."""


_CLOSER = {"mapping": "}", "sequence": "]"}
_OPENER = {"{": "mapping", "[": "sequence"}


def read_value(text: str, offset: int, dialect: Dialect, found: list[Node], node: Node) -> Node:
    """Read the value at ``offset`` into ``node`` (which has its key already), appending every node to ``found``."""
    _open(text, offset, dialect, found, node)
    boxes = [node] if node.container else []
    offset = offset + 1 if node.container else node.end
    needs_comma = False
    while boxes:
        box = boxes[-1]
        offset = skip_blank(text, offset, dialect.comment)
        mark = text[offset : offset + 1]
        if mark == _CLOSER[box.container]:
            box.end = offset = offset + 1
            boxes.pop()
            needs_comma = True
        elif mark == "," and needs_comma:
            offset += 1
            needs_comma = False
        elif needs_comma or not mark:
            raise ConfigUnreadable(row_of(text, offset), f"expected ',' or '{_CLOSER[box.container]}'")
        else:
            child = _member(text, offset, dialect, box)
            offset = skip_blank(text, child.start, dialect.comment)
            _open(text, offset, dialect, found, child)
            needs_comma = not child.container
            offset = offset + 1 if child.container else child.end
            if child.container:
                boxes.append(child)
                if len(boxes) > MAX_DEPTH:
                    raise ConfigUnreadable(row_of(text, offset), f"nested deeper than {MAX_DEPTH} levels")
    return node


def _member(text: str, offset: int, dialect: Dialect, box: Node) -> Node:
    """A node with its key read; its ``start`` is where the search for the value begins."""
    if box.container == "sequence":
        key: tuple[str | int, ...] = (*box.key, len(box.children))
        child = Node(key, offset, offset, offset, offset, parent=box, item_start=offset)
    else:
        parts, key_end = dialect.key(text, offset)
        colon = skip_blank(text, key_end, dialect.comment)
        if not text.startswith(dialect.separator, colon):
            raise ConfigUnreadable(row_of(text, offset), f"expected '{dialect.separator}' after a key")
        key = (*box.key, *parts)
        child = Node(key, colon + 1, colon + 1, offset, key_end, parent=box, item_start=offset)
    box.children.append(child)
    return child


def _open(text: str, offset: int, dialect: Dialect, found: list[Node], node: Node) -> None:
    node.start = node.end = offset
    if node.parent is not None and node.parent.container == "sequence":
        node.key_start = node.key_end = node.item_start = offset
    node.container = _OPENER.get(text[offset : offset + 1], "")
    if node.container:
        node.style = "flow"
    else:
        node.value, node.end, node.style = dialect.scalar(text, offset)
    found.append(node)
