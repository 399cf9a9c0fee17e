"""The error of a matrix product against float64.

A product of K terms, accumulated in float32 and rounded once, errs by at most about u |ref| + 4 sqrt(K) 2^-24 (|A| |B|)
per element, with u the unit roundoff of the result's dtype. Elements beyond 1.5 times that are violations; up to 0.1 %
may be. More means that a 16-bit product is *accumulated* in 16 bits. A float32 product whose error exceeds 2^-20 of
|A| |B| is computed in TF32. By default PyTorch lets NVIDIA's library add partial sums in 16 bits: the bound is for the
product without that permission, and what it costs is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..step import Judgment, Numbers, ProbeStep, StepResult, Task, first_failure
from ..tensors import DTYPES, UNIT_ROUNDOFF, dtype_named

if TYPE_CHECKING:
    from torch import Tensor

MARGIN = 1.5
MAX_VIOLATIONS = 1e-3
TF32_ERROR = 2.0**-20


def steps(task: Task) -> Iterator[ProbeStep]:
    for name in DTYPES:
        yield name, lambda name=name: _error(task, name)  # type: ignore[misc]


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """No dtype has more violations than MAX_VIOLATIONS."""
    failed = first_failure(results)
    if failed is not None:
        return failed
    for name, result in results.items():
        share = result.number("violations")
        if (share is None or share > MAX_VIOLATIONS) and not (name == "fp32" and result.flag("tf32_like")):
            shown = "" if share is None else f" in {share:.1%} of the elements"
            return Judgment(False, f"{name} products err more than rounding explains{shown}: sums are kept in 16 bits")
    note = "; float32 products are computed in TF32" if results.get("fp32", StepResult()).flag("tf32_like") else ""
    reduced = [name for name, each in results.items() if (each.number("violations_by_default") or 0) > MAX_VIOLATIONS]
    if reduced and not note:
        switches = ", ".join(f"allow_{name}_reduced_precision_reduction" for name in reduced)
        note = f"; with {switches} = False in torch.backends.cuda.matmul, which is not the default"
    return Judgment(True, f"products err as much as one rounding explains{note}")


def _error(task: Task, name: str) -> Numbers:
    import torch

    size, inner = _shape(task, name)
    generator = torch.Generator().manual_seed(0)
    rounded = [
        torch.randn(shape, generator=generator).to(dtype_named(name)) for shape in ((size, inner), (inner, size))
    ]
    left, right = (each.double() for each in rounded)
    reference, magnitude = left @ right, left.abs() @ right.abs()
    bound = MARGIN * (UNIT_ROUNDOFF[name] * reference.abs() + 4 * inner**0.5 * 2.0**-24 * magnitude)
    errors = []
    for reduced in (True, False):
        _allow_reduced_sums(reduced)
        found = (rounded[0].to(task.device) @ rounded[1].to(task.device)).cpu().double()
        errors.append((found - reference).abs())
    relative = float((errors[1] / magnitude).max())
    return {
        "max_error_of_magnitude": relative,
        "violations": _share_beyond(errors[1], bound),
        "violations_by_default": _share_beyond(errors[0], bound),
        "tf32_like": name == "fp32" and relative > TF32_ERROR,
        "inner_size": inner,
    }


def _share_beyond(error: Tensor, bound: Tensor) -> float:
    """NaN is beyond every bound."""
    return float((~(error <= bound)).double().mean())


def _allow_reduced_sums(allowed: bool) -> None:
    """What PyTorch permits NVIDIA's library by default; without meaning elsewhere."""
    import torch

    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = allowed
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = allowed


def _shape(task: Task, name: str) -> tuple[int, int]:
    """Rows and inner size; float16 on a CPU may be a hundred times slower."""
    if task.kind != "cpu":
        return 512, 4096
    return (64, 1024) if name == "fp16" else (256, 2048)
