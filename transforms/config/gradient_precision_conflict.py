"""SimpleTuner is configured to train in bf16 and to cast its gradients to fp32.

## What goes wrong

`RuntimeError: Expected BFloat16, got Float` from the gradient reducer when several processes accumulate gradients
(SimpleTuner before v1.1); later versions overwrite the setting without a word, so the file says something that never
happens.

## Why

SimpleTuner keeps its weights in bfloat16 under `mixed_precision=bf16`. `gradient_precision=fp32` replaces each
`param.grad.data` by a float32 copy after every backward pass, so a bfloat16 parameter meets a float32 gradient
(bghira/SimpleTuner#854). From v1.1 on the optimizer decides, and a user's `fp32` is reset to `unmodified`.

The condition is `st-grad-fp32-under-bf16` in `transforms/frameworks/simpletuner.yaml`.

## Fix

`respell` [safe] changes the value to `unmodified` and nothing else on the line. It removes the crash of old versions
and is what newer ones do on their own. `bf16` is not a value of this setting, and `fp32` is not a value of
`mixed_precision`: SimpleTuner rejects both.

## Not flagged

`mixed_precision=no`; a single process or no gradient accumulation, where it is written down; the `soap` optimizer,
which asks for float32 gradients; `PURE_BF16=true` or `--adam_bfloat16`, under which gradients are not cast; a variable
that is reassigned further down; commented lines and documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.writing.findings import findings_of


def check(project: Project) -> Iterator[Finding]:
    """A finding for every contradiction of this kind that the frameworks' tables know."""
    yield from findings_of(project, rule)


rule = Rule.of("PF501", check)
