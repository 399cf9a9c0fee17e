"""Attention in float64: the fused kernels of a GPU have none, and not all of them say so."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

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
