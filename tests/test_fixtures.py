"""Every fixture case keeps every promise: exact findings, exact diff, and nothing else touched.

Expectations are rewritten, for review, by ``python -m tests.regenerate``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import pytest
import yaml
from precfix.codemod import rewrite as rewriting
from precfix.codemod.applying.apply import apply, undo
from precfix.codemod.model import Finding, Rule
from precfix.codemod.outcome import FileChange, Report
from precfix.codemod.source.project import Project

from .byte_variants import ROWS_ADDED, VARIANTS, changed_files
from .fixture_cases import (
    DIFF,
    FINDINGS,
    FIXTURES,
    REPOSITORY,
    Case,
    Outcome,
    all_rules,
    cases,
    copied,
    files_of,
    migrate,
    outcome,
    write_files,
)
from .nightly import NIGHTLY
from .soft import Soft

WANT = re.compile(r"#\s*want\s+(PF\d+(?:\s*,\s*PF\d+)*)")
AGAIN = "run `python -m tests.regenerate` and review what changed"

Found = dict[str, set[Finding]]


@dataclass(frozen=True)
class Ran:
    """A case migrated once, in its own copy of the input; ``found`` is what each rule found before any fix."""

    root: Path
    outcome: Outcome
    found: Found

    @property
    def report(self) -> Report:
        return self.outcome.report


@pytest.fixture(scope="module", autouse=True)
def each_edit_once() -> Iterator[None]:
    """The same edits of the same text are carried out once: tests of a case repeat them, and they are half of its time.

    Whether an edit is always the same is what tests/test_rewrite_anything.py asks.
    """
    with pytest.MonkeyPatch.context() as patch:
        done = cache(rewriting.rewrite)
        patch.setattr(rewriting, "rewrite", lambda text, operations: done(text, tuple(operations)))
        yield


def ran_in(case: Case, folder: Path) -> Ran:
    root = copied(case, folder)
    found: Found = {}
    return Ran(root, outcome(root, case, noting(case.rules(), found)), found)


def noting(rules: Iterable[Rule], found: Found) -> list[Rule]:
    """The same rules, which note in ``found`` what they say when they are asked for the first time."""
    return [replace(rule, check=partial(_noted, rule, found)) for rule in rules]


def _noted(rule: Rule, found: Found, project: Project) -> Iterator[Finding]:
    findings = list(rule.check(project))
    found.setdefault(rule.code, set(findings))
    yield from findings


def is_chosen(case: Case) -> bool:
    """Whether writing, patching, other bytes and the order of rules are tried: examples, projects, a third of the rest.

    At night all are.
    """
    number = hashlib.sha256(case.id.encode()).digest()[0]
    return NIGHTLY or case.settings.example or case.mistake is None or number % 3 == 0


def after_of(root: Path, report: Report) -> dict[str, bytes]:
    return {**files_of(root), **{change.path: change.after for change in report.changes}}


# --- exactly as expected ----------------------------------------------------------------------------------------------


def test_there_are_fixtures() -> None:
    assert len(cases()) > 20


def findings_and_diff_are_exactly_the_expected_ones(case: Case, ran: Ran, folder: Path) -> None:
    report, diff = ran.report, case.folder / DIFF
    with Soft() as soft:
        with soft("findings"):
            assert (case.folder / FINDINGS).is_file(), AGAIN
            assert ran.outcome.findings == (case.folder / FINDINGS).read_text("utf-8"), AGAIN
        with soft("diff"):
            assert ran.outcome.diff == (diff.read_bytes() if diff.is_file() else b""), AGAIN
        with soft("no rule failed"):
            assert not report.failed_rules
        with soft("nothing was refused"):
            assert not [item for item in report.skipped if "was not applied" in item.reason]
        with soft("a rule's case is silent if and only if it is called silent-*"):
            assert case.mistake is None or (report.findings == ()) == case.folder.name.startswith("silent-")


def want_marks_agree_with_the_findings(case: Case, ran: Ran, folder: Path) -> None:
    for name, data in files_of(ran.root).items():
        marks = marks_of(data)
        found = {(row, code) for code, path, row in rows_of(ran.report.findings) if path == name}
        assert not marks or marks == found, name


def marks_of(data: bytes) -> set[tuple[int, str]]:
    """(row, code) of every ``# want CODE`` comment."""
    rows = re.split(r"\r\n|\r|\n", data.decode("latin-1"))
    return {
        (row, code)
        for row, line in enumerate(rows, 1)
        for found in WANT.findall(line)
        for code in re.split(r"\s*,\s*", found)
    }


