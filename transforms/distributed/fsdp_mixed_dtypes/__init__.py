"""Sharded parameters get two dtypes: by a policy, autocast, a cast, an added part, 4-bit storage or the scaler.

## What goes wrong

`ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32` or `Cannot flatten
integer dtype tensors` (FSDP1), `FSDP expects uniform original parameter dtype` (FSDP2), `mat1 and mat2 must have the
same dtype` behind a policy of the wrong class,
`TypeError: ... unexpected keyword argument 'buffer_dtype'`, `ValueError: Invalid mixed precision policy` (accelerate).
Or nothing is raised: parameters are rounded to float16 and then to bfloat16, bfloat16 gradients overflow while they are
summed in float16, and with a plain GradScaler some ranks skip a step that the others take. A policy that no wrapper
gets casts nothing: the run needs the memory and the time of the dtype that the weights have. With a policy in float16
and no scaler at all, small gradients are zero (measured with both versions of FSDP and PyTorch 2.13).

## Why

FSDP1 keeps the parameters of a unit in one flat tensor, FSDP2 communicates them together: they must have one dtype.
4-bit weights of bitsandbytes count with the dtype they are stored in (`bnb_4bit_quant_storage`). A policy casts the
parameters before the layer runs, autocast casts them again inside. FSDP2 has a policy class of its own, without
`buffer_dtype`. `torch.amp.GradScaler` looks for inf only in the shard of its own rank; measured with two ranks of
FSDP1 and PyTorch 2.13, one rank skipped the step and halved its scale while the other stepped. ShardedGradScaler
agrees with all ranks; with FSDP2 the plain one does, too.

## Fix

- `same-storage` [safe]: `bnb_4bit_quant_storage` becomes the dtype the model is loaded in. The bits stay the same.
- `float-storage` [unsafe]: 4-bit weights that are left in integers, the default, are stored in the dtype that the model
  is loaded in, where the same function shards it.
- `drop-argument` [safe]: `buffer_dtype` goes from a MixedPrecisionPolicy; `drop-argument` [unsafe] for `output_dtype`
of FSDP1.
- `one-dtype` [unsafe]: the second 16-bit dtype of a policy becomes that of its parameters; a cast of one part of the
  model is removed; a part that is made after the model was cast or loaded gets its dtype; PEFT leaves adapters in it.
- `follow-autocast` [unsafe]: the policy takes the dtype of the autocast region, or of the Accelerator, in the same run.
- `sharded` [unsafe]: ShardedGradScaler, where the model is sharded whenever the scaler is made. Steps are then skipped
  by all ranks or by none.
- `rename-key` [unsafe]: the third key of accelerate's policy dict is called as the version of FSDP wants it.

## Not flagged

`reduce_dtype` or `buffer_dtype` float32, `param_dtype` float32 with 16-bit reduction, float16 parameters reduced in
bfloat16; dtypes chosen at run time; a plain GradScaler with FSDP2, `NO_SHARD`, or beside a ShardedGradScaler for the
sharded case; parts that an `auto_wrap_policy` may wrap apart, or that get a dtype again before the model is sharded;
4-bit storage in projects without FSDP; policies in float32, or of a file in which any call is passed a policy; anything
else of a policy that nothing passes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.source.project import Project
from .fsdp_scalers import scaler_clashes, unscaled_policies
from .policy_dtypes import plugin_clashes, policy_clashes
from .quantized_storage import integer_storage, storage_clashes
from .uneven_parameters import part_clashes

KINDS = (
    *(policy_clashes, scaler_clashes, unscaled_policies, storage_clashes, integer_storage, part_clashes),
    plugin_clashes,
)


def check(project: Project) -> Iterator[Finding]:
    for clashes in KINDS:
        for draft in clashes(project):
            yield rule.found(*draft)


rule = Rule.of("PF701", check)
