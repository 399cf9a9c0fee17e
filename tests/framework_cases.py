"""Cases of the frameworks' tables: what is found in their files, and how each target is reached.

``fixtures/frameworks/<id>/<case>/input`` is a small project. ``expected.findings.txt`` lists the contradictions in it,
``expected.<target>.diff`` is what moving it to a target changes (no file: nothing). What must hold is in
test_frameworks.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from precfix.codemod import engine
from precfix.codemod.model import Finding, Rule
from precfix.codemod.outcome import Report, Target
from precfix.codemod.report.diff import unified_diff
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.framework import TARGETS
from precfix.codemod.trainers.writing.moves import moves_of
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "frameworks"
FINDINGS = "expected.findings.txt"
TABLE_RULES = ("PF401", "PF402", "PF501", "PF502", "PF503", "PF504", "PF505")
"""The rules whose findings belong to a framework's case."""
NOTHING = "nothing\n"


@dataclass(frozen=True, slots=True)
class FrameworkCase:
    """One small project of one framework."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.relative_to(FIXTURES).as_posix()

    @property
    def framework(self) -> str:
        return self.folder.parent.name

    @property
    def input(self) -> Path:
        return self.folder / "input"

    def expected_diff(self, target: str) -> Path:
        return self.folder / f"expected.{target}.diff"


@lru_cache(maxsize=1)
def framework_cases() -> tuple[FrameworkCase, ...]:
    """Every case, by id."""
    return tuple(FrameworkCase(found.parent) for found in sorted(FIXTURES.glob("*/*/input")))


def _check(project: Project) -> Iterator[Finding]:
    return (move.finding(project, MOVING) for move in moves_of(project))


MOVING = Rule("PF001", "precision-off-target", "", _check)
"""The part of the target's rule that the tables drive, alone."""


def opened(root: Path) -> Project:
    """The project at ``root``; on the way to several targets its files are read, and its scopes found, once."""
    return Project.open([root]).with_frameworks(load_frameworks())


def moved(project: Project, target: str) -> Report:
    """A project on its way to a target, by the tables alone."""
    options = engine.Options(unsafe_fixes=True)  # who reads the files is not what a table says
    return engine.migrate(project.with_target(target), [MOVING], Target(target, "a case"), options)


def found(project: Project) -> str:
    """The contradictions in a project, as they are written down for review."""
    rules = [rule for rule in load() if rule.code in TABLE_RULES]
    report = engine.check(project, rules, Target("auto", "a case"))
    lines = [f"{skip.path}: {skip.reason}" for skip in (*report.skipped, *report.failed_rules)]
    for finding in report.findings:
        lines.append(f"{finding.path}:{finding.span.row} {finding.code} {finding.message}")
        lines += [f"    because {place.path}:{place.span.row} {place.message}" for place in finding.evidence]
        lines += [f"    fix {fix.name} [{fix.applicability.value}] {fix.message}" for fix in finding.fixes]
    return "\n".join(lines) + "\n" if lines else NOTHING


def reports_of(report: Report) -> str:
    """The findings of a move that nothing was written for."""
    lines = [f"# {finding.path}:{finding.span.row} {finding.message}\n" for finding in report.remaining]
    return "".join(lines)


def moves_of_case(project: Project) -> dict[str, Report]:
    """A project on its way to each target."""
    return {target: moved(project, target) for target in TARGETS}


def expectations(case: FrameworkCase, project: Project, moves: Mapping[str, Report]) -> dict[Path, bytes]:
    """What the files of a case should hold, by what precfix does now."""
    wanted = {case.folder / FINDINGS: found(project).encode()}
    for target, report in moves.items():
        wanted[case.expected_diff(target)] = reports_of(report).encode() + unified_diff(report.changes)
    return wanted
