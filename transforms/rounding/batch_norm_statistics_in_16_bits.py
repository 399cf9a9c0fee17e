"""The running statistics of batch norm are averaged in bfloat16

## What goes wrong

Nothing raises. The model evaluates worse than it trains: `running_mean` and `running_var` stop before they arrive.
Measured with PyTorch 2.13 (2,000 batches of 256, true mean 3.0, true variance 4.0, average over 64 channels):

| statistics | momentum | mean | variance |
|---|---|---|---|
| float32 | 0.1 | 2.99 | 4.00 |
| bfloat16 | 0.1 | 2.97 | 3.96 |
| float32 | 0.01 | 3.00 | 4.00 |
| bfloat16 | 0.01 | 2.03 | 3.34 |
| float16 | 0.01 | 3.00 | 4.00 |
| bfloat16, on a GPU (2.11) | 0.1 | 3.00 | 4.00 |
| bfloat16, on a GPU (2.11) | 0.01 | 2.59 | 3.99 |

## Why

`running = (1 - momentum) * running + momentum * batch` is a moving average. In bfloat16 a step below 1/512 to 1/256 of
the value is rounded away, so the average stops that far from its goal divided by the momentum: 2 to 4 % with the
default momentum of 0.1, 20 to 40 % with 0.01; on a GPU, which rounds less, 0 and 14 % of the mean.
`model.to(torch.bfloat16)` converts buffers as well.

## Fix

`float32` [unsafe]: batch norms are cast back to float32 behind the cast. cuDNN takes 16-bit input with float32
statistics and weights; a model that reads their weights itself may meet two dtypes.

## Not flagged

Models that are not trained, or whose class is not known; batch norms that are cast back; group and layer norm, which
keep no statistics; autocast over float32 weights; float16, whose steps are eight times finer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.classes import ProjectClass
from ...codemod.flow.parts import all_parts
from ...codemod.half.optimized_models import models_of
from ...codemod.model import Finding, Fix, Rule
from ...codemod.python.creations import Creation, creations_of
from ...codemod.python.functions import class_of
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16
from .half_optimizers import HalfOptimizer, half_optimizers

NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
OF_TORCHVISION = ("resnet", "resnext", "wide_resnet", "densenet", "mobilenet", "efficientnet", "regnet", "shufflenet")
"""Beginnings of the names of torchvision's models with batch norm."""
CAST_BACK = """for part in {model}.modules():
    if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
        part.float()"""


def check(project: Project) -> Iterator[Finding]:
    seen: set[ast.AST] = set()
    for item in (each for each in half_optimizers(project) if each.weights.dtype == BF16):
        for model in models_of(item.module, item.parameters):
            norm = _norm_of(project, item.module, model) if model is not None else None
            if model is not None and norm is not None and item.call not in seen:
                seen.add(item.call)
                yield _finding(item, model, norm)


def _finding(item: HalfOptimizer, model: ast.expr, norm: str) -> Finding:
    name, dtype = ast.unparse(model), item.weights.dtype.name
    message = (
        f"{name} is trained in {dtype} and has {norm}: its running statistics are averaged"
        f" in {dtype}, where small steps are rounded away"
    )
    fix = Fix.unsafe(
        "float32",
        "batch norms go back to float32 behind the cast: statistics and weights of 4 bytes, as autocast has them",
        item.module.insert(item.module.statement_of(item.call), CAST_BACK.format(model=name)),
        item.module.add_import("import torch"),
    )
    evidence = (item.module.place(item.call, "its parameters are trained here"), *item.weights.decided.places)
    return rule.found(item.weights.place.saying(message), evidence, [fix] if isinstance(model, ast.Name) else [])


def _norm_of(project: Project, module: ModuleNames, model: ast.expr) -> str | None:
    """The batch norm that the model certainly has."""
    found = [_norm_made(project, item) for item in creations_of(project, module, model)]
    return found[0] if found and None not in found else None


def _norm_made(project: Project, made: Creation) -> str | None:
    qualified = made.module.qualified(made.call.func) or ""
    if qualified.startswith("torchvision.models.") and qualified.rpartition(".")[2].startswith(OF_TORCHVISION):
        return f"the batch norms of {qualified.rpartition('.')[2]}"
    named = _named_in(made.module, made.call)
    if named is not None:
        return named
    owner = class_of(project, made.module, made.call.func)
    parts = all_parts(project, ProjectClass(*owner)) if owner is not None else ()
    return next((norm for part in parts if (norm := _named_in(part.module, part.scope.node)) is not None), None)


def _named_in(module: ModuleNames, where: ast.AST) -> str | None:
    """A batch norm that is created in some code, tests aside."""
    for call in (item for item in ast.walk(where) if isinstance(item, ast.Call)):
        name = (attribute_chain(call.func) or [""])[-1]
        chosen = any(isinstance(item, ast.If | ast.IfExp) for item in module.ancestors(call) if item is not where)
        if name in NORMS and not chosen and (module.qualified(call.func) or "").startswith("torch."):
            return name
    return None


rule = Rule.of("PF808", check)
