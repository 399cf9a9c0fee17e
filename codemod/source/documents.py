"""One file of a project: bytes, text, positions, syntax tree.

Rows end at LF, CRLF or CR and at nothing else; form feeds, U+2028 and their like are ordinary characters, as they are
for Python itself. A notebook is shown as one virtual Python module (see `notebook_cells`).
"""

from __future__ import annotations

import ast
import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar, cast

from ..model import EditRefused, Span
from .decoding import Unreadable, decode
from .looks import FILE, Looks
from .notebook_cells import Magic, Notebook, NotebookError, UnparsedCell
from .parsing import Unparsable, parse_python

T = TypeVar("T")

__all__ = ["Document", "FileKind", "Unparsable", "Unreadable", "kind_of"]

_NEWLINE = re.compile("\r\n|\n|\r")


class FileKind(str, Enum):
    """What a file is, judged by its name alone."""

    PYTHON = "python"
    NOTEBOOK = "notebook"
    YAML = "yaml"
    JSON = "json"
    TOML = "toml"
    SHELL = "shell"
    ENV = "env"
    TEXT = "text"


SHELL_ENDINGS = (
    ".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".job", ".pbs", ".qsub", ".lsf", ".sub"
)  # fmt: skip
"""Shell scripts, and those that schedulers take: SLURM's, PBS's, Grid Engine's and LSF's under the names in use."""
_KIND_BY_SUFFIX: dict[str, FileKind] = {
    ".py": FileKind.PYTHON,
    ".ipynb": FileKind.NOTEBOOK,
    ".yaml": FileKind.YAML,
    ".yml": FileKind.YAML,
    ".json": FileKind.JSON,
    ".jsonc": FileKind.JSON,
    ".conf": FileKind.JSON,
    ".json5": FileKind.JSON,
    ".toml": FileKind.TOML,
    **dict.fromkeys(SHELL_ENDINGS, FileKind.SHELL),
    ".mk": FileKind.SHELL,
    ".dockerfile": FileKind.SHELL,
    ".env": FileKind.ENV,
    ".txt": FileKind.TEXT,
    ".cfg": FileKind.TEXT,
    ".ini": FileKind.TEXT,
    ".in": FileKind.TEXT,
    ".lock": FileKind.TEXT,
}
INSTRUCTIONS = ("readme", "install", "train", "finetun", "pretrain", "usage", "quick", "get", "reproduc")
"""How the names of texts begin that say how a program is started."""
EXAMPLES = (".example", ".sample", ".dist", ".j2", ".jinja", ".jinja2", ".tmpl", ".tpl", ".template")
"""Endings of files to copy and to fill in, by hand or by a program."""
_SHELL_NAMES = frozenset({"makefile", "gnumakefile", "dockerfile", "containerfile"})


def kind_of(path: str) -> FileKind | None:
    """The kind of the file named ``path``; None when precfix has no use for such a file."""
    name = path.rpartition("/")[2].lower()
    if name.startswith(".env"):
        return FileKind.ENV if name == ".env" or name.startswith(".env.") else _KIND_BY_SUFFIX.get(_suffix(name))
    if name == "pipfile":
        return FileKind.TOML
    if name.startswith(INSTRUCTIONS) and name.endswith((".md", ".rst")):
        return FileKind.TEXT
    if name in _SHELL_NAMES or name.startswith(("dockerfile.", "makefile.")):
        return FileKind.SHELL
    return _KIND_BY_SUFFIX.get(_suffix(name)) or _example_of(name)


def _example_of(name: str) -> FileKind | None:
    """The kind of ``config.json.example``: an example of a configuration is written like one."""
    stem, ending = os.path.splitext(name)
    kind = _KIND_BY_SUFFIX.get(_suffix(stem)) if ending in EXAMPLES else None
    return kind if kind in (FileKind.YAML, FileKind.JSON, FileKind.TOML) else None


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1]


