"""A declaration is not at the precision that was asked for.

## What goes wrong

Nothing, until one asks for another precision: this rule reports only where a target is given (`--to bf16-mixed`, or
`target` in the settings). It names every declaration that would keep the run in its present precision.

## Why

A project says its precision in several places. Changing one of them leaves the others behind, and the run fails where
they meet, or silently computes in two precisions.

## Fix

`move` [safe]: the declaration is respelled in its own vocabulary: `dtype=` of an autocast region, the value of a
setting that the project's own code uses for the target, the argument of a trainer. What the user asked for with the
target changes with it: range, digits, memory and speed; the message says how. The ordinary rules then clean up: a
scaler that bfloat16 does not need, one that float16 lacks, `.numpy()` of bfloat16 tensors. Some declarations are
reported without a fix: kernels compiled for float16 only, switches that are off and have no value to write.

`move` [unsafe]: the same where not all of it is known. Nothing is seen to read a file or to define a flag: no launch
line names the file, no code loads it, no parser defines the option, and it is not what the trainer's own program reads.
A file of whose keys the code reads several, or that fills all parameters of a function
(`main(**OmegaConf.load(args.config))`), goes where the run of that code goes; so do a fallback
(`cfg.get("dtype", "fp16")`) and a default over which files go, though another value may count in their place.
Or `torch.cuda.amp.autocast` is given a dtype and no manifest excludes torch before 1.10.

Or the run has what does not fit the other dtype for certain: a dtype that the region's switch picks, a branch for the
old dtype alone, an array or an FFT of a tensor that may become bfloat16, positions counted in its dtype, `interpolate`
where a torch before 2.1 is allowed, kernels of other packages (`torch_scatter`, `mmcv.ops`) or of a base configuration
that is not seen, `cur_scale` and `fp16_enabled()` of DeepSpeed, a model or VAE that overflows in float16, a bfloat16
checkpoint that transformers 5 loads as it is saved, `nn.LSTM`, `nn.GRU` and `nn.RNN`, which CUDA's autocast computes in
float16 also where bfloat16 is asked for, then with nothing that scales the loss.

Or a model computes with a package of which nothing is known (`from warpnorm import FusedNorm`); or, on the way to
float16, the code differentiates or handles gradients past its trainer (`loss.backward()` beside an `Accelerator`,
`torch.autograd.grad`, a clip in `on_after_backward`), or multiplies by a number above 65504; or, on the way to float32,
weights are loaded as they are saved (`torch_dtype="auto"`, `load_in_4bit=True`), a test of the device picks 16 bits for
them, the variable of the region's dtype is theirs as well, NumPy makes arrays in float16, or a launch line, or a
file that the run loads, asks for flash attention.

Or a test of precision decides whether the code around a region is called (`Mixed if cfg.amp else Plain`), nothing here
sets the option around it, evaluation in between casts with `half()`, a script tests the variable that is passed
(`case "$PREC" in`), or a read-me starts the file with `--fp16`.

Or something in the code or the files that the run uses may decide its precision, and nothing accounts for it
(`setattr(args, "fp16", True)`, `exec("... .half()")`, a base class `HalfModule` of another package).

Or a script copies or edits a file that would change (`cp base.yaml "$new"`, `sed -i`, `shutil.copy`) for runs that are
not seen to read it; or another file starts the script with the other type (`bash run.sh fp16`, `PREC=fp16 ./run.sh`);
or nothing is seen to import the code, in a project that has programs.

Or a variable names the file on a launch line (`recipes/${task}.yaml`); the line asks for quantized weights
(`--bits 4`); or weights that are 16 bits wide become float32, which takes twice the memory (`precision="bf16-true"` to
`bf16-mixed`, `torch_dtype: bfloat16` to float32). A model that is cast for DeepSpeed (`model.half()`) is cast to the
other dtype.

Or mixed precision is declared off (`mixed_precision: no`, `bf16: false`, an option whose default is that), and nothing
says that the run wants 16 bits. Where some runs have it on and others off, only the former move. A constant with which
code keeps its regions off (`USE_AMP = False`) is switched on with them.

A move is a transaction per run. All that decides what a run computes in is planned first; where one of it can only be
reported, the others are reported with it ("decides the same run and has to be changed by hand"), and where one is
unsafe, all are. Runs that share a file which would change move together, and not at all where a notebook or an old
script reads that file and stays. What is moved is the switch, never its branches
(`torch.bfloat16 if args.bf16 else ...`, and `if args.fp16: dtype = ... elif args.bf16: dtype = ...`; what another
machine computes in, `"no"` without CUDA, stays; where the code knows only `x == "fp16"`, it needs a branch, or another
test of `x`, for the other word first), the configuration, not only the fallback of `cfg.get("dtype", "bf16")`, and no
switch is written out beside one that an option decides: where the code reads one switch only
(`TrainingArguments(fp16=args.fp16)`, `"fp16" if args.fp16 else "no"`), it gets an option for the other one [unsafe], if
nothing else reads the first. Where a program has `--bf16` and `--fp16`, one takes the other's place; policies of FSDP
that they pick move with them [unsafe]. Files that a program executes among its variables move with its defaults.
A word that picks what a trainer is told (`fp16=args.precision == "fp16"`, a table, a cascade of ifs) moves where the
code knows one for the target [unsafe where other code reads the word].
An option that takes other words only (`choices=["no", "fp16"]`, `type=int`) takes the new one as well [unsafe], if only
the trainer's argument reads it.
To float16 nothing moves whose loss nothing is seen to scale, but a region that a method hands out brings the scaler
that its only step needs [unsafe]; weights that are trained, or cast before a trainer gets them, become float32 [unsafe:
twice the memory], also where the setting of the regions picks their dtype (`torch.set_default_dtype(dtype)`), and
others float16 [safe where their freezing, or adapters, prove it].
After the edits `migrate --to` reads the ledger again from the new texts and takes back what did not arrive at exactly
the target, what other rules took away from it, and a run of which weights, tensors or a scaler would stay as they were.

`--to portable` lets the machine choose: each module gets one constant, `USE_BF16`, and computes in bfloat16 where that
is native, else in float16 with a GradScaler that is switched on for float16 only. A test of the hardware that the
project has is used as it is. What cannot ask a machine (files, command lines, a user's own option) is reported.

## Not flagged

Anything without a target; float32 islands (`enabled=False`, `dtype=torch.float32`); an explicit dtype inside another
region; regions and trainers that compute on the CPU; a section that only follows the trainer's flags
(`enabled: auto`) where these stay; inference, export, tests, benchmarks and vendored code; switches that are off by
default; values that are decided at run time by a test of the hardware.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.source.project import Project
from ....codemod.trainers.writing.moves import moves_of
from ....codemod.trainers.writing.transactions import as_transactions
from . import (
    autocast_regions,
    chosen_settings,
    class_switches,
    input_casts,
    loaded_weights,
    machine_decided,
    machine_loads,
    trained_models,
    training_scalers,
)
from .left_to_owner import reserved

PARTS = (
    moves_of,
    class_switches.moves,
    chosen_settings.moves,
    autocast_regions.moves,
    input_casts.moves,
    training_scalers.moves,
    loaded_weights.moves,
    trained_models.moves,
    machine_decided.moves,
    machine_loads.moves,
)
"""Each yields the moves of one kind of declaration; a target that a part does not know gives none."""


def check(project: Project) -> Iterator[Finding]:
    if project.target is None:
        return
    found = (reserved(project, move) for part in PARTS for move in part(project))
    for move in as_transactions(project, found):
        yield move.finding(project, rule)


rule = Rule.of("PF001", check, depends_on=("target",), anywhere=True)
