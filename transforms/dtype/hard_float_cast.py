"""A tensor cast to float32 flows into weights that can be 16-bit.

## What goes wrong

`.float()`, `dtype=torch.float32` or a function that computes in float32 (a sinusoidal timestep embedding, a rotary
table) gives float32 whatever the model runs in. The next layer with 16-bit weights stops with `RuntimeError: mat1 and
mat2 must have the same dtype, but got Float and Half`; `F.layer_norm(x.float(), shape, self.weight)` stops with
`mixed dtype (CPU): expect parameter to have scalar type of Float` or `expected scalar type Float but found Half`.

## Why

A cast to float32 is an island: whoever enters it must leave it again. Linear layers, convolutions and norms do not
promote (PyTorch 2.13); only autocast, where it is open, casts for them.

## Fix

`cast` [unsafe]: `.to(<weights>.dtype)` at the boundary; on projects that nobody here had used, too few of these
findings were right for an edit that nobody reads. `cast` [safe] where a rehearsal saw it raise. `weights` [safe]: for a
functional norm computed in float32 on purpose, the weights are cast instead. `producer` [safe]: where one branch of an
`if`, or a value widened on the way, left a tensor in float32; `producer` [unsafe] where `dtype=torch.float32` is
written, where what is cast may hold integers (bfloat16 rounds time steps above 256), and as the second choice
elsewhere, as the tensor may serve others. Nothing changes where the weights are float32.

In a model that a program certainly casts to 16 bits, one tensor that stops the step in several places is told once, at
the first of them; `cast` then casts it in all.

## Not flagged

Islands that are left again (`.to(x.dtype)`, `.type_as(x)`), losses, softmax and norms in float32, everything inside an
autocast region, tensors that only a test of the dtype made float32, weights that no program certainly runs in 16 bits,
branches and functions that no run comes to: an argument that nobody passes, an option that nothing switches on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.contexts import open_region
from ...codemod.flow.frame import Meeting
from ...codemod.model import Finding, Fix, Rule
from ...codemod.proof.needs import Known
from ...codemod.proof.verdicts import Trusted
from ...codemod.source.project import Project
from .casts import casts_integers, is_summed, maker_of, norm_weights_fix, operand_fix, producer_fix
from .clashes import NORMS, ClashFamily, clashes, is_written_cast, name_of, told
from .seen_clashes import seen_message


def check(project: Project) -> Iterator[Finding]:
    for meeting in clashes(project, ClashFamily.CAST):
        yield told(rule, project, meeting, seen_message(meeting) or _message(meeting), fixes(project, meeting))


def _message(meeting: Meeting) -> str:
    odd, meant = name_of(meeting.odd.node), name_of(meeting.meant.node)
    if meeting.odd.node is meeting.meant.node:
        return f"{odd} is float32 on one path and can be 16-bit on another: this raises outside of autocast"
    if meeting.applied is not None and meeting.odd.atom in meeting.applied.atoms:
        return f"{meant} is float32 here and meets {odd}, which can be 16-bit: this raises outside of autocast"
    return f"{odd} is float32 here and meets {meant}, which can be 16-bit: this raises outside of autocast"


def fixes(project: Project, meeting: Meeting) -> list[Fix | None]:
    """The weights of a norm that is computed in float32 follow; a value widened by accident is cast where it was."""
    trusted = Trusted("PF203", certain=meeting.seen is not None)
    if meeting.operation in NORMS and is_written_cast(meeting.odd.node):
        return [norm_weights_fix(project, meeting)]
    if meeting.odd.atom.mixture is not None:
        # ``dtype=torch.float32`` is a decision, and seldom the only operand that was made so
        own = Known(not isinstance(maker_of(meeting), ast.Attribute), "float32 is asked for where it is made")
        made, cast = producer_fix(project, meeting, own), operand_fix(project, meeting, trusted)
        rounds = casts_integers(project, meeting) or is_summed(meeting)
        return [cast, made] if rounds else [made, cast]
    # where some program opens autocast, it may compute this very layer in float32, which the cast would take away
    alone = not (meeting.certain and open_region(project) is not None)
    return [
        operand_fix(project, meeting, Known(alone, "autocast may compute this very layer in float32"), trusted),
        producer_fix(project, meeting, Known(False, "the cast to float32 may be meant for what stands between")),
    ]


rule = Rule.of("PF203", check)
