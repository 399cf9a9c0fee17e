"""A precision value or key that the framework rejects, ignores or has renamed.

## What goes wrong

`mixed_precision: no` without quotes is a YAML boolean, and `accelerate launch` dies with ``'bool' object has no
attribute 'lower'``. `fp32` is not a choice of accelerate (`'no'` is), `bfloat16` none of torchtune, `FLOAT32` none of
OneTrainer. transformers 5 removed `fp16_backend`, `half_precision_backend` and `fp16_opt_level`: ``unexpected keyword
argument``.

## Why

Every framework has its own words for the same thing; the tables in `transforms/frameworks/` hold them with their
sources.

## Fix

`respell` [safe] writes the word that the framework knows, quoted where YAML needs it, and drops keys that were removed;
`respell` [unsafe] where the run then computes in what the framework does by itself. Where two meanings are possible
nothing is written.

## Not flagged

Placeholders (`${BF16}`, `{{ precision }}`), the same key under sections that mean something else (`metrics.precision`),
files that no known framework reads; keys that code of the project reads itself, in a file that only looks like a
trainer's; flags that a parser of the project defines, and the framework's own repository.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.writing.findings import findings_of


def check(project: Project) -> Iterator[Finding]:
    """A finding for every contradiction of this kind that the frameworks' tables know."""
    yield from findings_of(project, rule)


rule = Rule.of("PF505", check)