# --- what holds for every run -----------------------------------------------------------------------------------------


def result_parses_and_a_second_run_changes_nothing(case: Case, ran: Ran, folder: Path) -> None:
    if not ran.report.changes:
        return  # the second run would read what the first has read: that it says the same is asked of all projects
    for change in ran.report.changes:
        check_parses(change)
    again = migrate(write_files(folder, after_of(ran.root, ran.report)), case, case.rules())
    assert again.changes == ()
    assert again.findings == ran.report.remaining


def check_parses(change: FileChange) -> None:
    if change.path.endswith(".py"):
        ast.parse(change.after)
    elif change.path.endswith((".json", ".ipynb")):
        check_json(change.before, change.after)
    elif change.path.endswith((".yaml", ".yml")):
        list(yaml.compose_all(change.after.decode("utf-8-sig"), Loader=yaml.SafeLoader))


def check_json(before: bytes, after: bytes) -> None:
    """What was JSON is JSON; a file with comments or trailing commas is held by its diff."""
    try:
        json.loads(before.decode("utf-8-sig"))
    except ValueError:
        return
    json.loads(after.decode("utf-8-sig"))


def apply_writes_the_changes_and_undo_takes_them_back(case: Case, ran: Ran, folder: Path) -> None:
    assert files_of(ran.root) == files_of(case.input), "migrating writes nothing"
    if not ran.report.changes or not is_chosen(case):
        return
    root = copied(case, folder)
    for change in ran.report.changes:
        (root / change.path).chmod(0o755)
    apply(root, ran.report.changes, allow_dirty=True)
    assert without_journal(root) == after_of(case.input, ran.report)
    assert {(root / change.path).stat().st_mode & 0o777 for change in ran.report.changes} == {0o755}
    undo(root)
    assert without_journal(root) == files_of(case.input)
    assert sorted(item.name for item in folder.iterdir()) == [root.name], "something was written outside the project"


def without_journal(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(root).items() if not name.startswith(".precfix/")}


