"""What code itself says of the release that it runs with: it uses what a later one has removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from ..python.names import ModuleNames, modules_with
from ..source.project import Project
from .gates import guarding_try, is_gated
from .requirements import Pin, Tier

PACKAGES = {"pytorch_lightning": "pytorch-lightning", "lightning": "lightning"}
GONE = ("from_argparse_args", "add_argparse_args")
"""Methods of Trainer that Lightning 2.0 removed."""
HOOKS = ("training_epoch_end", "validation_epoch_end", "test_epoch_end")
"""Methods of LightningModule that it refuses (Lightning's changelog, 2.0.0)."""
BEFORE = SpecifierSet("<2.0")


def pins_of_code(project: Project) -> Iterator[Pin]:
    """A requirement for each place that only runs with an old release."""
    for module in modules_with(project, (*GONE, *HOOKS), tuple(PACKAGES)):
        methods = [item for item in module.of_type(ast.FunctionDef) if item.name in HOOKS]
        loads = [load for name in GONE for load in module.attribute_loads.get(name, ())]
        nodes: list[ast.Attribute | ast.FunctionDef] = [*loads, *methods]
        for node in nodes:
            name = _package(module, node)
            if name and not is_gated(module, node) and guarding_try(module, node) is None:
                yield Pin(PACKAGES[name], BEFORE, Tier.CODE, module.place(node, "Lightning 2.0 removed this"))


def _package(module: ModuleNames, node: ast.Attribute | ast.FunctionDef) -> str:
    """The package whose Trainer, or LightningModule, a place is about; empty for others."""
    if isinstance(node, ast.Attribute):
        owners = [node.value]
    else:
        owner = module.parents[node]
        owners = owner.bases if isinstance(owner, ast.ClassDef) else []
    named = [name.split(".") for item in owners if (name := module.qualified(item))]
    return next(
        (parts[0] for parts in named if parts[0] in PACKAGES and parts[-1] in ("Trainer", "LightningModule")), ""
    )
