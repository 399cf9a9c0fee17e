"""The report of a rehearsal: each failure as a finding of the rule that knows it; the shadow; a GPU beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Finding
from ..observed.observed_file import parse_observation
from ..outcome import Report
from .commands import CheckRequest
from .options import Format
from .output import FOUND, for_machines, show_lines, view_of, write_bytes
from .request import Opened, open_request, options_of

if TYPE_CHECKING:
    from ...probes.rehearsal.inside.shadow.places import Findings
    from ...probes.rehearsal.record import RehearsalRecord
    from ...probes.rehearsal.running import RehearsedRun
    from ..observed.observation import Failure, Observation
    from ..report.frame import OutputLine
    from ..report.text import View

UNEXPLAINED = "PF901"
MAX_LOSSES = 8
OF_REPORT = ("diagnostics", "skipped", "failed_rules", "summary")
"""What JSON has of the report of `check`, beside the record."""


def report_rehearsal(record: str, root: Path, chosen: Format) -> None:
    """Write the report of a record, as text, JSON or SARIF. Raises UsageError for one that cannot be read."""
    observation = parse_observation(record, "the record")
    opened = _opened(root, observation)
    report = _of_failures(opened, observation)
    if chosen is Format.TEXT:
        show_lines(_lines(report, observation, view_of(opened.project, False, False, False)), None, None)
    else:
        text = for_machines(chosen, report, opened.project)
        text = _with_findings(record, text) if chosen is Format.JSON else text
        write_bytes(text.encode("utf-8", "backslashreplace"), None)


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
        yield f"Losses{dtypes}: {shown}{', ...' if len(training.losses) > MAX_LOSSES else '.'}"
    parts = (
        ("weights", training.parameter_dtypes),
        ("gradients", training.gradient_dtypes),
        ("optimizer state", training.optimizer_state_dtypes),
    )
    counted = [(name, ", ".join(f"{count} {dtype}" for dtype, count in sorted(seen.items()))) for name, seen in parts]
    if any(dtypes for _, dtypes in parts):
        yield "Tensors of " + "; ".join(f"{name}: {dtypes or 'none'}" for name, dtypes in counted) + "."
    if observation.steps:
        regions = ", ".join(f"{name} ({count} regions)" for name, count in sorted(training.autocast.items()))
        yield f"Autocast: {regions or 'none was entered'}."
    if training.skipped_steps:
        yield f"The gradient scaler skipped {training.skipped_steps} of them."


# --- a GPU beside the rehearsal, and the float64 shadow ---


def compared(recorded: RehearsalRecord, simulated: RehearsalRecord, run: RehearsedRun) -> int:
    """Say on standard error where the rehearsal was wrong, or how it ended early; the exit code."""
    from ...probes.rehearsal.verdict import closing, tail
    from ..observed.agreeing import disagreements
    from ..observed.observed_file import parse_observation
    from ..report.printable import printable

    found = disagreements(*(parse_observation(each.dump(), "the record") for each in (recorded, simulated)))
    ended = (*tail(run.errors), f"The rehearsal: {closing(simulated, run)}.")
    for line in (*(ended if simulated.steps < recorded.steps else ()), *(f"wrong: {line}" for line in found)):
        print(printable(line), file=sys.stderr)
    count = f"{len(found)} place{'' if len(found) == 1 else 's'}"
    said = f"was wrong at {count}" if found else "saw what this GPU does"
    print(f"Compared: the rehearsal as {simulated.device['profile']} {said}.", file=sys.stderr)
    return FOUND if found else 0


def losses_told(record: RehearsalRecord) -> bool:
    """Whether the shadow shows a loss beyond the noise of rounding."""
    findings = _findings(record)
    return findings is not None and bool(findings.worst)


def shadow_lines(record: RehearsalRecord) -> list[str]:
    """The table of the worst places; nothing when no shadow was asked for."""
    from ...probes.rehearsal.inside.shadow.report import as_text

    findings = _findings(record)
    return as_text(findings).splitlines() if findings is not None else []


def page_of(record: RehearsalRecord) -> str:
    """The picture per layer; of a program that never came to torch it says that."""
    from ...probes.rehearsal.inside.shadow.page import page
    from ...probes.rehearsal.inside.shadow.places import Findings

    title = f"Shadow of {' '.join(record.command)}"
    return page(_findings(record) or Findings((), (), (), 0, (), 0.0), title)


def _findings(record: RehearsalRecord) -> Findings | None:
    from ...probes.rehearsal.inside.shadow.places import Findings

    return None if record.shadow is None else Findings.of_json(record.shadow)
