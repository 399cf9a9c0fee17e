"""The dtype of a part does not go with the dtype that is trained in.

## What goes wrong

OneTrainer with every dtype at `FLOAT_16` leaves autocast off (before July 2026), so masks and noise in float32 meet
float16 weights: ``mat1 and mat2 must have the same dtype``. kohya's `--full_bf16` without `--mixed_precision bf16` is
refused; nanotron or litgpt refuse other pairs.

## Why

Weight dtype, compute dtype and save dtype are keys of their own. Each framework allows only some pairs; the tables in
`transforms/frameworks/` hold them with their sources.

## Fix

`respell` [safe] where the framework stops, `respell` [unsafe] where it goes on with a dtype that is not the one
written. The part follows the training dtype.

## Not flagged

Quantized parts, `NONE` and `auto`, saving in another dtype than training where that is the usual choice.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.writing.findings import findings_of


def check(project: Project) -> Iterator[Finding]:
    """A finding for every contradiction of this kind that the frameworks' tables know."""
    yield from findings_of(project, rule)


rule = Rule.of("PF504", check)
