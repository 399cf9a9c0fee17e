"""An optimizer steps 16-bit weights, and most of its updates are rounded away

## What goes wrong

Nothing raises. The loss falls more slowly than it should, or stands still, and the fine-tuned model is close to the
one that was loaded. Measured with PyTorch 2.13 (AdamW without weight decay, 20,000 weights of standard deviation
0.02):

| weights | lr | weights that the first step moves | way after 100 steps, float32 = 1 |
|---|---|---|---|
| bfloat16 | 1e-3 | 100 % | 1.00 |
| bfloat16 | 1e-4 | 89 % | 0.85 |
| bfloat16 | 3e-5 | 30 % | 0.30 |
| bfloat16 | 1e-5 | 16 % | 0.13 |
| bfloat16 | 1e-6 | 2 % | 0.01 |

Adapters: `get_peft_model` makes them float32; `inject_adapter_in_model` (peft 0.21.2) and `add_adapter` of diffusers
0.35.2 and transformers 4.57.1 give them the dtype of the weights, as `get_peft_model` does with the copies that
`modules_to_save` asks for. LoRA's A starts uniform within 1 / sqrt(inputs); for
1,024 inputs a first step in bfloat16 moves 100 % of it at lr 1e-4, 50 % at 5e-5, 12 % at 1e-5. B starts at zero, where
all steps count until it has grown. Way of what both add to a layer (128 x 128, rank 8, gradients half drift and half
noise), float32 = 1:

| bfloat16 adapters, lr | after 100 steps | 300 | 1,000 |
|---|---|---|---|
| 1e-4 | 1.02 | 0.97 | 0.16 |
| 5e-5 | 0.92 | 0.76 | 0.12 |
| 2e-5 | 0.90 | 0.72 | 0.17 |
| 1e-5 | 0.94 | 0.83 | 0.26 |

At rates from which matrices move, a gate or a scale may not: the bfloat16 number next to -4.0 is 0.016 away, that next
to 1.0 is 0.004, and no step of AdamW at lr 1e-4 is larger than 0.0008. After 1,000 steps of one gradient they are -4.0
and 1.0; in float32 they have moved by 0.1.

A model in float32 that is cast for each checkpoint, or for each evaluation, and back (`model.half()`,
`torch.save(...)`, `model.float()`) is rounded each time: what the weights have gained since, and is less than half of
the distance of two numbers, is lost.

## Why

An optimizer rounds the new weight to the dtype of the weight. bfloat16 has 8 significant bits: numbers around 0.02
are 1.2e-4 apart, and a step of 1e-5 is less than half of that. Adam and Lion move each weight by about the learning
rate, whatever its gradient is (threads: pytorch/pytorch#120376, meta-pytorch/torchtune#2254, pytorch/ao#1124).

## Fix

Shown, never written, since each changes memory and the owner has to choose: `mixed` [display-only] (weights in
float32, and bfloat16 in an autocast region: twice the memory of the weights, and the same for the states of the
optimizer), `stochastic` [display-only] (an optimizer that rounds at random, right on average: no more memory),
`adapter` [display-only] (train a LoRA adapter in float32). Others: float32 copies of the weights that the optimizer
steps (4 bytes for each weight), as DeepSpeed's bf16 and FSDP over float32 parameters do.

A model is followed from where it is loaded or cast to the optimizer: through functions, attributes, constructors, lists
of parameters, wrappers, trainers of transformers and TRL, Lightning's `bf16-true`; so is a part of what is loaded
(`pipe.unet`), layers that a class makes with a `dtype`, loops and applied functions that cast what is trained, and
states that take the place of weights (`assign=True`); a default dtype (`torch.set_default_dtype(torch.bfloat16)`)
counts for what is made after it, and a checkpoint to resume from that keeps the weights in 16 bits beside the state of
the optimizer is told as well. The rate is followed into a dictionary that is unpacked (`AdamW(groups, **options)`),
also where more is added to it later. Options count with the values that launch lines (those of read-mes too), files or
defaults give them, tests of the machine as on a GPU that has bfloat16; `torch_dtype="auto"` with names of checkpoints
that are known. The rate is one of those runs: of the launch line that makes the weights 16-bit where one does, else
from the lowest to the highest at which updates are lost; under a schedule its peak, which a cycle (`OneCycleLR`,
`CyclicLR`) states itself, and that of the optimizer where a function multiplies it (`LambdaLR`) or code sets it anew
(`group["lr"] = ...`). Of a class that a table, a function or `getattr` picks, all that it can be have to lose updates.
A launch by accelerate counts where it says `--multi_gpu`: otherwise a user's own configuration may name DeepSpeed.

## Not flagged

Learning rates from which most weights of the usual size move (1e-4 in bfloat16, 1e-5 in float16, for adapters 1e-4), or
that are not known; weights of norms, which start at one; constants that are initialized anew, or that a checkpoint may
replace (`load_state_dict`); SGD, RMSprop, Adafactor and others whose step is not as large as the learning rate;
adapters that PEFT makes float32, or that are cast to it; optimizers that round at random or with Kahan summation; a
trainer of the project's own that makes its optimizer; an optimizer whose name another one takes before it steps;
float16 under `fp16=True`, whose scaler refuses it; DeepSpeed, Megatron, and FSDP where accelerate opens it (FSDP by
itself shards the weights as they are); kohya with a `network_module` or another optimizer; a model that is cast back or
frozen, or that gets a new float32 part, or that is cast after the last step; adapters that an option adds, where no
launch line shows what is run; options that make the weights 16-bit, or the optimizer, and are off in all runs that the
project states, or that no launch line gives together; defaults beside a file that may overrule them, that nothing is
seen to read and that says a rate at which most weights move; settings whose values it does not state, or only in files
that no program is seen to load; code that keeps its own float32 copies; steps on random tensors alone, or under a
profiler, whose weights are not saved (benchmarks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....codemod.formats.text import TextEntry
from ....codemod.half.half_weights import HalfWeights
from ....codemod.model import Finding, Fix, Rule
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16
from ....codemod.trainers.reading.declarations import checked_scopes
from ....codemod.trainers.reading.scopes import TRUE, TextOrigin
from ..grids import loses_updates, share_moved, share_of_adapter_moved
from ..half_optimizers import HalfOptimizer, half_optimizers, rates_of
from ..learning_rates import keeps_below, rates_set, schedules_of
from ..optimizer_table import rows_of_trainer
from ..stated_numbers import Stated, ends, options_in, rate_in
from ..trained_half import HalfTraining, half_trainings, is_constant, is_run
from .rounded_by_saves import rounded_by_saves
from .rounded_checkpoints import rounded_checkpoints
from .stuck_constants import stuck_constants

WHOLE = {"full_bf16": BF16, "full_fp16": FP16}
"""kohya's switches that make the weights 16-bit that are trained."""
ADAPTED = ("network_module", "network_dim")
DEFAULT_OPTIMIZER = "AdamW"


