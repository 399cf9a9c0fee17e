"""The values precision is told in: dtypes, constants, what is *given* for a value, and scenarios.

An expression yields *scenarios*: a constant value, and what must be given for it (``args.amp_dtype == "bf16"``).
Conditions elsewhere (``GradScaler(enabled=amp_dtype == torch.float16)``) are then decided under those givens:
true, false, or unknown.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TypeAlias

from ..python.names import Scope


@dataclass(frozen=True, slots=True)
class Dtype:
    """A floating-point type by PyTorch's canonical name: ``bfloat16``, ``float16``, ``float32``, ``float64``."""

    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that cannot be told from the source."""


Constant: TypeAlias = Dtype | Unknown | str | bool | int | float | None

BF16, FP16, FP32, FP64 = Dtype("bfloat16"), Dtype("float16"), Dtype("float32"), Dtype("float64")
HALVES = (BF16, FP16)
UNKNOWN = Unknown()
MIXED = {BF16: "bf16-mixed", FP16: "fp16-mixed", FP32: "fp32"}
"""The regime of weights in float32 that are computed with in a dtype."""
TRUE = {BF16: "bf16-true", FP16: "fp16-true"}
"""The regime of weights in a dtype."""

TORCH_DTYPES = {
    "torch.bfloat16": BF16,
    "torch.float16": FP16,
    "torch.half": FP16,
    "torch.float32": FP32,
    "torch.float": FP32,
    "torch.float64": FP64,
    "torch.double": FP64,
}
TENSOR_TYPES = {
    f"torch.{device}{name}Tensor": dtype
    for device in ("", "cuda.")
    for name, dtype in {"Half": FP16, "BFloat16": BF16, "Float": FP32, "Double": FP64}.items()
}
"""The names of types of tensors, which ``tensor.type()`` takes for dtypes, as classes and as strings."""
DTYPE_WORDS = {
    "bf16": BF16,
    "bfloat16": BF16,
    "fp16": FP16,
    "float16": FP16,
    "half": FP16,
    "fp32": FP32,
    "float32": FP32,
    "full": FP32,
    "fp64": FP64,
    "float64": FP64,
}
"""Words that name a dtype inside strings and enum members (``"bf16-mixed"``, ``Precision.AMP_FP16``)."""


@dataclass(frozen=True, slots=True)
class TextCondition:
    """``text`` has (``equal``) or has not one of ``values``; for a plain truth test the value is ``True``."""

    text: str
    values: tuple[Constant, ...]
    equal: bool
    node: ast.expr
    scope: Scope


@dataclass(frozen=True, slots=True)
class Scenario:
    """One value an expression can have, and what must hold for it."""

    value: Constant
    given: tuple[TextCondition, ...] = ()

    def under(self, *more: TextCondition) -> Scenario:
        return Scenario(self.value, self.given + more)


def as_dtype(value: Constant) -> Constant:
    """The dtype a constant names (``"bf16"``, ``"torch.half"``, ``"16-mixed"``); other constants stay as they are."""
    if not isinstance(value, str):
        return value
    words = [word for word in _words(value) if word in DTYPE_WORDS]
    if len({DTYPE_WORDS[word] for word in words}) == 1:
        return DTYPE_WORDS[words[0]]
    return FP16 if value in ("16", "16-mixed", "16-true") else value


def _words(text: str) -> list[str]:
    return text.lower().replace("torch.", "").replace("_", "-").replace(" ", "-").split("-")
