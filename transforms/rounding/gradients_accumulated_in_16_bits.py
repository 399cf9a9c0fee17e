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
in a dtype of their own; adapters; optimizers that no run makes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.python.arguments import receiver_of
from ...codemod.python.bindings import names_given
from ...codemod.python.functions import called_function
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.python.paths import position
from ...codemod.source.project import Project
from .half_optimizers import half_optimizers
from .stated_numbers import Stated, largest, stated_numbers
from .trained_half import half_trainings, is_run

MANY = 64
"""Micro-batches from which the error is worth a word."""
MEASURED = {"bfloat16": {64: "0.8 %", 512: "2.3 %"}, "float16": {64: "0.12 %", 512: "0.34 %"}}
"""The relative errors of the manual's table: that of the largest number of micro-batches not above is told."""
ARGUMENT = "gradient_accumulation_steps"


def check(project: Project) -> Iterator[Finding]:
    for training in half_trainings(project):
        node = training.given.get(ARGUMENT)
        count = _count(project, training.module, node) if node is not None else None
        if count is not None:
            message = _message(count, training.weights.dtype.name, training.weights.name)
            yield rule.at(training.module, training.call, message, (*training.weights.places, count.place))
    for item in half_optimizers(project):
        found = _counted(project, item.module, item.call) if is_run(project, item) else None
        if found is not None:
            message = _message(found, item.weights.dtype.name, item.weights.name)
            yield rule.at(item.module, item.call, message, (*item.weights.places, found.place))


def _message(count: Stated, dtype: str, model: str) -> str:
    error = MEASURED[dtype][512 if count.value >= 512 else MANY]
    return (
        f"gradients of {count.value:g} micro-batches are summed in the {dtype} gradients of {model}: each addition"
        f" rounds the sum, which is then off by {error} or more, and later ones count for less"
    )


def _count(project: Project, module: ModuleNames, node: ast.expr) -> Stated | None:
    count = largest(stated_numbers(project, module, node, "the number of micro-batches"))
    return count if count is not None and count.value >= MANY else None


def _counted(project: Project, module: ModuleNames, optimizer: ast.Call) -> Stated | None:
    """The micro-batches between two steps of an optimizer."""
    names = names_given(module.statement_of(optimizer))
    for call in module.calls_by_name.get("step", []):
        stepped = receiver_of(call)
        if stepped is not None and ast.unparse(stepped) in names:
            asked = [*_tested(module, call), *_looped(project, module, call)]
            found = (_count(project, module, node) for node in asked if _is_accumulation(node))
            known = next((item for item in found if item is not None), None)
            if known is not None:
                return known
    return None


def _tested(module: ModuleNames, step: ast.Call) -> Iterator[ast.expr]:
    """``n`` of ``if (step + 1) % n == 0: optimizer.step()``."""
    for parent in module.ancestors(step):
        if isinstance(parent, ast.If):
            remainders = (item for item in ast.walk(parent.test) if isinstance(item, ast.BinOp))
            yield from (item.right for item in remainders if isinstance(item.op, ast.Mod))


def _looped(project: Project, module: ModuleNames, step: ast.Call) -> Iterator[ast.expr]:
    """``n`` of ``for _ in range(n): (...).backward()`` above the step."""
    statement = module.statement_of(step)
    for loop in ast.iter_child_nodes(module.parents[statement]):
        if isinstance(loop, ast.For) and position(loop) < position(statement) and isinstance(loop.iter, ast.Call):
            counts = (attribute_chain(loop.iter.func) or [""])[-1] in ("range", "trange") and len(loop.iter.args) == 1
            calls = [item for item in ast.walk(loop) if isinstance(item, ast.Call)] if counts else []
            if any(_goes_back(project, module, item) for item in calls):
                yield loop.iter.args[0]


def _goes_back(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """``loss.backward()``, or a function of the project in which it stands."""
    if receiver_of(call, "backward") is not None:
        return True
    target = called_function(project, module, call)
    return target is not None and ".backward()" in ast.unparse(target.node)


def _is_accumulation(node: ast.expr) -> bool:
    name = (attribute_chain(node) or [""])[-1].lower()
    return "accum" in name or isinstance(node, ast.Constant)


rule = Rule.of("PF807", check)
