"""The steps of a LightningModule: they run inside autocast where a Trainer of the project has a mixed precision."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from ...codemod.model import Place
from ...codemod.purpose.files import is_test
from ...codemod.python.names import FunctionNode, ModuleNames, names_of, resolve
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of

STEPS = ("training_step", "validation_step", "test_step", "predict_step")
MIXED = {"16", "16-mixed", "bf16", "bf16-mixed"}
PACKAGES = ("lightning", "pytorch_lightning")
OFF_CUDA = ("cpu", "mps", "tpu", "hpu")


def lightning_precision(
    project: Project, module: ModuleNames, function: FunctionNode, spellings: Collection[str] = MIXED
) -> tuple[Place, ...] | None:
    """What puts a step of a LightningModule under autocast: the Trainer's precision; None for anything else."""
    owner = module.scopes[function].parent
    if function.name not in STEPS or owner is None or not isinstance(owner.node, ast.ClassDef):
        return None
    bases = [resolve(project, module, base) or "" for base in owner.node.bases]
    if not any(base.partition(".")[0] in PACKAGES and base.endswith("LightningModule") for base in bases):
        return None
    name = owner.node.name
    trainers = project.fact(_mixed_trainers)
    place = next((place for text, said, place in trainers if name in text and not said.isdisjoint(spellings)), None)
    return None if place is None else (place,)


def _mixed_trainers(project: Project) -> tuple[tuple[str, frozenset[str], Place], ...]:
    """The Trainers with a mixed precision, each with the text of its file and the precisions it can have."""
    return tuple(_trainers(project))


def _trainers(project: Project) -> Iterator[tuple[str, frozenset[str], Place]]:
    documents = project.python_documents(("precision",), where=lambda text: "Trainer(" in text and "lightning" in text)
    for document in documents:
        if is_test(document.path):
            continue
        module = names_of(project, document)
        for call in module.calls_by_name.get("Trainer", []):
            name = resolve(project, module, call.func) or ""
            said = _mixed(project, module, call) if name.partition(".")[0] in PACKAGES else frozenset()
            if said:
                place = Place(document.path, document.span(call), "Lightning runs the steps under autocast")
                yield document.text, said, place


def _mixed(project: Project, module: ModuleNames, call: ast.Call) -> frozenset[str]:
    """The mixed precisions that a Trainer can have on CUDA."""
    given = {item.arg: item.value for item in call.keywords if item.arg is not None}
    precision, accelerator = given.get("precision"), given.get("accelerator")
    if precision is None:
        return frozenset()
    said = {str(value) for value in constants_of(project, module, precision) if not isinstance(value, bool)}
    devices = set(map(str, constants_of(project, module, accelerator))) if accelerator is not None else set()
    return frozenset() if devices and devices <= set(OFF_CUDA) else frozenset(said & MIXED)
