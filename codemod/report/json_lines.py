"""The report for line-oriented programs: one finding per line."""

from __future__ import annotations

import json

from ..outcome import Report
from .json_report import diagnostics
from .places import Places


def to_json_lines(report: Report, places: Places) -> str:
    """One JSON object per finding and line, ASCII only; nothing for a report without findings.

    The objects are those of ``diagnostics`` in the JSON report (see `to_json`), in the same order. ``check`` and
    ``migrate`` both write what was found in the files as they were read; ``applied`` tells what ``migrate`` repaired.
    Skipped files, failed rules, silenced findings and the summary are only in the JSON report.
    """
    return "".join(json.dumps(each) + "\n" for each in diagnostics(report, places))
