"""A float32 tensor is concatenated with tensors of another dtype.

## What goes wrong

`torch.cat` promotes without a word: a float32 mask beside float16 latents makes the whole result float32. The next
layer whose weights are 16-bit stops with `RuntimeError: Input type (float) and bias type (c10::Half) should be the
same` or `mat1 and mat2 must have the same dtype, but got Float and Half`, far from the line that caused it.

## Why

`torch.zeros`, `torch.ones`, `ToTensor()` and `(x > 0).float()` make float32, the default dtype, whatever the model
computes in. Type promotion (`torch.promote_types`, PyTorch 2.13) then takes the widest operand. Where autocast is open
around the next layer it casts again and nothing is seen: the same code fails when the weights themselves are 16-bit.

## Fix

`producer` [safe]: the tensor is created in the intended dtype. `cast` [safe]: it is cast where it is concatenated.
Both are that for masks and for constants, whose values every floating type holds; `producer` [unsafe] and `cast`
[unsafe] for other values, which are rounded.

## Not flagged

Operands of one dtype, integer and bool masks (they take the dtype of their neighbor), float64, operands that a test of
the dtype itself chose, a result that a cast follows, that only leaves its function, or that only a model reads which
accelerate runs under its autocast; items of one batch that are gathered for a loss; places that no run comes to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.frame import Meeting
from ...codemod.flow.lattice import MadeHow
from ...codemod.half.atom_places import chain_of
from ...codemod.model import Finding, Fix, Rule
from ...codemod.proof.needs import Known
from ...codemod.python.arguments import receiver_of
from ...codemod.python.names import last_name
from ...codemod.source.project import Project
from .casts import operand_fix, producer_fix
from .clashes import ClashFamily, clashes, name_of, told
from .surroundings import readers

COUNTING = (".sum(", ".cumsum(", ".mean(", "torch.sum(", "torch.cumsum(", "torch.mean(", "count", "length")
EXACT = ("zeros", "ones", "empty", "eye", "new_zeros", "new_ones")
"""Factories whose values every floating type holds."""


def check(project: Project) -> Iterator[Finding]:
    for meeting in clashes(project, ClashFamily.JOIN):
        if not is_cast_afterwards(meeting):
            yield told(rule, project, meeting, _message(meeting), fixes(project, meeting))


def is_cast_afterwards(meeting: Meeting) -> bool:
    """``torch.cat([...]).to(dtype)``: the result gets its dtype at once, here or where its name is used next."""
    read = readers(meeting)
    asked = [getattr(meeting.module.parents.get(node), "attr", "") for node in read]
    return bool(read) and all(name in ("to", "type_as", "half", "bfloat16", "float", "shape") for name in asked)


def _message(meeting: Meeting) -> str:
    odd = name_of(meeting.odd.node)
    if meeting.odd.node is meeting.meant.node:
        text = f"{odd} is float32 on one path and has the project's dtype on the other"
    else:
        text = f"{odd} is float32 beside {name_of(meeting.meant.node)}"
    return f"{text}: the concatenation is promoted to float32, and the next 16-bit layer raises"


def fixes(project: Project, meeting: Meeting) -> list[Fix | None]:
    """Make the operand in the right dtype where its maker is a constant or a branch; else cast it here."""
    exact = Known(_holds_exact_values(meeting), "its values may be rounded to 16 bits")
    found = [operand_fix(project, meeting, exact), producer_fix(project, meeting, exact)]
    return found[::-1] if meeting.odd.atom.made is MadeHow.FACTORY else found


def _holds_exact_values(meeting: Meeting) -> bool:
    odd = meeting.odd
    if "mask" in ast.unparse(odd.node).lower() and not _counts(meeting, odd.node):
        return True
    steps = chain_of(odd.atom)
    maker = steps[0].node if steps else None
    if not isinstance(maker, ast.Call):
        return False
    return last_name(maker.func) in EXACT or isinstance(receiver_of(maker, "float"), ast.Compare)


def _counts(meeting: Meeting, node: ast.expr) -> bool:
    """Whether the operand is, or comes from, a sum over a mask: 16 bits hold such counts up to 256 only."""
    nodes = [node, *(step.node for step in chain_of(meeting.odd.atom))]
    if isinstance(node, ast.Name):
        nodes += [item.value for item in meeting.module.bindings_of(node) if item.value is not None]
    texts = [ast.unparse(item) for item in nodes if isinstance(item, ast.expr)]
    return any(word in text for text in texts for word in COUNTING)


rule = Rule.of("PF201", check)
