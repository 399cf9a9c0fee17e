"""The arguments and options of the commands, each described once, as data.

Typer takes longer to import than a small project to check: it is only asked where `typed_words` cannot read what was
typed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeVar

AnyEnum = TypeVar("AnyEnum", bound=Enum)


class Format(str, Enum):
    """How a command writes its result."""

    TEXT = "text"
    DIFF = "diff"
    JSON = "json"
    JSON_LINES = "json-lines"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    MARKDOWN = "markdown"


MIGRATE_FORMATS = tuple(Format)
CHECK_FORMATS = tuple(each for each in Format if each is not Format.DIFF)
PAGE_FORMATS = (Format.TEXT, Format.JSON, Format.MARKDOWN)
"""Of what is read as a page: ``audit``, ``explain``."""


class TargetChoice(str, Enum):
    """What ``migrate --to`` takes."""

    BF16_MIXED = "bf16-mixed"
    BF16_TRUE = "bf16-true"
    FP16_MIXED = "fp16-mixed"
    FP32 = "fp32"
    PORTABLE = "portable"
    AUTO = "auto"


class Color(str, Enum):
    """When color is used."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"

    @property
    def wanted(self) -> bool | None:
        """True, False, or None: as the stream is a terminal or not."""
        return {"auto": None, "always": True, "never": False}[self.value]


class FlagOption(NamedTuple):
    """A switch that is off unless it is given."""

    help: str
    names: tuple[str, ...]
    off: str = ""
    """The name that switches it off, where neither is the default."""


class ValueOption(NamedTuple):
    """An option with a value, or several."""

    help: str
    names: tuple[str, ...] = ()
    """Empty: the name of the field."""
    metavar: str | None = None
    read: Callable[[str], object] | None = None
    """What a text stands for; raises ValueError. None: the text itself."""
    complete: Callable[[str], list[str]] | None = None
    """What a shell offers while the value is typed."""
    several: bool = False


class Argument(NamedTuple):
    help: str
    metavar: str
    read: Callable[[str], object] | None = None
    complete: Callable[[str], list[str]] | None = None
    has_default: bool = False
    """Whether help shows what holds without it."""


def path_named(text: str) -> Path:
    """A path argument; an empty one (``"$UNSET"``) is a mistake, where `Path` would take the current folder."""
    if not text:
        raise ValueError("an empty path")
    return Path(text)


def number_named(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 1_000:
        raise ValueError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def word_of(kind: Sequence[AnyEnum]) -> Callable[[str], AnyEnum]:
    """Reads one of some words; a wrong one is answered with the closest."""

    def read(text: str) -> AnyEnum:
        words = [str(each.value) for each in kind]
        if text in words:
            return kind[words.index(text)]
        from ..settings.settings import instead_of

        raise ValueError(f"{text!r} is not known; {instead_of(text, words)}")

    return read


def _completion(kind: Sequence[Enum]) -> Callable[[str], list[str]]:
    """What a shell offers while the word is typed."""

    def complete(incomplete: str) -> list[str]:
        return [str(each.value) for each in kind if str(each.value).startswith(incomplete)]

    return complete


def _complete_rule(incomplete: str) -> list[str]:
    from ...transforms import load

    words = [word for rule in load() for word in (rule.code, rule.name)]
    return [word for word in words if word.lower().startswith(incomplete.lower())]


def _choice(kind: Sequence[Enum], help: str, *names: str) -> ValueOption:
    """An option that takes one of some words."""
    words = "|".join(str(each.value) for each in kind)
    return ValueOption(help, names, f"[{words}]", word_of(kind), _completion(kind))


def flag(help: str, *names: str) -> FlagOption:
    """A switch that is off unless it is given."""
    return FlagOption(help, names)


def file(help: str, *names: str) -> ValueOption:
    return ValueOption(help, names, "FILE", path_named)


def current_folder() -> list[Path]:
    """What commands that change nothing read where no PATH is given."""
    return [Path(".")]


def format_option(formats: Sequence[Format], what: str = "result", default: str = "") -> ValueOption:
    return _choice(formats, f"How to write the {what}.{default}", "--output-format")


EXPLAINED = Argument(
    "A rule (PF101, or its name), the id in a finding's brackets, or a log: a file, - for standard input, or its text.",
    "CODE|FILE|-|TEXT",
    complete=_complete_rule,
)
EXPLAIN_PROJECT = ValueOption(
    "The project that the log is from: the answer names its line and shows the fix.",
    ("--project",),
    "FOLDER",
    path_named,
)
PATHS = Argument("Project folders or files; - reads one file from standard input.", "PATH", path_named)
REGIME = _choice(
    tuple(TargetChoice),
    "Bring every declaration to this regime. auto: what the settings or a machine's profile say, else what the "
    "project itself declares.",
)
OUTPUT = ValueOption("Write the result to this file.", ("--output-file", "-o"), "FILE", Path)
COLOR = _choice(tuple(Color), "When to use color.")
