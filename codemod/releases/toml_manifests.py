"""TOML manifests, read with what the interpreter brings (tomllib from Python 3.11 on, else tomlkit)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..formats.toml_scalars import loads

__all__ = ["TomlTable", "read_toml"]


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table of which nothing is known: every question has an answer, an empty one when the shape is different."""

    values: Mapping[str, object]

    def table(self, key: str) -> TomlTable:
        """The table under ``key``."""
        return _table(self.values.get(key))

    def tables(self) -> Iterator[tuple[str, TomlTable]]:
        """All entries that are tables."""
        yield from ((key, _table(value)) for key, value in self.values.items() if isinstance(value, Mapping))

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts in the array under ``key``."""
        return _texts(self.values.get(key))

    def text_lists(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """All entries that are arrays, with the texts in them."""
        yield from ((key, _texts(value)) for key, value in self.values.items() if isinstance(value, list))

    def versions(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Package name -> the versions asked for: ``"^2"``, ``{version = "^2"}`` or an array of such."""
        for key, value in self.values.items():
            choices = value if isinstance(value, list) else [value]
            texts = [item.get("version") if isinstance(item, Mapping) else item for item in choices]
            yield key, tuple(str(text) for text in texts if isinstance(text, str))


def read_toml(text: str) -> TomlTable:
    """The root table of a TOML text; an empty one when the text is no TOML."""
    try:
        return _table(loads(text))
    except (ValueError, RecursionError):
        return TomlTable({})


def _table(value: object) -> TomlTable:
    return TomlTable({str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {})


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
