"""Settings that follow each other on a command line, name and value as words of their own: ``TRAIN.DTYPE float16``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from ...formats.text import CommandLine
from ...model import Edit, EditRefused, ReplaceText, Span
from ...source.project import Project
from ...torch.dtypes import Constant
from .configs import ConfigFile
from .launch_flags import runs_one_of
from .program_files import command_lines
from .source import ValueSource

BETWEEN = " \t\\\r\n"
"""What can stand between two words of one command line."""


def pairs_given(project: Project, parts: Sequence[str], programs: set[str]) -> Iterator[ValueSource]:
    """Every pair of words that gives the setting with this dotted name its value, where one of ``programs`` runs."""
    if len(parts) < 2:
        return
    for config, command in command_lines(project, (parts[-1],)):
        if command.script and runs_one_of(project, config.document.path, command.script, programs):
            yield from _pairs(config, command, parts)


def _pairs(config: ConfigFile, command: CommandLine, parts: Sequence[str]) -> Iterator[ValueSource]:
    for name, value in pairwise(command.words):
        named = name.split(".")
        if len(named) < 2 or named[-len(parts) :] != list(parts)[-len(named) :] or not value.isidentifier():
            continue
        at = _place_of(config.document.text, command, name, value)
        if at is not None:
            row, column = config.document.position(at)
            span = Span(row, column, row, column + len(value))
            respelling = partial(_respelled, config, at, value)
            yield ValueSource("flag", config.document.path, span, name, value, value, config, respelling=respelling)


def _place_of(text: str, command: CommandLine, name: str, value: str) -> int | None:
    """Where the value stands: the next word behind the name."""
    at = text.find(name, command.start)
    if at < 0:
        return None
    at += len(name)
    while at < len(text) and text[at] in BETWEEN:
        at += 1
    end = at + len(value)
    is_word = text.startswith(value, at) and (end == len(text) or text[end] in f"{BETWEEN};&|)")
    return at if is_word else None


def _respelled(config: ConfigFile, at: int, present: str, value: Constant) -> Edit:
    if not isinstance(value, str) or not value.isidentifier():
        raise EditRefused(f"{present} cannot become {value!r}")
    return config.edit(ReplaceText(at, at + len(present), value))
