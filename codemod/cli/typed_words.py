"""What plainly typed words ask for, read without typer.

Typer takes longer to import than a small project to check. It still reads everything that is not plain: help, mistakes
(its messages are what the user sees), names run together, completion.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

from .commands import Request
from .options import Argument, FlagOption, ValueOption

AnyRequest = TypeVar("AnyRequest", bound=Request)
AnyOption = Argument | FlagOption | ValueOption


def options_of(kind: type[Request]) -> dict[str, AnyOption]:
    """Field -> how it is typed, as declared in `commands`."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in kind.taken}


def names_of(field: str, option: FlagOption | ValueOption) -> tuple[str, ...]:
    """All names under which an option is typed."""
    names = option.names or (f"--{field.replace('_', '-')}",)
    return (*names, option.off) if isinstance(option, FlagOption) and option.off else names


def request_of(kind: type[AnyRequest], words: Sequence[str]) -> AnyRequest | None:
    """The request that ``words`` make; None where typer has to look at them."""
    if os.name == "nt" and any(not set("*?[~$%").isdisjoint(word) for word in words):  # typer expands these there
        return None
    try:
        given = _given(options_of(kind), words)
    except (LookupError, ValueError):
        return None
    if "paths" not in given and _asks_for_paths(kind):
        return None
    return kind(**given)


def _asks_for_paths(kind: type[Request]) -> bool:
    """Whether a PATH has to be typed."""
    return any(each.name == "paths" and each.default_factory is MISSING for each in fields(kind))


def with_command(words: Sequence[str]) -> list[str]:
    """``migrate . --prove -- python train.py`` with the command as the value of the option."""
    if words[:1] != ["migrate"] or "--prove" not in words or "--" not in words:
        return [*words]
    import shlex

    end = [*words].index("--")
    kept = [word for word in words[:end] if word != "--prove"]
    return [*kept, f"--prove={shlex.join(words[end + 1 :])}"]


def _given(options: dict[str, AnyOption], words: Sequence[str]) -> dict[str, Any]:
    """Field -> value; raises LookupError or ValueError for what is not plain."""
    named = {
        name: (field, option)
        for field, option in options.items()
        if not isinstance(option, Argument)
        for name in names_of(field, option)
    }
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            _add(given, "paths", options["paths"], word)
            continue
        name, equals, value = word.partition("=")
        field, option = named[name]
        if equals and (isinstance(option, FlagOption) or not name.startswith("--")):
            raise ValueError(word)
        if isinstance(option, FlagOption):
            given[field] = name != option.off
        else:
            _add(given, field, option, _plain(value if equals else next(rest, "")))
    return given


def _plain(text: str) -> str:
    if not text or text.startswith("-"):
        raise ValueError(text)
    return text


def _add(given: dict[str, Any], field: str, option: AnyOption, text: str) -> None:
    assert not isinstance(option, FlagOption)
    value = option.read(text) if option.read is not None else text
    if isinstance(option, Argument) or option.several:
        several = given.setdefault(field, [])
        assert isinstance(several, list)
        several.append(value)
    else:
        given[field] = value
