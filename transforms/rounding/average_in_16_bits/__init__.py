"""A moving average of weights (EMA) is kept in 16 bits, and does not move

## What goes wrong

Nothing raises. Samples and scores of the EMA weights stay those of the first steps. Share of a gap of 10 % that the
average closes in 5 / (1 - decay) steps, measured with PyTorch 2.13 (true: 0.99; `mul_().add_()` / `lerp_`):

| | decay 0.9 | 0.99 | 0.995 | 0.999 | 0.9999 |
|---|---|---|---|---|---|
| bfloat16 | 0.77 / 0.62 | 0 | 0 | 0 | 0 |
| float16 | 0.97 / 0.96 | 0.26 / 0.51 | 0.75 / 0.02 | 0 | 0 |

## Why

A step of the average is (1 - decay) of the distance to the weight. In bfloat16 what is below 1/256 of the value is
rounded away, in float16 what is below 1/2,048. Threads: d8ahazard/sd_dreambooth_extension#1415, konpatp/diffae#16,
NUS-HPC-AI-Lab/VideoSys#6.

## Fix

`float32` [unsafe]: the average is kept in float32, whatever the model is in; 4 bytes a weight. Unsafe, since code
that runs the averaged model itself on 16-bit input then meets float32 weights: open an autocast region there, or copy
the average into the model first, as `copy_to` and `load_state_dict` do. Of a copy that its own line casts
(`deepcopy(model).to(torch.bfloat16)`) only that cast has to go.

## Not flagged

A model that is not certain to be 16-bit when the average is made; averages that are cast to float32 later; a decay
that is small enough (below 0.985 in bfloat16, 0.998 in float16) or not known; timm's ModelEmaV3, which rounds
bfloat16 at random; copies that nothing averages, or that another function averages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from ....codemod.half.half_weights import HalfWeights, half_weights
from ....codemod.half.weight_changes import cast_values, is_cast
from ....codemod.model import Finding, Fix, Rule
from ....codemod.purpose.checked import checked_code
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import HALVES, Dtype
from ..grids import is_average_lost
from .averages import Average, averages_in

WORDS = ("bfloat16", "float16", ".half(", "bf16", "fp16")
AVERAGES = ("ema", "EMA", "Ema", "AveragedModel", "ExponentialMovingAverage", "deepcopy")
MAX_AVERAGES = 20
"""Averages of one file that are looked at; nobody writes more."""


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS, AVERAGES):
        told: list[ast.Call] = []
        for average in islice(averages_in(project, module), MAX_AVERAGES):
            if average.owner is not None and any(average.owner in module.ancestors(made) for made in told):
                continue  # the copy in its class is told
            cast = _as_cast(project, module, average)
            weights = cast or half_weights(project, module, average.model, average.made)
            if weights is None or _becomes_float32(module, average, is_cast=cast is not None):
                continue
            if is_average_lost(average.decay.value, weights.dtype):
                told.append(average.made)
                yield _finding(module, average, weights, [] if cast else [_fix(module, average)])


def _as_cast(project: Project, module: ModuleNames, average: Average) -> HalfWeights | None:
    """The 16-bit weights of a copy that its own statement casts: ``deepcopy(model).to(torch.bfloat16)``."""
    calls = [item for item in module.ancestors(average.made) if isinstance(item, ast.Call) and is_cast(item)]
    found = [value.value for call in calls for value in cast_values(project, module, call)]
    dtypes = {item for item in found if isinstance(item, Dtype)}
    only = dtypes.pop() if len(dtypes) == 1 else None
    if only not in HALVES or average.keeper is None:
        return None
    place = module.place(calls[-1], f"{average.keeper} becomes {only.name} here")
    return HalfWeights(ast.unparse(average.model), only, place)


def _finding(module: ModuleNames, average: Average, weights: HalfWeights, fixes: list[Fix | None]) -> Finding:
    dtype, decay = weights.dtype.name, average.decay.value
    message = (
        f"the average of {weights.name} is kept in {dtype}: with decay {decay:g} its steps are"
        f" rounded away; in the {5 / (1 - decay):,.0f} steps in which it should close 99 % of a gap of 10 % it closes"
        " less than 10 % of it"
    )
    return rule.at(module, average.made, message, (*weights.places, average.decay.place), fixes)


def _fix(module: ModuleNames, average: Average) -> Fix | None:
    """The average in float32, by a cast of the copy or of the object that keeps it."""
    message = "the average is kept in float32: 4 bytes a weight; where it is run itself, its input has to follow"
    if average.is_copy:
        wider = [module.append(item, ".float()") for item in average.lerped]
        return Fix.unsafe("float32", message, module.append(average.made, ".float()"), *wider)
    if average.keeper is None or average.cast is None:
        return None
    text = average.cast.format(average=average.keeper)
    adds = [module.add_import("import torch")] if "torch" in text else []
    return Fix.unsafe("float32", message, module.insert(average.statement, text, "after"), *adds)


def _becomes_float32(module: ModuleNames, average: Average, *, is_cast: bool) -> bool:
    """Whether code casts the average afterwards, or makes it of float32 weights."""
    if not is_cast and any(_says_float32(item) for item in ast.walk(average.statement)):
        return True
    name = average.keeper
    if name is None:
        return False
    last = name.rpartition(".")[2]
    reads = [*module.name_loads.get(last, []), *module.attribute_loads.get(last, [])]
    return any(any(_says_float32(item) for item in ast.walk(_simple(module, read))) for read in reads)


def _simple(module: ModuleNames, read: ast.AST) -> ast.AST:
    """The statement of a read, of compound ones only their head."""
    statement = module.statement_of(read)
    return getattr(statement, "iter", read) if isinstance(statement, ast.For | ast.With | ast.If) else statement


def _says_float32(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ("float", "float32")
    return isinstance(node, ast.keyword) and node.arg == "dtype"


rule = Rule.of("PF802", check)
