"""A rehearsal saw an error here that no other rule explains.

## What goes wrong

`precfix rehearse` ran the program with the dtype rules of the device that it is meant for, and this line raised, gave
NaN or infinity, or made the gradient scaler skip its step. The message is the error as PyTorch words it
(`RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16`), with the tensors that met.

## Why

The evidence names where each tensor got its dtype. A failure that another rule knows is told by that rule, with its
fix, and not here.

## Fix

reported only: what the program means by this place is not known. Where both dtypes are right at their own places, cast
one of them where they meet (`x.to(y.dtype)`).

## Not flagged

Everything without a record of a rehearsal (`--observed FILE`, or `precfix-observed.json` in the project), files that
have changed since, and losses or gradients that were not finite in float32 as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.flow.seen_meetings import explained
from ...codemod.model import Finding, Place, Rule, Span
from ...codemod.observed.observation import Birth, Failure, FailureKind, SeenOperand
from ...codemod.python.seen import Seen, seen_of
from ...codemod.source.project import Project

MAX_ERROR = 240
MAX_OPERANDS = 4
MAX_STEPS = 4


def check(project: Project) -> Iterator[Finding]:
    seen = seen_of(project)
    if seen is None:
        return
    known = explained(project)
    for failure in seen.failures:
        if failure not in known and project.is_checked(failure.path):
            module = seen.module_of(failure)
            if module is not None and _stands_in(project, failure):
                evidence = tuple(dict.fromkeys(_births(project, seen, failure)))
                yield rule.found(Place(failure.path, failure.span, _message(seen, failure)), evidence)


def _stands_in(project: Project, failure: Failure) -> bool:
    """Whether the file has such a place."""
    document = project.document(failure.path)
    return document is not None and failure.span.end_row <= document.text.count("\n") + 1


def _message(seen: Seen, failure: Failure) -> str:
    happened = "a value is not finite" if failure.kind is FailureKind.NONFINITE else "this raises"
    told = f"{happened} in the rehearsal of {seen.observation.name}"
    operands = [str(each) for each in failure.operands[:MAX_OPERANDS]]
    beside = f" ({' meets '.join(operands)})" if len({each.dtype for each in failure.operands}) > 1 else ""
    behind = ", behind an earlier failure" if failure.assumed else ""
    return f"{told}{behind}: {_shortened(failure)}{beside}"


def _shortened(failure: Failure) -> str:
    text = " ".join(f"{failure.error_type}: {failure.error}".strip(": ").split())
    return text if len(text) <= MAX_ERROR else f"{text[: MAX_ERROR - 3]}..."


def _births(project: Project, seen: Seen, failure: Failure) -> Iterator[Place]:
    for operand in failure.operands[:MAX_OPERANDS]:
        for birth in operand.born[:MAX_STEPS]:
            if birth.path in project.paths and birth.path not in seen.stale:
                yield _place(birth, operand)


def _place(birth: Birth, operand: SeenOperand) -> Place:
    span = Span(birth.row, birth.column, birth.row, birth.column + 1)
    return Place(birth.path, span, birth.message or f"here one of them became {operand.dtype}")


rule = Rule.of("PF901", check, depends_on=("observation",), anywhere=True)
