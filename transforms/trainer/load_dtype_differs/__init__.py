"""A model is loaded in another 16-bit dtype than the one it is trained in.

## What goes wrong

`from_pretrained(torch_dtype=torch.float16)` and `TrainingArguments(bf16=True)`: nothing complains, and float16
gradients that no scaler scales become zero or infinite. The reverse, bfloat16 weights under `fp16=True`, dies in the
GradScaler on CUDA: `"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'`. float16 weights
under `fp16=True`: `ValueError: Attempting to unscale FP16 gradients.` With Unsloth: `TypeError: Unsloth: Model is in
float16 precision but you want to use bfloat16 precision`. `dtype=` on transformers before 4.56: `TypeError:
... got an unexpected keyword argument 'dtype'`.

## Why

A trainer's `bf16` and `fp16` switch autocast (and a GradScaler) on; the weights keep the dtype they were loaded in, and
gradients have the dtype of their weights. float16 + bfloat16 gives float32. A GradScaler only works on float32
gradients.

## Fix

`trainer-dtype` [unsafe]: the weights are loaded in what the trainer computes in, or asks the machine for.
`automatic` [safe]: Unsloth's `dtype=None` takes bfloat16 where the GPU has it, else float16; written where the trainer
asks for bfloat16 and Unsloth refuses to train float16 weights in it.
`unsloth-dtype` [safe]: Unsloth loads in the trainer's float16 where it refuses to train bfloat16 weights in it.
`float32-weights` [unsafe]: what a GradScaler steps is loaded in float32; it takes twice the memory.
`float32-adapters` [safe]: PEFT makes the adapters float32 again, its default; without it the first step fails.
`bfloat16-too` [unsafe]: a choice that takes float16 where bfloat16 is asked for takes bfloat16.
`old-keyword` [safe]: `torch_dtype=`, which the pinned transformers knows.

Two of the cases have names of their own: `hf-fp16-weights-fp16-amp`, a float16 model that a scaler unscales, and
`peft-fp16-trainable`, adapters that stay float16.

## Not flagged

Models that are not trained in the same program; a dtype that is chosen and that nothing reads; float32 weights,
`torch_dtype="auto"`, a dtype chosen at run time,
unless the same choice switches the scaler on; a frozen base under adapters, which PEFT makes float32: it runs in
autocast's dtype, with one cast more; quantized weights, and `bnb_4bit_compute_dtype`, of which the same is true;
weights that are cast or frozen on the way; DeepSpeed and FSDP, which cast weights themselves; precision that a command
line decides and no launch line of the project gives (`HfArgumentParser` beside a script with `--fp16` is followed);
tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.source.project import Project
from .chosen_together import loads_chosen_together
from .forgotten_dtypes import forgotten_dtypes
from .load_clashes import load_clashes
from .load_keywords import unknown_keywords


def check(project: Project) -> Iterator[Finding]:
    for find in (load_clashes, loads_chosen_together, forgotten_dtypes, unknown_keywords):
        for draft in find(project):
            yield rule.found(*draft)


rule = Rule.of("PF403", check)
