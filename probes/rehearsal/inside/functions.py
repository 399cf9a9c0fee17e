"""Every call of a torch function by the program: devices mapped, dtypes noted, what raises recorded and passed over."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .births import TracedBirth
from .tensors import dtype_name, tensors_in

_QUIET = frozenset(
    [
        "__get__",
        "__set__",
        "size",
        "dim",
        "stride",
        "storage_offset",
        "numel",
        "element_size",
        "data_ptr",
        "untyped_storage",
        "storage",
        "requires_grad_",
        "retain_grad",
        "register_hook",
        "_is_view",
        "__repr__",
        "__format__",
        "__str__",
        "__len__",
        "__bool__",
        "__reduce_ex__",
        "__setstate__",
        "item",
        "tolist",
        "numpy",
        "ndimension",
        "nelement",
        "__array__",
        "__dlpack__",
        "__dlpack_device__",
        "__contains__",
        "__int__",
        "__float__",
        "__index__",
        "backward",
        "register_post_accumulate_grad_hook",
        "share_memory_",
        "has_names",
        "set_default_dtype",
        "_version",
    ]
)
"""Functions that neither make tensors nor can raise for a dtype; most calls of a program are one of these."""

MOST_LOADED = 1 << 20


class ObservedFunctions:
    """What happens at a call. The mode that torch calls is made by :func:`mode_of`."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.torch = session.torch
        self.tensor, self._device = session.torch.Tensor, session.torch.device
        self.births, self.places = session.births, session.places
        self.recorder, self.devices = session.recorder, session.devices
        self.local = threading.local()
        self.special: dict[Any, Callable[..., Any]] = {}
        self._own = {name: getattr(self.tensor, name, None) for name in dir(self.tensor)}
        self._replaced: dict[Any, Any] = {}
        self._factories = _factories(session.torch)

    @property
    def running(self) -> int:
        """How many functions of torch are being run for the program in this thread; the mode is off within them."""
        return getattr(self.local, "running", 0)

    @property
    def operands(self) -> Any:
        """The tensors that the function which runs was given."""
        return getattr(self.local, "operands", ())

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        local = self.local
        local.running = self.running + 1
        try:
            if type(func) is FunctionType:
                func = self._as_torch_has_it(func)
            special = self.special.get(func)
            if special is not None:
                return special(func, args, kwargs)
            name = getattr(func, "__name__", "")
            if name in _QUIET or name.startswith("is_"):
                return self._quiet(func, args, kwargs)
            return self.operation(func, args, kwargs)
        finally:
            local.running -= 1

    def _as_torch_has_it(self, func: Any) -> Any:
        """Where the program has replaced a method of ``Tensor``, torch names the replacement, which already runs."""
        if func not in self._replaced:
            own = (real for name, real in self._own.items() if vars(self.tensor).get(name) is func)
            self._replaced[func] = next(own, None) or func
        return self._replaced[func]

    def _quiet(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Attributes such as ``x.T`` are the tensor that they are read of, as far as dtype and device go."""
        result = func(*args, **kwargs)
        if args and isinstance(result, self.tensor) and result is not args[0]:
            birth = self.births.of(args[0])
            if birth is not None:
                self.births.note(result, birth)
        return result

    def operation(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A function that computes something."""
        self.session.called.note(getattr(func, "__name__", ""))
        args, kwargs, on_device = self._on_cpu(func, args, kwargs)
        operands, outer = tensors_in(self.tensor, (args, kwargs)), self.operands
        try:
            self.local.operands = operands
            result = func(*args, **kwargs)
        except self.session.failures.errors as error:
            if self.session.in_backward and hasattr(func, "_schema"):
                raise  # an operation that the dispatch mode has called, and that it knows more about
            result = self.session.failures.passed_over(func, args, kwargs, operands, error)
        finally:
            self.local.operands = outer
        try:
            self.noted(func, operands, result, on_device)
        except Exception as error:  # whatever goes wrong in looking, the program goes on
            self.recorder.note(f"precfix could not look at {func}: {type(error).__name__}: {error}")
        return result

    def _on_cpu(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, bool | None]:
        """The arguments with devices of this machine, and which device was asked for."""
        devices = self.devices
        if not devices.simulated:
            return args, kwargs, None
        on_device = None
        if any(type(each) is self._device for each in args) and func is not self.torch.device:
            on_device = any(type(each) is self._device and devices.asked(each) for each in args)
            args = tuple(devices.real(each) if type(each) is self._device else each for each in args)
        if kwargs:
            device = kwargs.get("device")
            if device is not None and func is not self.torch.device:
                on_device = devices.asked(device)
                if on_device is False and hasattr(func, "_schema"):
                    on_device = None  # where the engine found the tensors that it computes with
                kwargs = {**kwargs, "device": devices.real(device)}
            if kwargs.get("pin_memory"):
                kwargs = {**kwargs, "pin_memory": False}
        if on_device is None and func in self._factories:
            current = self.session.default_device()
            on_device = devices.asked(current) if current is not None else None
        return args, kwargs, on_device

    def noted(self, func: Any, operands: Any, result: Any, on_device: bool | None) -> None:
        """Remember where the result got its dtype, and what the user's expression was."""
        frame = self.places.frame(sys._getframe(2))
        place = None if frame is None else self.places.of(frame)
        births = self.births
        known = [births.of(each) for each in operands]
        if on_device is None:
            unseen = self.session.tensor_devices.on_device
            pairs = zip(operands, known, strict=True)
            on_device = any(unseen(each) if birth is None else birth.on_device for each, birth in pairs)
        name = getattr(func, "__name__", "") or str(func)
        results = tensors_in(self.tensor, result, 16)
        for each in results:
            if any(each is operand for operand in operands):
                continue
            dtype = dtype_name(each.dtype)
            parent = next((birth for birth in known if birth is not None and birth.dtype == dtype), None)
            births.note(each, TracedBirth(place, name, dtype, on_device, parent))
        self.session.finite.look(name, operands, results, place)
        if frame is not None and _calls_directly(frame):
            self._observed(func, place, operands, result, on_device)
        if self.session.backward is not None:
            self.session.backward.forward_place(place)

    def tensors_of(self, value: Any) -> list[Any]:
        """All tensors of a checkpoint, or of a module."""
        if isinstance(value, self.torch.nn.Module):
            return [*value.parameters(), *value.buffers()]
        return tensors_in(self.tensor, value, MOST_LOADED)

    def put_on_device(self, value: Any, operation: str) -> None:
        """What the program has made on the device without naming it as an argument."""
        place = self.places.here(2)
        for each in self.tensors_of(value):
            self.births.note(each, TracedBirth(place, operation, dtype_name(each.dtype), True))

    def _observed(self, func: Any, place: Any, operands: Any, result: Any, on_device: bool) -> None:
        if not self.devices.simulated:
            on_device = any(self.session.tensor_devices.on_device(each) for each in operands)
        device = self.devices.kind if on_device else "cpu"
        value = self.recorder.value
        if isinstance(result, self.tensor):
            value(place, "call", dtype_name(result.dtype), result.dim(), device)
        name = getattr(func, "__name__", "")
        if name.startswith("__r") or len(operands) > 4:
            return
        form = "method" if getattr(self.tensor, name, None) is func else "function"
        for index, each in enumerate(operands):
            value(place, f"{form} {len(operands)} {index}", dtype_name(each.dtype), each.dim(), device)


_BETWEEN = tuple(
    f"torch{os.sep}{name}.py"
    for name in (
        "overrides",
        f"nn{os.sep}functional",
        "_tensor",
        "functional",
        "_jit_internal",
        f"utils{os.sep}_contextlib",
    )
)
_OWN = os.path.dirname(os.path.abspath(__file__))


def _calls_directly(user: Any) -> bool:
    """Whether the user's frame itself called the function, not a module or a library that it called."""
    frame = sys._getframe(2)
    while frame is not user:
        filename = frame.f_code.co_filename
        if not filename.startswith(_OWN) and not filename.endswith(_BETWEEN):
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return True


def _factories(torch: Any) -> frozenset[Any]:
    try:
        return frozenset(torch.utils._device._device_constructors())
    except AttributeError:
        return frozenset()


def mode_of(torch: Any, functions: ObservedFunctions) -> Any:
    """The mode that torch asks about every function, to be entered once per thread."""
    from torch.overrides import TorchFunctionMode

    class CallObserver(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return functions.call(func, args, kwargs or {})

    return CallObserver()
