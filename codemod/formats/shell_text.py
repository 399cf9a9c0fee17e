"""Shell texts and their relatives: entries, and edits that never merge, split or reorder lines."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from dataclasses import replace

from ..model import EditRefused, ReplaceText
from .delimited import Members
from .lines import is_blank, line_end, line_start, newline_of, row_of, whole_lines
from .shell_commands import CommandReader
from .shell_found import Found
from .shell_lines import read_dockerfile, read_env, read_list, read_makefile, read_notebook
from .shell_variables import PLAIN, REFERENCE
from .shell_words import Unclosed, cooked
from .text import CommandLine, ConfigText, ConfigUnreadable, Heredoc, Scalar, TextEntry

_CONTINUED = re.compile(r"[ \t]*\\\r?\n?")
_WORD_BEHIND = re.compile(r"(?:[ \t]|\\\r?\n)+[^-\s;&|)#<>\\]")
"""One more word of the same command that is no flag."""
SWITCHES = ("-m", "--multirun")
"""Flags of Hydra behind which words stand that are not theirs."""
_READERS = {
    "env": read_env,
    "makefile": read_makefile,
    "dockerfile": read_dockerfile,
    "notebook": read_notebook,
    "list": read_list,
}


def open_shell(text: str, kind: str) -> ConfigText:
    """Read a shell-like text of the given kind. Raises ConfigUnreadable."""
    reader = CommandReader(text)
    try:
        if kind == "shell":
            reader.read(0, len(text))
        else:
            _READERS[kind](text, reader)
    except Unclosed as error:
        raise ConfigUnreadable(row_of(text, error.offset), "a quote or bracket that is never closed") from error
    shell = ShellText(text, reader.finish(), tuple(reader.heredocs), kind)
    shell.commands = tuple(reader.commands)
    return shell


class ShellText:
    """Assignments, flags and overrides of a text, and their edits."""

    def __init__(self, text: str, found: list[Found], heredocs: tuple[Heredoc, ...], kind: str) -> None:
        self._text = text
        assigned = {item.name for item in found if item.kind == "assignment"}
        self._found = [_without_name(text, item, assigned - {item.name}) for item in found]
        self._strict = kind != "shell"
        self._dialect = kind
        self.heredocs = heredocs
        self.commands: tuple[CommandLine, ...] = ()
        self.entries = tuple(self._entry(index, item) for index, item in enumerate(self._found))

    def find(self, *key: str | int) -> tuple[TextEntry, ...]:
        return tuple(entry for entry in self.entries if entry.key == key)

    def set(self, entry: TextEntry, value: Scalar) -> ReplaceText:
        """Write ``value`` over the present one; a bare flag gets it as its next word."""
        found = self._found[entry.index]
        if entry.style == "block":
            raise EditRefused("the value is an array or spans several lines")
        written = _as_text(value, entry)
        if entry.kind == "flag" and found.start == found.key_end:
            return self._set_bare(found, written)
        return ReplaceText(found.start, found.end, self._quoted(written, entry.style, found.quote))

    def remove(self, entry: TextEntry, *, with_value: bool = True) -> ReplaceText:
        """Remove a flag with its value and one blank, or its whole line; an assignment with its line."""
        found = self._found[entry.index]
        if found.sole and found.statement_start >= 0:
            return self._remove_statement(found)
        if found.layout == "exec":
            return self._remove_exec(found, with_value)
        if found.followed and with_value:
            raise EditRefused(f"it is not clear how many words belong to {found.name}")
        if found.kind == "override" and self._is_only_word_of_flag(found):
            raise EditRefused(f"the flag before {found.name} would be left without a word")
        end = found.item_end if with_value or not found.separate else found.key_end
        return self._remove_words(found.item_start, end)

    def insert(self, section: TextEntry | None, key: str, value: Scalar) -> ReplaceText:
        """A flag behind the flag ``section``, an override behind an override, or an assignment on the line below the
        assignment ``section``."""
        anchor = section if section is not None else self._last_assignment(key)
        if anchor is not None and anchor.kind == "override" and not key.startswith("-"):
            return self._insert_flag(self._found[anchor.index], key, value)
        if key.startswith("-"):
            if anchor is None or anchor.kind != "flag":
                raise EditRefused("a flag can only be added after another flag")
            return self._insert_flag(self._found[anchor.index], key, value)
        if anchor is None:
            return self._append_line(key, value)
        found = self._found[anchor.index]
        if anchor.kind != "assignment" or not found.sole or found.statement_start < 0 or found.joined:
            raise EditRefused("a variable can only be added below an assignment on a line of its own")
        first = line_start(self._text, found.statement_start)
        end = self._rest_of_line(found.statement_end)
        if end < 0 or not is_blank(self._text, first, found.statement_start):
            raise EditRefused("the assignment shares its line with something else")
        lead = self._text[first : found.key_start]
        between = self._text[found.key_end : found.start]
        if not between.strip(" \t"):
            between = "="
        style = anchor.style if anchor.style in {"single", "double"} else "plain"
        written = self._quoted(_as_text(value, None), style, "")
        return ReplaceText(end, end, f"{newline_of(self._text)}{lead}{key}{between}{written}")

    def _entry(self, index: int, found: Found) -> TextEntry:
        raw = self._text[found.start : found.end]
        bare = found.kind == "flag" and found.start == found.key_end
        value = None if bare else _json_text(raw) if found.layout == "exec" else cooked(raw)
        return TextEntry(
            key=(found.name,),
            value=value,
            raw=raw,
            start=found.start,
            end=found.end,
            key_start=found.key_start,
            key_end=found.key_end,
            index=index,
            style=_style(raw),
            kind=found.kind,
            command=found.command,
            owner=found.owner,
            inside=found.inside,
            call=found.call if found.call >= 0 else None,
            also=found.also,
        )

    def _quoted(self, value: str, style: str, quote: str) -> str:
        if quote == "json":
            return json.dumps(value)[1:-1]
        if PLAIN.fullmatch(value):
            if style in {"single", "double"}:
                mark = "'" if style == "single" else '"'
                return f"{mark}{value}{mark}"
            return value or ('""' if not quote and style != "absent" and self._dialect == "shell" else "")
        if quote or self._strict or not value.isprintable():
            raise EditRefused("the new value would need quotes that cannot be written here")
        if style == "double":
            escaped = re.sub(r'(["\\$`])', r"\\\1", value)
            return f'"{escaped}"'
        if "'" in value or "!" in value:
            raise EditRefused("the new value would need quotes that cannot be written here")
        return f"'{value}'"

    def _set_bare(self, found: Found, value: str) -> ReplaceText:
        written = self._quoted(value, "plain", found.quote)
        if found.layout == "exec":
            return ReplaceText(found.item_end, found.item_end, f', "{written}"')
        inside_own_quotes = found.item_start < found.key_start
        return ReplaceText(found.key_end, found.key_end, f"{'=' if inside_own_quotes else ' '}{written}")

    def _remove_statement(self, found: Found) -> ReplaceText:
        text = self._text
        first, last = found.statement_start, found.statement_end
        if found.joined:
            return ReplaceText(first, last, ":")
        end = self._rest_of_line(last)
        if end >= 0 and is_blank(text, line_start(text, first), first):
            return ReplaceText(*whole_lines(text, first, end), "")
        semicolon = re.compile(r"[ \t]*;[ \t]*(?=[^;\s&#])").match(text, last)
        return ReplaceText(first, semicolon.end() if semicolon else last, "" if semicolon else ":")

    def _remove_words(self, start: int, end: int) -> ReplaceText:
        """Words leave with one blank, or with their line when they fill it."""
        text = self._text
        first = line_start(text, start)
        fills_left = is_blank(text, first, start)
        continued = _CONTINUED.match(text, end)
        if fills_left and continued is not None:
            return ReplaceText(first, continued.end(), "")
        rest = self._rest_of_line(end)
        if fills_left and rest >= 0:
            joined = self._before_continuation(first)
            if joined >= 0:
                # The last line of a continued command: the backslash before it has nothing to continue any more.
                return ReplaceText(joined, rest, "")
            return ReplaceText(*whole_lines(text, start, rest), "")
        if not fills_left and text[start - 1] in " \t":
            return ReplaceText(start - 1, end, "")
        return ReplaceText(start, end + 1 if text[end : end + 1] in {" ", "\t"} else end, "")

    def _is_only_word_of_flag(self, found: Found) -> bool:
        """Whether a flag that is no switch (``--cfg-options a.b=1``) has this override alone."""
        flags = [item for item in self._found if item.kind == "flag" and item.item_end <= found.item_start]
        flag = max(flags, key=lambda item: item.item_end, default=None)
        between = self._text[flag.item_end : found.item_start] if flag is not None else "-"
        behind = _WORD_BEHIND.match(self._text, found.item_end)
        return not between.strip(" \t\r\n\\") and behind is None and flag is not None and flag.name not in SWITCHES

    def _before_continuation(self, first: int) -> int:
        """Where the text before a final backslash on the line above ends, or -1 when there is no backslash."""
        text, at = self._text, -1
        while first > 0:
            end = first - (2 if text[:first].endswith("\r\n") else 1)
            above = text[line_start(text, end) : end]
            if not above.endswith("\\") or above.endswith("\\\\") or above.lstrip(" \t").startswith("#"):
                break
            at = line_start(text, end) + len(above[:-1].rstrip(" \t"))
            if above[:-1].strip(" \t"):
                break
            first = line_start(text, end)
        return at

    def _rest_of_line(self, offset: int) -> int:
        """The end of the line if only blanks and a comment follow, else -1; a comment needs a blank before it."""
        end = line_end(self._text, offset)
        rest = self._text[offset:end]
        return end if not rest.strip(" \t") or re.match(r"[ \t]+#", rest) else -1

    def _remove_exec(self, found: Found, with_value: bool) -> ReplaceText:
        text = self._text
        end = found.item_end if with_value or not found.separate else found.key_end + 1
        open_at = text.rfind("[", 0, found.item_start)
        before = text.rfind(",", open_at, found.item_start)
        close = line_end(text, end)
        cut = Members(text, open_at + 1, close, ((found.item_start, end),), "#")
        if cut.comma_after(end) < 0 and before >= 0:
            return ReplaceText(before, end, "")
        return cut.remove(0)

    def _insert_flag(self, found: Found, key: str, value: Scalar) -> ReplaceText:
        text = self._text
        written = "" if value is None else self._quoted(_as_text(value, None), "plain", found.quote)
        if found.layout == "exec":
            words = [key] if value is None else [key, written]
            words = [f"{key}={written}"] if found.kind == "override" else words
            return ReplaceText(found.item_end, found.item_end, "".join(f', "{word}"' for word in words))
        glue = "=" if text[found.key_end : found.key_end + 1] == "=" or found.kind == "override" else " "
        flag = key if value is None else f"{key}{glue}{written}"
        if found.item_start < found.key_start:
            raise EditRefused("the word before is quoted")
        lead = text[line_start(text, found.item_start) : found.item_start]
        continued = _CONTINUED.match(text, found.item_end)
        if not lead.strip(" \t") and continued is not None and continued[0].endswith("\n"):
            return ReplaceText(continued.end(), continued.end(), f"{lead}{flag}{continued[0]}")
        return ReplaceText(found.item_end, found.item_end, f" {flag}")

    def _last_assignment(self, key: str) -> TextEntry | None:
        if key.startswith("-"):
            return None
        lonely = [
            entry
            for entry in self.entries
            if (found := self._found[entry.index]).sole and found.statement_start >= 0 and not found.joined
        ]
        return lonely[-1] if lonely else None

    def _append_line(self, key: str, value: Scalar) -> ReplaceText:
        if self._dialect not in {"shell", "env"}:
            raise EditRefused("there is no assignment to insert after")
        newline, size = newline_of(self._text), len(self._text)
        gap = "" if not self._text or self._text.endswith("\n") else newline
        written = self._quoted(_as_text(value, None), "plain", "")
        return ReplaceText(size, size, f"{gap}{key}={written}{newline}")


def _without_name(text: str, found: Found, assigned: Container[str]) -> Found:
    """``PRECISION=${PRECISION:-bf16}``: its value is the word that counts where nobody sets the variable.

    Not where the text itself assigns it.
    """
    raw = text[found.start : found.end]
    inner = raw[1:-1] if len(raw) > 2 and raw[0] == raw[-1] == '"' else raw
    match = REFERENCE.fullmatch(inner)
    if match is None or not match[3] or not PLAIN.fullmatch(match[3]):
        return found
    if match[1] in assigned or found.layout != "words":
        return found
    start = found.start + raw.find(inner) + match.start(3)
    return replace(found, start=start, end=start + len(match[3]))


def _as_text(value: Scalar, entry: TextEntry | None) -> str:
    if value is None:
        raise EditRefused("the shell has no null")
    if not isinstance(value, bool):
        return value if isinstance(value, str) else repr(value)
    word = "true" if value else "false"
    present = "" if entry is None else str(entry.value)
    if present in {"0", "1"}:
        return str(int(value))
    if present.isupper():
        return word.upper()
    return word.capitalize() if present[:1].isupper() else word


def _json_text(raw: str) -> str:
    try:
        return str(json.loads(f'"{raw}"'))
    except ValueError:
        return raw


def _style(raw: str) -> str:
    if not raw:
        return "absent"
    if raw[0] == "(" or "\n" in raw:
        return "block"
    if re.fullmatch(r"'[^']*'", raw):
        return "single"
    if re.fullmatch(r'"(?:[^"\\]|\\.)*"', raw):
        return "double"
    return "mixed" if any(mark in raw for mark in "'\"\\") else "plain"