PEAK, START, SET = ", the peak of a schedule", ", which a schedule multiplies", ", which is set anew later"


def check(project: Project) -> Iterator[Finding]:
    for item in half_optimizers(project):
        rates = rates_of(project, item, of_any=True) if item.row.by_lr else ()
        losing = [rate for rate in rates if rate.value > 0 and item.loses_at(rate.value)]
        if losing and is_run(project, item):
            yield _at(item, item.name, losing, _scheduled(project, item))
        elif rates and _scheduled(project, item) in ("", PEAK) and is_run(project, item):
            yield from _of_constants(project, item)
    for training in half_trainings(project):
        losing = [rate for rate in training.rates if loses_updates(rate.value, training.weights.dtype)]
        if losing and is_run(project, training):
            yield _at(training, training.optimizer, losing, "" if is_constant(training) else PEAK)
    for weights, optimizer, rate in half_settings(project):
        if loses_updates(rate.value, weights.dtype):
            message = _message(optimizer, weights, (rate,), "")
            yield rule.found(weights.place.saying(message), (rate.place,), _choices(weights))
    for draft in (*rounded_by_saves(project), *rounded_checkpoints(project)):
        yield rule.found(*draft)


def _of_constants(project: Project, item: HalfOptimizer) -> Iterator[Finding]:
    """One finding for all parameters that are trained and never move."""
    rates = rates_of(project, item)
    found = dict(stuck_constants(project, item, rates))
    if found:
        name, rate = item.weights.dtype.name, ends(rates)[-1]
        starts = " and ".join(f"{start:g}" for start in sorted(set(found.values())))
        message = (
            f"{item.name} never moves parameters of {item.weights.name} that start at {starts}: in {name} the next"
            f" number is so far away that each step at lr {rate.value:g} is rounded away: keep weights in float32"
            " under autocast"
        )
        evidence = (*item.weights.places, *list(found)[:3], rate.place)
        yield rule.at(item.module, item.call, message, evidence, _choices(item.weights)[:2])


