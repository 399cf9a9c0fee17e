"""For the tests of a rule: run it over a few files, see what it finds and what its fixes leave.

trial = try_rule(rule, {"train.py": "scaler = OurScaler()\\n"})
assert [finding.span.row for finding in trial.findings] == [1]
assert trial.files["train.py"] == "scaler = OurScaler(enabled=False)\\n"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ..engine import Options, migrate
from ..model import Finding, Rule
from ..outcome import Target
from ..source.project import Project


@dataclass(frozen=True, slots=True)
class Trial:
    """What a rule did."""

    findings: tuple[Finding, ...]
    """What it found in the files as they were given, by place."""
    files: dict[str, str]
    """All files after its fixes."""
    remaining: tuple[Finding, ...]
    """What it still finds then."""
    refused: tuple[str, ...]
    """Why fixes could not be made, and files not be read."""


def try_rule(rule: Rule, files: Mapping[str, str], *, unsafe: bool = False, fix: str = "") -> Trial:
    """Run a rule over ``files`` (path -> text, written to a temporary folder) as ``precfix migrate`` does.

    ``unsafe`` also makes the fixes that ``--unsafe-fixes`` allows, ``fix`` is the name of the alternative to use.
    Raises AssertionError when the rule fails.
    """
    options = Options(unsafe_fixes=unsafe, chosen={rule.code: fix} if fix else {})
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        report = migrate(Project.open([Path(folder)]), [rule], Target("unknown", "a trial"), options)
    assert not report.failed_rules, report.failed_rules[0].reason
    changed = {change.path: change.after.decode() for change in report.changes}
    refused = tuple(f"{item.path}: {item.reason}" for item in report.skipped)
    return Trial(report.findings, {**files, **changed}, report.remaining, refused)
