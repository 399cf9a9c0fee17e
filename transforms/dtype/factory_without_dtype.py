"""A tensor made without a dtype is fed to weights that can be 16-bit.

## What goes wrong

`torch.zeros`, `torch.randn`, `torch.linspace` and their like create float32 unless a dtype is given. Passed to a layer
whose weights are bfloat16 or float16, alone or after meeting the activations in a sum or product, they stop with
`RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16`, `Input type (float) and bias type
(c10::BFloat16) should be the same`, or for an RNN's first state `Expected hidden[0] dtype ...`.

## Why

The default dtype is float32 whatever the model computes in, and arithmetic promotes to the wider operand
(`torch.promote_types`, PyTorch 2.13). An open autocast region hides the mistake until somebody casts the weights.

## Fix

`producer` [safe]: `dtype=<the tensor it belongs to>.dtype`, in the factory. `cast` [safe]: where the factory stands
elsewhere, the cast stands where the tensor meets the weights. Nothing changes where everything is float32.

`producer` [unsafe], `cast` [unsafe]: the same where the dtype is asked of the first parameter of a module that may own
none (buffers only: StopIteration), where a name is not bound on every path, and below another cast of the same value.

## Not flagged

A factory with a dtype, `zeros_like`, `torch.normal` around tensors (it has their dtype and takes none), integers and
bools, Python numbers and zero-dimensional tensors (these do not widen), tensors that are cast before they meet weights,
layers inside an open autocast region, projects whose weights are float32.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.flow.frame import Meeting
from ...codemod.model import Finding, Rule
from ...codemod.source.project import Project
from .casts import operand_fix, producer_fix
from .clashes import Family, chain_of, clashes, evidence, name_of


def check(project: Project) -> Iterator[Finding]:
    for meeting in clashes(project, Family.FACTORY):
        yield _finding(project, meeting)


def _finding(project: Project, meeting: Meeting) -> Finding:
    document = meeting.module.document
    steps = chain_of(meeting.odd.atom)
    at_maker = steps and steps[0].path == document.path and hasattr(steps[0].node, "lineno")
    span = document.span(steps[0].node) if at_maker else document.span(meeting.odd.node)
    message = (
        f"this tensor is float32, the default dtype; it reaches {name_of(meeting.meant.node)} as "
        f"{name_of(meeting.odd.node)} (line {meeting.node.lineno}), which raises where the weights are 16-bit"
    )
    found = [producer_fix(project, meeting), operand_fix(project, meeting)]
    return rule.at(meeting.module, span, message, evidence(project, meeting), [fix for fix in found if fix])


rule = Rule.of("PF202", check)