def _scheduled(project: Project, item: HalfOptimizer) -> str:
    """What becomes of the rate later."""
    if any(True for _ in rates_set(item.module, item.call)):
        return SET
    schedules = list(schedules_of(item.module, item.call))
    known = all(keeps_below(project, item.module, schedule) for schedule in schedules)
    return (PEAK if known else START) if schedules else ""


def _at(item: HalfOptimizer | HalfTraining, optimizer: str, losing: Sequence[Stated], scheduled: str) -> Finding:
    rates, weights = ends(losing), item.weights
    evidence = (*weights.places, *(rate.place for rate in rates))
    message = _message(optimizer, weights, rates, scheduled)
    return rule.at(item.module, item.call, message, evidence, _choices(weights))


def _message(optimizer: str, weights: HalfWeights, rates: Sequence[Stated], scheduled: str) -> str:
    trained, size, long = "weights", "weights of the usual size (standard deviation 0.02)", ""
    share = share_of_adapter_moved if weights.adapted else share_moved
    if weights.adapted:
        trained, size = "adapters", "the weights of LoRA's A (1,024 inputs)"
        long = ", and 1,000 steps go less than a third of the way" if weights.dtype == BF16 else ""
    moved = " to ".join(dict.fromkeys(_percent(share(rate.value, weights.dtype)) for rate in rates))
    return (
        f"{optimizer} steps the {weights.dtype.name} {trained} of {weights.name}"
        f" at lr {' to '.join(f'{rate.value:g}' for rate in rates)}{scheduled}:"
        f" one step changes {moved} of {size}{long}; the other updates are rounded away, in float32 none is:"
        f" keep {trained} in float32 under autocast{', or round at random' if weights.dtype == BF16 else ''}"
    )


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else "under 1 %"


def _choices(weights: HalfWeights) -> list[Fix]:
    if weights.adapted:
        text = "cast the adapters to float32 before the optimizer is made, and compute under autocast: they are small"
        return [Fix.shown("mixed", text)]
    mixed = (
        "keep the weights in float32 and compute in 16 bits under autocast (precision bf16-mixed, with float16 also a"
        " GradScaler): all updates count; twice the memory for weights, gradients and optimizer states"
    )
    stochastic = (
        "an optimizer that rounds at random, as torchao.optim.AdamW8bit(..., bf16_stochastic_round=True): right on"
        " average, no more memory, somewhat noisier"
    )
    adapter = (
        "train a LoRA adapter in float32 on the 16-bit weights: little memory, and another model than full training"
    )
    found = [Fix.shown("mixed", mixed), Fix.shown("adapter", adapter)]
    return [found[0], Fix.shown("stochastic", stochastic), found[1]] if weights.dtype == BF16 else found


# --- settings of a trainer --------------------------------------------------------------------------------------------


def half_settings(project: Project) -> Iterator[tuple[HalfWeights, str, Stated]]:
    """The full trainings of kohya's scripts in 16-bit weights whose optimizer and learning rate stand beside."""
    for scope in checked_scopes(project):
        if scope.framework.id != "kohya" or not isinstance(scope.origin, TextOrigin):
            continue
        named, rate = options_in(scope.origin), rate_in(scope.origin)
        optimizer = _optimizer(named) if rate is not None and not set(named) & set(ADAPTED) else ""
        for name, dtype in WHOLE.items() if optimizer else ():
            setting = scope.last(name)
            if setting is not None and setting.value == TRUE and rate is not None:
                yield HalfWeights("the model", dtype, setting.place), optimizer, rate


def _optimizer(named: dict[str, TextEntry]) -> str:
    """The optimizer that is asked for, where it keeps nothing of what rounding loses; else empty."""
    given = named.get("optimizer_type")
    text = given.value if given is not None else ""
    rows = rows_of_trainer("kohya", "optimizer_type")
    losing = {name.lower(): name or DEFAULT_OPTIMIZER for row in rows if row.keeps == "nothing" for name in row.names}
    return losing.get(text.lower(), "") if isinstance(text, str) else ""


rule = Rule.of("PF801", check)
