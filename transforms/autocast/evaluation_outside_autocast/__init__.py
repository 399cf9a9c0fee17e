"""Training runs the model inside autocast; an evaluation gives it 16-bit input outside.

## What goes wrong

The float32 weights do not fit the input: `RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and
Float`, `Input type (c10::Half) and bias type (float) should be the same`, `expected scalar type Half but found Float`.
Only the first validation shows it, perhaps hours into the run.

## Why

autocast keeps the weights in float32 and casts at each operation; it is what makes 16-bit inputs fit. It ends with its
block: a helper, an evaluation or `generate` after it runs without.

## Fix

`wrap` [safe]: the statement goes into a `with` of the training step's region. Not offered where names of that region
are not known there, where the call is part of a compound statement, or where a bfloat16 result would reach `.numpy()`.

## Not flagged

Evaluations that do not fail: evaluating in float32 is right by itself, and common, also beside another evaluation or a
preview that uses autocast. Models that are cast to 16 bits somewhere; functions that benchmark, compare, trace or
export; calls that a caller wraps; Accelerate, Fabric, Lightning and DeepSpeed, which wrap the model's `forward`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Fix, Rule
from ....codemod.proof.needs import RAISES
from ....codemod.proof.proving import proved
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, dtype_scenarios
from ....codemod.torch.dtypes import BF16
from .evaluation_signs import Sign, signs

SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


def check(project: Project) -> Iterator[Finding]:
    for sign in signs(project):
        evidence = [sign.call.module.place(node, why) for node, why in sign.evidence]
        yield rule.at(sign.call.module, sign.call.call, sign.message, evidence, _fixes(project, sign))


def _fixes(project: Project, sign: Sign) -> list[Fix]:
    module = sign.call.module
    statement = module.statement_of(sign.call.call)
    if sign.header is None or not isinstance(statement, SIMPLE) or _reaches_numpy(project, sign):
        return []
    span = module.document.span(statement)
    edits = (module.wrap(span, span, f"with {sign.header}:"),)
    return [proved(project, "wrap", f"run it inside {sign.header}", edits, RAISES)]


def _reaches_numpy(project: Project, sign: Sign) -> bool:
    """Whether the result may be bfloat16 and the function turns tensors into arrays."""
    function = sign.call.function.node
    words = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    return bool(words & {"numpy", "asarray"}) and _can_be_bf16(project, sign.region.autocast)


def _can_be_bf16(project: Project, region: Autocast) -> bool:
    return any(scenario.value == BF16 for scenario in dtype_scenarios(project, region))


rule = Rule.of("PF304", check)
