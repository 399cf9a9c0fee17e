"""Keys and scalars of TOML: reading them at an offset, and spelling new ones."""

from __future__ import annotations

import json
import re
import sys
from datetime import date, time

from ..model import EditRefused
from .lines import row_of
from .text import ConfigUnreadable, Scalar

_STRINGS = (
    (re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""(?:""?(?!"))?', re.DOTALL), "block"),
    (re.compile(r"'''(?:[^']|'(?!''))*'''(?:''?(?!'))?", re.DOTALL), "block"),
    (re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'), "double"),
    (re.compile(r"'[^'\n]*'"), "single"),
)
_TOKEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]+|[^\s,\[\]{}#\"'=]+")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_MOST_PARTS = 200
_TOO_DEEP = re.compile(
    rf"""(?<![A-Za-z0-9_-])(?:(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_MOST_PARTS}}}"""
)
"""A key that takes a TOML parser quadratic time."""


def loads(text: str) -> dict[str, object]:
    """The data of a TOML text. Raises ValueError, RecursionError."""
    if text.count(".") >= _MOST_PARTS and _TOO_DEEP.search(text):
        raise ValueError(f"a key with more than {_MOST_PARTS} parts")
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return dict(tomlkit.parse(text).unwrap())
    except TOMLKitError as error:
        raise ValueError(str(error)) from error


def read_key(text: str, offset: int) -> tuple[tuple[str, ...], int]:
    """A dotted key: its parts and its end. Raises ConfigUnreadable."""
    parts: list[str] = []
    while len(parts) <= _MOST_PARTS:
        part, offset = _key_part(text, offset)
        parts.append(part)
        dot = _DOT.match(text, offset)
        if dot is None:
            return tuple(parts), offset
        offset = dot.end()
    raise ConfigUnreadable(row_of(text, offset), "a key with too many parts")


def read_scalar(text: str, offset: int) -> tuple[Scalar, int, str]:
    """A string, number, boolean or date: value (dates as written), end, style. Raises ConfigUnreadable."""
    for pattern, style in _STRINGS:
        match = pattern.match(text, offset)
        if match is not None:
            return _decode(text, offset, match[0]), match.end(), style
    token = _TOKEN.match(text, offset)
    if token is None:
        raise ConfigUnreadable(row_of(text, offset), "expected a TOML value")
    return _decode(text, offset, token[0]), token.end(), "plain"


def spell(value: Scalar, present: str) -> str:
    """``value`` as TOML, quoted like ``present`` when that is a string. Raises EditRefused."""
    if value is None:
        raise EditRefused("TOML has no null")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if present.startswith("'") and _printable(value) and "'" not in value:
        return f"'{value}'"
    return _basic(value)


def spell_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _basic(key)


def _basic(value: str) -> str:
    written = json.dumps(value, ensure_ascii=False)
    if not _printable(value.replace("\n", "").replace("\t", "")):
        raise EditRefused("the string has characters that TOML cannot hold")
    return written


def _printable(value: str) -> bool:
    return all(" " <= char != "\x7f" and not "\ud800" <= char <= "\udfff" for char in value)


def _key_part(text: str, offset: int) -> tuple[str, int]:
    bare = _BARE_KEY.match(text, offset)
    if bare is not None:
        return bare[0], bare.end()
    for pattern, style in _STRINGS:
        match = pattern.match(text, offset)
        if match is not None and style != "block":
            return str(_decode(text, offset, match[0])), match.end()
    raise ConfigUnreadable(row_of(text, offset), "expected a TOML key")


def _decode(text: str, offset: int, raw: str) -> Scalar:
    if raw in {"true", "false"}:
        return raw == "true"
    if _INTEGER.fullmatch(raw):
        return int(raw)
    if raw[0] == raw[-1] and raw[0] in "\"'" and "\\" not in raw and raw[:3] not in {'"""', "'''"}:
        return raw[1:-1]
    try:
        value = loads(f"x = {raw}\n")["x"]
    except (ValueError, KeyError) as error:
        raise ConfigUnreadable(row_of(text, offset), f"{raw[:40]!r} is not a TOML value") from error
    if isinstance(value, date | time):
        return raw
    return value if isinstance(value, str | int | float) else str(value)
