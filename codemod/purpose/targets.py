"""What a target asks of a training run: the dtype that its autocast regions compute in, in words for messages."""

from __future__ import annotations

from ..torch.dtypes import BF16, FP16, FP32, Dtype

COMPUTE = {"bf16-mixed": BF16, "bf16-true": BF16, "fp16-mixed": FP16, "fp32": FP32}
"""Target -> what the training step computes in. Other targets are decided at run time."""

EFFECTS = {
    "bf16-mixed": "steps then run in bfloat16: the range of float32, about three significant digits, no loss scaling",
    "bf16-true": "steps then run in bfloat16: the range of float32, about three significant digits, no loss scaling",
    "fp16-mixed": "steps then run in float16: needs loss scaling, values above 65504 overflow",
    "fp32": "steps then run in float32: more memory, slower on GPUs with 16-bit units",
    "portable": "steps then run in bfloat16 where it is native, else in float16 with loss scaling",
}
"""Target -> what changes for who goes there."""


def compute_dtype(target: str | None) -> Dtype | None:
    """The compute dtype of a target; None for targets that this family of rules does not move to."""
    return COMPUTE.get(target or "")
