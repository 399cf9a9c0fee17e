"""The report of a rehearsal: each failure as a finding of the rule that knows it, in the usual formats."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Finding
from ..observed.observed_file import parse_observation
from ..outcome import Report
from .commands import CheckRequest
from .output import for_machines, show_lines, view_of, write_bytes
from .request import Opened, open_request, options_of

if TYPE_CHECKING:
    from ..observed.observation import Failure, Observation
    from ..report.frame import OutputLine
    from ..report.text import View

UNEXPLAINED = "PF901"
MAX_LOSSES = 8
OF_REPORT = ("diagnostics", "skipped", "failed_rules", "summary")
"""What JSON has of the report of `check`, beside the record."""


def report_rehearsal(
    record: str,
    *,
    root: Path,
    output_format: str = "text",
    output: Path | None = None,
    quiet: bool = False,
    color: bool | None = None,
) -> None:
    """Write the report of a record, as text, JSON or SARIF. Raises UsageError for one that cannot be read."""
    observation = parse_observation(record, "the record")
    opened = _opened(root, observation)
    report = _of_failures(opened, observation)
    if output_format == "text":
        view = view_of(opened.project, quiet, False, False)
        show_lines(_lines(report, observation, view), output, color)
    else:
        text = for_machines(output_format, report, opened.project)
        text = _with_findings(record, text) if output_format == "json" else text
        write_bytes(text.encode("utf-8", "backslashreplace"), output)


def _opened(root: Path, observation: Observation) -> Opened:
    """The project, with mistakes looked for in the files that ran."""
    ran = [root / path for path in observation.files if (root / path).is_file()]
    opened = open_request(CheckRequest(ran or [root], project=root))
    return replace(opened, project=opened.project.with_observation(observation))


def _of_failures(opened: Opened, observation: Observation) -> Report:
    """The findings that tell of a failure, and the failures of which none tells."""
    from .. import engine
    from ..rehearsed import is_told, seen_failures

    rules = opened.rules if observation.failures or observation.died else []
    report = opened.completed(engine.check(opened.project, rules, opened.target, options_of(opened)))
    found = seen_failures(opened.project, report.findings)
    others = [each for each in observation.failures if not any(is_told(finding, each) for finding in found)]
    findings = tuple(sorted((*found, *map(_untold, others)), key=lambda each: (each.path, each.span, each.code)))
    return replace(report, findings=findings, remaining=findings, silenced=())


def _untold(failure: Failure) -> Finding:
    """A failure in a file that no rule looks at: one that changed while it ran, a notebook, a silenced place."""
    text = " ".join(f"{failure.error_type}: {failure.error}".strip(": ").split())
    where = "this fails in the rehearsal" if failure.path else "outside of this folder something fails in the rehearsal"
    return Finding(UNEXPLAINED, "observed-failure", f"{where}: {text}", failure.path or ".", failure.span)


def _with_findings(record: str, text: str) -> str:
    """The record, and the findings as `check` writes them."""
    report = json.loads(text)
    return json.dumps({**json.loads(record), **{key: report[key] for key in OF_REPORT}}, indent=2) + "\n"


def _lines(report: Report, observation: Observation, view: View) -> Iterator[OutputLine]:
    from ..report.printable import printable
    from ..report.tally import in_order
    from ..report.text import finding_lines

    for finding in in_order(report.findings):
        yield from finding_lines(finding, view)
    for line in _closing(observation):
        yield ((printable(line), "text"),)
    for note in observation.notes:
        yield ((printable(f"  note: {note}"), "note"),)


def _closing(observation: Observation) -> Iterator[str]:
    training = observation.training
    if training.losses:
        shown = ", ".join("not finite" if each is None else f"{each:.6g}" for each in training.losses[:MAX_LOSSES])
        dtypes = f" ({', '.join(training.loss_dtypes)})" if training.loss_dtypes else ""
        yield f"Losses{dtypes}: {shown}{', ...' if len(training.losses) > MAX_LOSSES else ''}."
    parts = (
        ("weights", training.parameter_dtypes),
        ("gradients", training.gradient_dtypes),
        ("optimizer state", training.optimizer_state_dtypes),
    )
    told = [f"{name}: {_counted(dtypes)}" for name, dtypes in parts]
    if any(dtypes for _, dtypes in parts):
        yield f"Tensors of {'; '.join(told)}."
    if observation.steps:
        regions = ", ".join(f"{name} ({count} regions)" for name, count in sorted(training.autocast.items()))
        yield f"Autocast: {regions or 'none was entered'}."
    if training.skipped_steps:
        yield f"The gradient scaler skipped {training.skipped_steps} of them."


def _counted(dtypes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(dtypes.items())) or "none"
