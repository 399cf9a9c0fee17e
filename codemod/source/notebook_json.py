"""Where the sources of code cells stand in the JSON text of a notebook. Nothing is ever dumped."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from json import JSONDecodeError, JSONDecoder

from ..model import EditRefused

_DECODER = JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_NEWLINES = frozenset({"\\n", "\\u000a", "\\u000A"})


class NotebookError(ValueError):
    """A file is no notebook that can be read; the message is the reason."""


@dataclass(frozen=True, slots=True)
class CellLine:
    """One line of a cell: its text with newline, its JSON spelling, and what stands between it and the next one."""

    text: str
    raw: str
    joint: str


@dataclass(frozen=True)
class Cell:
    """The source of one code cell; ``json_text[start:end]`` is the JSON value, ``strings`` its string literals."""

    number: int
    """1-based, counted over all cells of the notebook."""
    json_text: str
    start: int
    end: int
    strings: tuple[tuple[int, int], ...]
    text: str

    @property
    def is_list(self) -> bool:
        """Whether the source is a list of strings (as Jupyter writes it) rather than one string."""
        return self.json_text[self.start] == "["

    @property
    def opening(self) -> str:
        """The JSON text in front of the first line, quote included."""
        return self.json_text[self.start : self.strings[0][0] + 1]

    @cached_property
    def new_joint(self) -> str:
        """What to put between two lines when one of them is new."""
        if not self.is_list:
            return ""
        if len(self.strings) > 1:
            return self.json_text[self.strings[0][1] - 1 : self.strings[1][0] + 1]
        return '",' + (self.json_text[self.start + 1 : self.strings[0][0]] or " ") + '"'

    def offset_of(self, row: int) -> int:
        """Where a 1-based row begins in the JSON text; where the value begins when that cannot be told by row."""
        cuts = [] if "\r" in self.text else self._cuts()
        return cuts[row - 1][0] if 1 <= row <= len(cuts) else self.start

    @property
    def closing(self) -> str:
        """The JSON text behind the last line."""
        return self._lines[1]

    @property
    def lines(self) -> tuple[CellLine, ...]:
        """The lines, cut at line feeds. Raises `EditRefused` when spelling and text cannot be matched."""
        return self._lines[0]

    @cached_property
    def _lines(self) -> tuple[tuple[CellLine, ...], str]:
        texts = [line + "\n" for line in self.text.split("\n")]
        texts[-1] = texts[-1][:-1]
        cuts = self._cuts()
        if not texts[-1]:
            texts.pop()
        if len(cuts) != len(texts):
            raise EditRefused(f"cell {self.number}: its JSON spelling is too unusual to edit")
        lines: list[CellLine] = []
        for index, (text, (start, end)) in enumerate(zip(texts, cuts, strict=True)):
            following = cuts[index + 1][0] if index + 1 < len(cuts) else end
            lines.append(CellLine(text, self.json_text[start:end], self.json_text[end:following]))
        last = cuts[-1][1] if cuts else self.strings[0][0] + 1
        return tuple(lines), self.json_text[last : self.end]

    def _cuts(self) -> list[tuple[int, int]]:
        """(start, end) of each line in the JSON text; a line may run over several string literals."""
        cuts: list[tuple[int, int]] = []
        start: int | None = None
        has_text = False
        for opening, closing in self.strings:
            at, end = opening + 1, closing - 1
            if start is None:
                start = at
            has_text = has_text or at < end
            for match in _ESCAPE.finditer(self.json_text, at, end):
                if match[0] in _NEWLINES:
                    cuts.append((start, match.end()))
                    start, has_text = match.end(), match.end() < end
            if start == end:
                start, has_text = None, False
        if start is not None and has_text:
            cuts.append((start, self.strings[-1][1] - 1))
        return cuts


def read_cells(json_text: str) -> list[Cell]:
    """The Python code cells of a notebook; raises `NotebookError`. A notebook of another language has none."""
    try:
        return _Reader(json_text).read()
    except JSONDecodeError as error:
        raise NotebookError(f"not valid JSON: {error.msg} (line {error.lineno})") from None
    except RecursionError:
        raise NotebookError("JSON nested too deeply") from None
    except (ValueError, IndexError) as error:
        raise NotebookError(str(error) or "not valid JSON") from None


class _Reader:
    """Walks the few objects that matter and lets the standard library skip over the rest."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.cells: list[Cell] = []
        self.cell_count = 0
        self.seen: dict[str, object] = {}

    def read(self) -> list[Cell]:
        self._expect_object(self._skip(0))
        end = self._members(self._skip(0), self._top_member)
        if self._skip(end) != len(self.text):
            raise JSONDecodeError("extra data", self.text, end)
        if "cells" not in self.seen:
            old = "worksheets" in self.seen or self.seen.get("nbformat") in (1, 2, 3)
            reason = "a notebook of format 3 or older; convert it with `jupyter nbconvert --to notebook`"
            raise NotebookError(reason if old else "JSON, but not a notebook (no cells)")
        return self.cells if _is_python(self.seen.get("metadata")) else []

    def _expect_object(self, at: int) -> None:
        if self.text[at : at + 1] != "{":
            raise NotebookError("JSON, but not a notebook" if self.text.strip() else "empty")

    def _top_member(self, key: str, at: int) -> int:
        if key == "cells" and self.text[at : at + 1] == "[":
            self.cells, self.cell_count = [], 0
            self.seen[key] = True
            return self._elements(at, self._cell)
        self.seen[key], end = self._value(at)
        return end

    def _cell(self, at: int) -> int:
        self.cell_count += 1
        if self.text[at] != "{":
            return self._value(at)[1]
        members: dict[str, object] = {}
        source: list[tuple[int, int]] = []

        def member(key: str, start: int) -> int:
            if key == "source":
                source[:] = [(start, 0)]
            members[key], end = self._value(start)
            if key == "source":
                source[:] = [(start, end)]
            return end

        end = self._members(at, member)
        if members.get("cell_type") == "code" and source and not _is_other_language(members.get("metadata")):
            self._add(members["source"], *source[0])
        return end

    def _add(self, value: object, start: int, end: int) -> None:
        if isinstance(value, str):
            strings: list[tuple[int, int]] = [(start, end)]
            text = value
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            strings = []

            def element(at: int) -> int:
                strings.append((at, self._value(at)[1]))
                return strings[-1][1]

            self._elements(start, element)
            text = "".join(value)
        else:
            return
        self.cells.append(Cell(self.cell_count, self.text, start, end, tuple(strings), text))

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _value(self, at: int) -> tuple[object, int]:
        value: object
        value, end = _DECODER.raw_decode(self.text, at)
        return value, end

    def _members(self, at: int, member: Callable[[str, int], int]) -> int:
        """Call ``member(key, start of its value)`` for each member of the object at ``at``; the end of the object."""

        def pair(start: int) -> int:
            key, end = self._value(start)
            if not isinstance(key, str):
                raise JSONDecodeError("expected a string as key", self.text, start)
            colon = self._skip(end)
            if self.text[colon : colon + 1] != ":":
                raise JSONDecodeError("expected ':'", self.text, colon)
            return member(key, self._skip(colon + 1))

        return self._sequence(at, "}", pair)

    def _elements(self, at: int, element: Callable[[int], int]) -> int:
        return self._sequence(at, "]", element)

    def _sequence(self, at: int, closing: str, item: Callable[[int], int]) -> int:
        at = self._skip(at + 1)
        if self.text[at : at + 1] == closing:
            return at + 1
        while True:
            at = self._skip(item(at))
            if self.text[at : at + 1] == closing:
                return at + 1
            if self.text[at : at + 1] != ",":
                raise JSONDecodeError(f"expected ',' or '{closing}'", self.text, at)
            at = self._skip(at + 1)


def _is_python(metadata: object) -> bool:
    """Whether a notebook's metadata names Python, or nothing at all."""
    names: list[str] = []
    for section in ("kernelspec", "language_info"):
        values = metadata.get(section) if isinstance(metadata, dict) else None
        if isinstance(values, dict):
            names += [str(values[key]) for key in ("language", "name") if key in values]
    return not names or any("python" in name.lower() for name in names)


def _is_other_language(metadata: object) -> bool:
    """Whether an editor marked a single cell as another language's."""
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = editor.get("languageId") if isinstance(editor, dict) else None
    return isinstance(language, str) and language.lower() != "python"
