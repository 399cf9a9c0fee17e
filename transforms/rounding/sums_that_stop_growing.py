"""A running sum over batches is kept in 16 bits, and stops growing

## What goes wrong

Nothing raises. A mean loss, a score or a count is too small, the more batches the smaller. 10,000 times 0.7, summed
with PyTorch 2.13 (true: 7,000):

| kept in | sum |
|---|---|
| float32 | 7,000 |
| bfloat16 | 256 |
| float16 | 2,048 |

## Why

In bfloat16 numbers from 256 on are 2 apart, in float16 from 2,048 on: adding less than half of that gives the sum
back as it was. `total += loss` takes the dtype of the loss, and a tensor made with `dtype=torch.bfloat16` keeps its
own.

## Fix

`float32` [unsafe]: what is added is cast (`total += loss.float()`), or the tensor that is added to is made in
float32. The sum is another one, the true one; its dtype is float32. `.item()` would do as well, and waits for the GPU
at each step.

## Not flagged

Sums over parts of one model (layers, scales, heads), which are short; sums of integers and booleans; values that are
taken out as numbers (`.item()`, `float(...)`); losses that autocast computes in float32; dtypes that are not certain;
branches that no run takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.half.half_here import Half
from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.checked import checked_code
from ...codemod.purpose.decided import has_run
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.python.arguments import argument, receiver_of
from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import LoopNode, loops, name_parts
from ...codemod.source.project import Project
from .certain_halves import certainly_half

WORDS = ("bfloat16", "float16", ".half(", "bf16", "fp16", "autocast")
BATCHES = frozenset(
    ("loader", "dataloader", "loaders", "batches", "dataset", "iterator", "epoch", "epochs", "steps", "pbar")
)
"""Words in the names of what long loops go through."""
FACTORIES = ("zeros", "tensor", "zeros_like", "new_zeros", "full")


def check(project: Project) -> Iterator[Finding]:
    if not any(True for _ in project.python_documents(WORDS)):
        return
    for module in checked_code(project, (" += ", " + "), ("torch",)):
        for addition in _additions(module):
            yield from _sum(project, module, addition)


@dataclass(frozen=True, slots=True, eq=False)
class Addition:
    """A statement that adds to a name: ``total += x``, ``total = total + x``."""

    node: ast.AugAssign | ast.Assign
    name: ast.Name
    added: ast.expr


def _additions(module: ModuleNames) -> Iterator[Addition]:
    for node in module.of_type(ast.AugAssign):
        if isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            yield Addition(node, node.target, node.value)
    for assign in module.of_type(ast.Assign):
        name, value = assign.targets[0], assign.value
        plus = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and isinstance(value.left, ast.Name)
        if plus and isinstance(name, ast.Name) and name.id == value.left.id:  # type: ignore[attr-defined]
            yield Addition(assign, name, value.right)  # type: ignore[attr-defined]


def _sum(project: Project, module: ModuleNames, addition: Addition) -> Iterator[Finding]:
    node = addition.node
    around = (item for item in loops(module, node) if isinstance(item, ast.For | ast.AsyncFor))
    loop = next((item for item in around if name_parts(item.iter) & BATCHES), None)
    start = _start(module, addition, loop) if loop is not None else None
    if start is None:
        return
    if isinstance(start, ast.Constant):
        half = certainly_half(project, module, addition.added)
        fix = Fix.unsafe("float32", "what is added is cast to float32", module.append(addition.added, ".float()"))
    else:
        half = certainly_half(project, module, start)
        fix = _wide_start(module, start) or Fix.shown("float32", "make the tensor that is added to in float32")
    if half is not None and has_run(project, module, node) and is_reached(project, module, node):
        yield _finding(module, addition, half, start, fix)


def _finding(module: ModuleNames, addition: Addition, half: Half, start: ast.expr, fix: Fix) -> Finding:
    dtypes = " or ".join(sorted(dtype.name for dtype in half.dtypes))
    limit = "256" if "bfloat16" in dtypes else "2,048"
    message = (
        f"the running sum {addition.name.id} is kept in {dtypes}: once it is {limit} times as large as what is"
        f" added, it stops growing (10,000 times 0.7 is {limit})"
    )
    evidence = (module.place(start, "the sum starts here"), *half.why)
    return rule.at(module, addition.node, message, evidence, [fix] if fix.edits else [])


def _start(module: ModuleNames, addition: Addition, loop: LoopNode) -> ast.expr | None:
    """The zero, or the tensor of zeros, that the sum starts from before the loop."""
    node, name = addition.node, addition.name.id
    bindings = [
        item for item in module.scope_of(node).lookup(name) if item.kind != "augmented" and item.node is not node
    ]
    inside = {item.node for item in bindings if loop in module.ancestors(item.node)}
    values = [item.value for item in bindings if item.node not in inside]
    if inside or not values or any(item is None for item in values):
        return None
    first = values[0]
    zeros = all(isinstance(item, ast.Constant) and item.value in (0, 0.0) for item in values)
    if zeros:
        return first
    return first if receiver_of(first, *FACTORIES) is not None and len(values) == 1 else None


def _wide_start(module: ModuleNames, start: ast.expr) -> Fix | None:
    """``torch.zeros((), dtype=torch.float32)`` in place of another dtype."""
    if not isinstance(start, ast.Call) or argument(start, "dtype") is None:
        return None
    edits = (module.set_argument(start, "dtype", "torch.float32"), module.add_import("import torch"))
    return Fix.unsafe("float32", "the tensor that is added to is made in float32", *edits)


rule = Rule.of("PF804", check)
