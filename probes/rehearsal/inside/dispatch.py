"""Every operation of ATen: kernels that only this CPU lacks are lent, those that only the device lacks refused."""

from __future__ import annotations

import math
from typing import Any

from .failures import is_of_machine
from .tensors import cast_all, dtype_name, float_dtypes, tensors_in, write_back
from .wording import of_the_device

_LENT = "not implemented for"
_COMPLEX_HALF = ("ComplexHalf", "MKL FFT doesn't support tensors of type: Half")
"""What FFTs of float16 and complex32 say, which CUDA has."""
_FFT = frozenset(("aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c"))
_PRODUCTS = frozenset(
    [
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::baddbmm",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::mv",
        "aten::addmv",
    ]
)
"""A CPU multiplies float16 about seventy times slower than float32; a GPU accumulates in float32 as well."""
_NO_POWER_OF_TWO = (
    "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but got a signal "
    "size of{}"
)
_EMULATED = "{} has no bfloat16 in hardware: it is emulated, much slower than float16, which needs a GradScaler there"
_GROUPS = "aten::native_group_norm"
_MIXED_REFUSED = {"aten::native_layer_norm": 2, _GROUPS: 1}
"""The CPU takes float32 weights with 16-bit input here, CUDA's kernels do not. -> index of the weight."""
_NUMBERS_REFUSED = {"aten::scalar_tensor": (0,), "aten::threshold": (1, 2), "aten::threshold_": (1, 2)}
"""The CPU rounds a number to infinity here, CUDA refuses it: `torch.where(mask, x, -1e9)`. -> where it stands."""
_NUMBERS_TAKEN = ("aten::clamp", "aten::hardtanh")
"""The other way round: the beginnings of operations that only the CPU refuses a number."""


