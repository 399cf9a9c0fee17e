"""A tensor is written through an index, or by `lerp_`, into a tensor of another dtype.

## What goes wrong

`t[mask] = v`, `index_add_`, `scatter_`, `index_copy_` and `masked_scatter_` stop as soon as both dtypes differ:
`RuntimeError: Index put requires the source and destination dtypes match, got Float for the destination and BFloat16
for the source`, `index_add_(): self (Float) and source (BFloat16) must have the same scalar type`, `scatter(): Expected
self.dtype to be equal to src.dtype`. `lerp` and `lerp_`, with which averages are kept, stop the same way: `expected
dtype c10::BFloat16 for `end` but got dtype float`.

## Why

These operations never promote, and autocast does not cast for them (PyTorch 2.13): under autocast a layer's output is
16-bit while `torch.zeros(...)` stays float32. A buffer is cast with its module, while shares that are counted stay in
float32 (`one_hot(...).float().mean(0)`). Slices and plain integers (`t[1:] = v`, `t[i] = v`) copy, and a copy
casts.

## Fix

`cast` [safe]: `.to(<destination>.dtype)` on what is written. It removes a certain error; nothing changes where both
have one dtype.

## Not flagged

Slices, integer positions, Python numbers, zero-dimensional tensors, sources already cast to the destination's dtype,
buffers made with the source's dtype or by `zeros_like`, integer tensors, places that no run comes to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.frame import Meeting, place_of
from ...codemod.model import Finding, Fix, Rule
from ...codemod.proof.needs import SameResult
from ...codemod.proof.proving import proved
from ...codemod.python.arguments import receiver_of
from ...codemod.source.project import Project
from .casts import cast_operation
from .clashes import ClashFamily, clashes, name_of, told
from .seen_clashes import rests_on_sight

INDEXED = ("index_", "scatter", "masked_scatter", "put")
"""How the names of the operations begin; ``addmm_`` needs one dtype as well, without an index."""
BLENDS = ("lerp", "lerp_")


def check(project: Project) -> Iterator[Finding]:
    for meeting in clashes(project, ClashFamily.WRITE):
        blends = meeting.operation in BLENDS
        if blends or meeting.operation.startswith(INDEXED):
            written, destination = _sides(meeting)
            by = f"by {meeting.operation}" if blends else "through an index"
            said = f"{name_of(written)} is written into {name_of(destination)} {by}"
            message = f"{said}: this raises when their dtypes differ, also under autocast"
            yield told(rule, project, meeting, message, [_fix(project, meeting, written, destination)])


def _sides(meeting: Meeting) -> tuple[ast.expr, ast.expr]:
    """What is written, and into what."""
    node = meeting.node
    first, second = meeting.odd.node, meeting.meant.node
    destination = node.value if isinstance(node, ast.Subscript) else None
    if (owner := receiver_of(node)) in (first, second):
        destination = owner
    elif isinstance(node, ast.Call) and node.args:
        destination = node.args[0]
    return (second, first) if destination is first else (first, second)


def _fix(project: Project, meeting: Meeting, written: ast.expr, destination: ast.expr) -> Fix | None:
    if place_of(destination) is None or isinstance(written, ast.Tuple | ast.List):
        return None
    text = f"{ast.unparse(destination)}.dtype"
    edit = cast_operation(meeting.module, written, text)
    message = f"cast what is written to {text}; nothing changes where both have one dtype"
    why = SameResult("the operation raises where the dtypes differ")
    return proved(project, "cast", message, [edit], why, *rests_on_sight(project, meeting, known=True))


rule = Rule.of("PF206", check)
