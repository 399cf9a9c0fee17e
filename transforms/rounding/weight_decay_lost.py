"""Weight decay of an optimizer over 16-bit weights is so small that it changes no weight

## What goes wrong

Nothing raises, and the weights are not decayed at all. Measured with PyTorch 2.13 (1,000 steps at lr 1e-4, weight
decay 0.01, gradients of zero):

| weights | decayed by |
|---|---|
| float32 | 0.1 % |
| bfloat16 | 0.0 |
| float16 | 0.0 |

## Why

AdamW multiplies each weight by `1 - lr * weight_decay` and rounds. A factor that is nearer to 1 than 2^-9 in
bfloat16, or 2^-12 in float16, gives every weight back as it was: with weight decay 0.1 the learning rate would have
to be 0.02.

## Fix

None is written: keep the weights in float32 (bf16-mixed), or use an optimizer that rounds at random or with Kahan
summation. Where decay is not wanted, `weight_decay=0` says so.

## Not flagged

Where PF801 already says that the updates themselves are lost; weight decay that is not passed, or not known;
`fused=True` and optimizers of other libraries, which add decay and step before they round; Adam, whose decay is part
of the gradient; adapters, whose second matrix starts at zero; optimizers that no run makes.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.python.scopes import is_off
from ...codemod.source.project import Project
from .grids import is_factor_lost
from .half_optimizers import HalfOptimizer, half_optimizers, rates_of
from .stated_numbers import Stated, largest, stated_numbers
from .trained_half import is_run

ROUNDS_DECAY = ("torch.optim.AdamW",)
LARGEST_RATE = 1e-2
"""No learning rate of Adam is larger; what counts where none is known."""


def check(project: Project) -> Iterator[Finding]:
    for item in half_optimizers(project):
        if not set(ROUNDS_DECAY) & set(item.row.names) or _may_be_fused(item) or item.weights.adapted:
            continue
        rates, decay = rates_of(project, item), _decay_of(project, item)
        rate = largest(rates)
        known = rate.value if rate is not None else LARGEST_RATE
        if decay is None or any(item.loses_at(each.value) for each in rates_of(project, item, of_any=True)):
            continue
        if is_factor_lost(known * decay.value, item.weights.dtype) and is_run(project, item):
            yield _finding(item, rate, decay)


def _finding(item: HalfOptimizer, rate: Stated | None, decay: Stated) -> Finding:
    at = f"at lr {rate.value:g}" if rate is not None else f"at any lr up to {LARGEST_RATE:g}"
    message = (
        f"weight decay {decay.value:g} {at} changes no {item.weights.dtype.name} weight of"
        f" {item.weights.name}: each is multiplied by a factor that rounds to 1"
    )
    evidence = (*item.weights.places, decay.place, *([rate.place] if rate is not None else []))
    return rule.at(item.module, item.call, message, evidence)


def _may_be_fused(item: HalfOptimizer) -> bool:
    fused = item.given.get("fused")
    return "fused" in item.uncertain or (fused is not None and not is_off(fused))


def _decay_of(project: Project, item: HalfOptimizer) -> Stated | None:
    """The largest weight decay that the call is given by name."""
    node = item.given.get("weight_decay")
    return largest(stated_numbers(project, item.module, node, "the weight decay")) if node is not None else None


rule = Rule.of("PF809", check)
