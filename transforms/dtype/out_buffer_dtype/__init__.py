"""A product is written into a tensor of another dtype: `out=` and `addmm_` are not helped by autocast.

## What goes wrong

`RuntimeError: Expected out tensor to have dtype c10::BFloat16, but got float instead` from `torch.matmul(..., out=x)`,
or `self and mat2 must have the same dtype, but got Float and BFloat16` from `x.addmm_(a, b)`. Often far from the cause:
in the backward pass of a fused kernel, or only once a model is loaded in another dtype than it is trained in.

## Why

Autocast casts the operands of `torch.matmul`, but not those of its `out=` form nor of `addmm_`, `addmv_`, `baddbmm_`
and `addbmm_`: buffer and operands must have one dtype already (PyTorch, "Autocast Op Reference"). A buffer that is
reused has the dtype of what it held: a saved float32 input while the gradient is bfloat16, or float32 because
`torch.empty(size, device=...)` was given no dtype. A dequantized weight has the dtype its quantization remembers.

## Fix

`guard` [safe]: the saved tensor is reused only while its dtype is that of the operand; else a new one is made. The same
numbers, one crash less, and where the dtypes differ one more tensor.

`cast` [safe]: an operand of `addmm_` and its like is cast to the dtype it meets, which does nothing where it has it.

`dtype` [safe]: the buffer is made with the dtype of the operand.

No fix where the operand has no name yet when the buffer is chosen, or the result is read from the buffer alone.

## Not flagged

`out=` that is passed through from a parameter, buffers made like an operand (`empty_like(x)`, `dtype=x.dtype`), saved
tensors that are cast before, places behind a test of the dtype, Functions with `custom_fwd(cast_inputs=...)`, whose
tensors all have one dtype, and `torch.add(out=)`, `copy_` and `+=`, which convert; places that no run comes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....codemod.model import Finding, Place, Rule
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.source.project import Project
from ..custom_functions import checked_functions
from .local_buffers import in_functions
from .saved_buffers import Mismatch, in_backward

_MESSAGES = {
    "guard": "reuse the saved tensor only where it has the dtype of the operand, else make a new one",
    "cast": "cast to the dtype it meets; no effect where it already has that dtype",
    "dtype": "make the buffer with the dtype of the operand",
}


def check(project: Project) -> Iterator[Finding]:
    seen = set()
    for function in checked_functions(project):
        for mismatch in in_backward(project, function):
            seen.add(mismatch.node)
            if is_reached(project, mismatch.module, mismatch.node):
                yield _finding(project, mismatch)
    for mismatch, places in in_functions(project):
        if mismatch.node not in seen and is_reached(project, mismatch.module, mismatch.node):
            yield _finding(project, mismatch, places)


def _finding(project: Project, mismatch: Mismatch, places: Iterable[Place] = ()) -> Finding:
    why = SameResult("what is written has no effect where both have one dtype; else the operation raises")
    name, edits = mismatch.fix, mismatch.edits
    fixes = [proved(project, name, _MESSAGES[name], edits, why)] if edits else []
    evidence = (*mismatch.evidence, *places, *mismatch.casts)
    return rule.at(mismatch.module, mismatch.node, mismatch.message, evidence, fixes)


rule = Rule.of("PF205", check)
