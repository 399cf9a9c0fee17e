"""Command lines inside YAML: ``run:`` of a workflow, ``command:`` and ``args:`` of a container, arguments of a job.

Each is a text of the same length as the whole, in which only the words of the command are left: every offset in it is
one of the YAML text. A scalar that YAML folds to one line is one line there too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .sweep_commands import sweep_command
from .text import ConfigText, TextEntry

PROGRAMS = frozenset({"python", "python3", "torchrun", "accelerate", "deepspeed", "srun", "mpirun", "horovodrun", "uv"})
LISTS = ("command", "entrypoint", "cmd", "args", "arguments")
"""Keys of lists whose items are the words of one command; several in one mapping are read where they stand in this
order."""
MAX_COMMANDS = 500
_NEWLINE = re.compile(r"[\r\n]")
_HEADER = re.compile(r"[|>][^\r\n]*")


@dataclass(frozen=True, slots=True)
class InnerCommand:
    """A command of a YAML text: the text that only holds it, and where it begins and ends."""

    text: str
    start: int
    end: int
    is_laid_over: bool = False
    """Whether its words stand elsewhere in the text, so that nobody can write to it."""


def commands_in(text: str, config: ConfigText) -> Iterator[InnerCommand]:
    """The commands of a YAML text, opened as ``config``, in document order."""
    swept = sweep_command(text, config)
    if swept is not None:
        yield InnerCommand(*swept, is_laid_over=True)
        return
    groups = [[entry] for entry in config.entries if _is_command(entry)]
    groups += _lists(config.entries, {entry.key[:-1] for (entry,) in groups})
    for entries in sorted(groups, key=lambda listed: listed[0].start)[:MAX_COMMANDS]:
        parts = [part for part in (_words(text, entry) for entry in entries) if part is not None]
        if len(parts) == len(entries):
            found = _only(text, parts) if parts == sorted(parts) else _turned(text, parts)
            if found is not None:
                yield found


def _is_command(entry: TextEntry) -> bool:
    value = entry.value if isinstance(entry.value, str) and not entry.container else ""
    words = value.split()
    return len(words) > 1 and entry.style not in ("alias", "template") and any(_is_program(word) for word in words)


def _is_program(word: str) -> bool:
    return word.rpartition("/")[2] in PROGRAMS


def _lists(entries: Sequence[TextEntry], holding: set[tuple[str | int, ...]]) -> Iterator[list[TextEntry]]:
    """The lists of words of each mapping, but those with an item that is a command of its own."""
    found: dict[tuple[int, tuple[str | int, ...]], list[TextEntry]] = {}
    for entry in entries:
        inside = entry.key[:-1]
        if entry.kind == "item" and entry.is_scalar and inside and inside[-1] in LISTS and inside not in holding:
            found.setdefault((entry.document, inside[:-1]), []).append(entry)
    for listed in found.values():
        words = sorted(listed, key=lambda entry: (LISTS.index(str(entry.key[-2])), entry.start))
        if any(_is_program(str(entry.value)) for entry in words):
            yield words


def _words(text: str, entry: TextEntry) -> tuple[int, int, bool] | None:
    """Where the characters of a scalar stand, and whether its lines are lines; None where it is escaped."""
    header = _HEADER.match(text, entry.start) if entry.style == "block" else None
    if header is not None:
        return header.end(), entry.end, header[0].startswith("|")
    if entry.style in ("single", "double"):
        quote, inside = text[entry.start], text[entry.start + 1 : entry.end - 1]
        return None if "\\" in inside or quote in inside else (entry.start + 1, entry.end - 1, False)
    return entry.start, entry.end, False


def _turned(text: str, parts: Sequence[tuple[int, int, bool]]) -> InnerCommand | None:
    """``args:`` above ``command:``: the command is put over what stands before its arguments, if there is room."""
    at = next(number for number, (one, other) in enumerate(pairwise(parts), 1) if one > other)
    command, arguments = parts[:at], parts[at:]
    if command != sorted(command) or arguments != sorted(arguments) or arguments[-1] > command[0]:
        return None
    front = " ".join(_NEWLINE.sub(" ", text[first:last]) for first, last, _ in command) + " "
    start = arguments[0][0] - len(front)
    inner = _only(text, arguments)
    if start < 0:
        return None
    return InnerCommand(f"{text[:start]}{front}{inner.text[arguments[0][0] :]}", start, inner.end)


def _only(text: str, parts: Sequence[tuple[int, int, bool]]) -> InnerCommand:
    start, end = min(first for first, _, _ in parts), max(last for _, last, _ in parts)
    pieces, at = [], start
    for first, last, keeps_lines in sorted(parts):
        words = text[first:last]
        pieces += [" " * (first - at), words if keeps_lines else _NEWLINE.sub(" ", words)]
        at = last
    return InnerCommand(f"{text[:start]}{''.join(pieces)}{text[end:]}", start, end)
