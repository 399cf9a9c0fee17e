"""Two half precisions are switched on in one place.

## What goes wrong

`TrainingArguments(fp16=True, bf16=True)` raises ``ValueError: At most one of fp16 and bf16 can be True, but not both``.
Other trainers do not complain and take one of the two: axolotl takes bf16, fairseq fp16, so the run is not what the
other line says. A text such as ``bf16: "False"`` counts as true.

## Why

Each switch is a boolean of its own. Who turns one on in a copied file or command line forgets the other.

## Fix

`respell` [safe] where the trainer would stop, `respell` [unsafe] where it takes one silently: one of the two is
switched off. Which one stays is the target asked for with `--to`; without a target only what is certain is written,
the rest is reported.

## Not flagged

`bf16: auto` beside `fp16: auto` in DeepSpeed sections, switches that are chosen at run time
(`bf16=is_bf16_supported(), fp16=not is_bf16_supported()`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.writing.findings import findings_of


def check(project: Project) -> Iterator[Finding]:
    """A finding for every contradiction of this kind that the frameworks' tables know."""
    yield from findings_of(project, rule)


rule = Rule.of("PF402", check)
