"""Configuration texts with all their ugliness, drawn by hypothesis, and readers of them that are not precfix's own.

Every comment carries a number of its own, so that a lost one can be told. What a text says is told as a `Box` of pairs:
repeated keys, anchors and aliases stay what they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from hypothesis import strategies as st

try:
    from tomllib import loads as load_toml
except ImportError:  # Python 3.10
    import tomlkit

    def load_toml(text: str) -> dict[str, Any]:
        return dict(tomlkit.parse(text).unwrap())


__all__ = ["Box", "Leaf", "json_said", "jsonc_texts", "load_toml", "toml_texts", "yaml_said", "yaml_texts"]


@dataclass(slots=True)
class Leaf:
    """A scalar: its value, with an explicit tag; or an alias."""

    value: object
    tag: str = ""


@dataclass(slots=True)
class Box:
    """A mapping (pairs) or a sequence (pairs without keys)."""

    kind: str
    tag: str = ""
    pairs: list[tuple[object, Said]] = field(default_factory=list)

    def all(self) -> Iterator[tuple[Box, int]]:
        """Every place below, in text order."""
        for number, (_, inner) in enumerate(list(self.pairs)):
            yield self, number
            if isinstance(inner, Box):
                yield from inner.all()


Said: TypeAlias = "Leaf | Box"


def yaml_said(text: str) -> list[Box | Leaf]:
    """Each document of a YAML stream, by PyYAML's events."""
    roots: list[Box | Leaf] = []
    open_boxes: list[tuple[Box, list[object]]] = []

    def add(said: Box | Leaf) -> None:
        if not open_boxes:
            roots.append(said)
            return
        box, waiting = open_boxes[-1]
        if box.kind == "sequence":
            box.pairs.append((None, said))
        elif waiting:
            box.pairs.append((waiting.pop(), said))
        else:
            waiting.append(said.value if isinstance(said, Leaf) else repr(said))

    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            add(Leaf(f"*{event.anchor}", "alias"))
        elif isinstance(event, yaml.ScalarEvent):
            add(_yaml_leaf(event))
        elif isinstance(event, yaml.CollectionStartEvent):
            kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            open_boxes.append((Box(kind, f"{event.tag or ''}&{event.anchor or ''}"), []))
        elif isinstance(event, yaml.CollectionEndEvent):
            add(open_boxes.pop()[0])
    return roots


def _yaml_leaf(event: yaml.ScalarEvent) -> Leaf:
    resolver = yaml.SafeLoader("")
    tag = event.tag or resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
    if not tag.startswith("tag:yaml.org,2002:"):
        return Leaf(event.value, tag)
    value = resolver.construct_object(yaml.ScalarNode(tag, event.value))  # type: ignore[no-untyped-call]
    return Leaf(value, event.tag or "")


def json_said(text: str) -> list[Box | Leaf]:
    """A JSON text with comments and trailing commas, by the standard library."""

    def pairs(found: list[tuple[str, object]]) -> Box:
        return Box("mapping", "", [(key, _json(value)) for key, value in found])

    return [_json(json.loads(_plain_json(text), object_pairs_hook=pairs))]


def _json(value: object) -> Box | Leaf:
    if isinstance(value, list):
        return Box("sequence", "", [(None, _json(item)) for item in value])
    return value if isinstance(value, Box) else Leaf(value)


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|,', re.DOTALL)


def _plain_json(text: str) -> str:
    """Without comments, and without commas that end a list: those stand right before a bracket."""
    bare = _TOKEN.sub(lambda found: " " if found[0].startswith("/") else found[0], text)
    return _TOKEN.sub(lambda found: "" if found[0] == "," and _closes(bare, found.end()) else found[0], bare)


def _closes(text: str, at: int) -> bool:
    return text[at:].lstrip()[:1] in ("]", "}")


# --- layouts ----------------------------------------------------------------------------------------------------------

