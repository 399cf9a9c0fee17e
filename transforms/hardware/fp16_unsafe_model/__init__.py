"""A model whose activations do not fit into float16 is trained or run in float16.

## What goes wrong

The loss becomes nan, or the gradient scaler skips step after step while the loss stays where it is; generation returns
empty or repeated tokens. Nothing is raised.

## Why

float16 ends at 65504; bfloat16 has the range of float32. These models were trained in bfloat16 or float32 and use that
range:

- T5 1.1, mT5, Flan-T5, LongT5, T0, UL2 and the larger T5: the second layer of their feed-forward blocks
  (huggingface/transformers#10956, #11461, #23918). Since release 4.26 `from_pretrained(torch_dtype=torch.float16)`
  keeps that layer (`wo`) in float32, so inference with weights loaded that way is right. Mixed precision with float16
  casts the layer again, and `.half()` casts what was kept.
- Pegasus: float16 "is not supported" by transformers' own page.
- Gemma 3: huggingface/transformers#36822.

## Fix

- `bf16` [unsafe]: the trainer's arguments, the flag, the key or the cast asks for bfloat16. Offered unless the profile
  of the machine says that it has no native bfloat16.
- `fp32` [unsafe]: they ask for float32, where that profile says so or `--to fp32` was given.

Loops of the project's own and Lightning trainers are reported.

## Not flagged

bfloat16 and float32; a precision that is chosen at run time; T5-small and T5-base, which train in float16; weights
loaded with `torch_dtype=torch.float16` and only run; tokenizers and lone text encoders; quantized weights; Unsloth,
which trains Gemma 3 in float32 on such GPUs; checkpoints that were rescaled for float16; tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.source.project import Project
from .unsafe_launches import unsafe_launches
from .unsafe_training import unsafe_training

CHECKS = (unsafe_training, unsafe_launches)


def check(project: Project) -> Iterator[Finding]:
    for search in CHECKS:
        for danger in search(project):
            yield rule.found(*danger)


rule = Rule.of("PF604", check, depends_on=("profile",))
