"""Frameworks as plain lists and back, for `cache.kept`: to read the YAML takes ten times as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, get_args, get_origin, get_type_hints

from .framework import Framework

PlainReader = Callable[[Any], Any]
"""Makes a value from its plain form; raises TypeError or ValueError for another one."""


def plain(value: Any) -> object:
    """Frameworks, and what they are made of, as lists of lists, texts, truth values and None."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return [plain(getattr(value, each.name)) for each in fields(value)] if is_dataclass(value) else value


def frameworks_from(value: object) -> tuple[Framework, ...]:
    """The frameworks that `plain` was given; raises TypeError or ValueError for anything else."""
    found: tuple[Framework, ...] = _reader(tuple[Framework, ...])(value)
    return found


@cache
def _reader(kind: Any) -> PlainReader:
    """What makes a value of an annotated type from its plain form."""
    if kind in (str, bool, str | None):
        return partial(_exactly, get_args(kind) or (kind,))
    if kind == tuple[str, ...]:
        return _texts
    inner = get_args(kind)
    if get_origin(kind) is tuple and inner[-1] is ...:
        return partial(_each, _reader(inner[0]))
    if is_dataclass(kind):
        types = get_type_hints(kind)
        return _record(kind, [types[each.name] for each in fields(kind)])
    return _record(lambda *values: values, inner)


def _exactly(kinds: tuple[type, ...], value: Any) -> Any:
    if type(value) not in kinds:
        raise TypeError(value)
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if type(value) is not list or not {str}.issuperset(map(type, value)):
        raise TypeError(value)
    return tuple(value)


def _each(read: PlainReader, value: Any) -> tuple[Any, ...]:
    if type(value) is not list:
        raise TypeError(value)
    return tuple([read(item) for item in value])


def _record(make: Any, kinds: Sequence[Any]) -> PlainReader:
    readers: list[PlainReader] = []

    def reading(value: Any) -> Any:
        if not readers:  # only now: a condition may hold conditions
            readers.extend(map(_reader, kinds))
        if type(value) is not list or len(value) != len(readers):
            raise ValueError(value)
        return make(*[read(item) for read, item in zip(readers, value, strict=True)])

    return reading
