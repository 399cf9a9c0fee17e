"""What raises: recorded with its operands, passed over by the cast that a fix would make, so that the run goes on."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from types import FrameType
from typing import Any

from .recorder import born, place_of
from .tensors import cast_all, dtype_name, float_dtypes, tensors_in, write_back

_NO_KERNEL = ("not implemented for", "Unsupported dtype", "sizes are powers of two", "support tensor of type")
_IN_PLACE_ARGUMENT = "out"
_FFT_OF_HALF = "Unsupported dtype Half"
_OF_MACHINE = ("out of memory", "device-side assert", "illegal memory access")


class Failures:
    """Called where a function of torch raised for the program."""

    def __init__(self, session: Any) -> None:
        self.session, self.torch = session, session.torch
        self.errors = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
        self.assumed = False
        self.operation = ""
        """The operation of ATen that raised last, below the function that the program called."""
        self.refused: tuple[BaseException | None, list[dict[str, Any]]] = (None, [])
        """The last error that no cast repairs, and the tensors of the call."""

    def passed_over(self, func: Any, args: Any, kwargs: Any, operands: Any, error: Exception) -> Any:
        """The result of the same call after the cast that makes it work; raises ``error`` where no cast does."""
        operation, self.operation = self.operation, ""
        if self.session.stopping or is_of_machine(error):
            raise error
        name = operation or getattr(func, "__name__", "")
        if getattr(error, "of_the_device", False):
            try:
                with self.session.device_gaps_ignored():
                    result = func(*args, **kwargs)
            except self.errors as own:
                error = own  # every device refuses it, in these words
            else:
                self.record("kernel_missing", error, name, operands)
                return result
        if _FFT_OF_HALF in str(error) and self.session.settings.on.type == "cuda":  # refused before its kernel is asked
            return self._fft_of_half(func, args, kwargs, operands, name)
        for dtype, keep in self._ways(func, args, kwargs, operands):
            try:
                result = func(
                    *cast_all(self.torch.Tensor, args, dtype, keep), **cast_all(self.torch.Tensor, kwargs, dtype, keep)
                )
            except self.errors:
                continue
            missing = any(text in str(error) for text in _NO_KERNEL)
            self.record("kernel_missing" if missing else "dtype_mismatch", error, name, operands)
            is_wider = missing and isinstance(result, self.torch.Tensor) and result.dtype == self.torch.float32
            return result.to(operands[0].dtype) if is_wider and operands[0].is_floating_point() else result
        if _NO_KERNEL[0] in str(error) and getattr(func, "__name__", "").endswith("_"):
            return self._in_float32(func, args, kwargs, operands, error)
        frame = self.session.places.frame(sys._getframe(1))
        with suppress(Exception):  # a tensor may be one of the program's own classes
            self.refused = (error, [self.operand(each, frame) for each in operands[:8]])
        raise error

    def _in_float32(self, func: Any, args: Any, kwargs: Any, operands: Any, error: Exception) -> Any:
        """What changes 16-bit tensors in place and has no kernel for them: done to copies, and written back."""
        kind = self.torch.Tensor
        wide = cast_all(kind, (args, kwargs), self.torch.float32)
        try:
            result = func(*wide[0], **wide[1])
        except self.errors:
            raise error from None
        with self.torch.no_grad():
            write_back(kind, (args, kwargs), wide)
        self.record("kernel_missing", error, getattr(func, "__name__", ""), operands)
        changed = tensors_in(kind, wide)
        known = next((one for one, copy in zip(operands, changed, strict=False) if copy is result), None)
        return result if known is None else known

    def _fft_of_half(self, func: Any, args: Any, kwargs: Any, operands: Any, name: str) -> Any:
        wide, named = (cast_all(self.torch.Tensor, each, self.torch.float32) for each in (args, kwargs))
        self.session.ffts_are_half = True
        try:
            result = func(*wide, **named)
        except self.errors as error:
            if not getattr(error, "of_the_device", False):
                raise
            with self.session.device_gaps_ignored():
                result = func(*wide, **named)
            self.record("kernel_missing", error, name, operands)
        finally:
            self.session.ffts_are_half = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of complex32 once
            return _in_half(self.torch, result)

    def _ways(self, func: Any, args: Any, kwargs: Any, operands: Any) -> Any:
        """Dtypes to cast to, likeliest first, and the tensor that must stay as it is."""
        floats = [each for each in operands if each.is_floating_point()]
        if not floats:
            return
        mixed = len(float_dtypes(operands)) > 1
        name = getattr(func, "__name__", "")
        out = kwargs.get(_IN_PLACE_ARGUMENT)
        in_place = out if isinstance(out, self.torch.Tensor) else None
        if in_place is None and (name.endswith("_") or name == "__setitem__"):
            in_place = operands[0]
        if in_place is not None:
            yield in_place.dtype, in_place
            return
        if mixed:
            weights = [each for each in floats if each.is_leaf and each.requires_grad]
            first = (weights or floats)[0].dtype
            yield first, None
            yield from ((dtype, None) for dtype in float_dtypes(operands) if dtype != first)
        elif floats[0].dtype in (self.torch.float16, self.torch.bfloat16):
            yield self.torch.float32, None

    def record(self, kind: str, error: BaseException, operation: str, operands: Any, place: Any = None) -> None:
        """One failure, once per place, operation and text."""
        session = self.session
        frame = session.places.frame(sys._getframe(1)) if place is None else None
        place = place or session.places.here(2)
        text = session.on_device_text(str(error))
        key = (kind, operation, place, tuple(dtype_name(each.dtype) for each in operands))
        entry = {
            "kind": kind,
            "error_type": type(error).__name__,
            "error": text,
            "op": operation,
            "place": place_of(place),
            "stack": [place_of(each) for each in session.places.stack(2)] if frame is not None else [],
            "phase": self.phase(),
            "step": session.step,
            "operands": [self.operand(each, frame) for each in operands[:8]] or self._of_refused(error),
            "module": session.module_path(sys._getframe(1)),
            "module_class": class_of(session.module_called(sys._getframe(1), frame)),
            "autocast": session.autocast(),
            "assumed": self.assumed,
        }
        if session.recorder.failure(key, entry):
            self.assumed = True
            session.flush()

    def _of_refused(self, error: BaseException) -> list[dict[str, Any]]:
        refused, operands = self.refused
        return operands if refused is error else []

    def nonfinite(self, entry: dict[str, Any], place: Any, phase: str) -> None:
        """The training has gone wrong without an exception."""
        session = self.session
        known = {"kind": "nonfinite", "error_type": "", "place": place_of(place), "phase": phase, "step": session.step}
        whole = {**known, **entry, "assumed": self.assumed}
        if session.recorder.training["first_nonfinite"] is None:
            session.recorder.training["first_nonfinite"] = {**whole, "count": 1}
        session.recorder.failure(("nonfinite",), whole)
        session.flush()

    def operand(self, tensor: Any, frame: Any = None) -> Any:
        birth = self.session.births.of(tensor)
        known = {"dtype": dtype_name(tensor.dtype), "shape": [] if tensor.is_nested else [*map(int, tensor.shape)]}
        known |= {"role": role_of(self.torch, tensor), "names": names_of(tensor, frame)}
        on_device = self.session.tensor_devices.on_device(tensor)
        return {**known, "device": self.session.devices.kind if on_device else "cpu", "born": born(birth)}

    def phase(self) -> str:
        """What the program is doing, read off the frames of torch that are running."""
        if self.session.in_backward:
            return "backward"
        frame = sys._getframe(1)
        while frame is not None:
            filename = frame.f_code.co_filename.replace("\\", "/")
            if filename.endswith("torch/amp/grad_scaler.py"):
                return "scaler"
            if "torch/optim/" in filename:
                return "optimizer"
            frame = frame.f_back  # type: ignore[assignment]
        return "forward" if self.torch.is_grad_enabled() else "other"


def is_of_machine(error: Exception) -> bool:
    """Whether the GPU is full or broken, which no cast repairs."""
    return any(words in str(error) for words in _OF_MACHINE)


def _in_half(torch: Any, result: Any) -> Any:
    return result.to(torch.complex32 if result.is_complex() else torch.float16)


MOST = 4


def names_of(tensor: Any, frame: FrameType | None) -> list[str]:
    """``x``, ``self.scale``: the names under which the running function has this very tensor."""
    if frame is None:
        return []
    names = [name for name, value in list(frame.f_locals.items()) if value is tensor and name.isidentifier()]
    own = frame.f_locals.get("self")
    for held in ("_parameters", "_buffers", ""):
        names += [f"self.{name}" for name in _holding(own, held, tensor)]
    return sorted(dict.fromkeys(names))[:MOST]


def role_of(torch: Any, tensor: Any) -> str:
    """``parameter`` for what a module owns to be trained."""
    return "parameter" if isinstance(tensor, torch.nn.Parameter) else "other"


def class_of(module: Any) -> str:
    """``torch.nn.modules.linear.Linear``; empty where no module runs."""
    kind = type(module)
    return "" if module is None else f"{kind.__module__}.{kind.__qualname__}"


def _holding(own: Any, held: str, tensor: Any) -> list[str]:
    attributes = getattr(own, "__dict__", {})
    found = attributes.get(held) if held else attributes
    return [name for name, value in found.items() if value is tensor] if isinstance(found, dict) else []