class Document:
    """One file, immutable: a changed text makes a new document (`with_text`)."""

    def __init__(self, path: str, kind: FileKind, data: bytes) -> None:
        """Decode ``data``; raises `Unreadable`. ``path`` is relative to the project's root, with forward slashes."""
        self.path = path
        self.kind = kind
        self.bom, self.encoding, decoded = self._decode(data)
        self.notebook: Notebook | None = None
        if kind is FileKind.NOTEBOOK:
            try:
                self.notebook = Notebook.parse(decoded)
            except NotebookError as error:
                raise Unreadable(str(error)) from None
            decoded = self.notebook.virtual
        is_text = self.encoding == "utf-8" and not self.bom and self.notebook is None
        is_narrow = decoded.isascii()  # one other character, and each takes up to four bytes in a text
        self._text = None if is_text and not is_narrow else decoded
        self._data = None if is_text and is_narrow else data  # what the other one gives back is not kept twice
        self._facts: dict[object, Any] = {}
        self._looks: Looks | None = None
        self._bit = 0

    def __repr__(self) -> str:
        return f"Document({self.path!r}, {self.kind.value})"

    def _decode(self, data: bytes) -> tuple[bytes, str, str]:
        return decode(data, python=self.kind is FileKind.PYTHON, strict=self.kind is FileKind.NOTEBOOK)

    # --- what is looked at --------------------------------------------------------------------------------------------

    def watched(self, looks: Looks) -> Document:
        """This document, with noted what is looked at of it."""
        self._looks, self._bit = looks, looks.bit(FILE, self.path)
        return self

    def note(self) -> None:
        """Note that any of this file may be looked at."""
        if self._looks is not None:
            self._looks.seen |= self._bit

    def note_defined(self, name: str) -> None:
        """Note that what a name is at the top of this file is looked at, and all that can be reached from there."""
        if self._looks is not None:
            self._looks.note_defined(self.path, name, self._bit)

    def unnoted(self, compute: Callable[[], T]) -> T:
        """What somebody finds who notes by himself what that rests on."""
        looks = self._looks
        if looks is None:
            return compute()
        before = looks.seen
        try:
            return compute()
        finally:
            looks.seen = before

    @property
    def text(self) -> str:
        """The text of the file; of a notebook the virtual module."""
        self.note()
        return cast(bytes, self._data).decode() if self._text is None else self._text

    @property
    def data(self) -> bytes:
        return self.text.encode() if self._data is None else self._data

    def encode(self, text: str) -> bytes:
        """The bytes of this file with ``text`` instead of its own: same encoding, byte order mark kept.

        For a notebook ``text`` is the virtual module. Raises `EditRefused` when the text has no such bytes, or when
        even the present text would not come back as the present bytes.
        """
        if text == self.text:
            return self.data
        whole = text if self.notebook is None else self.notebook.splice(text)
        data = self._to_bytes(whole)
        if self._to_bytes(self.text if self.notebook is None else self.notebook.json_text) != self.data:
            raise EditRefused(f"{self.path} does not survive decoding and encoding as {self.encoding}")
        try:
            again = self._decode(data)
        except Unreadable as error:
            raise EditRefused(f"{self.path} would become unreadable: {error}") from None
        if again != (self.bom, self.encoding, whole):
            raise EditRefused(f"{self.path} would be read differently after the change (encoding line altered?)")
        return data

    def _to_bytes(self, text: str) -> bytes:
        try:
            return self.bom + text.encode(self.encoding)
        except (UnicodeError, LookupError) as error:
            raise EditRefused(f"{self.path} cannot hold the new text in {self.encoding}: {error}") from None

    def with_text(self, text: str) -> Document:
        """This document with another text; raises `EditRefused` as `encode` does."""
        try:
            return self if text == self.text else Document(self.path, self.kind, self.encode(text))
        except Unreadable as error:
            raise EditRefused(f"{self.path} would become unreadable: {error}") from None

    @property
    def tree(self) -> ast.Module:
        """The syntax tree, parsed once; raises `Unparsable`."""
        self.note()
        return self.part

    @property
    def part(self) -> ast.Module:
        """The tree for who notes by himself which parts he looks at."""
        outcome = self._parsed
        if isinstance(outcome, ast.Module):
            return outcome
        raise Unparsable(*outcome)

    @property
    def is_parsed(self) -> bool:
        """Whether somebody has asked for the tree, so that it costs nothing to look into it."""
        return "_parsed" in self.__dict__

    @property
    def parses(self) -> bool:
        return isinstance(self._parsed, ast.Module)

    @cached_property
    def _parsed(self) -> ast.Module | tuple[int, str]:
        if self.kind not in (FileKind.PYTHON, FileKind.NOTEBOOK):
            return 0, f"a {self.kind.value} file has no Python syntax tree"
        try:
            tree = parse_python(self.unnoted(lambda: self.text))
            tree.file = self.path  # type: ignore[attr-defined]
            return tree
        except Unparsable as error:
            return error.row, error.reason

    def fact(self, compute: Callable[[Document], T]) -> T:
        """``compute(self)``, computed once for as long as this document lives."""
        self.note()
        return self.part_fact(compute)

    def part_fact(self, compute: Callable[[Document], T]) -> T:
        """The same for who notes by himself which parts he looks at."""
        known = self._facts.get(compute, self)  # no fact is the document itself
        if known is self:
            known = self._facts[compute] = self.unnoted(lambda: compute(self))
        return known  # type: ignore[no-any-return]

    @cached_property
    def _starts(self) -> array[int]:
        self._text = self.text  # who asks for one row asks for more
        return array("L", (0, *(match.end() for match in _NEWLINE.finditer(self._text))))

    @cached_property
    def _ascii(self) -> bool:
        return self.text.isascii()

    @property
    def rows(self) -> int:
        """How many rows there are; an empty text has one."""
        self.note()
        return len(self._starts)

    def line(self, row: int) -> str:
        """The text of a row without its newline; "" for a row that does not exist."""
        self.note()
        if not 1 <= row <= len(self._starts):
            return ""
        start = self._starts[row - 1]
        end = self._starts[row] if row < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n") if row < len(self._starts) else self.text[start:end]

    def offset(self, row: int, column: int) -> int:
        """The 0-based character offset of a 1-based row and column, kept within that row (or the text)."""
        self.note()
        if row < 1:
            return 0
        if row > len(self._starts):
            return len(self.text)
        return min(self._starts[row - 1] + max(column - 1, 0), self._starts[row - 1] + len(self.line(row)))

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based (row, column) of a 0-based character offset, kept within the text."""
        self.note()
        inside = min(max(offset, 0), len(self.text))
        row = bisect_right(self._starts, inside)
        return row, inside - self._starts[row - 1] + 1

    def span(self, node: ast.AST) -> Span:
        """Where a node of this document's tree stands, in 1-based rows and character columns, end exclusive.

        A node without a place (a module, a context, arguments) gives the empty span at the start.
        """
        self.note()
        row: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        end_row: int = getattr(node, "end_lineno", None) or row
        end_column: int | None = getattr(node, "end_col_offset", None)
        return Span(
            row, self._column(row, column), end_row, self._column(end_row, column if end_column is None else end_column)
        )

    def _column(self, row: int, byte_column: int) -> int:
        if self._ascii:
            return byte_column + 1
        line = self.line(row)
        if line.isascii():
            return byte_column + 1
        return len(line.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore")) + 1

    def source(self, span: Span) -> str:
        return self.text[self.offset(span.row, span.column) : self.offset(span.end_row, span.end_column)]

    @cached_property
    def newline(self) -> str:
        """The newline used most in this text (LF when there is none): for lines that are inserted."""
        crlf = self.text.count("\r\n")
        counts = {"\n": self.text.count("\n") - crlf, "\r\n": crlf, "\r": self.text.count("\r") - crlf}
        return max(counts, key=lambda newline: counts[newline])

    def cell_of(self, row: int) -> tuple[int, int] | None:
        """For a notebook's row, (1-based number of the cell among all cells, 1-based row inside it); else None."""
        return None if self.notebook is None else self.notebook.cell_of(row)

    def file_row(self, row: int) -> int | None:
        """The row of the file itself: differs from ``row`` in notebooks, where None means that no row holds it."""
        return row if self.notebook is None else self.notebook.json_row_of(row)

    def shown_column(self, row: int, column: int) -> int:
        """The column a reader sees: differs from ``column`` only on masked notebook lines (``!cmd``)."""
        return column if self.notebook is None else self.notebook.shown_column(row, column)

    @property
    def shell_lines(self) -> Sequence[Magic]:
        """The ``!command`` and ``%env`` lines of a notebook: (row, column, text), one per physical line."""
        return () if self.notebook is None else self.notebook.shell_lines

    @property
    def unparsed_cells(self) -> Sequence[UnparsedCell]:
        """The code cells of a notebook that are no Python and therefore not part of ``text``."""
        return () if self.notebook is None else self.notebook.unparsed_cells
