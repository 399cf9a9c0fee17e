"""Runs one rule over a few files written to a temporary folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from precfix.codemod.engine import Options, check, migrate
from precfix.codemod.model import Finding, Rule
from precfix.codemod.outcome import Report, Target
from precfix.codemod.source.project import Project
from precfix.transforms.frameworks import load_frameworks

TARGET = Target("unknown", "a test")


def rule_of(name: str) -> Rule:
    """The rule of a module below ``precfix.transforms``."""
    rule = import_module(f"precfix.transforms.{name}").rule
    assert isinstance(rule, Rule)
    return rule


def written(folder: Path, files: Mapping[str, str]) -> Project:
    """A project with these files (dedented)."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return Project.open([folder]).with_frameworks(load_frameworks())


def findings(rule: Rule, project: Project) -> tuple[Finding, ...]:
    """What the rule finds; the rule itself must not fail."""
    report = check(project, [rule], TARGET)
    assert not report.failed_rules
    return report.findings


def migrated(rules: list[Rule], project: Project, *, unsafe: bool = False) -> tuple[Report, dict[str, str]]:
    """The report, and the new text of every changed file."""
    report = migrate(project, rules, TARGET, Options(unsafe_fixes=unsafe))
    assert not report.failed_rules
    return report, {change.path: change.after.decode() for change in report.changes}
