"""A tensor made without a dtype is fed to weights that can be 16-bit.

## What goes wrong

`torch.zeros`, `torch.randn`, `torch.linspace` and their like create float32 unless a dtype is given. Passed to a layer
whose weights are bfloat16 or float16, alone or after meeting the activations in a sum or product, they stop with
`RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16`, `Input type (float) and bias type
(c10::BFloat16) should be the same`, or for an RNN's first state `Expected hidden[0] dtype ...`. Class weights beside
16-bit logits (`F.cross_entropy(logits, labels, weight=weights)`) stop with `expected scalar type BFloat16 but found
Float`.

## Why

The default dtype is float32 whatever the model computes in, and arithmetic promotes to the wider operand
(`torch.promote_types`, PyTorch 2.13). An open autocast region hides the mistake until somebody casts the weights.

## Fix

`producer` [safe]: `dtype=<the tensor it belongs to>.dtype`, in the factory. `cast` [safe]: where the factory stands
elsewhere, the cast stands where the tensor meets the weights. Nothing changes where everything is float32.

A tensor is reported once in a file, whatever number of layers it reaches there; the others are evidence.

`producer` [unsafe], `cast` [unsafe]: the same where the dtype is asked of the first parameter of a module that may own
none (buffers only: StopIteration), where a name is not bound on every path, and `producer` where the tensor is summed,
which may count. It is not offered where the function calls what has no 16-bit kernel.

## Not flagged

A factory with a dtype, `zeros_like`, `torch.normal` around tensors (it has their dtype and takes none), integers and
bools, Python numbers and zero-dimensional tensors (these do not widen), tensors that are cast before they meet weights,
layers inside an open autocast region, weights that no program of the project certainly runs in 16 bits, places that no
run comes to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...codemod.flow.frame import Meeting
from ...codemod.half.atom_places import chain_of
from ...codemod.model import Applicability, Finding, Fix, Rule
from ...codemod.python.names import ModuleNames
from ...codemod.source.project import Project
from .casts import best_first, operand_fix, producer_fix
from .clashes import ClashFamily, clashes, evidence, followers, name_of

MAX_OTHERS = 4
"""Further places that one tensor reaches and that are shown."""


def check(project: Project) -> Iterator[Finding]:
    tensors: dict[tuple[ModuleNames, ast.AST], list[Meeting]] = {}
    for meeting in clashes(project, ClashFamily.FACTORY):
        tensors.setdefault((meeting.module, _maker(meeting)), []).append(meeting)
    for reached in tensors.values():
        yield _finding(project, reached)


def _maker(meeting: Meeting) -> ast.AST:
    """What made the tensor: it is reported once in a file, however many layers it reaches there."""
    steps = chain_of(meeting.odd.atom)
    return steps[0].node if steps and hasattr(steps[0].node, "lineno") else meeting.odd.node


def _finding(project: Project, reached: Sequence[Meeting]) -> Finding:
    first, *others = reached
    document = first.module.document
    steps = chain_of(first.odd.atom)
    at_maker = steps and steps[0].path == document.path and hasattr(steps[0].node, "lineno")
    span = document.span(steps[0].node) if at_maker else document.span(first.odd.node)
    message = (
        f"this tensor is float32, the default dtype; it reaches {name_of(first.meant.node)} as "
        f"{name_of(first.odd.node)} (line {first.node.lineno}), which raises where the weights are 16-bit"
    )
    more = [*others, *followers(project, first)][:MAX_OTHERS]
    also = [each.module.place(each.node, f"it reaches {name_of(each.meant.node)} too") for each in more]
    found = [producer_fix(project, first), _cast_everywhere(project, reached)]
    places = (*evidence(project, first), *also)
    return rule.at(first.module, span, message, places, best_first(found))


def _cast_everywhere(project: Project, reached: Sequence[Meeting]) -> Fix | None:
    """The cast where the tensor meets weights, at all of these places; None where one of them takes none."""
    found = [operand_fix(project, meeting) for meeting in reached]
    casts = [fix for fix in found if fix is not None]
    if len(casts) < len(found):
        return None
    worst = next((fix for fix in casts if fix.applicability is Applicability.UNSAFE), casts[0])
    return Fix.of(worst.name, worst.applicability, worst.message, *(edit for fix in casts for edit in fix.edits))


rule = Rule.of("PF202", check)