def git_apply_accepts_the_patch(case: Case, ran: Ran, folder: Path) -> None:
    if not ran.report.changes or not is_chosen(case):
        return
    root = copied(case, folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(folder)}
    done = subprocess.run(
        ["git", "apply", "-"], cwd=root, input=ran.outcome.diff, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert files_of(root) == after_of(ran.root, ran.report)


def test_torch_is_never_imported(tmp_path: Path) -> None:
    """Migrating with all rules in a fresh interpreter loads no torch: the whole projects, at night every case."""
    program = (
        "import sys\nfrom tests import fixture_cases as f\nfrom pathlib import Path\n"
        f"for case in f.cases():\n    if {NIGHTLY} or case.mistake is None:\n"
        "        f.migrate(f.copied(case, Path(sys.argv[1])), case, f.all_rules())\n"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


# --- all rules together -----------------------------------------------------------------------------------------------


def all_rules_together_settle_and_find_what_each_finds_first_last_and_alone(case: Case, ran: Ran, folder: Path) -> None:
    """In one project that all of them share; the case's own rule by itself too; of chosen cases in both orders."""
    forward: Found = {}
    report = migrate(ran.root, case, noting(all_rules(), forward))
    with Soft() as soft:
        with soft("all rules run and settle"):
            assert not report.failed_rules
            assert not [item for item in report.skipped if "did not settle" in item.reason]
        with soft("all results parse"):
            for change in report.changes:
                check_parses(change)
        with soft("whoever asks first"):
            backward = found_by(case, ran.root, all_rules()[::-1]) if is_chosen(case) else forward
            assert forward == backward, (
                f"alone: {[found_by(case, ran.root, [r]) for r in differing(forward, backward)]}"
            )
        with soft("alone or with all others"):
            assert ran.found == {code: forward[code] for code in ran.found}
        with soft("a second run changes nothing"):
            if report.changes != ran.report.changes:
                result = write_files(folder / "after", after_of(ran.root, report))
                assert migrate(result, case, all_rules()).changes == ()


def found_by(case: Case, root: Path, rules: Iterable[Rule]) -> Found:
    """What each rule finds in one project that all of them share, asked in this order."""
    shared = case.project(root)
    return {rule.code: set(rule.check(shared)) for rule in rules}


def differing(one: Found, other: Found) -> list[Rule]:
    return [rule for rule in all_rules() if one[rule.code] != other[rule.code]]


# --- other bytes, same result -----------------------------------------------------------------------------------------


def variants_of(case: Case) -> list[str]:
    """The variants to try: all for a rule's example and at night; of other chosen cases one that its name decides.

    What bytes break is mostly no matter of the rule: each kind still meets some 55 cases, the examples among them.
    """
    if not is_chosen(case):
        return []
    allowed = VARIANTS if case.settings.variants is None else case.settings.variants
    fit = [name for name in allowed if changed_files(name, files_of(case.input)) is not None]
    if NIGHTLY or case.settings.example:
        return fit
    return sorted(fit, key=lambda name: hashlib.sha256(f"{case.id} {name}".encode()).digest())[:1]


def other_bytes_give_the_same_result(case: Case, ran: Ran, folder: Path) -> None:
    with Soft() as soft:
        for variant in variants_of(case):
            with soft(variant):
                check_variant(case, variant, ran, folder / variant)


def check_variant(case: Case, variant: str, ran: Ran, folder: Path) -> None:
    before = changed_files(variant, files_of(ran.root))
    assert before is not None
    nasty = migrate(write_files(folder, before), case, case.rules())
    assert after_of(folder, nasty) == changed_files(variant, after_of(ran.root, ran.report))
    if variant != "notebook":
        moved = ROWS_ADDED.get(variant, 0)
        assert rows_of(nasty.findings) == rows_of(ran.report.findings, moved)


def rows_of(findings: tuple[Finding, ...], moved: int = 0) -> list[tuple[str, str, int]]:
    """Code, path and row of each finding, the rows of Python files moved down."""
    return [(each.code, each.path, each.span.row + moved * each.path.endswith(".py")) for each in findings]


# --- one test for each case -------------------------------------------------------------------------------------------

PROMISES: tuple[Callable[[Case, Ran, Path], None], ...] = (
    findings_and_diff_are_exactly_the_expected_ones,
    want_marks_agree_with_the_findings,
    result_parses_and_a_second_run_changes_nothing,
    apply_writes_the_changes_and_undo_takes_them_back,
    git_apply_accepts_the_patch,
    all_rules_together_settle_and_find_what_each_finds_first_last_and_alone,
    other_bytes_give_the_same_result,
)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_case(case: Case, tmp_path: Path) -> None:
    """Migrated once, and every promise asked of it; the failure lists all that are broken."""
    (tmp_path / "case").mkdir()
    ran = ran_in(case, tmp_path / "case")
    with Soft() as soft:
        for promise in PROMISES:
            folder = tmp_path / promise.__name__
            folder.mkdir()
            with soft(promise.__name__):
                promise(case, ran, folder)


def test_fixture_folders_are_complete() -> None:
    """No stray folder: what is below rules/<mistake>/ is a case, and names a rule that exists."""
    names = {rule.name for rule in all_rules()}
    for folder in sorted(FIXTURES.glob("rules/*/*")):
        assert (folder / "input").is_dir(), folder
        assert folder.parent.name in names, f"{folder.parent.name} is no rule"
