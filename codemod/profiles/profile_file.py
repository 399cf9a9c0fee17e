"""Profiles as files: one JSON object, versioned (docs/profile.md).

A field that this version does not know is kept when the file is written again; a field that is missing takes its
default, so files of older releases stay readable. ``VERSION`` rises only when a known field changes its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ..model import UsageError
from .json_object import JsonObject, SavedKind
from .profile import Profile, ProfileJson

VERSION = 1
MARK = "precfix_profile"
"""The key that makes a JSON object a profile; its value is the version."""
MAX_BYTES = 16 << 20


def dump(profile: Profile) -> str:
    """The JSON text of a profile, with a final newline."""
    plain = _plain(profile)
    assert isinstance(plain, dict)
    return json.dumps({MARK: VERSION, **plain}, indent=2, allow_nan=False) + "\n"


def save(profile: Profile, path: Path) -> None:
    """Write a profile; the file is complete or not there. Raises `UsageError` when it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(dump(profile), "utf-8")
        part.replace(path)
    except OSError as error:
        raise UsageError(f"the profile cannot be written to {str(path)!r}: {error.strerror}") from error


_JSON_NAMES = {"failure": "class"}
"""Fields whose JSON name is a word that Python keeps for itself."""


def _plain(value: object) -> ProfileJson:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float) and value - value != 0.0:
        return None  # JSON has no NaN and no infinity
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [_plain(each) for each in value]
    known: dict[str, ProfileJson] = {}
    extra: Mapping[str, ProfileJson] = {}
    for each in fields(value):  # type: ignore[arg-type]
        if each.name == "extra":
            extra = value.extra  # type: ignore[attr-defined]
        else:
            known[_JSON_NAMES.get(each.name, each.name)] = _plain(getattr(value, each.name))
    return {**known, **{key: _plain(each) for key, each in extra.items()}}


def _record(kind: Any, read: JsonObject) -> Any:
    """A dataclass of a profile: each field as its type says, and what this version does not know as ``extra``."""
    types = get_type_hints(kind)
    names = [each.name for each in fields(kind) if each.name != "extra"]
    known = {name: _field(read, _JSON_NAMES.get(name, name), types[name]) for name in names}
    return kind(**{name: value for name, value in known.items() if value is not None}, extra=read.rest)


def _field(read: JsonObject, key: str, kind: Any) -> object:
    """One field; None where its default holds."""
    if kind in _READERS:
        return _READERS[kind](read, key)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return read.word(key, kind)
    if is_dataclass(kind):
        return _record(kind, read.object(key))
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple(_record(inner[0], each) for each in read.items(key))
    if not is_dataclass(inner[1]):
        return read.mapping(key)
    held = read.object(key)
    return {name: _record(inner[1], held.object(name)) for name in list(held.rest)}


_READERS: dict[Any, Callable[[JsonObject, str], object]] = {
    str: JsonObject.text,
    float: JsonObject.number,
    bool | None: JsonObject.flag,
    int | None: JsonObject.integer,
    float | None: JsonObject.number,
    tuple[str, ...]: JsonObject.texts,
}


def _profile(read: JsonObject) -> Profile:
    found: Profile = _record(Profile, read)
    return found


_SAVED = SavedKind("profile", VERSION, (MARK,), MAX_BYTES, "precfix probe --save FILE", _profile)
load, parse = _SAVED.load, _SAVED.parse
