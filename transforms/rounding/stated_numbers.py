"""The numbers that a setting is given in code, options, configuration files and launch lines."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...codemod.formats.text import TextEntry
from ...codemod.model import Place
from ...codemod.purpose.decided import CERTAIN, Decided, has_run, stated
from ...codemod.python.names import ModuleNames, names_of
from ...codemod.source.documents import FileKind
from ...codemod.source.project import Project
from ...codemod.trainers.reading.links import sources
from ...codemod.trainers.reading.numerals import NUMERALS
from ...codemod.trainers.reading.scopes import TextOrigin
from ...codemod.trainers.reading.source import GIVEN, ValueSource, as_number

RESULTS = (".json", ".jsonl")
"""What programs write their results to, with the settings that they had."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A number, and where it is written."""

    value: float
    place: Place


def stated_numbers(
    project: Project,
    module: ModuleNames,
    node: ast.expr,
    name: str,
    known: Decided = CERTAIN,
    *,
    holds: Callable[[float], bool] = lambda _: False,
) -> tuple[Stated, ...]:
    """Every number that ``node`` is in the runs of ``known``; empty where any value is not a number.

    ``name`` is what the messages call it. None of defaults that a file may overrule which nothing is seen to read, and
    which is no result of another program, unless ``holds`` is true of each of them, and of all that such files say.
    """
    every = sources(project, module, node, NUMERALS)
    seen = [item for item in every if not item.is_guessed and not _is_off(project, item)]
    near = [item for item in seen if item.lines & known.lines]
    given = near or stated([item for item in seen if not (item.lines and known.lines)])
    guessed = [item for item in every if item.is_guessed and not item.path.endswith(RESULTS)]
    is_overruled = bool(guessed) and not any(item.kind in GIVEN for item in given)
    found = [(source, as_number(source.value)) for source in (*given, *(guessed if is_overruled else ()))]
    if any(value is None or (is_overruled and not holds(value)) for _, value in found):
        return ()
    return tuple(
        Stated(value, source.place(f"{name} is {value:g} here")) for source, value in found if value is not None
    )


def _is_off(project: Project, source: ValueSource) -> bool:
    """Whether what is computed is computed only with an option that is off: ``if args.scale_lr: args.lr = ...``."""
    document = project.document(source.path) if source.value is None else None
    if document is None or document.kind is not FileKind.PYTHON:
        return False
    module = names_of(project, document)
    every = (item for item in module.nodes if isinstance(item, ast.expr))
    node = next((item for item in every if module.span(item) == source.span), None)
    return node is not None and not has_run(project, module, node)


def options_in(origin: TextOrigin) -> dict[str, TextEntry]:
    """What one place of a file, or a launch line, says, by the names without dashes."""
    return {item.name.lstrip("-"): item for item in origin.config.text.entries if origin.holds(item)}


def rate_in(origin: TextOrigin) -> Stated | None:
    """The learning rate that it says."""
    entry = options_in(origin).get("learning_rate")
    value = as_number(entry.value) if entry is not None else None
    if entry is None or value is None:
        return None
    return Stated(value, origin.config.place(entry, f"the learning rate is {value:g} here"))


def largest(numbers: tuple[Stated, ...]) -> Stated | None:
    """The largest of several numbers."""
    return max(numbers, key=lambda item: item.value, default=None)


def ends(numbers: Sequence[Stated]) -> tuple[Stated, ...]:
    """The smallest and the largest of several numbers; one where they are the same."""
    by_value = {item.value: item for item in sorted(numbers, key=lambda item: item.value)}
    return tuple(by_value[value] for value in dict.fromkeys((min(by_value), max(by_value))))
