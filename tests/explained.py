"""How often `precfix explain --project` names the mistake and the line: on every runnable fixture that raises.

    python -m tests.explained            # the table of docs/quality.md
    python -m tests.explained --list     # each case that is not right, and why

A case is *right* when the first answer is a message that the catalog knows, and the line it points at is one that the
fix of the case changes (the place of its finding where it has no fix). It may name another rule with the same fix.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precfix.codemod import engine
from precfix.codemod.diagnosis.answer import Explanations, ProjectView, answers_to
from precfix.codemod.report.matching import changed_blocks

from .fixture_cases import TARGET, Case, all_rules, cases, copied, migrate
from .warm_torch import python


@dataclass(frozen=True)
class Explained:
    """What was said of one case."""

    case: Case
    error: str
    answers: Explanations
    verdict: str


def raising_cases() -> list[Case]:
    return [case for case in cases() if case.settings.run and case.settings.error]


def errors_of(listed: list[Case], folder: Path) -> dict[str, str]:
    """The traceback that each case really dies with."""
    jobs = [(case.id, str(copied(case, folder)), case.settings.run) for case in listed]
    program = Path(__file__).with_name("run_cases.py")
    done = subprocess.run([python(), str(program)], input=json.dumps(jobs), capture_output=True, text=True, check=True)
    return {line["key"]: line["error"] for line in map(json.loads, done.stdout.splitlines())}


def explained(case: Case, error: str, folder: Path) -> Explained:
    project = case.project(folder / case.id.replace("/", "--"))

    def check(codes: object) -> object:
        rules = [rule for rule in all_rules() if rule.code in codes]  # type: ignore[operator]
        return engine.check(project, rules, TARGET).findings

    view = ProjectView(project, ".", check)  # type: ignore[arg-type]
    answers = answers_to(error.encode(), view)
    return Explained(case, error, answers, _verdict(case, answers, folder))


def _verdict(case: Case, answers: Explanations, folder: Path) -> str:
    if not answers.known:
        return "not known"
    answer = answers.known[0]
    if not answer.findings:
        return "no finding"
    return "right" if answer.place in changed_lines(case, folder) else "another line"


def changed_lines(case: Case, folder: Path) -> set[tuple[str, int]]:
    """The lines that the fix of the case changes, or the places of its findings where it has none."""
    report = migrate(folder / case.id.replace("/", "--"), case, case.rules())
    lines = {(finding.path, finding.span.row) for finding in report.findings if not report.changes}
    for change in report.changes:
        before, after = change.before.decode().split("\n"), change.after.decode().split("\n")
        for start, end, _, _ in changed_blocks(before, after):
            lines |= {(change.path, row) for row in range(start + 1, max(end, start + 1) + 1)}
    return lines


def measured(listed: list[Case]) -> Iterator[Explained]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        errors = errors_of(listed, folder)
        for case in listed:
            yield explained(case, errors[case.id], folder)


def main() -> None:
    done = [*measured(raising_cases())]
    counts = Counter(each.verdict for each in done)
    if "--list" in sys.argv:
        for each in done:
            if each.verdict != "right":
                known = [answer.entry.id for answer in each.answers.known]
                place = each.answers.known[0].place if each.answers.known else None
                print(f"{each.case.id}: {each.verdict}; {known} {place}; {each.error.strip().splitlines()[-1:]}")
    for verdict, number in counts.most_common():
        print(f"| {verdict} | {number} |")
    print(f"{counts['right']} of {len(done)} right")


if __name__ == "__main__":
    main()
