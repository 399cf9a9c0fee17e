"""A precision name that the installed Lightning does not know, or knows under another name.

## What goes wrong

`Trainer(precision="fp16")` stops with ``ValueError: Precision 'fp16' is invalid``; so do `"bf16-mixed"` under
Lightning 1.x and `"bf16-true"` before 2.1. `16`, `"bf16"` and `32` are old names: Lightning 2 takes them with a
warning. `amp_backend` and `amp_level` are gone since 2.0 (``TypeError: unexpected keyword``). A name that code picks,
as a constant or as what a function returns, is followed to the call where a run that the project gives comes to it.

## Why

Lightning 1.x knows 64, 32, 16 and "bf16". 2.0 renamed them to "64-true", "32-true", "16-mixed" and "bf16-mixed", and
2.1 added "16-true" and "bf16-true" (Lightning's changelog, 2.0.0 and 2.1.0).

## Fix

`respell` [safe] writes the name of the version that the project's own pins allow, in code, YAML, command lines and
variables; without any pin that of Lightning 2, `respell` [unsafe] where the old name runs in both. `*-true` under pins
older than 2.1 becomes the mixed name, [unsafe]: pinning 2.1 is the other way out. Removed arguments are dropped. Names
that only an old release takes stay in a project that pins it, and in calls with other arguments of Lightning 1
(`gpus=`); a strategy that came with Lightning 2 (`ddp_find_unused_parameters_true`) says as much as a pin. Launch lines
of one file are one finding, and its fix changes all of them; those of a README are named and stay as they are.

## Not flagged

`precision` of metrics, print options or matmul (`"high"`), and values that are only known at run time; files with a
`trainer:` section in a project that trains by itself and names Lightning nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.writing.findings import findings_of


def check(project: Project) -> Iterator[Finding]:
    """A finding for every contradiction of this kind that the frameworks' tables know."""
    yield from findings_of(project, rule)


rule = Rule.of("PF401", check)
