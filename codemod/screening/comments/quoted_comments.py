"""Comments of formats in which only quotes can hide one: JSON, TOML, requirements and other lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ...source.documents import Document
from .layout import LayoutBuilder

_JSON = re.compile(
    r"""(?P<string>"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"?|'[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*'?)"""
    r"|(?P<comment>//[^\r\n]*|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
_TOML = re.compile(
    r'''(?P<string>"""(?:[^"\\]|\\.|"(?!""))*(?:"""(?:""?(?!"))?|\Z)|\'\'\'(?:[^']|'(?!''))*(?:\'\'\'(?:''?(?!'))?|\Z)'''
    r"""|"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"?|'[^'\r\n]*'?)"""
    r"|(?P<comment>#[^\r\n]*)",
    re.DOTALL,
)
_TEXT = re.compile(r"(?m)(?:^|(?<=[ \t]))(?P<comment>#[^\r\n]*)")
_INI = re.compile(r"(?m)^[ \t]*(?P<comment>#[^\r\n]*)")


def _read_json(builder: LayoutBuilder, document: Document) -> None:
    _read(_JSON, builder)


def _read_toml(builder: LayoutBuilder, document: Document) -> None:
    _read(_TOML, builder)


def _read(pattern: re.Pattern[str], builder: LayoutBuilder) -> None:
    """Note all comments; a string over several rows makes these one line."""
    for found in pattern.finditer(builder.text):
        if found["comment"] is not None:
            builder.comment(found.start(), found.end())
        else:
            first, last = builder.row(found.start()), builder.row(found.end() - 1)
            builder.joined(first, last)
            builder.string(first, last)


def _read_text(builder: LayoutBuilder, document: Document) -> None:
    _read_rows(_TEXT, builder)


def _read_ini(builder: LayoutBuilder, document: Document) -> None:
    _read_rows(_INI, builder)


def _read_rows(pattern: re.Pattern[str], builder: LayoutBuilder) -> None:
    """One comment a row; a backslash at the end joins the next row, as requirement files have it."""
    first = 0
    for row, start in enumerate(builder.starts, 1):
        end = builder.line_end(start)
        found = pattern.search(builder.text[start:end])
        if found is not None and not first:
            builder.comment(start + found.start("comment"))
        elif builder.text[start:end].endswith("\\"):
            first = first or row
            continue
        if first:
            builder.joined(first, row)
            if found is not None:
                builder.comment(start + found.start("comment"))
        first = 0


READERS: Mapping[str, Callable[[LayoutBuilder, Document], None]] = {
    "json": _read_json,
    "toml": _read_toml,
    "text": _read_text,
    "ini": _read_ini,
}
