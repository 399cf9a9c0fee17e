"""What the launch lines of read-mes and the heads of programs show: scripts, their files, options and values."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ...formats.shell_launchers import starts_programs
from ...model import Place, Span
from ...purpose.files import CONFIG_ENDINGS, is_test
from ...python.names import ModuleNames, modules_with
from ...source.documents import Document, FileKind
from ...source.facts import fact
from ...source.project import Project
from ...torch.dtypes import Constant
from .launch_flags import programs_of
from .program_files import LAUNCHING, file_named, script_of
from .recognition import runs_program
from .source import ValueSource

KINDS = (FileKind.TEXT, FileKind.SHELL)
FILES = (*CONFIG_ENDINGS, ".py")
COMMANDS = (*FILES, "--", "=", " -m ", "setenv ", "setx ", "ENV ")
"""What stands in the lines that start a program; other texts are read fast."""
VERSION = ".0123456789"
"""What ends the name of an interpreter: ``python3.10``."""
FENCE = "```"
TRIPLE = ('"""', "'''")
"""How a string of several lines begins."""
MAX_WORDS = 400
"""Words of one line in which files are looked for."""
AROUND = "`'\"()[]*,;:"
"""What stands around a word in prose, before the end of a sentence."""
_MARKS = str.maketrans("=`'\"", "    ")
_WORD = re.compile(r"\S+")
_SETTING = re.compile(
    r"[\s$>%`#]*(?:(?:export|set|env|ENV)\s+[A-Za-z_]\w*=.*|(?:setenv|setx|ENV|env)\s+[A-Za-z_]\w*\s.*"
    r"|\$?env:\w+\s*=.*)|.*(?<![\w-])[A-Z][A-Z0-9_]*=\w.*"
)
"""A line that gives a variable a value for what is started: ``export NAME=value``, ``$env:NAME = "value"``, also in
prose."""


@fact
def instructed_files(project: Project) -> tuple[tuple[str, str], ...]:
    """Each script with each file that a line of instructions starts it with; "" for one of somebody else's."""
    found: dict[tuple[str, str], None] = {}
    for line in project.memo(_lines_of, FileKind.TEXT):
        words = [word.strip(AROUND).rstrip(f"{AROUND}.") for word in line.text.split()[:MAX_WORDS]]
        if any(word.endswith(FILES) for word in words) and _starts_any(project, words):
            found |= dict.fromkeys(_files_of(project, line.path, words))
    return tuple(found)


def _starts_any(project: Project, words: Sequence[str]) -> bool:
    """Whether a line starts a program: of Python, of a launcher, or a trainer's own."""
    if any(word.strip("`$").rstrip(VERSION) in LAUNCHING for word in words):
        return True
    return any(runs_program(framework, words) for framework in project.frameworks)


