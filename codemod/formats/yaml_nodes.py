"""Reading a YAML stream into nodes from parser events: no constructor runs, no alias is expanded, nothing recurses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import yaml

from .lines import row_of
from .text import MAX_DEPTH, ConfigUnreadable
from .tree import Node
from .yaml_scalars import implicit_tag, scalar_value

_PROPERTY = re.compile(r"!<[^>]*>|[!&][^\s,\[\]{}]*")
_BLANK = re.compile(r"(?:[ \t\r\n\x85\u2028\u2029]|(?<=\s)#[^\r\n]*)*")
_COMPLEX_KEY = "?"
_STYLES = {"": "plain", "'": "single", '"': "double", "|": "block", ">": "block"}


@dataclass(slots=True)
class _Box:
    """An open collection: a mapping waits for a key when ``key`` is None."""

    node: Node
    key: tuple[str, int, int] | None = None
    is_key: bool = False
    """True for a collection that is itself a mapping's key."""


@dataclass(slots=True)
class YamlReader:
    """Collects the nodes of all documents."""

    text: str
    nodes: list[Node] = field(default_factory=list)
    roots: list[Node] = field(default_factory=list)
    _boxes: list[_Box] = field(default_factory=list)
    _anchors: dict[str, Node] = field(default_factory=dict)
    _document: int = -1

    def read(self) -> None:
        """Read the whole stream. Raises ConfigUnreadable."""
        try:
            # The pure loader: the C one misplaces offsets behind a byte order mark and accepts tabs others reject.
            for event in yaml.parse(self.text, Loader=yaml.SafeLoader):
                self._event(event)
        except yaml.YAMLError as error:
            raise self._unreadable(error) from error
        except (ValueError, OverflowError, RecursionError) as error:
            raise ConfigUnreadable(1, "not YAML: an invalid escape or number") from error

    def _event(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._document += 1
            self._anchors = {}
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        first, end = _marks(event)
        start = self._behind_properties(first, end)
        if self._takes_key():
            self._boxes[-1].key = (event.value, first, end)
            return
        node = self._place(first, start, end)
        node.style = _STYLES[event.style or ""]
        if node.style == "plain" and start == end:
            node.style = "absent"
        node.tag = event.tag or ""
        tag = node.tag or (implicit_tag(event.value) if event.implicit[0] else "")
        node.value = scalar_value(tag, event.value)
        self._anchor(node, event.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        first, end = _marks(event)
        target = self._anchors.get(event.anchor or "")
        if target is None:
            raise ConfigUnreadable(row_of(self.text, first), f"undefined alias *{event.anchor}")
        if self._takes_key():
            self._boxes[-1].key = (f"*{event.anchor}", first, end)
            return
        node = self._place(first, first, end)
        node.style = "alias"
        node.anchor = target.anchor
        node.value = target.value
        node.alias_of = target

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        first, _ = _marks(event)
        start = self._behind_properties(first, len(self.text))
        is_key = self._takes_key()
        node = Node((_COMPLEX_KEY,), start, start, first, first) if is_key else self._place(first, start, start)
        node.container = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
        node.style = "flow" if event.flow_style else "block"
        node.tag = event.tag or ""
        self._anchor(node, event.anchor)
        self._boxes.append(_Box(node, is_key=is_key))
        if len(self._boxes) > MAX_DEPTH:
            raise ConfigUnreadable(row_of(self.text, first), f"nested deeper than {MAX_DEPTH} levels")

    def _close(self, event: yaml.Event) -> None:
        box = self._boxes.pop()
        node = box.node
        if node.style == "flow":
            node.end = _marks(event)[1]
        elif node.children:
            # A block's own end mark stands at the next token, behind comments and blank lines.
            node.end = node.children[-1].end
        if box.is_key:
            self._boxes[-1].key = (_COMPLEX_KEY, node.start, node.end)

    def _takes_key(self) -> bool:
        return bool(self._boxes) and self._boxes[-1].node.container == "mapping" and self._boxes[-1].key is None

    def _place(self, first: int, start: int, end: int) -> Node:
        """A new node under the innermost open collection (or as a document's root)."""
        if not self._boxes:
            node = Node((), start, end, first, first, item_start=first, document=self._document)
            self.roots.append(node)
            return node
        box = self._boxes[-1]
        parent = box.node
        if box.key is None:
            key_start = key_end = first
            path: tuple[str | int, ...] = (*parent.key, len(parent.children))
        else:
            key, key_start, key_end = box.key
            path = (*parent.key, key)
            box.key = None
        node = Node(path, start, end, key_start, key_end, parent=parent, document=self._document)
        node.item_start = key_start
        parent.children.append(node)
        if not any(open_box.is_key for open_box in self._boxes):
            self.nodes.append(node)
        return node

    def _anchor(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            node.anchor = anchor
            self._anchors[anchor] = node

    def _behind_properties(self, start: int, end: int) -> int:
        """Where the value itself begins behind ``!tag`` and ``&anchor``."""
        while start < end and self.text[start] in "!&":
            found = _PROPERTY.match(self.text, start)
            if found is None:
                break
            behind = _BLANK.match(self.text, found.end())
            if found.end() >= end or behind is None or behind.end() > end:
                return end
            start = behind.end()
        return start

    def _unreadable(self, error: yaml.YAMLError) -> ConfigUnreadable:
        mark = getattr(error, "problem_mark", None)
        row = 1 if mark is None else mark.line + 1
        if re.search(r"\{\{|\{%|<%", self.text):
            return ConfigUnreadable(row, "a template ({{ ... }}), not YAML by itself")
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        return ConfigUnreadable(row, f"not YAML: {problem}")


def _marks(event: yaml.Event) -> tuple[int, int]:
    if event.start_mark is None or event.end_mark is None:
        raise ValueError("a parser event without a place")
    return event.start_mark.index, event.end_mark.index


def mark_templates(text: str, nodes: list[Node]) -> list[Node]:
    """Turn ``{{ x }}``, which parses as a mapping with a mapping for a key, into one opaque value."""
    kept: list[Node] = []
    templates: set[int] = set()
    for node in nodes:
        if node.parent is not None and id(node.parent) in templates:
            templates.add(id(node))
        elif node.container == "mapping" and node.style == "flow" and text.startswith("{{", node.start):
            templates.add(id(node))
            node.container, node.style, node.value = "", "template", None
            kept.append(node)
        else:
            kept.append(node)
    return kept
