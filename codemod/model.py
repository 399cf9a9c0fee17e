"""The words of precfix as data: declarations, edits, fixes, findings, rules, reports.

Everything here is frozen and needs only the standard library; every other module speaks in these types.
Rows and columns are 1-based and count characters of the decoded text, the way editors show them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from .source.project import Project


RULE_URL = "https://github.com/precfix/precfix/blob/main/docs/rules/{name}.md"
"""Where the manual of a rule of precfix itself can be read."""


class PrecfixError(Exception):
    """Base of the errors that precfix raises on purpose."""


class UsageError(PrecfixError):
    """Something the user can mend: a path, an option, a setting. Shown as one line, exit code 2."""


class EditRefused(PrecfixError):
    """An edit cannot be made without risking other bytes; the whole fix is dropped and the reason reported."""


class Applicability(str, Enum):
    """How far a fix may be trusted (ruff's words)."""

    SAFE = "safe"
    """Same numerics, or it removes a certain crash."""
    UNSAFE = "unsafe"
    """Numerics, memory or speed may change; written only with ``--unsafe-fixes``."""
    DISPLAY_ONLY = "display-only"
    """Printed for the reader, never written."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of a document's text: rows and columns are 1-based, ``end_column`` is exclusive."""

    row: int
    column: int
    end_row: int
    end_column: int

    def contains(self, other: Span) -> bool:
        """Whether ``other`` lies inside this span (equal counts)."""
        return (self.row, self.column) <= (other.row, other.column) and (other.end_row, other.end_column) <= (
            self.end_row,
            self.end_column,
        )

    def overlaps(self, other: Span) -> bool:
        """Whether both share at least one character; touching or empty spans do not overlap."""
        return (self.row, self.column) < (other.end_row, other.end_column) and (other.row, other.column) < (
            self.end_row,
            self.end_column,
        )


# --- edits of Python source: structural, carried out by rewrite.py through LibCST ------------------------------------
# A span names the `ast` node meant; rewrite.py finds its LibCST twin by kind and position.


@dataclass(frozen=True, slots=True)
class RemoveStatement:
    """Delete one statement (simple or compound) with the comments that belong to it; an emptied block gets ``pass``."""

    span: Span


@dataclass(frozen=True, slots=True)
class ReplaceExpression:
    """Replace an expression. ``parts`` alternate new source text and spans of existing sub-expressions to keep."""

    span: Span
    parts: tuple[str | Span, ...]


@dataclass(frozen=True, slots=True)
class SetArgument:
    """Set keyword ``name`` of the call at ``span`` to ``value`` (source text), replacing its value or appending it.

    What is said of a call and its keywords, here and below, goes for a dictionary display and its string keys as well.
    """

    span: Span
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """Remove a keyword (``str``) or positional (``int`` index) argument of the call at ``span``."""

    span: Span
    argument: str | int


@dataclass(frozen=True, slots=True)
class NameArgument:
    """Pass a positional (``int`` index) or keyword (``str``) argument of the call at ``span`` as keyword ``name``."""

    span: Span
    argument: str | int
    name: str


@dataclass(frozen=True, slots=True)
class InsertArgument:
    """Pass ``value`` (source text) to the call at ``span`` as its positional argument ``index``, before the others."""

    span: Span
    index: int
    value: str


@dataclass(frozen=True, slots=True)
class AddDecorator:
    """Decorate the function defined at ``span`` with ``text`` (no ``@``), below the decorators it already has."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """Insert ``text`` (one or more complete lines, not indented) before or after the statement at ``span``."""

    span: Span
    text: str
    where: Literal["before", "after"] = "before"


@dataclass(frozen=True, slots=True)
class WrapStatements:
    """Put the statements from ``first`` to ``last`` (siblings of one block) under ``header`` (``with ...:``)."""

    first: Span
    last: Span
    header: str


@dataclass(frozen=True, slots=True)
class AddImport:
    """Make ``statement`` (``import torch``, ``from torch.amp import autocast``) hold at module level, once."""

    statement: str


@dataclass(frozen=True, slots=True)
class DropImport:
    """Remove the import that binds ``name`` from the import statement at ``span`` unless ``name`` is still used."""

    span: Span
    name: str


# --- edits of any text: character offsets into the decoded text, for configuration files -----------------------------


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Replace the characters ``start:end`` (0-based offsets into the document's text) by ``text``."""

    start: int
    end: int
    text: str


PythonOperation: TypeAlias = (
    RemoveStatement
    | ReplaceExpression
    | SetArgument
    | RemoveArgument
    | NameArgument
    | InsertArgument
    | AddDecorator
    | InsertStatement
    | WrapStatements
    | AddImport
    | DropImport
)
Operation: TypeAlias = PythonOperation | ReplaceText


@dataclass(frozen=True, slots=True)
class Edit:
    """One operation on one file. ``path`` is relative to the project's root, with forward slashes."""

    path: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class Fix:
    """A set of edits that is applied whole or not at all, possibly across files.

    Only `proof.proving` makes safe ones: it looks at what the edits write.
    """

    name: str
    """Short kebab-case word that tells alternatives apart (``drop``, ``disable``); ``--fix PF101=disable``."""
    message: str
    """What will be done, and plainly what changes in behavior."""
    applicability: Applicability
    edits: tuple[Edit, ...]

    @classmethod
    def of(cls, name: str, applicability: Applicability, message: str, *edits: Edit) -> Fix:
        """A fix with ``edits``, each of them once."""
        return cls(name, message, applicability, tuple(dict.fromkeys(edits)))

    @classmethod
    def unsafe(cls, name: str, message: str, *edits: Edit) -> Fix:
        """A fix that may change numerics, memory or speed."""
        return cls.of(name, Applicability.UNSAFE, message, *edits)

    @classmethod
    def shown(cls, name: str, message: str, *edits: Edit) -> Fix:
        """A fix that is printed and never written."""
        return cls.of(name, Applicability.DISPLAY_ONLY, message, *edits)


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a file, and what is to be seen there."""

    path: str
    span: Span
    message: str

    def saying(self, message: str) -> Place:
        """The same place with another message."""
        return Place(self.path, self.span, message)


AnyPlace = TypeVar("AnyPlace", contravariant=True)


class Pointable(Protocol[AnyPlace]):
    """A file that can point at its parts: nodes of a syntax tree, entries of a configuration."""

    def place(self, where: AnyPlace, message: str, /) -> Place:
        """The place where ``where`` stands."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake at one place, why we believe it (``evidence``), and what could be done (``fixes``, best first)."""

    code: str
    name: str
    message: str
    path: str
    span: Span
    evidence: tuple[Place, ...] = ()
    fixes: tuple[Fix, ...] = ()


class Draft(NamedTuple):
    """What a part of a rule has found; the rule makes it a finding: ``rule.found(*draft)``."""

    place: Place
    evidence: tuple[Place, ...] = ()
    fixes: tuple[Fix, ...] = ()

    @classmethod
    def at(
        cls,
        source: Pointable[AnyPlace],
        where: AnyPlace,
        message: str,
        evidence: Iterable[Place] = (),
        fixes: Iterable[Fix | None] = (),
    ) -> Draft:
        """What was found where ``where`` stands in ``source``; a fix that could not be made (None) is left out."""
        offered = tuple(fix for fix in fixes if fix is not None)
        return cls(source.place(where, message), tuple(evidence), offered)


@dataclass(frozen=True, slots=True)
class Rule:
    """A mistake precfix knows. ``docs`` is the module's docstring: its first line is the title."""

    code: str
    name: str
    docs: str
    check: Callable[[Project], Iterable[Finding]]
    url: str = ""
    """Where the manual can be read; empty for a rule that has no page."""
    depends_on: tuple[str, ...] = ()
    """What decides besides the files: ``profile``, ``target``. A comment that names the rule is never called unused."""
    needs_run: bool = False
    """Whether a finding counts only where a run that the project gives comes to its place."""

    @classmethod
    def of(
        cls,
        code: str,
        check: Callable[[Project], Iterable[Finding]],
        url: str = "",
        depends_on: tuple[str, ...] = (),
        anywhere: bool = False,
    ) -> Rule:
        """The rule whose name is the module name of ``check`` and whose manual is that module's docstring.

        Rules of precfix itself need a run, unless what they find counts ``anywhere``.
        """
        module = sys.modules[check.__module__]
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        own = module.__name__.startswith("precfix.")
        page = RULE_URL.format(name=name) if own else url
        return cls(code, name, (module.__doc__ or "").strip(), check, page, depends_on, own and not anywhere)

    @property
    def title(self) -> str:
        """The first line of the manual."""
        return self.docs.partition("\n")[0]

    @property
    def is_opt_in(self) -> bool:
        """Whether the rule runs only where it is selected: its manual has a section that says why."""
        return "\n## Off by default\n" in self.docs

    def at(
        self,
        source: Pointable[AnyPlace],
        where: AnyPlace,
        message: str,
        evidence: Iterable[Place] = (),
        fixes: Iterable[Fix | None] = (),
    ) -> Finding:
        """A finding of this rule where ``where`` stands in ``source``; a fix that is None is left out."""
        return self.found(*Draft.at(source, where, message, evidence, fixes))

    def found(self, place: Place, evidence: Iterable[Place] = (), fixes: Iterable[Fix] = ()) -> Finding:
        """A finding of this rule at ``place``."""
        return Finding(self.code, self.name, place.message, place.path, place.span, tuple(evidence), tuple(fixes))
