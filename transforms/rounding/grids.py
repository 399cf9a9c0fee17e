"""What rounding to a 16-bit grid does to a weight: computed, and held against torch by tests/test_rounding.py."""

from __future__ import annotations

import math

from ...codemod.torch.dtypes import Dtype

BITS = {"bfloat16": 8, "float16": 11}
"""Significant bits, the hidden one included."""
USUAL_SPREAD = 0.02
"""The standard deviation of most weights of transformers and of convolutions behind a norm."""

MOST = 0.85
"""A step that moves this share of the weights is no loss worth a word."""
MOST_OF_ADAM = 8
"""No step of Adam and what it decays together is larger than this many learning rates."""
USUAL_INPUTS = 1024
"""Of the layers that adapters stand beside."""


def share_moved(step: float, dtype: Dtype) -> float:
    """The share of weights of the usual size that a step of this size moves at all.

    A step counts where it is at least half of the distance to the next number: 2^(e-bits) for weights from 2^e on.
    """
    if not 0 < step < 1:
        return 0.0 if step <= 0 else 1.0
    return math.erf(_largest_moved(step, dtype) / USUAL_SPREAD / math.sqrt(2))


def share_of_adapter_moved(step: float, dtype: Dtype) -> float:
    """The same of LoRA's first matrix, which starts uniform within 1 / sqrt(inputs), for 1,024 inputs.

    The second one starts at zero, where numbers are as fine as a step is.
    """
    return min(1.0, _largest_moved(step, dtype) * USUAL_INPUTS**0.5) if step > 0 else 0.0


def _largest_moved(step: float, dtype: Dtype) -> float:
    return 2.0 ** (math.floor(math.log2(step)) + BITS[dtype.name] + 1)


def never_moves(start: float, rate: float, dtype: Dtype) -> bool:
    """Whether Adam with its own betas never takes a weight from the number at which it starts.

    A step is at most (1 - b1) / sqrt((1 - b2) (1 - b1^2 / b2)) times the rate, 7.3 for b1 = 0.9 and b2 = 0.999; below a
    power of two numbers are twice as close as above it.
    """
    return start != 0 and 0 < rate * MOST_OF_ADAM < 2.0 ** (math.floor(math.log2(abs(start))) - BITS[dtype.name] - 1)


def is_factor_lost(factor: float, dtype: Dtype) -> bool:
    """Whether to shrink a weight by this part of itself changes no weight: it is below half of the finest step."""
    return 0 < factor < 2.0 ** -(BITS[dtype.name] + 1)


def is_average_lost(decay: float, dtype: Dtype) -> bool:
    """Whether a moving average with this decay stays where it is for a weight that is a tenth away.

    Its step is (1 - decay) of the distance, and has to reach half of the distance to the next number.
    """
    return 0 < 1 - decay < 2.0 ** -(BITS[dtype.name] - 2)


def loses_updates(rate: float, dtype: Dtype, *, adapted: bool = False) -> bool:
    """Whether a step of this learning rate leaves a part of the weights of the usual size where they are."""
    return (share_of_adapter_moved(rate, dtype) if adapted else share_moved(rate, dtype)) < MOST
