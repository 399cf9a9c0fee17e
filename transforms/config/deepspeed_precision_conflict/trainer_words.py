"""Which 16-bit type the trainers ask for that read a DeepSpeed file, and fill in what it leaves to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ....codemod.model import Place
from ....codemod.python.names import string_of
from ....codemod.source.project import Project
from ....codemod.trainers.framework import FAMILIES
from ....codemod.trainers.reading.declarations import scopes_of
from ....codemod.trainers.reading.precision import Compute, precision_of
from ....codemod.trainers.reading.runs import runs_with
from ....codemod.trainers.reading.scopes import SettingScope
from ....codemod.trainers.writing.handed_deepspeed import handed_by_accelerate, is_plain_call

TYPES = {Compute.BF16: "bf16", Compute.FP16: "fp16"}


@dataclass(frozen=True, slots=True)
class TrainerWord:
    """A trainer that reads a DeepSpeed file, and the 16-bit type that it switches on."""

    type: str
    """Empty where it certainly switches none on."""
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
    named = ((scope, _deepspeed_file(scope)) for scope in scopes_of(project))
    for scope, written in (*named, *handed_by_accelerate(project)):
        path = _in_project(project, written)
        compute = precision_of(project, scope).compute if path is not None else None
        if path is not None and compute in TYPES:
            yield TrainerWord(TYPES[compute], path, precision_of(project, scope).place)
        elif path is not None and compute is Compute.FP32 and is_plain_call(scope):
            yield TrainerWord("", path, precision_of(project, scope).place)
        elif path is not None and compute is Compute.UNKNOWN and scope.call is not None:
            yield from _given_words(project, scope, path)


def _given_words(project: Project, scope: SettingScope, path: str) -> Iterator[TrainerWord]:
    """What each run gives a call that leaves its type to an option: ``fp16=args.dtype == "fp16"``; if all are known."""
    runs, words = runs_with(project, scope), list[TrainerWord]()
    for run in runs:
        member = run.winner
        family = FAMILIES[member.regime or ""] if member is not None and member.scope is scope else ""
        handed = member.effective_handed if member is not None else ()
        asking = next((item for item in handed if item.regime == member.regime), None) if member is not None else None
        if family in TYPES.values() and asking is not None:
            place = asking.source.place(f"{asking.source.key} is {asking.shown}")
            words.append(TrainerWord(family, path, place))
    yield from words if len(words) == len(runs) else ()


def _deepspeed_file(scope: SettingScope) -> str:
    """The file that a command line or a call passes as its DeepSpeed configuration; empty where it passes none."""
    if scope.command is not None:
        words = (*scope.command.words, "")
        parts = ((word, after) if "=" not in word else word.split("=", 1) for word, after in pairwise(words))
        return next((value for flag, value in parts if flag == "--deepspeed"), "")
    call = scope.call
    given = next((item.value for item in call.keywords if item.arg == "deepspeed"), None) if call is not None else None
    return string_of(given) or ""


def _in_project(project: Project, written: str) -> str | None:
    """The one project file that a written path can mean, or None."""
    tail = written.lstrip("./")
    found = [path for path in project.paths if tail and (path == tail or path.endswith("/" + tail))]
    return found[0] if len(found) == 1 else None
