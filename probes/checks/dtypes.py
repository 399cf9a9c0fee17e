"""What each dtype can do at all: make a tensor, add, multiply matrices. Evidence for the verdicts.

That a bfloat16 tensor can be made says nothing about hardware: torch.cuda.is_bf16_supported() takes it for an answer,
and is True on a T4. Speed decides, together with the capability (verdicts.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..step import Judgment, Numbers, ProbeStep, StepResult, Task
from ..tensors import dtype_named

FP8 = "fp8"


def steps(task: Task) -> Iterator[ProbeStep]:
    for name in ("fp32", "bf16", "fp16"):
        yield name, lambda name=name: _sixteen(task.device, name)  # type: ignore[misc]
    yield FP8, lambda: _eight(task.device)


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """A dtype that is absent is a verdict, not a failure, unless trying it ended the process."""
    said = [f"{name} {'computes' if each.failure is None else 'does not compute'}" for name, each in results.items()]
    fp32 = results.get("fp32", StepResult()).failure
    if fp32 is not None:
        return Judgment(False, f"it does not compute at all: {fp32.sentence}", fp32.kind)
    dead = [result.failure for result in results.values() if result.failure is not None and result.status != "failed"]
    if dead:
        return Judgment(False, dead[0].sentence, dead[0].kind)
    return Judgment(True, ", ".join(said))


def _sixteen(device: str, name: str) -> Numbers:
    import torch

    ones = torch.ones(16, 16, device=device, dtype=dtype_named(name))
    total = float(((ones @ ones) + ones).float().sum())
    return {"exact": total == 16 * 16 * 17}


def _eight(device: str) -> Numbers:
    """The scaled product that fp8 training rests on."""
    import torch

    if not hasattr(torch, "float8_e4m3fn"):
        raise NotImplementedError("torch.float8_e4m3fn is not in this PyTorch (it came with 2.1)")
    left = torch.ones(32, 32, device=device).to(torch.float8_e4m3fn)
    right = torch.ones(32, 32, device=device).to(torch.float8_e4m3fn).t()
    one = torch.tensor(1.0, device=device)
    product = torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return {"exact": bool((product.float() == 32).all().item())}
