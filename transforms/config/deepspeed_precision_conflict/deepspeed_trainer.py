"""Where a Hugging Face trainer and the DeepSpeed file it is given name different types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.model import Place
from ....codemod.python.names import names_of
from ....codemod.source.project import Project
from ....codemod.trainers.reading.configs import config_files

TYPES = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class TrainerWord:
    """A trainer that switches one 16-bit type on and reads a DeepSpeed file."""

    type: str
    config: str
    """Path of the DeepSpeed file in the project."""
    place: Place


def trainer_words(project: Project) -> tuple[TrainerWord, ...]:
    """Every launch line and every ``TrainingArguments``-like call that says both, written out."""
    return project.fact(_all_words)


def _all_words(project: Project) -> tuple[TrainerWord, ...]:
    return (*_launch_lines(project), *_calls(project))


def _launch_lines(project: Project) -> Iterator[TrainerWord]:
    for config in config_files(project, containing=("--deepspeed",)):
        flags = [entry for entry in config.text.entries if entry.kind == "flag" and entry.owner != "launcher"]
        for flag in flags:
            if flag.name != "--deepspeed" or not isinstance(flag.value, str):
                continue
            path = _in_project(project, flag.value)
            for other in flags:
                same = (other.command, other.inside) == (flag.command, flag.inside)
                if path and same and other.name.lstrip("-") in TYPES and _is_on(other.value):
                    name = other.name.lstrip("-")
                    yield TrainerWord(name, path, config.place(other, f"the trainer is configured to run in {name}"))


def _is_on(value: object) -> bool:
    return value is None or str(value).lower() in ("true", "1", "yes")


def _calls(project: Project) -> Iterator[TrainerWord]:
    for document in project.python_documents(("deepspeed",), where=lambda text: "deepspeed=" in text):
        for call in names_of(project, document).calls:
            given = {item.arg: item.value for item in call.keywords if item.arg is not None}
            file = given.get("deepspeed")
            if not isinstance(file, ast.Constant) or not isinstance(file.value, str):
                continue
            path = _in_project(project, file.value)
            for name in TYPES:
                value = given.get(name)
                if path and isinstance(value, ast.Constant) and value.value is True:
                    place = Place(document.path, document.span(value), f"the trainer is configured to run in {name}")
                    yield TrainerWord(name, path, place)


def _in_project(project: Project, written: str) -> str | None:
    """The one project file that a written path can mean, or None."""
    tail = written.lstrip("./")
    found = [path for path in project.paths if tail and (path == tail or path.endswith("/" + tail))]
    return found[0] if len(found) == 1 else None


def word_for(project: Project, path: str) -> TrainerWord | None:
    """The only type that trainers ask for when they read this file; None when they differ or none is known."""
    words = [word for word in trainer_words(project) if word.config == path]
    return words[0] if len({word.type for word in words}) == 1 else None
