"""Reads the catalog: the YAML files in ``messages``. They are a part of precfix; tests hold them to their schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .entries import Cause, Fault, KnownMessage, Sign

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
    """The entries of one file."""
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
