"""Whether the optimizer steps loaded weights themselves: a GradScaler cannot unscale gradients that are float16."""

from __future__ import annotations

import ast

from ....codemod.proof.needs import Known, Need, Release
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.trainers.reading.trained_loads import mentions, trained_loads

FROZEN = ("peft", "lora", "load_in_4bit", "load_in_8bit", "freeze")
"""Parts of names that code uses which say that loaded weights are not what the optimizer steps."""
FLOAT32_ADAPTERS = "0.12"
"""The first PEFT that keeps the adapters of 16-bit weights in float32."""


def looks_frozen(project: Project, module: ModuleNames, load: ast.Call) -> bool:
    """Whether adapters are trained in place of the loaded weights, or code (no import alone) speaks of freezing."""
    runs = [run for run in trained_loads(project) if run.load.call is load]
    if runs:
        return all(run.adapted or run.load.quantized or (run.frozen and not _trains_parts(module)) for run in runs)
    switched = (item for call in module.calls_by_name.get("requires_grad_", []) for item in call.args)
    off = any(isinstance(item, ast.Constant) and item.value is False for item in switched)
    return off or mentions(module.tree, FROZEN) or mentions(module.tree, tuple(word.title() for word in FROZEN))


def _trains_parts(module: ModuleNames) -> bool:
    """``parameter.requires_grad = True``: what was frozen before is trained in part."""
    stored = module.attribute_stores.get("requires_grad", ())
    holders = (module.parents.get(node) for node in stored)
    values = (holder.value for holder in holders if isinstance(holder, ast.Assign))
    return any(isinstance(value, ast.Constant) and value.value is True for value in values)


def only_adapters(project: Project, module: ModuleNames, load: ast.Call) -> Need:
    """What has to be known for float16 weights to be safe under a GradScaler: all that is trained is float32."""
    runs = [run for run in trained_loads(project) if run.load.call is load]
    if runs and all(run.adapted for run in runs):
        return Release("peft", FLOAT32_ADAPTERS, module.document.path, "float32 adapters on float16 weights")
    return Known(False, "nothing proves that these weights are not what the optimizer steps")
