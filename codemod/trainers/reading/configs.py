"""The project's configuration texts, opened: YAML, JSON, TOML, shell scripts, .env files, and texts inside them.

A here-document that writes ``config.env`` is a configuration of its own, and so is a ``!`` line of a notebook.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ...formats.editor_commands import editor_commands
from ...formats.opening import ReadOnly, kind_of, open_config, open_within
from ...formats.text import ConfigText, ConfigUnreadable, Heredoc, TextEntry
from ...formats.yaml_commands import InnerCommand, commands_in
from ...model import Edit, Place, ReplaceText, Span
from ...purpose.files import is_record
from ...source.documents import Document, FileKind
from ...source.magics import CONTINUED, MASK, WRITTEN_CELL
from ...source.notebook_cells import Magic
from ...source.project import Project
from .listed_commands import MODULES, ListedCommand, commands_again, commands_listed

__all__ = ["ConfigFile", "ConfigText", "TextEntry", "config_files"]

COMMANDS = ("torchrun", "accelerate launch", "deepspeed ", "python ", "python3 ")
"""Words of the YAML files that hold command lines."""
KINDS = (FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.SHELL, FileKind.ENV)
MISNAMED = (FileKind.SHELL, FileKind.TEXT)
"""Kinds of files, by their names, that ``accelerate launch --config_file`` may be given all the same."""
ANSWERS = re.compile(r"(?m)\A(?:#.*\n|---\n|\s*\n|\w+:.*\n)*compute_environment:\s")
"""How the answers of ``accelerate config`` begin, whatever their file is called."""
MAX_CHARACTERS = 500_000
"""Larger texts are data that only mention a precision (vocabularies, chat logs); YAML of this size takes seconds."""
MAX_KEYS = 1_000
"""Keys at the top of a configuration."""
LIST = "list"
"""Words of one command, as Docker and Python list them."""
LAUNCHES = ('"args"',)
"""What stands in a JSON file from which an editor starts programs."""
EXPANDED = ("shell", "env", "makefile", "dockerfile", "notebook", LIST)
_SHELLS = frozenset({"sbatch", "bash", "sh", "zsh"})
"""What runs a here-document as a script of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class ConfigFile:
    """One readable configuration text of a document, with offsets into the document's whole text."""

    document: Document
    text: ConfigText
    name: str
    """The file name that decides how it is read: that of the document, or of the here-document's target."""
    kind: str
    """``yaml json toml shell env makefile dockerfile notebook list``."""
    within: tuple[int, int, bool] | None = None
    """For a text inside the document: where it starts and ends, and whether it is literal; None: the whole text."""

    number: int | None = None
    """For a command inside YAML or Python: which of the document's commands it is."""

    def opened_again(self, text: str) -> ConfigText:
        """This configuration in a changed text of its document. Raises ConfigUnreadable when it is none any more."""
        if self.kind == LIST:
            return _list_again(text, self.number or 0, self.document)
        if self.number is not None:
            return _command_again(text, self.number)
        if self.within is None:
            return open_config(text, self.kind)
        start, end, literal = self.within
        text = text if self.document.notebook is None else _unmasked(text)
        return open_within(text, start, end + len(text) - len(self.document.text), self.kind, literal=literal)

    @property
    def is_shell(self) -> bool:
        return self.kind in EXPANDED

    @property
    def is_data(self) -> bool:
        """Whether it is a vocabulary or a table rather than settings: nobody writes so many keys by hand."""
        return len(self.text.entries) > MAX_KEYS and sum(len(item.key) == 1 for item in self.text.entries) > MAX_KEYS

    def span(self, entry: TextEntry) -> Span:
        """From the start of the key to the end of the value, as far as they stand in this order."""
        start = min(entry.key_start, entry.start) if entry.key_end > entry.key_start else entry.start
        end = max(entry.end, entry.key_end)
        row, column = self.document.position(start)
        end_row, end_column = self.document.position(end)
        return Span(row, column, end_row, end_column)

    def place(self, entry: TextEntry, message: str) -> Place:
        return Place(self.document.path, self.span(entry), message)

    def edit(self, operation: ReplaceText) -> Edit:
        return Edit(self.document.path, operation)


def config_files(
    project: Project, containing: Iterable[str], kinds: Iterable[FileKind] = KINDS
) -> Iterator[ConfigFile]:
    """Every configuration text of these kinds whose file holds any of the words; what cannot be read is recorded.

    Not what runs have written of themselves.
    """
    words, kinds = tuple(containing), tuple(kinds)
    for kind in kinds:
        for document in project.documents(kind, words):
            yield from opened(project, document) if not is_record(document.path) else ()
    for kind in MISNAMED if FileKind.YAML in kinds else ():
        for document in project.documents(kind, ("compute_environment",)) if kind not in kinds else ():
            yield from opened(project, document) if any(word in document.text for word in words) else ()
    for document in project.documents(FileKind.YAML, ("program:",)) if kinds and FileKind.YAML not in kinds else ():
        if FileKind.SHELL in kinds and any(word in document.text for word in words):
            yield from (item for item in opened(project, document) if isinstance(item.text, ReadOnly))
    for document in project.documents(FileKind.NOTEBOOK, words):
        yield from _notebook_lines(document)
    for document in project.documents(FileKind.JSON, LAUNCHES) if FileKind.SHELL in kinds else ():
        yield from (item for item in opened(project, document) if item.kind == LIST and FileKind.JSON not in kinds)
    for document in project.python_documents(words, MODULES) if FileKind.SHELL in kinds else ():
        yield from document.fact(_listed)


