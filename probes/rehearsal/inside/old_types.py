"""``torch.cuda.FloatTensor`` and its like: types of torch that are constructors and names of a dtype on the device."""

from __future__ import annotations

from typing import Any

_NAMES = "FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor IntTensor LongTensor"
_MARKER = "torch.cuda."


class _Type(type):
    """The type of such a type: calling one makes a tensor of the CPU's, which is then believed to be on the device."""

    on_cpu: Any
    functions: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = cls.on_cpu(*args, **kwargs)
        cls.functions.put_on_device(made, cls.__name__)
        return made

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.on_cpu) and bool(value.is_cuda)


def install(torch: Any, functions: Any) -> None:
    for name in (*_NAMES.split(), "BoolTensor"):
        made = _Type(name, (), {"on_cpu": getattr(torch, name), "functions": functions, "__module__": "torch.cuda"})
        setattr(torch.cuda, name, made)
    real = torch.set_default_tensor_type

    def set_default(kind: Any) -> None:
        on_device = isinstance(kind, _Type) or str(kind).startswith(_MARKER)
        real(on_the_cpu(kind))
        torch.set_default_device("cuda" if on_device else "cpu")

    torch.set_default_tensor_type = set_default


def on_the_cpu(kind: Any) -> Any:
    """``torch.FloatTensor`` for ``torch.cuda.FloatTensor``, as an object or by name; all else as it is."""
    if isinstance(kind, _Type):
        return kind.on_cpu
    return kind.replace(_MARKER, "torch.") if isinstance(kind, str) else kind
