"""Every fixture case keeps every promise: exact findings, exact diff, and nothing else touched.

Expectations are rewritten, for review, by ``python -m tests.regenerate``.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml
from precfix.codemod.applying.apply import apply, undo
from precfix.codemod.model import FileChange, Finding, Report, Rule
from precfix.codemod.report.diff import unified_diff

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

Ran = Callable[[str], tuple[Path, Outcome]]
EACH = pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
WANT = re.compile(r"#\s*want\s+(PF\d+(?:\s*,\s*PF\d+)*)")
AGAIN = "run `python -m tests.regenerate` and review what changed"


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What migrating a case yields: each case once, when it is first asked for, in its own copy of the input."""
    folder = tmp_path_factory.mktemp("cases")

    @cache
    def run(case_id: str) -> tuple[Path, Outcome]:
        case = by_id()[case_id]
        root = copied(case, folder)
        return root, outcome(root, case)

    return run


@cache
def by_id() -> dict[str, Case]:
    return {case.id: case for case in cases()}


def after_of(root: Path, report: Report) -> dict[str, bytes]:
    return {**files_of(root), **{change.path: change.after for change in report.changes}}


# --- exactly as expected ----------------------------------------------------------------------------------------------


def test_there_are_fixtures() -> None:
    assert len(cases()) > 20


@EACH
def test_findings_are_exactly_the_expected_ones(case: Case, ran: Ran) -> None:
    expected = case.folder / FINDINGS
    assert expected.is_file(), AGAIN
    assert ran(case.id)[1].findings == expected.read_text("utf-8"), AGAIN


@EACH
def test_diff_is_exactly_the_expected_one(case: Case, ran: Ran) -> None:
    expected = case.folder / DIFF
    assert ran(case.id)[1].diff == (expected.read_bytes() if expected.is_file() else b""), AGAIN


@EACH
def test_no_rule_failed_and_nothing_was_refused(case: Case, ran: Ran) -> None:
    report = ran(case.id)[1].report
    assert not report.failed_rules
    assert not [item for item in report.skipped if "was not applied" in item.reason]


@pytest.mark.parametrize("case", [case for case in cases() if case.mistake], ids=lambda case: case.id)
def test_look_alikes_stay_silent(case: Case, ran: Ran) -> None:
    silent = case.folder.name.startswith("silent-")
    assert (ran(case.id)[1].report.findings == ()) == silent, "a case is silent if and only if it is called silent-*"


@EACH
def test_want_marks_agree_with_the_findings(case: Case, ran: Ran) -> None:
    root, done = ran(case.id)
    for name, data in files_of(root).items():
        marks = marks_of(data)
        found = {(row, code) for code, path, row in rows_of(done.report.findings) if path == name}
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


@EACH
def test_result_parses(case: Case, ran: Ran) -> None:
    for change in ran(case.id)[1].report.changes:
        check_parses(change)


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


@EACH
def test_second_run_changes_nothing(case: Case, ran: Ran, tmp_path: Path) -> None:
    root, first = ran(case.id)
    again = migrate(write_files(tmp_path, after_of(root, first.report)), case, case.rules())
    assert again.changes == ()
    assert again.findings == first.report.remaining


@EACH
def test_nothing_is_written_by_migrate(case: Case, ran: Ran) -> None:
    assert files_of(ran(case.id)[0]) == files_of(case.input)


@EACH
def test_apply_writes_the_changes_and_undo_takes_them_back(case: Case, ran: Ran, tmp_path: Path) -> None:
    report = ran(case.id)[1].report
    if not report.changes:
        pytest.skip("nothing to apply")
    root = copied(case, tmp_path)
    for change in report.changes:
        (root / change.path).chmod(0o755)
    apply(root, report.changes, allow_dirty=True)
    assert without_journal(root) == after_of(case.input, report)
    assert {(root / change.path).stat().st_mode & 0o777 for change in report.changes} == {0o755}
    undo(root)
    assert without_journal(root) == files_of(case.input)
    assert sorted(item.name for item in tmp_path.iterdir()) == [root.name], "something was written outside the project"


def without_journal(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(root).items() if not name.startswith(".precfix/")}