def _files_of(project: Project, near: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    named = (word for before, word in pairwise(("", *words)) if "." in word or before == "-m")
    scripts = (script_of(project, near, word) for word in named)
    script = next((path for path in scripts if path is not None), "")
    for word in words:
        value = word.rpartition("=")[2]
        path = file_named(project, near, value) if value.endswith(FILES) else None
        if path is not None and path != script:
            yield script, path


def shown_values(project: Project, module: ModuleNames, name: str) -> Iterator[str]:
    """What stands behind ``--name`` or ``name=`` wherever a program of ``module`` is started so; "" for nothing."""
    yield from (source.text for source in shown_sources(project, module, name))


def shown_sources(
    project: Project, module: ModuleNames, name: str, kinds: tuple[FileKind, ...] = KINDS
) -> Iterator[ValueSource]:
    """The same with the whole launch line as the place."""
    flags = {f"--{name}", f"--{name.replace('_', '-')}"}
    head = module.tree.body[:1]
    for value in _behind(ast.get_docstring(module.tree) or "", flags):
        place = (module.path, module.span(head[0]))
        yield ValueSource("flag", *place, f"--{name}", value or True, value, calls=(0,))
    for line in project.memo(launch_lines_of, (module, kinds)):
        yield from (line.source(name, value) for value in line.given(name, flags))


def lines_leaving_out(project: Project, module: ModuleNames, name: str, default: Constant) -> Iterator[ValueSource]:
    """The launch lines of read-mes in which an option has its default."""
    flags = {f"--{name}", f"--{name.replace('_', '-')}"}
    for line in project.memo(launch_lines_of, (module, (FileKind.TEXT,))):
        if line.is_command and not line.given(name, flags):
            yield line.source(name, default)


def lines_with(project: Project, word: str, scripts: Set[str]) -> list[ShownLine]:
    """The lines of read-mes that start one of some programs with a word."""
    lines = project.memo(_lines_of, FileKind.TEXT)
    return [line for line in lines if {word} < {*line.text.split()} and not scripts.isdisjoint(line.text.split())]


@dataclass(frozen=True)
class ShownLine:
    """One line of a text, with what continues it."""

    document: Document
    start: int
    text: str

    @property
    def path(self) -> str:
        return self.document.path

    @cached_property
    def words(self) -> tuple[tuple[str, int], ...]:
        """What stands between spaces, quotes and equals signs, and where."""
        return tuple((found[0], self.start + found.start()) for found in _WORD.finditer(self.text.translate(_MARKS)))

    @cached_property
    def is_command(self) -> bool:
        """Whether it says how the program is started, not only of what it is called."""
        return any(starts_programs(word.strip("`$!>")) for word, _ in self.words)

    @cached_property
    def is_setting(self) -> bool:
        """Whether all that it does is to set a variable for what is started below."""
        return _SETTING.fullmatch(self.text) is not None

    def is_in_block_of(self, other: ShownLine) -> bool:
        """Whether no fence of a read-me stands between them, and both are indented alike."""
        first, last = sorted((self, other), key=lambda item: item.start)
        depths = {len(item.text) - len(item.text.lstrip()) for item in (self, other)}
        is_near = self.path == other.path and len(depths) == 1
        return is_near and FENCE not in self.document.text[first.start : last.start]

    def given(self, name: str, flags: set[str]) -> list[str]:
        pairs = [word.strip("`'\"").partition("=") for word in self.text.split()]
        given = [value.strip("'\"") for key, sign, value in pairs if sign and key.rpartition(".")[2] == name]
        return [*_behind(self.text, flags), *given]

    def span_of(self, start: int, word: str) -> Span:
        return self._span(start, start + len(word))

    def whole(self, message: str) -> Place:
        return Place(self.path, self._span(self.start, self.start + len(self.text)), message)

    def source(self, name: str, value: Constant) -> ValueSource:
        given, span = True if value == "" else value, self._span(self.start, self.start + len(self.text))
        return ValueSource("flag", self.path, span, f"--{name}", given, str(value), calls=(self.start,))

    def _span(self, start: int, end: int) -> Span:
        return Span(*self.document.position(start), *self.document.position(end))


def _lines_of(project: Project, kind: FileKind) -> tuple[ShownLine, ...]:
    """The lines of all texts of a kind in which something may be started."""
    found = (_split(document) for document in project.documents(kind, (*LAUNCHING, "--", "=")))
    return tuple(line for lines in found for line in lines)


def lines_of_head(module: ModuleNames) -> Iterator[ShownLine]:
    """The same of what stands at the head of a program, in comments and its docstring; of a notebook nothing."""
    head = module.tree.body[0] if module.tree.body and module.document.kind is FileKind.PYTHON else None
    if head is not None:
        end = module.span(head).end_row if ast.get_docstring(module.tree) is not None else module.span(head).row - 1
        yield from _split(module.document, len("\n".join(module.document.text.split("\n")[:end])))


def lines_in_strings(project: Project, module: ModuleNames) -> tuple[ShownLine, ...]:
    """The launch lines in strings of code that name the file of a program: what code prints, or sends to a cluster."""
    others = modules_with(project, (posixpath.basename(module.path),), where=lambda path: not is_test(path))
    return tuple(line for other in others for line in _in_strings(other))


def _in_strings(module: ModuleNames) -> Iterator[ShownLine]:
    document = module.document
    for node in (*module.of_type(ast.Constant), *module.of_type(ast.JoinedStr)):
        is_text = not isinstance(node, ast.Constant) or isinstance(node.value, str)
        if not is_text or document.kind is not FileKind.PYTHON or isinstance(module.parents.get(node), ast.JoinedStr):
            continue
        span = module.span(node)
        start, end = document.offset(span.row, span.column), document.offset(span.end_row, span.end_column)
        text = document.text[start:end]
        if text.lstrip("rfbuRFBU").startswith(TRIPLE):
            yield from _split(document, end, start)
        elif any(mark in text for mark in COMMANDS):
            yield ShownLine(document, start, text.replace("\n", " "))


def _split(document: Document, most: int | None = None, end: int = 0) -> Iterator[ShownLine]:
    for text in document.text[end:most].replace("\\\r\n", "   ").replace("\\\n", "  ").split("\n"):
        start, end = end, end + len(text) + 1
        if any(mark in text for mark in COMMANDS):
            yield ShownLine(document, start, text)


def launch_lines_of(project: Project, asked: tuple[ModuleNames, tuple[FileKind, ...]]) -> tuple[ShownLine, ...]:
    """The lines that start a program of a module, and those of the same read-mes that set variables for them."""
    module, kinds = asked
    programs = programs_of(project, module)
    lines = [line for kind in kinds for line in project.memo(_lines_of, kind)]
    found = [line for line in lines if any(_starts(project, line.path, word, programs) for word, _ in line.words)]
    paths = {line.path for line in found if line.document.kind is FileKind.TEXT}
    return (*found, *(line for line in lines if line.path in paths and line.is_setting and line not in found))


def _starts(project: Project, path: str, word: str, programs: set[str]) -> bool:
    """Whether a word of a launch line names one of the programs, or a command that the project installs."""
    if word.endswith(".py") or "." in word:
        return script_of(project, path, word) in programs
    return "-" in word and any(f'\n{word} = "' in item.text for item in project.documents(FileKind.TOML, ("scripts]",)))


def _behind(text: str, flags: set[str]) -> Iterator[str]:
    for word, following in pairwise([*text.translate(_MARKS).split(), ""]):
        if word in flags:
            yield "" if following.startswith("-") else following
