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

Sums over parts of one model (layers, scales, heads), which are short: a loop is long where its name says so, or where
each pass takes a step of an optimizer; tensors of an object that several assignments make; sums of integers and
booleans; values that are taken out as numbers (`.item()`, `float(...)`); losses that autocast computes in float32;
dtypes that are not certain; branches that no run takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.half.half_here import Half
from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.checked import checked_code
from ...codemod.purpose.decided import has_run
from ...codemod.purpose.files import is_test
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.python.arguments import argument, receiver_of
from ...codemod.python.bindings import self_stores
from ...codemod.python.creations import creations_of
from ...codemod.python.names import FunctionNode, ModuleNames
from ...codemod.python.paths import LoopNode, function_of, loops, name_parts
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import HALVES, Dtype
from ...codemod.torch.entering_calls import births_of
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
    """A statement that adds to a name or to what an object holds: ``total += x``, ``total = total + x``."""

    node: ast.AugAssign | ast.Assign
    name: ast.Name | ast.Attribute
    added: ast.expr


def _additions(module: ModuleNames) -> Iterator[Addition]:
    for node in module.of_type(ast.AugAssign):
        target = node.target
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) != "self":
            continue
        if isinstance(node.op, ast.Add) and isinstance(target, ast.Name | ast.Attribute):
            yield Addition(node, target, node.value)
    for assign in module.of_type(ast.Assign):
        name, value = assign.targets[0], assign.value
        plus = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and isinstance(value.left, ast.Name)
        if plus and isinstance(name, ast.Name) and name.id == value.left.id:  # type: ignore[attr-defined]
            yield Addition(assign, name, value.right)  # type: ignore[attr-defined]


def _sum(project: Project, module: ModuleNames, addition: Addition) -> Iterator[Finding]:
    node = addition.node
    loop = _long_loop(module, node)
    held = isinstance(addition.name, ast.Attribute) and _is_called_in_loop(project, module, node)
    start = _held_start(module, addition.name) if held and isinstance(addition.name, ast.Attribute) else None
    start = _start(module, addition, loop) if loop is not None and isinstance(addition.name, ast.Name) else start
    if start is None:
        return
    if isinstance(start, ast.Constant):
        half = certainly_half(project, module, addition.added)
        fix = Fix.unsafe("float32", "what is added is cast to float32", module.append(addition.added, ".float()"))
    else:
        half = certainly_half(project, module, start) or _asked_half(project, module, start)
        fix = _wide_start(module, start) or Fix.shown("float32", "make the tensor that is added to in float32")
    if half is not None and has_run(project, module, node) and is_reached(project, module, node):
        yield _finding(module, addition, half, start, fix)


def _asked_half(project: Project, module: ModuleNames, start: ast.expr) -> Half | None:
    """The 16-bit types that are asked for, also by a default: ``torch.zeros((), dtype=dtype)``."""
    given = argument(start, "dtype") if isinstance(start, ast.Call) else None
    found = constants_of(project, module, given) if given is not None else frozenset()
    dtypes = frozenset(item for item in found if isinstance(item, Dtype) and item in HALVES)
    is_known = bool(dtypes) and len(dtypes) == len(found)
    return Half(dtypes, True, (module.place(given, "its dtype"),)) if is_known and given is not None else None


def _finding(module: ModuleNames, addition: Addition, half: Half, start: ast.expr, fix: Fix) -> Finding:
    dtypes = " or ".join(sorted(dtype.name for dtype in half.dtypes))
    limit = "256" if "bfloat16" in dtypes else "2,048"
    message = (
        f"the running sum {ast.unparse(addition.name)} is kept in {dtypes}: once it is {limit} times as large as what"
        f" is added, it stops growing (10,000 times 0.7 is {limit})"
    )
    evidence = (module.place(start, "the sum starts here"), *half.why)
    return rule.at(module, addition.node, message, evidence, [fix] if fix.edits else [])


def _long_loop(module: ModuleNames, node: ast.AST) -> LoopNode | None:
    """The loop over batches around a place: called so, or each pass of it takes a step of an optimizer."""
    around = [item for item in loops(module, node) if isinstance(item, ast.For | ast.AsyncFor)]
    return next((item for item in around if name_parts(item.iter) & BATCHES or _trains(module, item)), None)


def _trains(module: ModuleNames, loop: LoopNode) -> bool:
    calls = module.calls_inside
    function = function_of(module, loop)
    named = (calls.get((function, name), ()) for name in ("backward", "step"))
    return all(any(loops(module, call)[:1] == (loop,) for call in found) for found in named)


def _is_called_in_loop(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a method of an object is called for each batch: ``meter.update(loss)``."""
    function, owner = function_of(module, node), module.scope_of(node).enclosing_class
    if owner is None or not isinstance(owner.node, ast.ClassDef) or not isinstance(function, FunctionNode):
        return False
    for other, birth in births_of(project, owner.node):
        for call in other.calls_by_name.get(function.name, ()) if not is_test(other.path) else ():
            receiver = receiver_of(call) if _long_loop(other, call) is not None else None
            made = creations_of(project, other, receiver) if receiver is not None else ()
            if [item.call for item in made] == [birth]:
                return True
    return False


def _held_start(module: ModuleNames, name: ast.Attribute) -> ast.expr | None:
    """The one tensor of zeros that an object begins with; beside it, others make none."""
    owner = module.scope_of(name).enclosing_class
    stores = self_stores(module, owner, name.attr) if owner is not None else []
    values = [value for value, statement in stores if not isinstance(statement, ast.AugAssign)]
    first = values[0] if len(values) == 1 else None
    return first if isinstance(first, ast.Call) and receiver_of(first, *FACTORIES) is not None else None


def _start(module: ModuleNames, addition: Addition, loop: LoopNode) -> ast.expr | None:
    """The zero, or the tensor of zeros, that the sum starts from before the loop."""
    node, name = addition.node, ast.unparse(addition.name)
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
