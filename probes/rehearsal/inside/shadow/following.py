"""One operation of the program, done again on the shadows of what it was given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_unflatten

from .storages import WIDE, Storages, is_followed

FRESH = frozenset({"aten::resize_", "aten::set_", "aten::resize_as_"})
"""Operations behind which a storage is another one."""


def widened(
    storages: Storages, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with shadows for tensors and float64 for each floating dtype."""
    flat, spec = tree_flatten((args, kwargs))
    wide_args, wide_kwargs = tree_unflatten([_wide(storages, value) for value in flat], spec)
    return wide_args, wide_kwargs


def _wide(storages: Storages, value: object) -> object:
    if is_followed(value):
        assert isinstance(value, Tensor)
        return storages.shadow(value)
    if isinstance(value, torch.dtype):
        return WIDE if value.is_floating_point else torch.complex128 if value.is_complex else value
    return value


def is_random(func: OpOverload[..., Any], kwargs: dict[str, Any], args: tuple[Any, ...]) -> bool:
    """Whether the operation draws numbers: a shadow that draws its own would compare nothing."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    if not func._schema.name.startswith(ATTENTION):  # marked for its dropout, which it may not have
        return True
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    return bool(given.get("dropout_p", 0.0))


def dropped_out(wide: tuple[Any, ...], result: tuple[Tensor, Tensor]) -> Tensor:
    """``native_dropout`` on the shadow with the mask that the program drew."""
    kept = result[1]
    share = float(wide[1])
    scale = 0.0 if share == 1.0 else 1.0 / (1.0 - share)
    return Tensor.mul(wide[0], kept.to(WIDE) * scale)


def tensors_in(tree: object) -> list[Tensor]:
    """Each followed tensor among nested arguments or results, in order."""
    return [value for value in tree_flatten(tree)[0] if is_followed(value)]


def repeated(
    func: OpOverload[..., Any], wide: tuple[tuple[Any, ...], dict[str, Any]], random: bool, result: object
) -> object | None:
    """What the operation gives on the shadows; None where that cannot be computed, so that shadows start anew."""
    if func._schema.name == "aten::native_dropout" and isinstance(result, tuple):
        return dropped_out(wide[0], result), None
    if random:
        return None
    call: Callable[..., object] = func
    try:
        if is_fused(func):
            return attention(func, *wide)
        return call(*wide[0], **_with_dtype(func, wide, result))
    except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError):
        return None


def _with_dtype(
    func: OpOverload[..., Any], wide: tuple[tuple[Any, ...], dict[str, Any]], result: object
) -> dict[str, Any]:
    """A factory that was given no dtype would use the default one, which is not wide."""
    args, kwargs = wide
    takes = any(argument.name == "dtype" for argument in func._schema.arguments)
    if not takes or tensors_in((args, kwargs)) or not is_followed(result) or kwargs.get("dtype") is not None:
        return kwargs
    assert isinstance(result, Tensor)
    return kwargs | {"dtype": torch.complex128 if result.is_complex() else WIDE}


ATTENTION = "aten::_scaled_dot_product"


def is_fused(func: OpOverload[..., Any]) -> bool:
    """Whether it is a GPU's: cuDNN's takes float64 and gives numbers that mean nothing (seen on an H200)."""
    return func._schema.name.startswith(ATTENTION) and "for_cpu" not in func._schema.name


def attention(func: OpOverload[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...] | None:
    """The output, or the gradients, of a fused attention without dropout; what else it returns has no shadow."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    query, key, value = (given.get(name) for name in ("query", "key", "value"))
    if given.get("dropout_p") or query is None or key is None or value is None:
        return None
    scale = given.get("scale") or 1.0 / math.sqrt(query.shape[-1])
    weights = _weights(query, key, given.get("attn_bias"), scale, bool(given.get("is_causal")))
    gradient = given.get("grad_out", given.get("grad_out_"))
    if gradient is None:
        return (weights @ value,)
    of_weights = gradient @ value.transpose(-1, -2)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * scale
    return of_scores @ key, of_scores.transpose(-1, -2) @ query, weights.transpose(-1, -2) @ gradient


def _weights(query: Tensor, key: Tensor, bias: Tensor | None, scale: float, causal: bool) -> Tensor:
    scores = query @ key.transpose(-1, -2) * scale
    if bias is not None:
        scores = scores + bias
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1)
