"""The catalog's words as data: a message, its causes, what speaks for each, the library releases at fault."""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = ("error", "warning", "symptom")
"""What stops a run, what it says on the way, what it shows without a message of its own: in this order they count."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that speaks for a cause when it is seen: see docs/explain.md for what each ``about`` means."""

    about: str
    values: tuple[str, ...]
    weight: float
    """How many times likelier the cause becomes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One way into a message."""

    id: str
    says: str
    seen: int
    """In how many of ``of`` public threads it was the cause."""
    of: int
    fix: str
    when: tuple[Sign, ...] = ()
    unless: tuple[Sign, ...] = ()
    rules: tuple[str, ...] = ()
    """Rules that find it in a project."""
    environment: bool = False
    """Whether it is the machine or the installation, and not code."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Releases of a library that raise the message by themselves."""

    library: str
    below: str
    """The first release that does not."""
    says: str
    source: str
    when: tuple[Sign, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownMessage:
    """One message, in all its wordings."""

    id: str
    title: str
    kind: str
    words: tuple[str, ...]
    """A text without any of these in lower case is not looked at."""
    patterns: tuple[re.Pattern[str], ...]
    means: str
    question: str
    """What decides between the causes; empty where there is nothing to decide."""
    causes: tuple[Cause, ...]
    faults: tuple[Fault, ...] = ()
    first: str = ""
    """What the first dtype in the message belongs to."""
    second: str = ""
    after: tuple[str, ...] = ()
    """Entries that know more of the same text."""
    check: str = ""
    next: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules that find a cause of it."""
        return tuple(dict.fromkeys(code for cause in self.causes for code in cause.rules))
