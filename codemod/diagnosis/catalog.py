"""The catalog's words as data: a message, its causes, what speaks for each, the library releases at fault.

Read from the YAML files in ``messages``. They are a part of precfix; tests hold them to their schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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


FOLDER = Path(__file__).parent / "messages"
USUAL_WEIGHT = 5.0
DTYPE = (
    r"(?:struct |(?:torch|c10|at|cuda|mps|xpu)(?:\.|::)|<class '|['\"`(])*(?:cuda\.|mps\.|xpu\.)?(?:cuda|cpu|mps|xpu)?"
    r"(?:bfloat16|float16|half|float64|double|float32|float(?!8)|bf16|fp16|fp32|fp64)(?:type|tensor)?['\"`)]?"
)
"""How messages write a floating dtype."""
_MACROS = {f"{{{name}}}": f"(?P<{name}>{DTYPE})" for name in ("first", "second")}


@cache
def load_catalog() -> tuple[KnownMessage, ...]:
    """All entries, file by file."""
    return tuple(entry for path in sorted(FOLDER.glob("*.yaml")) for entry in read_entries(path.read_text("utf-8")))


def read_entries(text: str) -> list[KnownMessage]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [_entry(given) for given in yaml.load(text, Loader=loader)]


def _entry(given: dict[str, Any]) -> KnownMessage:
    patterns = tuple(_pattern(text) for text in given["patterns"])
    read = {
        "question": "" if given["question"] == "none" else given["question"],
        "words": tuple(word.lower() for word in given["words"]),
        "causes": tuple(map(_cause, given["causes"])),
        "faults": tuple(Fault(**{**fault, "when": _conditions(fault, "when")}) for fault in given.get("faults", ())),
        "after": tuple(given.get("after", ())),
    }
    return KnownMessage(**{"kind": "error", **given, **read, "patterns": patterns})


def _cause(given: dict[str, Any]) -> Cause:
    seen, _, of = given.pop("share").partition("/")
    conditions = {name: _conditions(given, name) for name in ("when", "unless")}
    return Cause(**{**given, **conditions, "rules": tuple(given.get("rules", ()))}, seen=int(seen), of=int(of))


def _conditions(given: Mapping[str, Any], name: str) -> tuple[Sign, ...]:
    return tuple(map(_condition, given.get(name, ())))


def _condition(given: dict[str, Any]) -> Sign:
    """What is asked, and its weight; ``first`` and ``second`` together ask for an order of dtypes."""
    fields = {name: value if isinstance(value, list) else str(value).split() for name, value in given.items()}
    weight = float(given.get("weight", USUAL_WEIGHT))
    fields.pop("weight", None)
    if len(fields) > 1:
        return Sign("order", tuple(f"{a}>{b}" for a in fields["first"] for b in fields["second"]), weight)
    ((about, values),) = fields.items()
    return Sign(about, tuple(value.lower() for value in values), weight)


def _pattern(text: str) -> re.Pattern[str]:
    for macro, expansion in _MACROS.items():
        text = text.replace(macro, expansion)
    return re.compile(text, re.IGNORECASE)


def words_of(entries: Iterable[KnownMessage]) -> tuple[str, ...]:
    """Every word that some entry asks for."""
    return tuple(dict.fromkeys(word for entry in entries for word in entry.words))
