"""Findings as plain values and back: the words of `model`, each by its name and fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from .. import model
from ..model import Applicability, Finding

_WORDS: Mapping[str, type] = {
    name: each for name, each in vars(model).items() if isinstance(each, type) and is_dataclass(each)
}
_FIELDS = {kind: tuple(each.name for each in fields(kind)) for kind in _WORDS.values()}


def plain(value: object) -> object:
    """Numbers, strings and lists for a finding and what it is made of; raises TypeError for anything else."""
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Applicability):
        return {"level": value.value}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    names = _FIELDS.get(type(value))
    if names is None:
        raise TypeError(type(value).__name__)
    return {"word": type(value).__name__, "with": [plain(getattr(value, name)) for name in names]}


def finding(value: Any) -> Finding:
    """The finding that plain values stand for; raises ValueError, TypeError or KeyError for anything else."""
    found = _word(value)
    if not isinstance(found, Finding):
        raise TypeError(type(found).__name__)
    return found


def _word(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_word(each) for each in value)
    if not isinstance(value, dict):
        return value
    if "level" in value:
        return Applicability(value["level"])
    kind = _WORDS[value["word"]]
    return kind(*[_word(each) for each in value["with"]])
