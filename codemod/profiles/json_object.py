"""Reads JSON objects field by field, each with its type; what is wrong is said with the way to it."""

from __future__ import annotations

import json
from enum import Enum
from typing import TypeVar

from .profile import Json

MAX_DEPTH = 64

E = TypeVar("E", bound=Enum)


class Malformed(Exception):
    """A field has the wrong type; the text says which."""


def check_depth(value: object, depth: int = 0) -> None:
    """Raise `Malformed` for what is nested deeper than anybody writes."""
    if depth > MAX_DEPTH:
        raise Malformed("it is nested too deeply")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            check_depth(each, depth + 1)


class JsonObject:
    """Takes the known fields out of a JSON object, each with its type; what is left is ``rest``."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise Malformed(f"{where} is {shortened(value)}, not an object")
        self.where = where
        self.rest: dict[str, Json] = dict(value)

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

    def text(self, key: str, default: str = "") -> str:
        """A string field."""
        value = self._take(key, (str,), "a text")
        return value if isinstance(value, str) else default

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

    def word(self, key: str, kind: type[E], default: E) -> E:
        """One of the words of an enumeration."""
        value = self.text(key)
        if not value:
            return default
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

    def mapping(self, key: str) -> dict[str, Json]:
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
