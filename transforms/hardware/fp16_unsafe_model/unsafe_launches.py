"""Command lines and configuration files that run an endangered checkpoint in float16."""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.formats.text import Entry
from ....codemod.model import Draft, Place
from ....codemod.purpose.files import is_test, purpose_of
from ....codemod.source.project import Project
from ....codemod.trainers.reading.declarations import scopes_of
from ....codemod.trainers.reading.precision import Compute, Precision, precision_of
from ....codemod.trainers.reading.recognition import plain_flag
from ....codemod.trainers.reading.scopes import TextOrigin
from .fp16_danger import moved
from .unsafe_families import family_of

MODEL_KEYS = ("model_name_or_path", "model_name", "model_id", "base_model", "model", "model_checkpoint", "model_path")
OTHER_TASKS = frozenset({"--do_eval", "--do_predict", "--eval_only"})
"""Flags of the Hugging Face examples for what needs no training; beside ``--do_train`` they say nothing."""


def unsafe_launches(project: Project) -> Iterator[Draft]:
    """Places that ask a trainer for float16 beside the name of such a checkpoint."""
    for scope in scopes_of(project):
        origin = scope.origin if scope.kind in ("file", "command") and not is_test(scope.path) else None
        precision = precision_of(project, scope) if isinstance(origin, TextOrigin) else None
        if precision is None or precision.setting is None or precision.compute is not Compute.FP16:
            continue
        assert isinstance(origin, TextOrigin)
        models = [entry for entry in _beside(origin, precision) if _names_family(entry)]
        if len(models) == 1 and _trains(precision):
            yield _danger(project, precision, origin, models[0])


def _beside(origin: TextOrigin, precision: Precision) -> Iterator[Entry]:
    """The flags of the same command line, or the keys of the same mapping."""
    entries = origin.config.text.entries
    own = entries[precision.setting.index] if precision.setting is not None else None
    for entry in entries if own is not None else ():
        same = entry.kind == "flag" if origin.call is not None else entry.is_scalar
        beside = own is not None and (entry.document, entry.key[:-1]) == (own.document, own.key[:-1])
        if same and beside and origin.holds(entry):
            yield entry


def _names_family(entry: Entry) -> bool:
    return plain_flag(entry.name) in MODEL_KEYS and isinstance(entry.value, str) and family_of(entry.value) is not None


def _trains(precision: Precision) -> bool:
    command = precision.scope.command
    if command is None:
        return not purpose_of(precision.scope.path).is_left_alone
    words = set(command.words)
    script = command.script.replace("\\", "/").rpartition("/")[2].lower()
    return bool(script) and not purpose_of(script).is_left_alone and ("--do_train" in words or not OTHER_TASKS & words)


def _danger(project: Project, precision: Precision, origin: TextOrigin, entry: Entry) -> Draft:
    model = str(entry.value)
    family = family_of(model)
    said = f" ({family.name})" if family is not None else ""
    effect = "the loss becomes nan or every step is skipped"
    message = f"{model} overflows in float16: its activations exceed 65504{said}, {effect}"
    fix = moved(project, precision.scope)
    evidence = (origin.config.place(entry, f"{model} is trained"),)
    place = Place(precision.scope.path, precision.place.span, message)
    return Draft(place, evidence, (fix,) if fix is not None else ())
