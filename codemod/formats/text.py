"""Where a value stands in a configuration text, and how to respell it without touching any other character.

Nothing is ever dumped: an edit is one `ReplaceText` whose offsets count characters of the decoded text
(a byte order mark already removed, newlines as they are in the file). The text is hostile: nothing in it is executed or
constructed, nesting is bounded, and what cannot be understood raises `ConfigUnreadable` instead of being guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from ..model import PrecfixError, ReplaceText

Scalar: TypeAlias = str | int | float | bool | None

MAX_DEPTH = 200
"""Levels of nesting read before a text is called unreadable."""


EntryKind: TypeAlias = Literal["pair", "item", "assignment", "flag", "override"]


class ConfigUnreadable(PrecfixError):
    """The text is not what its kind promises. ``row`` is 1-based; ``reason`` is one plain clause."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"line {row}: {reason}")
        self.row = row
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TextEntry:
    """One key with its value, one list item, one shell assignment, flag or override."""

    key: tuple[str | int, ...]
    """Path from the root: ``("bf16", "loss_scale")``. Shell: name of the variable, flag (with dashes), override."""
    value: Scalar
    """As the format's usual consumer reads it; None for containers, empty values and bare flags as well."""
    raw: str
    """The value as written, quotes included; empty for containers."""
    start: int
    end: int
    """Offsets of the value as written, without YAML tags and anchors; zero width when nothing is written."""
    key_start: int
    key_end: int
    """Offsets of the key as written; zero width for list items."""
    index: int = 0
    """Position in ``ConfigText.entries``."""
    document: int = 0
    """Number of the document in a YAML stream, from 0."""
    style: str = "plain"
    """``plain single double`` · ``block`` (several lines) · ``absent`` (nothing written) · ``alias`` · ``template``
    (``{{ x }}``) · ``mixed`` (pieces of shell quoting) · for containers ``flow`` (brackets) or ``block``."""
    container: str = ""
    """``mapping`` or ``sequence``; empty for a scalar."""
    kind: EntryKind = "pair"
    """``pair item`` · shell: ``assignment flag override``."""
    anchor: str = ""
    """YAML: the anchor on this value, or for style ``alias`` the anchor it names."""
    alias_of: int | None = None
    """YAML: index of the entry that holds the anchored value."""
    tag: str = ""
    """YAML: the tag as written (``!!str``, ``!ref``)."""
    command: str = ""
    """Shell: the script, module or program the flag is for, as written; empty when the file does not show it."""
    owner: str = ""
    """Shell: ``launcher`` or ``script``; empty when unknown and for assignments."""
    inside: str = ""
    """Shell: the variable (or flag) whose string or array holds this flag."""
    call: int | None = None
    """Shell: index of the command line in ``ConfigText.commands`` that gets this flag or override, where it shows."""
    also: tuple[int, ...] = ()
    """Shell: further command lines that get it, from the same variable."""

    @property
    def is_scalar(self) -> bool:
        """False for mappings, sequences and templates."""
        return not self.container and self.style != "template"

    @property
    def name(self) -> str:
        """The last part of the key."""
        return str(self.key[-1]) if self.key else ""


@dataclass(frozen=True, slots=True)
class Heredoc:
    """The body of a shell here-document (or of a notebook's ``%%writefile`` cell): ``text[start:end]``."""

    target_name: str
    """The file it is written to, as spelled; empty when it is fed to a command."""
    start: int
    end: int
    quoted: bool
    """True when the shell expands nothing in it."""
    command: str = ""
    """The command that reads it (``cat``, ``bash``, ``python``)."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One command that a shell text runs."""

    start: int
    words: tuple[str, ...]
    """Its words without quotes, launchers first, and what variables hold in their places, as far as it is known."""
    script: str
    """The script, module or program behind the launchers; empty when it is not to be seen."""
    written: tuple[str, ...] = ()
    """Its words without quotes as they stand there."""


class ConfigText(Protocol):
    """A readable configuration text. Every edit is against the text as it was opened."""

    @property
    def entries(self) -> tuple[TextEntry, ...]:
        """Every container and every leaf in document order; duplicate keys are all present."""

    @property
    def heredocs(self) -> tuple[Heredoc, ...]:
        """Texts inside this one that `open_within` can open."""

    @property
    def commands(self) -> tuple[CommandLine, ...]:
        """The commands of a shell text; empty for other kinds."""

    def find(self, *key: str | int) -> tuple[TextEntry, ...]:
        """All entries with exactly this key path."""

    def set(self, entry: TextEntry, value: Scalar) -> ReplaceText:
        """Respell the value in its present style. Raises EditRefused (container, alias, several lines)."""

    def remove(self, entry: TextEntry, *, with_value: bool = True) -> ReplaceText:
        """Remove the key with its value, line, comma and own trailing comment. Raises EditRefused.

        A mapping or list that loses its only member stays, empty (``{}``); remove its own entry to drop it.
        ``with_value=False`` keeps the word after a shell flag, for flags known to take none.
        """

    def insert(self, section: TextEntry | None, key: str, value: Scalar) -> ReplaceText:
        """Add ``key`` after the last key of ``section`` (None: the top level). Raises EditRefused.

        Shell: ``section`` is the flag or assignment to stand behind; a key with dashes becomes a flag.
        """


class Overlaid:
    """A text that shows another one, and passes on the edits of that."""

    def __init__(self, inner: ConfigText) -> None:
        self._inner = inner
        self.entries, self.heredocs, self.commands = inner.entries, inner.heredocs, inner.commands

    def find(self, *key: str | int) -> tuple[TextEntry, ...]:
        return tuple(entry for entry in self.entries if entry.key == key)

    def set(self, entry: TextEntry, value: Scalar) -> ReplaceText:
        return self._passed_on(lambda: self._inner.set(self._inner.entries[entry.index], value))

    def remove(self, entry: TextEntry, *, with_value: bool = True) -> ReplaceText:
        return self._passed_on(lambda: self._inner.remove(self._inner.entries[entry.index], with_value=with_value))

    def insert(self, section: TextEntry | None, key: str, value: Scalar) -> ReplaceText:
        inner = None if section is None else self._inner.entries[section.index]
        return self._passed_on(lambda: self._inner.insert(inner, key, value))

    def _passed_on(self, edit: Callable[[], ReplaceText]) -> ReplaceText:
        """The edit as it is made here. Raises EditRefused."""
        raise NotImplementedError