def test_git_apply_accepts_every_patch(ran: Ran, tmp_path: Path) -> None:
    """One patch for all cases, each below its own folder: one git process instead of a hundred."""
    changes, expected = [], {}
    for case in cases():
        root, done = ran(case.id)
        changes += [replace(change, path=f"{case.id}/{change.path}") for change in done.report.changes]
        expected.update({f"{case.id}/{name}": data for name, data in after_of(root, done.report).items()})
        write_files(tmp_path / case.id, files_of(root))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    done_by_git = subprocess.run(
        ["git", "apply", "-"], cwd=tmp_path, input=unified_diff(changes), capture_output=True, env=environment
    )
    assert done_by_git.returncode == 0, done_by_git.stderr.decode(errors="replace")
    assert files_of(tmp_path) == expected


def test_torch_is_never_imported(tmp_path: Path) -> None:
    """Checking and migrating every case in a fresh interpreter loads no torch."""
    program = (
        "import sys\nfrom tests import fixture_cases as f\nfrom pathlib import Path\n"
        "for case in f.cases():\n"
        "    f.migrate(f.copied(case, Path(sys.argv[1])), case, f.all_rules())\n"
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


@EACH
def test_all_rules_together_settle(case: Case, tmp_path: Path) -> None:
    root = copied(case, tmp_path)
    report = migrate(root, case, all_rules())
    assert not report.failed_rules
    assert not [item for item in report.skipped if "did not settle" in item.reason]
    for change in report.changes:
        check_parses(change)
    if report.changes:
        result = write_files(tmp_path / "after", after_of(root, report))
        assert migrate(result, case, all_rules()).changes == ()


@EACH
def test_facts_do_not_depend_on_which_rule_asks_first(case: Case, tmp_path: Path) -> None:
    """Whoever is asked first and last: each rule finds the same in both orders, and the case's own rules alone."""
    root = copied(case, tmp_path)
    forward, backward = found_by(case, root, all_rules()), found_by(case, root, all_rules()[::-1])
    assert forward == backward, f"alone: {[found_by(case, root, [rule]) for rule in differing(forward, backward)]}"
    for rule in case.rules() if case.mistake else ():
        assert found_by(case, root, [rule])[rule.code] == forward[rule.code]


def found_by(case: Case, root: Path, rules: Iterable[Rule]) -> dict[str, set[Finding]]:
    """What each rule finds in one project that all of them share, asked in this order."""
    shared = case.project(root)
    return {rule.code: set(rule.check(shared)) for rule in rules}


def differing(one: dict[str, set[Finding]], other: dict[str, set[Finding]]) -> list[Rule]:
    return [rule for rule in all_rules() if one[rule.code] != other[rule.code]]


# --- other bytes, same result -----------------------------------------------------------------------------------------


@cache
def variant_pairs() -> tuple[tuple[Case, str], ...]:
    pairs = []
    for case in cases():
        allowed = VARIANTS if case.settings.variants is None else case.settings.variants
        pairs += [(case, name) for name in allowed if changed_files(name, files_of(case.input)) is not None]
    return tuple(pairs)


@pytest.mark.parametrize(
    ("case", "variant"), variant_pairs(), ids=[f"{case.id}-as-{variant}" for case, variant in variant_pairs()]
)
def test_other_bytes_give_the_same_result(case: Case, variant: str, ran: Ran, tmp_path: Path) -> None:
    root, ordinary = ran(case.id)
    before = changed_files(variant, files_of(root))
    assert before is not None
    nasty = migrate(write_files(tmp_path, before), case, case.rules())
    assert after_of(tmp_path, nasty) == changed_files(variant, after_of(root, ordinary.report))
    if variant != "notebook":
        moved = ROWS_ADDED.get(variant, 0)
        assert rows_of(nasty.findings) == rows_of(ordinary.report.findings, moved)


def rows_of(findings: tuple[Finding, ...], moved: int = 0) -> list[tuple[str, str, int]]:
    """Code, path and row of each finding, the rows of Python files moved down."""
    return [(each.code, each.path, each.span.row + moved * each.path.endswith(".py")) for each in findings]


def test_fixture_folders_are_complete() -> None:
    """No stray folder: what is below rules/<mistake>/ is a case, and names a rule that exists."""
    names = {rule.name for rule in all_rules()}
    for folder in sorted(FIXTURES.glob("rules/*/*")):
        assert (folder / "input").is_dir(), folder
        assert folder.parent.name in names, f"{folder.parent.name} is no rule"
