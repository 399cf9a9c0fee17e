"""Where a trainer and the DeepSpeed file it is given name different types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ....codemod.model import Place
from ....codemod.source.project import Project
from ....codemod.trainers.reading.declarations import scopes_of
from ....codemod.trainers.reading.precision import Compute, precision_of
from ....codemod.trainers.reading.scopes import Scope

TYPES = {Compute.BF16: "bf16", Compute.FP16: "fp16"}


@dataclass(frozen=True, slots=True)
class TrainerWord:
    """A trainer that switches one 16-bit type on and reads a DeepSpeed file."""

    type: str
    config: str
    """Path of the DeepSpeed file in the project."""
    place: Place


def word_for(project: Project, path: str) -> TrainerWord | None:
    """The only type that trainers ask for when they read this file; None when they differ or none is known."""
    words = [word for word in project.fact(_all_words) if word.config == path]
    return words[0] if len({word.type for word in words}) == 1 else None


def _all_words(project: Project) -> tuple[TrainerWord, ...]:
    """Every launch line and every ``TrainingArguments``-like call that says both, written out."""
    return tuple(_words(project))


def _words(project: Project) -> Iterator[TrainerWord]:
    for scope in scopes_of(project):
        path = _in_project(project, _deepspeed_file(scope))
        compute = precision_of(project, scope).compute if path is not None else None
        if path is not None and compute in TYPES:
            yield TrainerWord(TYPES[compute], path, precision_of(project, scope).place)


def _deepspeed_file(scope: Scope) -> str:
    """The file that a command line or a call passes as its DeepSpeed configuration; empty where it passes none."""
    if scope.command is not None:
        words = (*scope.command.words, "")
        parts = ((word, after) if "=" not in word else word.split("=", 1) for word, after in pairwise(words))
        return next((value for flag, value in parts if flag == "--deepspeed"), "")
    call = scope.call
    given = next((item.value for item in call.keywords if item.arg == "deepspeed"), None) if call is not None else None
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _in_project(project: Project, written: str) -> str | None:
    """The one project file that a written path can mean, or None."""
    tail = written.lstrip("./")
    found = [path for path in project.paths if tail and (path == tail or path.endswith("/" + tail))]
    return found[0] if len(found) == 1 else None
