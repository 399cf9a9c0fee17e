"""Text that comes from a hostile project, made harmless for a terminal."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"  # they hold emoji and Indic syllables together and cannot move the cursor
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    """``text`` on one line: control, bidirectional and other invisible characters are written as escapes."""
    return text if text.isascii() and text.isprintable() else "".join(map(printable_char, text))


def printable_char(char: str) -> str:
    """``char``, or its escape when it could move the cursor, reorder or hide text."""
    if char.isprintable() or char in _JOINERS or unicodedata.category(char) not in _UNSAFE:
        return char
    return char.encode("unicode_escape").decode("ascii")


def width(text: str) -> int:
    """How many terminal cells ``text`` (printable) takes: wide characters two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if char in _JOINERS or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
