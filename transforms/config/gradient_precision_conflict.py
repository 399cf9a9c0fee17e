"""SimpleTuner is told to train in bf16 and to cast its gradients to fp32.

## What goes wrong

`RuntimeError: Expected BFloat16, got Float` from the gradient reducer when several processes accumulate gradients
(SimpleTuner before v1.1); later versions overwrite the setting without a word, so the file says something that never
happens.

## Why

SimpleTuner keeps its weights in bfloat16 under `mixed_precision=bf16`. `gradient_precision=fp32` replaces each
`param.grad.data` by a float32 copy after every backward pass, so a bfloat16 parameter meets a float32 gradient
(bghira/SimpleTuner#854). From v1.1 on the optimizer decides, and a user's `fp32` is reset to `unmodified`.

The table of frameworks calls this `st-grad-fp32-under-bf16`.

## Fix

`unmodified` [safe]: the value becomes `unmodified` where it stands; nothing else on the line changes. It removes the
crash of old versions and is what newer ones do on their own. `bf16` is no value of this setting, and `fp32` none of
`mixed_precision`: SimpleTuner rejects both.

## Not flagged

`mixed_precision=no`; a single process or no gradient accumulation, where it is written down; the `soap` optimizer,
which asks for float32 gradients; `PURE_BF16=true` with a launcher that passes `--adam_bfloat16`; commented lines and
documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Applicability, Finding, Fix, Place, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.reading.configs import ConfigFile, Entry, config_files

PRECISION = ("gradient_precision", "--gradient_precision", "GRADIENT_PRECISION")
MIXED = ("mixed_precision", "--mixed_precision", "MIXED_PRECISION")
OPTIMIZER = ("optimizer", "--optimizer", "OPTIMIZER")
ACCUMULATION = ("gradient_accumulation_steps", "--gradient_accumulation_steps", "GRADIENT_ACCUMULATION_STEPS")
PROCESSES = ("num_processes", "--num_processes", "TRAINING_NUM_PROCESSES")
FLOAT32_GRADIENTS = ("soap",)
"""Optimizers that ask for float32 gradients (SimpleTuner v1.1)."""


def check(project: Project) -> Iterator[Finding]:
    for config in config_files(project, containing=("gradient_precision",)):
        conflict = _conflict(project, config)
        if conflict is not None:
            yield _finding(config, *conflict)


def _conflict(project: Project, config: ConfigFile) -> tuple[Entry, Entry] | None:
    gradient, mixed = _effective(config, PRECISION), _effective(config, MIXED)
    if gradient is None or mixed is None or gradient.value != "fp32" or mixed.value != "bf16":
        return None
    if not _same_run(gradient, mixed) or _never_accumulates(config):
        return None
    optimizer = _effective(config, OPTIMIZER)
    if optimizer is not None and optimizer.value in FLOAT32_GRADIENTS:
        return None
    pure = config.last("PURE_BF16")
    if pure is not None and str(pure.value).lower() == "true" and _passes_adam_bfloat16(project):
        return None
    return gradient, mixed


def _effective(config: ConfigFile, names: tuple[str, ...]) -> Entry | None:
    """The entry that wins: the last one, unless the string that holds it is assigned anew further down."""
    entry = config.last(*names)
    if entry is None or not entry.inside:
        return entry
    for later in config.text.entries[entry.index :]:
        anew = later.kind == "assignment" and later.name == entry.inside and later.start > entry.end
        if anew and f"${{{entry.inside}}}" not in later.raw and f"${entry.inside}" not in later.raw:
            return None
    return entry


def _same_run(gradient: Entry, mixed: Entry) -> bool:
    """Two flags of different commands do not meet; variables and keys of one file do."""
    both_flags = gradient.kind == mixed.kind == "flag" and not gradient.inside and not mixed.inside
    return not both_flags or gradient.command == mixed.command


def _never_accumulates(config: ConfigFile) -> bool:
    values = [entry.value for names in (ACCUMULATION, PROCESSES) if (entry := _effective(config, names)) is not None]
    return any(str(value) == "1" for value in values)


def _passes_adam_bfloat16(project: Project) -> bool:
    return any(
        entry.name == "--adam_bfloat16" or "--adam_bfloat16" in entry.raw
        for config in config_files(project, containing=("adam_bfloat16",))
        for entry in config.text.entries
    )


def _finding(config: ConfigFile, gradient: Entry, mixed: Entry) -> Finding:
    fix = Fix(
        "unmodified",
        "set gradient_precision to unmodified: gradients keep the dtype of the weights",
        Applicability.SAFE,
        (config.edit(config.text.set(gradient, "unmodified")),),
    )
    evidence: tuple[Place, ...] = (config.place(mixed, "the weights and the training step are bfloat16"),)
    return rule.finding(
        "gradients are cast to fp32 while the weights are bf16 [st-grad-fp32-under-bf16]",
        config.document.path,
        config.span(gradient),
        evidence,
        (fix,),
    )


rule = Rule.of("PF501", check)
