"""The steps of a LightningModule: they run inside autocast where a Trainer of the project has a mixed precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.facts.names import FunctionNode, ModuleNames, names_of, resolve
from ...codemod.facts.values import values_of
from ...codemod.model import Place
from ...codemod.project import Project
from ..hardware.deployment import is_test

STEPS = ("training_step", "validation_step", "test_step")
MIXED = {"16", "16-mixed", "bf16", "bf16-mixed"}
PACKAGES = ("lightning", "pytorch_lightning")
OFF_CUDA = ("cpu", "mps", "tpu", "hpu")


def lightning_precision(project: Project, module: ModuleNames, function: FunctionNode) -> tuple[Place, ...] | None:
    """What puts a step of a LightningModule under autocast: the Trainer's precision; None for anything else."""
    owner = module.scopes[function].parent
    if function.name not in STEPS or owner is None or not isinstance(owner.node, ast.ClassDef):
        return None
    bases = [resolve(project, module, base) or "" for base in owner.node.bases]
    if not any(base.partition(".")[0] in PACKAGES and base.endswith("LightningModule") for base in bases):
        return None
    name = owner.node.name
    place = next((place for document, place in project.fact(_mixed_trainers) if name in document), None)
    return None if place is None else (place,)


def _mixed_trainers(project: Project) -> tuple[tuple[str, Place], ...]:
    """The Trainers with a mixed precision, each with the text of its file."""
    return tuple(_trainers(project))


def _trainers(project: Project) -> Iterator[tuple[str, Place]]:
    documents = project.python_documents(("precision",), where=lambda text: "Trainer(" in text and "lightning" in text)
    for document in documents:
        if is_test(document.path):
            continue
        module = names_of(project, document)
        for call in module.calls_by_name.get("Trainer", []):
            name = resolve(project, module, call.func) or ""
            if name.partition(".")[0] in PACKAGES and _is_mixed(project, module, call):
                place = Place(document.path, document.span(call), "Lightning runs the steps under autocast")
                yield document.text, place


def _is_mixed(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    given = {item.arg: item.value for item in call.keywords if item.arg is not None}
    precision, accelerator = given.get("precision"), given.get("accelerator")
    if precision is None:
        return False
    values = values_of(project, module)
    mixed = any(str(item.value) in MIXED and not isinstance(item.value, bool) for item in values.scenarios(precision))
    devices = {str(item.value) for item in values.scenarios(accelerator)} if accelerator is not None else set()
    return mixed and not (devices and devices <= set(OFF_CUDA))
