"""Texts that are no YAML, JSON or TOML until somebody fills them in: ``"batch": $BATCH``, ``"steps": {{ steps }}``.

They are read with numbers in the place of what is missing, so that every offset stays what it is. Where the text picks
its lines itself (``{% if fp16 %}``), nothing in it is known, and nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ..model import EditRefused, ReplaceText
from .text import ConfigText, Overlaid, TextEntry

_HOLE = re.compile(
    r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|(?P<value>\{\{[^{}\n]*\}\}|\$\{[^{}\n]*\}|\$\w+)"
    r"|(?P<choice>\{%[^%]*%\}|<%[^%]*%>)",
    re.DOTALL,
)
_VISIBLE = re.compile(r"[^\r\n]")


def open_with_holes(text: str, opener: Callable[[str], ConfigText]) -> ConfigText | None:
    """The text with its placeholders filled in; None where it has none. Raises ConfigUnreadable."""
    found = [match for match in _HOLE.finditer(text) if match.lastgroup is not None]
    if not found:
        return None
    pieces, at = [], 0
    for match in found:
        pieces += [text[at : match.start()], _VISIBLE.sub("1" if match.lastgroup == "value" else " ", match[0])]
        at = match.end()
    holes = [match.span() for match in found]
    return _WithHoles(text, opener("".join((*pieces, text[at:]))), holes, any(item["choice"] for item in found))


class _WithHoles(Overlaid):
    """Such a text, and the edits that touch no placeholder."""

    def __init__(self, text: str, inner: ConfigText, holes: list[tuple[int, int]], chooses: bool) -> None:
        super().__init__(inner)
        self._holes = holes
        self._chooses = chooses
        self.entries = tuple(self._seen(text, entry) for entry in inner.entries)

    def _seen(self, text: str, entry: TextEntry) -> TextEntry:
        if entry.container or not (self._chooses or self._touches(entry.start, entry.end)):
            return entry
        return replace(entry, value=None, raw=text[entry.start : entry.end], style="template")

    def _touches(self, start: int, end: int) -> bool:
        return any(first < end and start < last for first, last in self._holes)

    def _passed_on(self, edit: Callable[[], ReplaceText]) -> ReplaceText:
        made = edit()
        if self._chooses or self._touches(made.start, made.end):
            raise EditRefused("a template decides what stands there")
        return made
