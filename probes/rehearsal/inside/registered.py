"""Operations of the program's own that are registered for the device, and tensors that function transforms wrap."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any

from .imports import after_import

_WRAPPING = {
    "torch._functorch.predispatch": ("_add_batch_dim_impl", "_remove_batch_dim_impl", "_unwrap_for_grad_impl"),
    "torch._functorch.eager_transforms": ("_wrap_for_grad",),
}
"""What makes one tensor of another unseen by any mode, where ``vmap`` and ``grad`` begin and end."""


_COMPOSITE = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")


def install(session: Any) -> None:
    _kernels(session)
    _saved(session)
    for name, functions in _WRAPPING.items():
        after_import(name, functools.partial(_wrapping, session, functions))


def _kernels(session: Any) -> None:
    """A kernel in Python for the device is one for the CPU here, unless the operation has one for the CPU as well."""
    torch, kind = session.torch, session.devices.kind.upper()
    has_kernel, library = torch._C._dispatch_has_kernel_for_dispatch_key, torch.library.Library
    real = library.impl

    def impl(own: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        key = dispatch_key or own.dispatch_key
        if own.ns == "aten" or fn is torch.library.fallthrough_kernel or not key.endswith((kind, "CPU", *_COMPOSITE)):
            real(own, op_name, fn, dispatch_key, **options)
            return
        kernel = _seen(session, fn, key.startswith("Autocast"))
        real(own, op_name, kernel, dispatch_key, **options)
        schema = getattr(op_name, "_schema", None)
        named = op_name if schema is None else f"{schema.name}.{schema.overload_name}".removesuffix(".")
        name, lent = named if "::" in named else f"{own.ns}::{named}", key.removesuffix(kind) + "CPU"
        if key.endswith(kind) and not has_kernel(name, lent):
            real(own, op_name, kernel, lent, **options)

    library.impl = impl


def _saved(session: Any) -> None:
    """What a program packs for the backward pass is asked for its device in the middle of an operation."""
    hooks = session.torch.autograd.graph.saved_tensors_hooks
    real = hooks.__init__

    def made(own: Any, pack_hook: Any, unpack_hook: Any) -> None:
        real(own, _seen(session, pack_hook), _seen(session, unpack_hook))

    hooks.__init__ = made


def _seen(session: Any, fn: Any, of_autocast: bool = False) -> Any:
    """Code of the program that torch calls: what it asks is seen. A kernel of autocast takes the device's away only."""
    guard, autocast = session.torch._C._ExcludeDispatchKeyGuard, session.torch._C.DispatchKey.AutocastCPU
    keys = session.torch._C.DispatchKeySet(autocast)

    @functools.wraps(fn)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with session.programs_own_code(), guard(keys) if of_autocast else nullcontext():
            return fn(*args, **kwargs)

    return kernel


def _wrapping(session: Any, functions: tuple[str, ...], module: Any) -> None:
    for name in functions:
        real = getattr(module, name, None)
        if real is not None:
            setattr(module, name, _keeping_birth(session.births, real))


def _keeping_birth(births: Any, real: Any) -> Any:
    def made(tensor: Any, *args: Any) -> Any:
        result = real(tensor, *args)
        birth = births.of(tensor)
        if birth is not None and result is not tensor:
            births.note(result, birth)
        return result

    return made
