"""What the rehearsals of ``migrate --prove`` showed, as a table for people and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import Finding, Fix
from ..observed.comparing import RunComparison, loss_told, raising
from .frame import OutputLine
from .printable import printable
from .tally import counted

HEADINGS = ("", "before", "after", "")
TakenOut = Sequence[tuple[Finding, Fix, RunComparison]]


def proof_lines(comparison: RunComparison, taken_out: TakenOut, changed: Sequence[str]) -> Iterator[OutputLine]:
    """The table, below it the fixes that were taken out, and whether anything ran in the ``changed`` files."""
    yield ((printable(f"Rehearsed {comparison.before.name} before and after the fixes:"), "text"),)
    rows = [HEADINGS, *comparison.rows()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        yield ((printable(f"  {cells}  {row[3]}".rstrip()), "text"),)
    for finding, fix, how in taken_out:
        place = f"{finding.path}:{finding.span.row}"
        text = f"Taken out: {finding.code} {fix.name} at {place}: {_why(how)}"
        yield ((printable(text), "note"),)
    yield ((printable(_closing(comparison)), "text"),)
    ran = comparison.after.files
    if ran and changed and all(path.endswith(".py") and path not in ran for path in changed):
        text = f"No tensor was seen in {', '.join(changed)}: the changes were not tried (see --steps) or set options."
        yield ((printable(text), "note"),)


def proof_json(comparison: RunComparison, taken_out: TakenOut) -> dict[str, object]:
    """The same as data."""
    return {
        "command": [*comparison.before.command],
        "before": _side(comparison, 0),
        "after": _side(comparison, 1),
        "tolerance": {"dtype": comparison.dtype, "losses_apart": [*comparison.apart]},
        "taken_out": [
            {"code": finding.code, "fix": fix.name, "filename": finding.path, "row": finding.span.row, "why": _why(how)}
            for finding, fix, how in taken_out
        ],
    }


def _side(comparison: RunComparison, which: int) -> dict[str, object]:
    seen = (comparison.before, comparison.after)[which]
    training = seen.training
    return {
        "raises": [{"filename": each.path, "row": each.span.row, "error": each.error} for each in raising(seen)],
        "steps": seen.steps,
        "ended": seen.ended,
        "losses": [*training.losses],
        "parameter_dtypes": {**training.parameter_dtypes},
        "gradient_dtypes": {**training.gradient_dtypes},
        "optimizer_state_dtypes": {**training.optimizer_state_dtypes},
    }


def _why(comparison: RunComparison) -> str:
    """How a fix made it worse."""
    if comparison.new:
        return f"with it this happens: {comparison.new[0].said(160)}"
    if comparison.apart:
        step = comparison.apart[0] - 1
        one, other = comparison.before.training.losses[step], comparison.after.training.losses[step]
        return f"with it the loss of step {step + 1} is {loss_told(other)} instead of {loss_told(one)}"
    died = comparison.after.error or comparison.after.ended
    return f"with it the run ends after {counted(comparison.after.steps, 'step')}: {died}"


def _closing(comparison: RunComparison) -> str:
    before, after = len(raising(comparison.before)), len(raising(comparison.after))
    if comparison.still_raises and not after:
        return f"The result does not get through: {comparison.after.error or comparison.after.ended}"
    if comparison.still_raises:
        return f"The result still raises: {after} of {max(before, after)} places are left."
    said = "Nothing raises after the fixes." if before else "Nothing raised before the fixes, and nothing after them."
    if comparison.after.ended != "steps":
        return said
    steps = counted(comparison.after.steps, "optimizer step")
    return f"{said} The program was stopped after {steps}; what it does later was not seen."
