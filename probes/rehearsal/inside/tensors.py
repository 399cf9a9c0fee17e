"""Reading tensors out of arguments and results."""

from __future__ import annotations

from typing import Any

_NAMES: dict[Any, str] = {}


def dtype_name(dtype: Any) -> str:
    """``torch.bfloat16`` -> ``bfloat16``."""
    name = _NAMES.get(dtype)
    if name is None:
        name = _NAMES[dtype] = str(dtype).removeprefix("torch.")
    return name


def tensors_in(kind: type, value: Any, most: int = 32) -> list[Any]:
    """The tensors of nested arguments, in order."""
    found: list[Any] = []
    _collect(kind, value, found, most, 0)
    return found


def _collect(kind: type, value: Any, found: list[Any], most: int, depth: int) -> None:
    if isinstance(value, kind):
        found.append(value)
    elif isinstance(value, list | tuple):
        if depth < 4:
            for each in value:
                if len(found) >= most:
                    return
                _collect(kind, each, found, most, depth + 1)
    elif isinstance(value, dict) and value and depth < 4:
        for each in value.values():
            _collect(kind, each, found, most, depth + 1)


def cast_all(kind: type, value: Any, dtype: Any, keep: Any = None) -> Any:
    """The same arguments with every floating tensor in one dtype, but for the one to ``keep``."""
    if isinstance(value, kind):
        if dtype_name(value.dtype) == "complex32":  # type: ignore[attr-defined]
            return value.to(dtype.to_complex()) if dtype.itemsize > 2 else value  # type: ignore[attr-defined]
        floating = value.is_floating_point() and value is not keep and value.dtype != dtype  # type: ignore[attr-defined]
        return value.to(dtype) if floating else value  # type: ignore[attr-defined]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cast_all(kind, each, dtype, keep) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(cast_all(kind, each, dtype, keep) for each in value)
    if isinstance(value, dict):
        return {key: cast_all(kind, each, dtype, keep) for key, each in value.items()}
    return value


def float_dtypes(tensors: list[Any]) -> set[Any]:
    return {each.dtype for each in tensors if each.is_floating_point()}


def write_back(kind: type, before: Any, after: Any) -> None:
    """What an operation has changed in place in a copy of its arguments is changed in the arguments."""
    for one, copy in zip(tensors_in(kind, before), tensors_in(kind, after), strict=True):
        if one is not copy and not one.to(copy.dtype).equal(copy):
            one.copy_(copy)
