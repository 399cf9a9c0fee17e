"""A hundred operations in bfloat16 and float16, forward and backward: which have a kernel here.

An operation that raises is a row of the matrix, not a failure of the check. One that ends the process is a failure; the
matrix goes on behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ...codemod.profiles.profile import OpSupport, Status
from ..failures import classify
from ..step import Judgment, Numbers, ProbeStep, StepResult, Task
from .operations import Inputs, Operation, operations

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = ("bf16", "fp16")
NOT_RUN = "-"


def steps(task: Task) -> Iterator[ProbeStep]:
    """One step for each dtype and operation: ``bf16/softmax``."""
    table = operations()
    for dtype in DTYPES:
        for name, operation in table.items():
            yield f"{dtype}/{name}", lambda dtype=dtype, operation=operation: _try(task.device, dtype, operation)  # type: ignore[misc]


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """No operation ended the process."""
    dead = [(name, each.failure) for name, each in results.items() if each.status in (Status.CRASHED, Status.TIMEOUT)]
    for _, failure in dead[:1]:
        if failure is not None:
            return Judgment(False, f"{', '.join(name for name, _ in dead)}: {failure.sentence}", failure.kind)
    return Judgment(True, "; ".join(_summary(results, dtype) for dtype in DTYPES))


def rows(results: Mapping[str, StepResult]) -> tuple[OpSupport, ...]:
    """The matrix, as a profile holds it."""
    return tuple(_row(name, result) for name, result in results.items())


def _row(name: str, result: StepResult) -> OpSupport:
    dtype, _, op = name.partition("/")
    if result.failure is not None:
        return OpSupport(op, dtype, result.failure.kind, NOT_RUN, "", result.failure.message)
    return OpSupport(op, dtype, "ok", result.text("backward"), result.text("output"), result.text("message"))


def _summary(results: Mapping[str, StepResult], dtype: str) -> str:
    mine = [each for each in rows(results) if each.dtype == dtype]
    missing = [each.op for each in mine if each.forward != "ok" or each.backward not in ("ok", NOT_RUN)]
    return f"{dtype}: {len(mine) - len(missing)} of {len(mine)} operations" + (
        f", not {', '.join(missing)}" if missing else ""
    )


def _try(device: str, dtype: str, operation: Operation) -> Numbers:
    import torch

    torch.manual_seed(0)
    inputs = Inputs(device, dtype)
    output = operation(inputs)
    result = output if isinstance(output, torch.Tensor) else output[0]
    backward, message = _backward(result)
    return {"output": str(result.dtype).removeprefix("torch."), "backward": backward, "message": message}


def _backward(result: Tensor) -> tuple[str, str]:
    """``ok``, ``-`` or the class of the failure; and what was raised."""
    import torch

    if not result.requires_grad:
        return NOT_RUN, ""
    try:
        total = result.abs() if result.is_complex() else result
        torch.autograd.backward(total.float().sum())
    except (RuntimeError, TypeError, ValueError) as error:
        failure = classify(type(error).__name__, str(error))
        if failure.sticky:
            raise
        return failure.kind, failure.message
    return "ok", ""