def opened(project: Project, document: Document) -> tuple[ConfigFile, ...]:
    """The configuration texts of one document; empty (and recorded) when it is not what its name promises."""
    result = document.fact(_open)
    if isinstance(result, str):
        project.record_skip(document.path, result)
        return ()
    return result


def _open(document: Document) -> tuple[ConfigFile, ...] | str:
    kind = "yaml" if document.kind in MISNAMED and ANSWERS.search(document.text) else kind_of(document.path)
    if kind is None or (document.path.endswith(".conf") and not document.text.lstrip().startswith("{")):
        return ()  # files of this ending hold anything
    if len(document.text) > MAX_CHARACTERS:
        return f"not read: too large for a configuration ({len(document.text):,} characters; limit {MAX_CHARACTERS:,})"
    try:
        text = open_config(document.text, kind)
    except ConfigUnreadable as error:
        return f"not read: {error}"
    inner = [found for doc in text.heredocs for found in _heredoc(document, doc)]
    commands = _commands_in_yaml(document, text) if kind == "yaml" else ()
    launches = _launches(document, text) if kind == "json" and LAUNCHES[0] in document.text else ()
    return (ConfigFile(document, text, document.path, kind), *inner, *commands, *launches)


def _launches(document: Document, config: ConfigText) -> Iterator[ConfigFile]:
    """The programs that an editor starts from a JSON file."""
    for number, command in enumerate(editor_commands(document.text, config)):
        try:
            text = open_within(command.text, command.start, command.end, LIST)
        except ConfigUnreadable:
            continue
        yield ConfigFile(document, text, document.path, LIST, (command.start, command.end, True), number)


def _commands_in_yaml(document: Document, config: ConfigText) -> Iterator[ConfigFile]:
    for number, command in enumerate(commands_in(document.text, config)):
        try:
            text = open_within(command.text, command.start, command.end, "shell")
        except ConfigUnreadable:
            continue
        text = ReadOnly(text) if command.is_laid_over else text
        yield ConfigFile(document, text, document.path, "shell", (command.start, command.end, True), number)


def _command_again(text: str, number: int) -> ConfigText:
    command = next(islice(commands_in(text, open_config(text, "yaml")), number, None), None)
    if command is None:
        raise ConfigUnreadable(1, "the command is not there any more")
    return open_within(command.text, command.start, command.end, "shell")


def _listed(document: Document) -> tuple[ConfigFile, ...]:
    """The command lines that Python code starts as lists of words."""
    found = enumerate(commands_listed(document))
    texts = ((open_within(item.text, item.start, item.end, LIST), item, number) for number, item in found)
    return tuple(
        ConfigFile(document, text, document.path, LIST, (item.start, item.end, True), number)
        for text, item, number in texts
    )


def _list_again(text: str, number: int, document: Document) -> ConfigText:
    again: Iterable[ListedCommand | InnerCommand] = (
        editor_commands(text, open_config(text, "json")) if document.kind is FileKind.JSON else commands_again(text)
    )
    command = next(islice(again, number, None), None)
    if command is None:
        raise ConfigUnreadable(1, "the command is not there any more")
    return open_within(command.text, command.start, command.end, LIST)


def _heredoc(document: Document, doc: Heredoc) -> Iterator[ConfigFile]:
    kind = kind_of(doc.target_name) or ("shell" if doc.command.rpartition("/")[2] in _SHELLS else None)
    if kind is None and "$" in doc.target_name and document.text[doc.start : doc.end].lstrip()[:1] == "{":
        kind = "json"  # of whatever name
    if kind is None:
        return
    try:
        text = open_within(document.text, doc.start, doc.end, kind, literal=doc.quoted)
    except ConfigUnreadable:
        return
    yield ConfigFile(document, text, doc.target_name, kind, (doc.start, doc.end, doc.quoted))


def _notebook_lines(document: Document) -> Iterator[ConfigFile]:
    """The commands of a notebook, each with the lines that continue it, and the files that its cells write."""
    plain = _unmasked(document.text)
    for lines in _commands(document):
        first, last = lines[0], lines[-1]
        start = document.offset(first.row, first.column)
        end = document.offset(last.row, last.column) + len(last.text)
        written = WRITTEN_CELL.match(first.text)
        kind = (kind_of(written["name"]) if written else None) or "notebook"
        name = written["name"] if written else document.path
        start = start if written is None else min(start + len(first.text), end)
        try:
            text = open_within(plain, start, end, kind)
        except ConfigUnreadable:
            continue
        yield ConfigFile(document, text, name, kind, (start, end, True))


def _commands(document: Document) -> Iterator[Sequence[Magic]]:
    lines: list[Magic] = []
    for magic in document.shell_lines:
        if lines and not document.line(magic.row).lstrip(" \t\f").startswith(CONTINUED):
            yield lines
            lines = []
        lines.append(magic)
    if lines:
        yield lines


def _unmasked(text: str) -> str:
    """A notebook's virtual module with blanks where lines are masked: every offset stays what it is."""
    return text.replace(MASK, " " * len(MASK)).replace(CONTINUED, " " * len(CONTINUED))
