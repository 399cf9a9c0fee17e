"""Files that precfix saves and reads again: one JSON object, read field by field, each with its type.

They are bounded, and what is wrong is said with the way to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar

from ..model import UsageError
from .profile import ProfileJson

MAX_DEPTH = 64

E = TypeVar("E", bound=Enum)
T = TypeVar("T")


class Malformed(Exception):
    """A field has the wrong type; the text says which."""


@dataclass(frozen=True, slots=True)
class SavedKind(Generic[T]):
    """One kind of saved file. Reading raises `UsageError`: the file, what is wrong with it, what to do."""

    name: str
    version: int
    """The newest that can be read."""
    marks: tuple[str, ...]
    """The keys that make a JSON object one; the first holds its version."""
    max_bytes: int
    written_by: str
    """The command that writes one."""
    read: Callable[[JsonObject], T]

    def load(self, path: Path) -> T:
        """What stands in a file."""
        try:
            with path.open("rb") as stream:
                data = stream.read(self.max_bytes + 1)
        except OSError as error:
            raise UsageError(f"the {self.name} {str(path)!r} cannot be read: {error.strerror}") from error
        if len(data) > self.max_bytes:
            raise self._not_one(str(path), f"larger than {self.max_bytes >> 20} MiB")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise self._not_one(str(path), "not UTF-8 text") from None
        return self.parse(text, str(path))

    def parse(self, text: str, file: str) -> T:
        """What stands in a JSON text; ``file`` is where it came from, for messages."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, json.JSONDecodeError) else "the JSON cannot be read"
            raise self._not_one(file, reason) from None
        for mark in self.marks:
            if not isinstance(value, dict) or value.get(mark) is None:
                raise self._not_one(file, f"there is no {mark!r} in it")
        version = value.pop(self.marks[0])
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise self._not_one(file, f"its version is {shortened(version)}")
        if version > self.version:
            raise UsageError(
                f"{file!r} is of version {version}, and this precfix reads up to {self.version}: "
                f"update precfix, or run its own `{self.written_by}`"
            )
        try:
            _check_depth(value)
            return self.read(JsonObject(value, "the file"))
        except Malformed as error:
            raise self._not_one(file, str(error)) from None

    def _not_one(self, file: str, reason: str) -> UsageError:
        return UsageError(f"{file!r} is not a precfix {self.name}: {reason}; `{self.written_by}` writes one")


def _check_depth(value: object, depth: int = 0) -> None:
    """Raise `Malformed` for what is nested deeper than anybody writes."""
    if depth > MAX_DEPTH:
        raise Malformed("it is nested too deeply")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_depth(each, depth + 1)


class JsonObject:
    """Takes the known fields out of a JSON object, each with its type; what is left is ``rest``."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise Malformed(f"{where} is {shortened(value)}, not an object")
        self.where = where
        self.rest: dict[str, ProfileJson] = dict(value)

    def _take(self, key: str, kinds: tuple[type, ...], wanted: str) -> object:
        value = self.rest.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Malformed(f"{self.path(key)} is {shortened(value)}, not {wanted}")
        return value

    def path(self, key: str) -> str:
        """The way to a field, for messages."""
        return f"{self.where}.{key}" if self.where != "the file" else key

    def text(self, key: str) -> str:
        """A string field; empty where there is none."""
        value = self._take(key, (str,), "a text")
        return value if isinstance(value, str) else ""

    def integer(self, key: str) -> int | None:
        """A whole number; None where there is none."""
        value = self._take(key, (int,), "a whole number")
        return value if isinstance(value, int) else None

    def number(self, key: str) -> float | None:
        """A number; None where there is none."""
        value = self._take(key, (int, float), "a number")
        return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None

    def flag(self, key: str) -> bool | None:
        """True or false; None where it is not said."""
        value = self._take(key, (bool,), "true or false")
        return value if isinstance(value, bool) else None

    def word(self, key: str, kind: type[E]) -> E | None:
        """One of the words of an enumeration; None where there is none."""
        value = self.text(key)
        if not value:
            return None
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise Malformed(f"{self.path(key)} is {shortened(value)}, not one of {known}") from None

    def items(self, key: str) -> list[JsonObject]:
        """A list of objects."""
        value = self._take(key, (list,), "a list")
        listed = value if isinstance(value, list) else []
        return [JsonObject(each, f"{self.path(key)}[{index}]") for index, each in enumerate(listed)]

    def values(self, key: str) -> list[object]:
        """A list of anything."""
        value = self._take(key, (list,), "a list")
        return value if isinstance(value, list) else []

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._take(key, (list,), "a list")
        listed = value if isinstance(value, list) else []
        for each in listed:
            if not isinstance(each, str):
                raise Malformed(f"{self.path(key)} holds {shortened(each)}, not a string")
        return tuple(listed)

    def mapping(self, key: str) -> dict[str, ProfileJson]:
        """An object as it is."""
        value = self._take(key, (dict,), "an object")
        return value if isinstance(value, dict) else {}

    def object(self, key: str) -> JsonObject:
        """An object to read on from."""
        return JsonObject(self.mapping(key), self.path(key))


def shortened(value: object) -> str:
    """A value as a message shows it."""
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."