KEYS = ["bf16", "loss_scale", "fp16", "a b", "no", "\u00e9", "x-y", "1", "mixed_precision"]
PLAIN = [
    "bf16",
    "16-mixed",
    "no",
    "true",
    "null",
    "~",
    "1e-5",
    "0x1F",
    "1_000",
    ".5",
    "2024-01-01",
    "a b",
    "\u00e9\U0001f600",
]
TEXTS = [
    "",
    "bf16",
    "it's",
    'say "x"',
    "# no comment",
    "a: b",
    "- x",
    "\\t",
    "tab\there",
    "{{ x }}",
    "\u2028",
    "x" * 300,
]


@dataclass(slots=True)
class Pen:
    """Draws the small decisions of a layout."""

    draw: st.DrawFn
    newline: str
    comments: int = 0

    def one(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def comment(self, mark: str) -> str:
        self.comments += 1
        return f"{mark}{self.one('', ' ')}c{self.comments}c{self.one('', ' key: 1', ' , ] }', ' é')}"

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


@st.composite
def _texts(draw: st.DrawFn, write: Callable[[Pen], str]) -> str:
    pen = Pen(draw, draw(st.sampled_from(["\n", "\n", "\r\n", "\r"])))
    text = write(pen)
    text = text.rstrip("\n") if pen.chance(20) else text
    mixed = pen.chance(10)
    if mixed and pen.newline == "\r\n":
        return re.sub("\n", lambda found: "\r\n" if found.start() % 2 else "\n", text)
    return text.replace("\n", pen.newline)


def yaml_texts() -> st.SearchStrategy[str]:
    """YAML: block and flow, anchors, tags, block scalars, several documents, repeated keys, comments everywhere."""
    return _texts(_yaml).filter(_is_yaml)


def _is_yaml(text: str) -> bool:
    try:
        yaml_said(text)
    except (yaml.YAMLError, ValueError):
        return False
    return True


def _yaml(pen: Pen) -> str:
    documents = []
    for number in range(pen.number(1, 2)):
        anchors: list[str] = []
        body = _yaml_block(pen, 0, 2, anchors)
        head = (
            ""
            if number == 0 and pen.chance(60)
            else pen.one("---\n", "--- # head\n", "%YAML 1.1\n---\n" if number == 0 else "---\n")
        )
        documents.append(head + body)
    return "".join(documents) + pen.one("", "", "...\n", "\n\n", f"{pen.comment('#')}\n")


def _yaml_block(pen: Pen, indent: int, depth: int, anchors: list[str], kind: str = "") -> str:
    kind = kind or pen.one("mapping", "mapping", "sequence")
    lines = []
    lead = " " * indent
    keys = (
        [pen.one(*KEYS) for _ in range(pen.number(1, 4))]
        if pen.chance(10)
        else pen.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
    )
    colon = pen.one(": ", ": ", ":   ", " : ")
    for key in keys:
        if pen.chance(25):
            lines.append(pen.one(lead, "", lead + "  ") + pen.comment("#") + "\n")
        if pen.chance(10):
            lines.append(pen.one("\n", "  \n"))
        opener = f"{lead}{_yaml_key(pen, key)}{colon}" if kind == "mapping" else f"{lead}-{pen.one(' ', '   ')}"
        lines.append(opener + _yaml_value(pen, indent, depth, anchors, kind, len(opener)))
    return "".join(lines)


def _yaml_key(pen: Pen, key: str) -> str:
    return pen.one(key, key, f'"{key}"', f"'{key}'")


def _yaml_value(pen: Pen, indent: int, depth: int, anchors: list[str], kind: str, column: int) -> str:
    """The value with the end of its line, and the lines below."""
    ending = (pen.one(" ", "   ") + pen.comment("#") if pen.chance(20) else pen.one("", "", " ")) + "\n"
    choice = pen.number(0, 99)
    if depth and choice < 25:
        inner = pen.one("mapping", "sequence")
        deeper = indent if kind == "mapping" and inner == "sequence" and pen.chance(40) else indent + pen.number(1, 4)
        below = _yaml_block(pen, deeper, depth - 1, anchors, inner)
        return _yaml_properties(pen, anchors, True).rstrip() + ending + below
    if choice < 33 and kind == "sequence" and depth:
        return _compact(pen, column)
    if choice < 45:
        return _yaml_properties(pen, anchors, False) + _yaml_flow(pen, indent, depth) + ending
    if choice < 55:
        head = pen.one("|", ">", "|-", ">-", "|+", ">+") + pen.one("", f" {pen.comment('#')}")
        more = [
            " " * (indent + 2) + pen.one("bf16", "a: 1", "# no comment", "  deeper", "\u00e9")
            for _ in range(pen.number(1, 3))
        ]
        return head + "\n" + "\n".join(more) + "\n" + pen.one("", "\n")
    if choice < 60 and anchors:
        return f"*{pen.one(*anchors)}{ending}"
    if choice < 65:
        return ending
    if choice < 70:
        quote = pen.one('"', "'")
        return f"{quote}two\n{' ' * (indent + 3)}lines{quote}{ending}"
    return _yaml_properties(pen, anchors, False) + _yaml_scalar(pen) + ending


def _compact(pen: Pen, column: int) -> str:
    first, *rest = pen.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    lines = [f"{first}: {_yaml_scalar(pen)}\n"] + [f"{' ' * column}{key}: {_yaml_scalar(pen)}\n" for key in rest]
    return "".join(lines)


def _yaml_properties(pen: Pen, anchors: list[str], box: bool) -> str:
    tag = "" if box or not pen.chance(8) else pen.one("!ref ", "!!str ")
    if not pen.chance(12):
        return tag
    anchors.append(f"a{len(anchors)}")
    return f"{tag}&{anchors[-1]} "


def _yaml_scalar(pen: Pen) -> str:
    style = pen.number(0, 3)
    if style == 0:
        return json.dumps(pen.one(*TEXTS), ensure_ascii=pen.chance(50))
    if style == 1:
        return "'" + pen.one(*[text for text in TEXTS if "\u2028" not in text]).replace("'", "''") + "'"
    return pen.one(*PLAIN)


def _yaml_flow(pen: Pen, indent: int, depth: int) -> str:
    gap = pen.one("", " ", "\n" + " " * (indent + 4))
    inner = [
        _yaml_flow(pen, indent, depth - 1) if depth and pen.chance(20) else _yaml_scalar(pen)
        for _ in range(pen.number(0, 3))
    ]
    tail = "," if inner and pen.chance(15) else ""
    if pen.chance(50):
        return "[" + gap + f",{gap or ' '}".join(inner) + tail + gap + "]"
    keys = pen.draw(st.lists(st.sampled_from(KEYS), min_size=len(inner), max_size=len(inner), unique=True))
    pairs = [f"{_yaml_key(pen, key)}: {item}" for key, item in zip(keys, inner, strict=True)]
    return "{" + gap + f",{gap or ' '}".join(pairs) + tail + gap + "}"


def jsonc_texts() -> st.SearchStrategy[str]:
    """JSON with comments, trailing commas, repeated keys, any blanks."""
    return _texts(_jsonc)


def _jsonc(pen: Pen) -> str:
    head = pen.one("", "", "// c0c head\n", "/* c0c\n * head */\n")
    return head + _json_value(pen, 3, 0, "mapping") + pen.one("\n", "", "  // c9999c end\n")


def _json_value(pen: Pen, depth: int, indent: int, kind: str = "") -> str:
    kind = kind or pen.one("scalar", "scalar", "scalar", *(["mapping", "sequence"] if depth else []))
    if kind == "scalar":
        return pen.one(
            "true", "null", "16", "-1.5e-3", '"auto"', '"// no comment, ] }"', '"\\u00e9\\n\\""', '"/* x */"', '""'
        )
    one_line = pen.chance(35)
    gap = pen.one("", " ") if one_line else "\n" + " " * (indent + pen.number(1, 4))
    parts = []
    for _ in range(pen.number(0, 4)):
        before = pen.comment("//") + "\n" if not one_line and pen.chance(15) else ""
        before = f"/* {pen.comment('')} */ " if not before and pen.chance(10) else before
        key = f'"{pen.one(*KEYS)}"{pen.one(":", ": ", " : ")}' if kind == "mapping" else ""
        after = " " + pen.comment("//") if not one_line and pen.chance(20) else ""
        parts.append((before, key + _json_value(pen, depth - 1, indent + 2), after))
    brackets = "{}" if kind == "mapping" else "[]"
    text = brackets[0]
    for number, (before, member, after) in enumerate(parts):
        comma = "," if number + 1 < len(parts) or pen.chance(15) else ""
        if before.startswith("//"):
            before = before + gap.lstrip("\n")
        text += gap + before + member + comma + after
    closing = ("" if one_line else "\n" + " " * indent) if parts else ""
    return text + closing + brackets[1]


def toml_texts() -> st.SearchStrategy[str]:
    """TOML: dotted and quoted keys, tables, arrays of tables, inline tables, strings over several lines."""
    return _texts(_toml).filter(_is_toml)


def _is_toml(text: str) -> bool:
    try:
        load_toml(text)
    except ValueError:
        return False
    return True


def _toml(pen: Pen) -> str:
    lines = [_toml_pairs(pen, "")]
    names = pen.draw(
        st.lists(st.sampled_from(["tool", "a.b", '"x y"', "t", "fp16", "a.'b.c'"]), max_size=4, unique=True)
    )
    for name in names:
        for _ in range(pen.number(1, 2) if pen.chance(30) else 1):
            lines.append(pen.one("", "\n", f"{pen.comment('#')}\n"))
            double = name == "t"
            lines.append(f"{'[[' if double else '['}{pen.one('', ' ')}{name}{']]' if double else ']'}")
            lines.append(pen.one("\n", f" {pen.comment('#')}\n"))
            lines.append(_toml_pairs(pen, pen.one("", "  ", "\t")))
            if not double:
                break
    return "".join(lines)


def _toml_pairs(pen: Pen, lead: str) -> str:
    names = ["bf16", "loss_scale", "sub.x", "sub.y", '"a b"', "'no'", "1", "x-y"]
    keys = pen.draw(st.lists(st.sampled_from(names), max_size=4, unique=True))
    lines = []
    for key in keys:
        if pen.chance(20):
            lines.append(f"{lead}{pen.comment('#')}\n")
        ending = pen.one("\n", "\n", "  \n", f" {pen.comment('#')}\n")
        equals = pen.one(" = ", "=", "   =\t")
        lines.append(f"{lead}{key}{equals}{_toml_value(pen, 2)}{ending}")
    return "".join(lines)


def _toml_value(pen: Pen, depth: int) -> str:
    choice = pen.number(0, 99)
    if depth and choice < 12:
        keys = pen.draw(st.lists(st.sampled_from(["a", "b.c", '"d e"']), max_size=3, unique=True))
        return "{" + pen.one("", " ") + ", ".join(f"{key} = {_toml_value(pen, depth - 1)}" for key in keys) + "}"
    if depth and choice < 25:
        gap = pen.one("", " ", "\n    ", f" {pen.comment('#')}\n  ")
        items = [_toml_value(pen, 0) for _ in range(pen.number(0, 3))]
        tail = "," if items and pen.chance(30) else ""
        return "[" + gap + f",{gap}".join(items) + tail + pen.one("", "\n", " ") + "]"
    if choice < 32 and depth == 2:
        return pen.one('"""\nbf16\n  [x]\n# no comment"""', "'''\n'a' = 1\n'''", '"""a \\\n   b"""')
    return pen.one(
        "true", "16", "1_000", "0x1F", "1e-5", "inf", '"bf16"', "'fp16'", '"\\u00e9"', "1979-05-27", '"# x"', '""'
    )
