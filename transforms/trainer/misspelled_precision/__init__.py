"""A precision is misspelled, or given as a value that is not read the way it is written.

## What goes wrong

`module 'torch' has no attribute 'bloat16'`, `'Tensor' object has no attribute 'blfloat16'`, `Accelerator.__init__() got
an unexpected keyword argument 'mix_precision'`, `GradScaler.__init__() got an unexpected keyword argument 'backoff'`,
`'Namespace' object has no attribute 'mix_precision'`, `Unknown mixed_precision mode: False`, or no error at all:
`--fp16 False` switches fp16 on, a comparison with `"bloat16"` never holds, and `--no_fp16` of `action="store_false"` is
true where it is left out, so `not args.no_fp16` is fp16 for those who ask for none.

## Why

Names of precisions are spelled differently everywhere (`bf16`, `bfloat16`, `BFloat16`), and PyTorch only has
`torch.bfloat16` and `torch.float16`. argparse calls `bool` with the text of the command line, and every text but the
empty one is true. `accelerate.Accelerator` turns its `mixed_precision` into a string first, so `False` becomes
`"False"`, which it does not know.

## Fix

`spelling` [safe]: the right name, where what stands there now certainly raises (a name that PyTorch, a library's class
or the project's own options do not have) or where the new value means the same.

`spelling` [unsafe]: a method that casts (`x.blfloat16()`), and the same where the run changes: a string that is
compared, a value in a configuration file, an attribute of an object that may allow missing names (the right one is read
of it in the same file), a key of DeepSpeed's `fp16` or `bf16` section (`enbale`: before 0.17.1 the default counts), the
name of such a section (`fp_16`, `FP16`: DeepSpeed reads no such key, and the run stays without it), a string for a
truth value, `type=bool` or no type beside `default=False` (the project's own `str2bool` where the file has one, else a
function that reads `false`, `no`, `off` and `0` as False; `--fp16 True` on existing command lines keeps working).

`action` [unsafe]: `store_true` for a switch that does the opposite of its name. Runs with the switch and without it
change places.

## Not flagged

Names that the project itself declares, however they are spelled (`--mix_precision`, `self.precison`); names of other
formats (`float6`, `bfloat8`); a slip that stands beside the right word, or that is both given and asked for under the
same spelling; names of torch behind `hasattr`, in `try`, or assigned by the project; `type=bool` where no launch line
or read-me passes a no; switches that are always on; `type=bool` of click, typer, jsonargparse and of parsers that are
configured to read it; `store_false` with a `dest=`, whose value is read in either way, or that no launch line gives;
`mixed_precision: no` in YAML, which is PF505; tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.source.project import Project
from .boolean_flags import inverted_switches, wrong_truth_values
from .misspelled_deepspeed_keys import misspelled_deepspeed_keys
from .misspelled_keywords import unknown_keywords, unknown_to_torch
from .misspelled_torch_names import misspelled_casts, misspelled_torch_names
from .misspelled_words import misspelled_words

KINDS = (
    misspelled_torch_names,
    misspelled_casts,
    misspelled_words,
    misspelled_deepspeed_keys,
    unknown_keywords,
    unknown_to_torch,
    wrong_truth_values,
    inverted_switches,
)


def check(project: Project) -> Iterator[Finding]:
    for kind in KINDS:
        for slip in kind(project):
            yield rule.found(*slip)


rule = Rule.of("PF406", check)
