"""Gradients of many micro-batches are summed in the 16-bit gradients of 16-bit weights

## What goes wrong

Nothing raises; the later micro-batches count for less. Relative error of the summed gradient, measured with PyTorch
2.13 (random gradients, sum in float64 as the truth):

| micro-batches | bfloat16 | float16 |
|---|---|---|
| 8 | 0.4 % | 0.05 % |
| 64 | 0.8 % | 0.12 % |
| 512 | 2.3 % | 0.34 % |

## Why

`backward()` adds to `parameter.grad`, which has the dtype of the parameter, and rounds after each micro-batch. The
sum grows and what is added to it does not, so each addition loses more.

## Fix

None is written: keep the weights in float32 (their gradients then are), or take fewer and larger micro-batches.

## Not flagged

Under 64 micro-batches; numbers that are not known; float32 weights; DeepSpeed, FSDP and Megatron, which sum gradients
in a dtype of their own; adapters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.source.project import Project
from .half_optimizers import half_optimizers
from .stated_numbers import Stated, largest, stated_numbers
from .trained_half import half_trainings

MANY = 64
"""Micro-batches from which the error is worth a word."""
MEASURED = {"bfloat16": {64: "0.8 %", 512: "2.3 %"}, "float16": {64: "0.12 %", 512: "0.34 %"}}
"""The manual's table."""
ARGUMENT = "gradient_accumulation_steps"


def check(project: Project) -> Iterator[Finding]:
    for training in half_trainings(project):
        node = training.given.get(ARGUMENT)
        count = _count(project, training.module, node) if node is not None else None
        if count is not None:
            message = _message(count, training.weights.dtype.name, training.weights.name)
            yield rule.at(training.module, training.call, message, (*training.weights.places, count.place))
    for item in half_optimizers(project):
        found = _counted(project, item.module, item.call)
        if found is not None:
            message = _message(found, item.weights.dtype.name, item.weights.name)
            yield rule.at(item.module, item.call, message, (*item.weights.places, found.place))


def _message(count: Stated, dtype: str, model: str) -> str:
    return (
        f"gradients of {count.value:g} micro-batches are summed in the {dtype} gradients of {model}: each addition"
        f" rounds the sum, which is then off by {_error(count.value, dtype)} or more, and later ones count for less"
    )


def _error(count: float, dtype: str) -> str:
    """The relative error at the largest number of micro-batches that was measured and is not above this one."""
    return MEASURED[dtype][512 if count >= 512 else MANY]


def _count(project: Project, module: ModuleNames, node: ast.expr) -> Stated | None:
    count = largest(stated_numbers(project, module, node, "the number of micro-batches"))
    return count if count is not None and count.value >= MANY else None


def _counted(project: Project, module: ModuleNames, optimizer: ast.Call) -> Stated | None:
    """The micro-batches of ``if (step + 1) % accumulation_steps == 0: optimizer.step()``."""
    targets = getattr(module.statement_of(optimizer), "targets", [])
    names = {ast.unparse(item) for item in targets}
    for call in module.calls_by_name.get("step", []):
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in names:
            for test in _tests_around(module, call):
                count = _count(project, module, test.right) if _is_accumulation(test.right) else None
                if count is not None:
                    return count
    return None


def _tests_around(module: ModuleNames, call: ast.Call) -> Iterator[ast.BinOp]:
    for parent in module.ancestors(call):
        if isinstance(parent, ast.If):
            remainders = (item for item in ast.walk(parent.test) if isinstance(item, ast.BinOp))
            yield from (item for item in remainders if isinstance(item.op, ast.Mod))


def _is_accumulation(node: ast.expr) -> bool:
    name = (attribute_chain(node) or [""])[-1].lower()
    return "accum" in name or isinstance(node, ast.Constant)


rule = Rule.of("PF807", check)
