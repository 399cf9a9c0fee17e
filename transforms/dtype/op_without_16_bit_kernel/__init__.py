"""A 16-bit tensor goes into an operation that has no kernel for it.

## What goes wrong

`torch.fft.rfft2(x)`, `torch.linalg.svd(x)`, `torch.quantile(x, 0.9)` stop with `RuntimeError: Unsupported dtype
BFloat16`, `"linalg_svd_cpu" not implemented for 'Half'`, `quantile() input tensor must be either float or double dtype`
when `x` is what a layer computed under autocast, or was cast to 16 bits.

## Why

PyTorch has no 16-bit kernels for FFTs and `stft` (float16 on CUDA takes powers of two only), matrix decompositions,
`quantile`, `cdist`, complex numbers of bfloat16. Autocast casts some of them to float32 itself: `cdist` on CUDA, nearly
all on the CPU.

## Fix

`float32` [unsafe]: the operation is computed in float32, `op(x.float())`, and its result is cast back where it is one
tensor of the same kind. What worked before gives the same: a float32 tensor is not changed. None of the findings on
projects that nobody had used was right without doubt, so read the place first.

## Not flagged

Tensors that are cast to float32 before; tensors whose dtype is not known; operations that autocast of that device runs
in float32; what a profile of the machine saw working; places that ask for the dtype; float16 FFTs on CUDA whose size is
a power of two or not written down; `stft` with a float32 window, whose product is float32.
`interpolate` of bfloat16 only where the project is pinned to a PyTorch before 2.1, which lacks the kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.flow.encounters import applications
from ....codemod.flow.frame import Application, place_of
from ....codemod.half.half_here import is_told_apart
from ....codemod.model import Finding, Fix, Rule
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.proof.verdicts import Trusted
from ....codemod.purpose.files import is_test
from ....codemod.purpose.proved_reach import can_run
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16, Dtype
from ....codemod.torch.imported import torch_at
from ....codemod.torch.tables.kernels import WITHOUT_KERNELS
from ....codemod.torch.tables.operations import operation
from ..clashes import name_of
from .half_operands import HalfOperand, Origin, half_operand
from .kernel_gaps import INTERPOLATION, gaps, gaps_on, is_widened, odd_size, pins_of

_CAST_BACK = ("first", "first-float", "promote", "promote-float", "softmax-like")


def check(project: Project) -> Iterator[Finding]:
    for item in applications(
        project, (*WITHOUT_KERNELS, *INTERPOLATION), lambda module, _: not is_test(module.document.path)
    ):
        if item.operation not in (*WITHOUT_KERNELS, *INTERPOLATION) or is_widened(project, item):
            continue
        operand = half_operand(project, item) if can_run(project, item.module, item.node) else None
        if operand is None:
            continue
        hit = operand.dtypes & _missing(project, item, operand)
        if hit and not (operand.origin is not Origin.CAST and is_told_apart(project, item.module, item.node)):
            yield _finding(project, item, operand, hit)


def _missing(project: Project, item: Application, operand: HalfOperand) -> frozenset[Dtype]:
    """What autocast made runs on the device of its region; anything else has to lack a kernel everywhere."""
    if operand.origin is Origin.AUTOCAST:
        return gaps_on(project, item, item.autocast.device)
    return gaps(project, item)


def _finding(project: Project, item: Application, operand: HalfOperand, hit: frozenset[Dtype]) -> Finding:
    name, called = name_of(operand.node), item.operation
    types = " or ".join(sorted(dtype.name for dtype in hit))
    when = {
        Origin.CAST: f"{name} is {types}",
        Origin.CHOSEN: f"{name} is {types} where {operand.symbol} is" if operand.symbol else f"{name} can be {types}",
        Origin.AUTOCAST: f"{name} is {types} under autocast",
    }[operand.origin]
    size = odd_size(project, item) if FP16 in hit else None
    lacks = f"no kernel for {size} values, which is no power of two" if size is not None else "no kernel"
    message = f"{when}, for which {called} has {lacks}: this raises"
    certain = next(iter(hit)) if operand.origin is Origin.CAST and len(operand.dtypes) == 1 else None
    fixes, evidence = _fixes(project, item, operand.node, certain), (*operand.why, *pins_of(project, item))
    return rule.at(item.module, item.node, message, evidence, fixes)


def _fixes(project: Project, item: Application, operand: ast.expr, certain: Dtype | None = None) -> list[Fix]:
    if any(entry.arg == "out" for entry in item.node.keywords):
        return []  # the buffer has the 16-bit dtype
    result = _result_dtype(item, operand, certain)
    edits = [item.module.append(node, ".float()") for node in _tensors(item, operand)]
    edits += [item.module.append(item.node, f".to({result})")] if result else []
    back = " and cast the result back" if result else ""
    message = f"compute it in float32{back}; float32 tensors stay as they are"
    why = SameResult("there is no 16-bit kernel: these calls raise")
    return [proved(project, "float32", message, edits, why, Trusted("PF211"))]


def _result_dtype(item: Application, operand: ast.expr, certain: Dtype | None) -> str:
    """How to say the dtype that the result should have; empty where it is no tensor of the operand's kind."""
    known = operation(item.operation)
    if known is None or known.result not in _CAST_BACK:
        return ""
    if place_of(operand) is not None:
        return f"{ast.unparse(operand)}.dtype"
    torch = torch_at(item.module, item.node)
    return f"{torch}.{certain.name}" if certain is not None and torch is not None else ""


def _tensors(item: Application, operand: ast.expr) -> list[ast.expr]:
    """The operands that must agree: all that take part in the operation's mix."""
    known = operation(item.operation)
    if known is None or known.mix == "none" or item.receiver is not None:
        return [operand]
    taking = {entry.position for entry in known.operands}
    keywords = {entry.keyword for entry in known.operands}
    found = [node for index, node in enumerate(item.node.args) if index in taking]
    return found + [entry.value for entry in item.node.keywords if entry.arg in keywords]


rule = Rule.of("PF211", check, depends_on=("profile",))