class Dispatch:
    """What happens at an operation. It sees what autocast has already cast, and all of the backward pass."""

    def __init__(self, session: Any) -> None:
        self.session, self.torch = session, session.torch
        self.tensor = session.torch.Tensor
        self.halves = (session.torch.float16, session.torch.bfloat16)
        self.missing = session.settings.on.missing
        self.simulated = session.settings.on.simulated
        self.cuda = session.settings.on.type == "cuda"
        self.emulated = self.cuda and not session.settings.on.native_bf16
        self.called = session.called

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not self.simulated:
            return self._run(func, args, kwargs)
        name = func._schema.name
        if name in self.missing and not self.session.ignoring_gaps:
            self._refuse(name, args)
        if self.cuda and not self.session.ignoring_gaps:
            if name in _MIXED_REFUSED:
                self._refuse_mixed(name, args)
            if name in _FFT:
                self._refuse_sizes(name, args)
            if name in _NUMBERS_REFUSED:
                self._refuse_numbers(name, args, kwargs)
        if name in _PRODUCTS:
            floats = float_dtypes(tensors_in(self.tensor, (args, kwargs)))
            if self.emulated and self.torch.bfloat16 in floats:
                self.session.recorder.note(_EMULATED.format(self.session.settings.on.name))
            if floats == {self.torch.float16}:
                return self._in_float32(func, args, kwargs, self.torch.float16)
        return self._run(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            autocast = self.called.let_in(func, args)
            if autocast is None:
                return func(*args, **kwargs)
            with autocast:
                return func(*args, **kwargs)
        except self.session.failures.errors as error:
            return self._raised(func, args, kwargs, error)

    def _raised(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        operands = tensors_in(self.tensor, (args, kwargs))
        floats = float_dtypes(operands)
        session = self.session
        if self.simulated and len(floats) == 1 and _LENT in str(error):
            (dtype,) = floats
            if dtype in self.halves:
                return self._in_float32(func, args, kwargs, dtype)
        if self.simulated and self.cuda and any(words in str(error) for words in _COMPLEX_HALF):
            return self._in_float32(func, args, kwargs, self.torch.float16)
        is_taken = "without overflow" in str(error) and func._schema.name.startswith(_NUMBERS_TAKEN)
        if self.simulated and self.cuda and is_taken and len(floats) == 1:
            return self._in_float32(func, args, kwargs, *floats)
        session.failures.operation = str(func)
        in_backward = session.in_backward and session.functions.running == 0
        if not in_backward or len(floats) < 2 or is_of_machine(error):
            raise error
        return self._passed_over(func, args, kwargs, operands, error)

    def _passed_over(self, func: Any, args: Any, kwargs: Any, operands: Any, error: Exception) -> Any:
        """In the backward pass there is no call of the program to repeat: the operation itself is."""
        for dtype in sorted(float_dtypes(operands), key=str):
            try:
                result = func(*cast_all(self.tensor, args, dtype), **cast_all(self.tensor, kwargs, dtype))
            except self.session.failures.errors:
                continue
            place = self.session.backward.place_of_running_node()
            self.session.failures.record("dtype_mismatch", error, str(func), operands, place)
            return result
        raise error

    def _in_float32(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Any:
        """Computed in float32 and rounded, as kernels of a GPU do inside."""
        torch = self.torch
        wide = cast_all(self.tensor, args, torch.float32)
        named = cast_all(self.tensor, kwargs, torch.float32)
        result = func(*wide, **named)
        write_back(self.tensor, (args, kwargs), (wide, named))
        return kwargs["out"] if "out" in kwargs else self._rounded(result, dtype)

    def _rounded(self, result: Any, dtype: Any) -> Any:
        if isinstance(result, self.tensor):
            if result.dtype == self.torch.complex64 and dtype == self.torch.float16:
                return result.to(self.torch.complex32)
            return result.to(dtype) if result.dtype == self.torch.float32 else result
        if isinstance(result, list | tuple):
            return type(result)(self._rounded(each, dtype) for each in result)
        return result

    def _refuse(self, name: str, args: Any) -> None:
        first = next((each.dtype for each in tensors_in(self.tensor, args) if each.is_floating_point()), None)
        if first is not None and dtype_name(first) in self.missing[name]:
            raise self.session.gap(name, dtype_name(first))

    def _refuse_sizes(self, name: str, args: Any) -> None:
        """cuFFT has float16 for powers of two only."""
        given, dims = args[0], args[1]
        if not self.session.ffts_are_half and given.dtype not in (self.torch.float16, self.torch.complex32):
            return
        sizes = [int(given.shape[dim]) for dim in dims]
        if name == "aten::_fft_c2r":
            sizes[-1] = int(args[3])
        if any(size & (size - 1) for size in sizes):
            raise of_the_device(RuntimeError(_NO_POWER_OF_TWO.format(sizes)))

    def _refuse_numbers(self, name: str, args: Any, kwargs: Any) -> None:
        """CUDA converts these numbers to the dtype of the tensor, and refuses what is finite and does not fit."""
        dtype = kwargs.get("dtype") if name == "aten::scalar_tensor" else args[0].dtype
        numbers = [args[index] for index in _NUMBERS_REFUSED[name] if index < len(args)]
        if dtype in self.halves and any(self.torch.finfo(dtype).max < abs(each) < math.inf for each in numbers):
            name = "Half" if dtype == self.torch.float16 else "BFloat16"
            text = f"value cannot be converted to type c10::{name} without overflow"
            raise of_the_device(RuntimeError(text))

    def _refuse_mixed(self, name: str, args: Any) -> None:
        weights = args[_MIXED_REFUSED[name] : _MIXED_REFUSED[name] + 2]
        for weight in weights:
            if isinstance(weight, self.tensor) and weight.dtype != args[0].dtype:
                if name == _GROUPS and weight.dtype != self.torch.float32:
                    return  # the CPU refuses it in the same words
                shown = {"float32": "Float", "bfloat16": "BFloat16", "float16": "Half", "float64": "Double"}
                here, there = (shown.get(dtype_name(each.dtype), str(each.dtype)) for each in (args[0], weight))
                raise RuntimeError(f"expected scalar type {here} but found {there}")


def mode_of(torch: Any, dispatch: Dispatch) -> Any:
    """The mode that torch asks about every operation, to be entered once per thread."""
    from torch.utils import _python_dispatch

    base: Any = _python_dispatch.TorchDispatchMode

    class RehearsalKernels(base):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # or torch imports its compiler at the first operation

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return dispatch.call(func, args, kwargs or {})

    return RehearsalKernels()
