"""Members of a bracketed list with commas: how one leaves and how one joins (JSON, YAML flow, TOML inline)."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import ReplaceText
from .lines import is_blank, line_end, line_start, newline_of, whole_lines


@dataclass(frozen=True, slots=True)
class Members:
    """``text[open:close]`` lies between the brackets; ``spans`` are the members without commas."""

    text: str
    open: int
    close: int
    spans: tuple[tuple[int, int], ...]
    comment: str
    """``#``, or ``//`` which brings ``/* */`` along."""

    def comma_after(self, offset: int) -> int:
        """Offset of the comma that follows, with only blanks and comments between, or -1."""
        offset = skip_blank(self.text, offset, self.comment)
        return offset if offset < self.close and self.text[offset] == "," else -1

    def rest_of_line(self, offset: int) -> int:
        """End of the line if only blanks and a comment follow ``offset``, else -1."""
        end = line_end(self.text, offset)
        at = offset
        while at < end and self.text[at] in " \t":
            at += 1
        if at == end or self.text.startswith(self.comment, at):
            return end
        closed = self.text.find("*/", at, end) if self.text.startswith("/*", at) and self.comment == "//" else -1
        return end if closed >= 0 and is_blank(self.text, closed + 2, end) else -1

    def remove(self, number: int) -> ReplaceText:
        """Take out one member with its comma; with its whole line and comment when it stands alone there."""
        start, end = self.spans[number]
        comma = self.comma_after(end)
        tail = comma + 1 if comma >= 0 else end
        before = self.comma_after(self.spans[number - 1][1]) if number else -1
        first, last = self._cut(start, tail, line_alone=comma >= 0 or before < 0 or self._alone(start, tail))
        if comma >= 0 or before < 0:
            return ReplaceText(first, last, "")
        # The comma that now ends the list goes too; what stands between (comments, line ends) stays.
        between = self.text[before + 1 : first]
        return ReplaceText(before, last, "" if is_blank(self.text, before + 1, first) else between)

    def insert(self, member: str) -> ReplaceText:
        """Put ``member`` after the last one, in the same layout."""
        if not self.spans:
            return self._insert_first(member)
        start, end = self.spans[-1]
        comma = self.comma_after(end)
        tail = comma + 1 if comma >= 0 else end
        lead = self.text[line_start(self.text, start) : start]
        added_comma = "" if comma >= 0 else ","
        closing_comma = "," if comma >= 0 else ""
        if lead.strip(" \t"):
            return ReplaceText(tail, tail, f"{added_comma}{self._gap()}{member}{closing_comma}")
        line = self.rest_of_line(tail)
        stop = tail if line < 0 else line
        kept = self.text[tail:stop]
        return ReplaceText(tail, stop, f"{added_comma}{kept}{newline_of(self.text)}{lead}{member}{closing_comma}")

    def _insert_first(self, member: str) -> ReplaceText:
        if not self.text[self.open : self.close].strip(" \t\r\n"):
            return ReplaceText(self.open, self.close, member)
        line = line_start(self.text, self.open)
        lead = self.text[line : self.open]
        indent = lead[: len(lead) - len(lead.lstrip(" \t"))] + "  "
        return ReplaceText(self.open, self.open, f"{newline_of(self.text)}{indent}{member}")

    def _alone(self, start: int, tail: int) -> bool:
        return is_blank(self.text, line_start(self.text, start), start) and self.rest_of_line(tail) >= 0

    def _cut(self, start: int, tail: int, line_alone: bool) -> tuple[int, int]:
        text = self.text
        if line_alone and self._alone(start, tail):
            return whole_lines(text, start, self.rest_of_line(tail))
        if is_blank(text, self.open, start) and is_blank(text, tail, self.close):
            return self.open, self.close
        after = tail
        while after < self.close and text[after] in " \t":
            after += 1
        at_line_end = after == line_end(text, tail) or after == self.close
        if not at_line_end:
            return start, after
        while start > self.open and text[start - 1] in " \t":
            start -= 1
        return start, tail

    def _gap(self) -> str:
        if len(self.spans) < 2:
            return " "
        comma = self.comma_after(self.spans[-2][1])
        return "" if comma + 1 == self.spans[-1][0] else " "


def skip_blank(text: str, offset: int, comment: str) -> int:
    """Offset of the next character that is neither white space nor part of a comment."""
    size = len(text)
    while offset < size:
        if text[offset] in " \t\r\n\f\v\x85\xa0\u2028\u2029\ufeff":
            offset += 1
        elif text.startswith(comment, offset):
            offset = line_end(text, offset)
        elif comment == "//" and text.startswith("/*", offset):
            closed = text.find("*/", offset + 2)
            offset = size if closed < 0 else closed + 2
        else:
            break
    return offset
