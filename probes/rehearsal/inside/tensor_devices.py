"""The methods of a tensor that are about its device, answered for the device that the program believes it is on."""

from __future__ import annotations

from typing import Any

from .births import TracedBirth
from .old_types import on_the_cpu
from .tensors import dtype_name, tensors_in

_NOT_ON_HOST = "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."


class TensorDevices:
    """Handlers for :attr:`Functions.special`."""

    def __init__(self, functions: Any) -> None:
        self.functions = functions
        self.births, self.devices = functions.births, functions.devices
        self.torch = functions.torch
        self._cast = functions.torch.Tensor.to  # which a program may replace

    def install(self) -> None:
        tensor, special = self.torch.Tensor, self.functions.special
        special[tensor.grad.__get__] = self._grad
        special[tensor.data.__set__] = self._set_data
        special[tensor.__deepcopy__] = self._copied
        special[tensor.__iter__] = self._iterated
        special[tensor.numpy] = special[tensor.__array__] = self._numpy
        if not self.devices.simulated:
            return
        kind = self.devices.kind
        special[tensor.device.__get__] = self._device
        special[getattr(tensor, f"is_{kind}").__get__] = lambda func, args, kwargs: self.on_device(args[0])
        special[tensor.is_cpu.__get__] = lambda func, args, kwargs: not self.on_device(args[0])
        special[tensor.get_device] = self._index
        special[tensor.to] = self._to
        special[tensor.cuda] = self._cuda
        special[tensor.cpu] = lambda func, args, kwargs: self._moved(func, args[:1], {}, False)
        special[tensor.type] = self._type
        special[tensor.pin_memory] = lambda func, args, kwargs: args[0]
        tensor.record_stream = lambda own, stream: None  # torch reads the argument before it asks a mode
        special[self.torch.device] = self._named
        special[self.torch._C._nn._parse_to] = lambda func, args, kwargs: func(*map(self._numbered, args), **kwargs)
        special[self.torch._VF._pack_padded_sequence] = self._packed
        special[tensor.is_pinned] = lambda func, args, kwargs: False

    def _named(self, func: Any, args: Any, kwargs: Any) -> Any:
        """``torch.device(0)`` is a device of the kind that the machine has."""
        return func(self.devices.kind, *args) if len(args) == 1 and isinstance(args[0], int) else func(*args, **kwargs)

    def _numbered(self, value: Any) -> Any:
        """The argument of ``module.to(0)``."""
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return self.torch.device(self.devices.kind, value) if is_number else value

    def _numpy(self, func: Any, args: Any, kwargs: Any) -> Any:
        """NumPy reads the memory of the host alone: the run goes on with a copy there."""
        tensor, *others = args
        known = not self.devices.simulated or self.births.of(tensor) is not None
        if known and self.on_device(tensor) and self.devices.kind != "cpu" and not kwargs.get("force"):
            error = TypeError(_NOT_ON_HOST.format(tensor.device if tensor.is_cuda else self.devices.device))
            self.functions.session.failures.record("wrong_device", error, "numpy", [])
            tensor = tensor.to(self.devices.cpu)
        return func(tensor, *others, **kwargs)

    def _packed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The sizes of a packed sequence stay on the CPU."""
        data, sizes = self.functions.operation(func, args, kwargs)
        self.births.note(sizes, TracedBirth(None, "lengths", dtype_name(sizes.dtype), False))
        return data, sizes

    def on_device(self, tensor: Any) -> bool:
        """A tensor that nobody has seen is of the engine, where the loss is, or is being saved, where its likes are."""
        if not self.devices.simulated:
            return bool(tensor.device.type == self.devices.kind)
        birth = self.births.of(tensor)
        if birth is None:
            known = map(self.births.of, self.functions.operands)
            here = any(each is not None and each.on_device for each in known)
            return here or self.functions.session.backward.on_device
        return bool(birth.on_device)

    def are_on_cpu(self, operands: Any) -> bool:
        """Whether all of them are known, and are where the program has left them: on the CPU."""
        known = [self.births.of(each) for each in tensors_in(self.torch.Tensor, operands)]
        return bool(known) and all(birth is not None and not birth.on_device for birth in known)

    def _device(self, func: Any, args: Any, kwargs: Any) -> Any:
        real = func(*args)
        return self.devices.device if real.type == "cpu" and self.on_device(args[0]) else real

    def _index(self, func: Any, args: Any, kwargs: Any) -> int:
        return self.devices.index if self.on_device(args[0]) else -1

    def _type(self, func: Any, args: Any, kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            name = func(*args)
            return name.replace("torch.", f"torch.{self.devices.kind}.") if self.on_device(args[0]) else name
        wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
        plain = on_the_cpu(wanted)
        if plain is not wanted and plain != wanted:
            return self._moved(func, (args[0], plain), {}, True)
        return self.functions.operation(func, args, kwargs)

    def _cuda(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self._moved(self._cast, (args[0], self.devices.cpu), {}, True)

    def _to(self, func: Any, args: Any, kwargs: Any) -> Any:
        """``to(device)``, ``to(device, dtype)``, ``to(other)``, with any of them by keyword."""
        asked = self.devices.asked(kwargs.get("device"))
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self.devices.real(kwargs["device"])}
        if len(args) > 1:
            other = args[1]
            if isinstance(other, self.torch.Tensor):
                asked = self.on_device(other)
            elif self.devices.asked(other) is not None:
                asked = self.devices.asked(other)
                args = (args[0], self.devices.real(other), *args[2:])
        return self._moved(func, args, kwargs, asked)

    def _moved(self, func: Any, args: Any, kwargs: Any, asked: bool | None) -> Any:
        """A tensor that changes its device is a new one, even where it stays in the same memory here."""
        source = args[0]
        before = self.on_device(source)
        after = before if asked is None else asked
        result = func(*args, **kwargs)
        if result is source and after != before:
            result = source.clone() if source.requires_grad else source.detach().clone()
        if result is not source:
            self.functions.noted(func, [source], result, after)
        return result

    def _grad(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A gradient is where its tensor is, and got its dtype from it."""
        grad = func(*args)
        if grad is not None and self.births.of(grad) is None:
            owner = self.births.of(args[0])
            on_device = owner.on_device if owner is not None else False
            place = owner.place if owner is not None else None
            self.births.note(grad, TracedBirth(place, "the gradient", dtype_name(grad.dtype), on_device, owner))
        return grad

    def _set_data(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args)
        self._inherit(args[0], args[1])
        return result

    def _copied(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        self._inherit(result, args[0])
        return result

    def _iterated(self, func: Any, args: Any, kwargs: Any) -> Any:
        rows = list(func(*args))
        self.functions.noted(func, [args[0]], rows, None)
        return iter(rows)

    def _inherit(self, tensor: Any, source: Any) -> None:
        birth = self.births.of(source)
        if birth is not None:
            self.births.note(tensor, birth)
