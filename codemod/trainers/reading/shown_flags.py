"""Which options the launch lines of read-mes and the heads of programs show, and with which values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ...formats.shell_launchers import starts_programs
from ...model import Place, Span
from ...purpose.files import words_of
from ...python.names import ModuleNames
from ...source.documents import FileKind
from ...source.project import Project
from ...torch.dtypes import DTYPE_WORDS, HALVES, Constant, Dtype, as_dtype
from .launch_flags import programs_of
from .program_files import LAUNCHING, script_of
from .source import Source
from .stated_words import speaks
from .truth_words import truth_of

KINDS = (FileKind.TEXT, FileKind.SHELL)
COMMANDS = (".py", "--", "=", " -m ")
"""What stands in the lines that start a program; other texts are read fast."""
NEGATIONS = frozenset(("no", "not", "without", "disable"))
_MARKS = str.maketrans("=`'\"", "    ")


def shown_values(project: Project, module: ModuleNames, name: str) -> Iterator[str]:
    """What stands behind ``--name`` or ``name=`` wherever a program of ``module`` is started so; "" for nothing."""
    yield from (source.text for source in shown_sources(project, module, name))


def shown_sources(
    project: Project, module: ModuleNames, name: str, kinds: tuple[FileKind, ...] = KINDS
) -> Iterator[Source]:
    """The same with the whole launch line as the place."""
    flags = {f"--{name}", f"--{name.replace('_', '-')}"}
    head = module.tree.body[:1]
    for value in _behind(ast.get_docstring(module.tree) or "", flags):
        place = (module.path, module.span(head[0]))
        yield Source("flag", *place, f"--{name}", value or True, value, calls=(0,))
    for line in project.memo(_launch_lines, (module, kinds)):
        yield from (line.source(name, value) for value in line.given(name, flags))


def lines_leaving_out(project: Project, module: ModuleNames, name: str, default: Constant) -> Iterator[Source]:
    """The launch lines of read-mes in which an option has its default."""
    flags = {f"--{name}", f"--{name.replace('_', '-')}"}
    for line in project.memo(_launch_lines, (module, (FileKind.TEXT,))):
        if line.is_command and not line.given(name, flags):
            yield line.source(name, default)


def shown_halves(project: Project, module: ModuleNames) -> Iterator[tuple[Place, Dtype]]:
    """The 16-bit dtypes that read-mes start a program with: ``--bf16``, ``trainer.precision=16-mixed``."""
    for line in project.memo(_launch_lines, (module, (FileKind.TEXT,))):
        words = line.text.translate(_MARKS).split()
        if line.is_command and any(script_of(project, line.path, word) == module.path for word in words):
            for word, following in pairwise([*words, ""]):
                dtype = _half_of(word, following)
                if dtype is not None:
                    said = f"{word} {following}" if as_dtype(following) == dtype else word
                    yield Place(line.path, line.span, said), dtype


def _half_of(word: str, following: str) -> Dtype | None:
    """The dtype that an option is named for, unless it is switched off, or that it is given."""
    given = as_dtype(following) if speaks(word.lstrip("-")) else None
    if given in HALVES and isinstance(given, Dtype):
        return given
    parts = words_of(word) if word.startswith("-") and truth_of(following) is not False else ()
    named = {DTYPE_WORDS[part] for part in parts if part in DTYPE_WORDS}
    return named.pop() if len(named) == 1 and NEGATIONS.isdisjoint(parts) and named <= {*HALVES} else None


@dataclass(frozen=True, slots=True)
class _Line:
    path: str
    span: Span
    start: int
    text: str
    is_command: bool
    """Whether it says how the program is started, not only of what it is called."""

    def given(self, name: str, flags: set[str]) -> list[str]:
        pairs = [word.partition("=") for word in self.text.split()]
        given = [value for key, sign, value in pairs if sign and key.rpartition(".")[2] == name]
        return [*_behind(self.text, flags), *given]

    def source(self, name: str, value: Constant) -> Source:
        given = True if value == "" else value
        return Source("flag", self.path, self.span, f"--{name}", given, str(value), calls=(self.start,))


def _launch_lines(project: Project, asked: tuple[ModuleNames, tuple[FileKind, ...]]) -> tuple[_Line, ...]:
    """The lines that start a program of a module."""
    module, kinds = asked
    programs, found = programs_of(project, module), list[_Line]()
    for document in (item for kind in kinds for item in project.documents(kind, (*LAUNCHING, "--", "="))):
        end = 0
        for line in document.text.replace("\\\n", "  ").split("\n"):
            start, end = end, end + len(line) + 1
            words = line.translate(_MARKS).split() if any(mark in line for mark in COMMANDS) else ()
            if any(_starts(project, document.path, word, programs) for word in words):
                span = Span(*document.position(start), *document.position(end - 1))
                is_command = any(starts_programs(word.strip("`$!>")) for word in words)
                found.append(_Line(document.path, span, start, line, is_command))
    return tuple(found)


def _starts(project: Project, path: str, word: str, programs: set[str]) -> bool:
    """Whether a word of a launch line names one of the programs, or a command that the project installs."""
    if word.endswith(".py") or "." in word:
        return script_of(project, path, word) in programs
    return "-" in word and any(f'\n{word} = "' in item.text for item in project.documents(FileKind.TOML, ("scripts]",)))


def _behind(text: str, flags: set[str]) -> Iterator[str]:
    for word, following in pairwise([*text.translate(_MARKS).split(), ""]):
        if word in flags:
            yield "" if following.startswith("-") else following
