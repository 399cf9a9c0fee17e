"""Whether a learning rate loses updates in a 16-bit dtype: asked by all rules that would tell the same loss twice."""

from __future__ import annotations

from ...codemod.torch.dtypes import Dtype
from .grids import share_moved, share_of_adapter_moved

MOST = 0.85
"""A step that moves this share of the weights is no loss worth a word."""


def loses_updates(rate: float, dtype: Dtype, *, adapted: bool = False) -> bool:
    """Whether a step of this learning rate leaves a part of the weights of the usual size where they are."""
    return (share_of_adapter_moved(rate, dtype) if adapted else share_moved(rate, dtype)) < MOST
