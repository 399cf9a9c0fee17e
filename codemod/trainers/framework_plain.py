"""Frameworks as plain lists and back, for `cache.kept`: to read the YAML takes ten times as long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from .framework import Action, Condition, Contradiction, Framework, Key, Recognition

Reader = Callable[[Any], Any]
"""Makes a value from its plain form; raises TypeError or ValueError for another one."""


def plain(value: Any) -> object:
    """Frameworks, and what they are made of, as lists of lists, texts, truth values and None."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return [plain(getattr(value, each.name)) for each in fields(value)] if is_dataclass(value) else value


def frameworks_from(value: object) -> tuple[Framework, ...]:
    """The frameworks that `plain` was given; raises TypeError or ValueError for anything else."""
    found: tuple[Framework, ...] = _FRAMEWORKS(value)
    return found


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(value)
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(value)
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if type(value) is not list or not {str}.issuperset(map(type, value)):
        raise TypeError(value)
    return tuple(value)


def _each(read: Reader) -> Reader:
    def reading(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise TypeError(value)
        return tuple([read(item) for item in value])

    return reading


def _record(kind: Callable[..., Any], readers: Iterable[Reader]) -> Reader:
    known = (*readers,)

    def reading(value: Any) -> Any:
        if type(value) is not list or len(value) != len(known):
            raise ValueError(value)
        return kind(*[read(item) for read, item in zip(known, value, strict=True)])

    return reading


def _pair(one: Reader, other: Reader) -> Reader:
    return _record(lambda *values: values, (one, other))


def _conditions(value: Any) -> tuple[Condition, ...]:
    found: tuple[Condition, ...] = _each(_CONDITION)(value)
    return found


_CONDITION = _record(Condition, (_text, _text, _text, _texts, _text, _conditions))
_ACTIONS = _each(_record(Action, (_text, _text, _text, _texts, _conditions)))
_BY_REGIME = _each(_pair(_text, _ACTIONS))
_MEANINGS = _each(_pair(_text, _text))
_KEY = _record(
    Key,
    (
        *(_text, _text, _texts, _texts, _texts, _texts, _texts),
        *(_MEANINGS, _texts, _texts, _text_or_none, _truth, _MEANINGS),
    ),
)
_CONTRADICTION = _record(Contradiction, (_text, _text, _conditions, _text, _text, _BY_REGIME, _text, _texts))
_RECOGNITION = _record(Recognition, (*(_texts for each in fields(Recognition)[:-1]), _truth))
_FRAMEWORKS = _each(
    _record(
        Framework,
        (
            *(_text, _text, _texts, _RECOGNITION, _each(_KEY), _each(_CONTRADICTION), _BY_REGIME),
            *(_text_or_none, _text, _texts, _texts, _conditions, _truth, _text),
        ),
    )
)
