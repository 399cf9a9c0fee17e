"""Errors as CUDA words them, where the CPU says the same in other words."""

from __future__ import annotations

import re

_MM = re.compile(r"expected m1 and m2 to have the same dtype, but got: (\S+) != (\S+)")
_SHOWN = {"float": "Float", "double": "Double", "c10::BFloat16": "BFloat16", "c10::Half": "Half"}
_KERNEL = {
    "aten::_amp_foreach_non_finite_check_and_unscale_": "_amp_foreach_non_finite_check_and_unscale_cuda",
}
_TYPED = {"bfloat16": "BFloat16", "float16": "Half", "float32": "Float", "float64": "Double"}


def on_cuda(text: str) -> str:
    """The text of a CPU kernel as the GPU's has it."""
    found = _MM.search(text)
    if found is not None:
        one, other = (_SHOWN.get(each, each) for each in found.groups())
        return f"mat1 and mat2 must have the same dtype, but got {one} and {other}"
    for name in ("FloatTensor", "HalfTensor", "DoubleTensor", "BFloat16Tensor"):
        text = text.replace(f"torch.{name}", f"torch.cuda.{name}")
    return text


def no_kernel(operation: str, dtype: str, device: str) -> Exception:
    """What a device says that has no kernel for a dtype."""
    plain = operation.removeprefix("aten::")
    name = _KERNEL.get(operation, f"{plain}_{device}")
    error = NotImplementedError(f"\"{name}\" not implemented for '{_TYPED.get(dtype, dtype)}'")
    error.of_the_device = True  # type: ignore[attr-defined]
    return error
