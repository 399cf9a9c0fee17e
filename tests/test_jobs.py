"""Several processes: the same report as from one, whatever happens to them, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from precfix.codemod import engine, processes
from precfix.codemod.engine import Options
from precfix.codemod.model import Finding, Place, Rule, Span
from precfix.codemod.outcome import Report, Target
from precfix.codemod.processes import shares_of
from precfix.codemod.source.project import Project
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import REPOSITORY
from .project_tree import open_tree

TARGET = Target("unknown", "a test")
FILES = {f"m{number}.py": "import torch\n" * (number + 1) for number in range(8)}


def rule_that(acts: Callable[[str], object], code: str = "T001") -> Rule:
    """A rule that acts on each checked file, and then finds something in it."""

    def check(project: Project) -> Iterator[Finding]:
        for document in project.checked_documents():
            acts(document.path)
            yield rule.found(Place(document.path, Span(1, 1, 1, 2), "found"))

    rule = Rule(code, f"test-{code.lower()}", "", check)
    return rule


def quiet(path: str) -> None:
    """Do nothing."""


def checked(project: Project, rules: list[Rule], jobs: int) -> Report:
    return engine.check(project, rules, TARGET, Options(jobs=jobs))


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Other tests of the same worker may have started servers, which stay."""
    before = _children()
    yield
    assert _children() <= before


def _children() -> set[str]:
    """The children of this process that run, or wait to be reaped."""
    command = ["ps", "-A", "-o", "pid=,ppid=,comm="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return {pid for pid, parent, name in rows if parent == str(os.getpid()) and not name.endswith("ps")}


@pytest.fixture(scope="module")
def one_process() -> Report:
    return engine.check(_projects(), load(), TARGET)


def _projects() -> Project:
    tree = REPOSITORY / "fixtures" / "projects"
    return Project.open([tree]).with_frameworks(load_frameworks()).with_target("bf16-mixed")


@pytest.mark.parametrize("jobs", [2, 4])
def test_any_number_of_jobs_gives_the_same_report(jobs: int, one_process: Report) -> None:
    rules = load()
    report = engine.check(_projects(), rules, TARGET, Options(jobs=jobs))
    assert report.findings
    assert report.findings == one_process.findings
    assert (report.skipped, report.files_parsed) == (one_process.skipped, one_process.files_parsed)


def test_repairs_are_the_same(tmp_path: Path) -> None:
    files = {f"m{number}.py": "import torch\nwith torch.cuda.amp.autocast():\n    pass\n" for number in range(4)}
    rules = [rule for rule in load() if rule.name == "deprecated-cuda-amp"]
    one, two = (
        engine.migrate(open_tree(tmp_path, files), rules, TARGET, Options(unsafe_fixes=True, jobs=jobs))
        for jobs in (1, 2)
    )
    assert one.changes
    assert (one.changes, one.applied, one.remaining) == (two.changes, two.applied, two.remaining)


def test_shares_are_neighbors_of_about_one_size(tmp_path: Path) -> None:
    project = open_tree(tmp_path, FILES)
    shares = shares_of(project, 3)
    assert [path for share in shares for path in share] == list(project.paths)
    sizes = [sum(project.size_of(path) for path in share) for share in shares]
    assert len(shares) == 3
    assert max(sizes) <= min(sizes) * 2
    assert [len(share) for share in shares_of(project.checking(["m1.py"]), 4)] == [1]


def test_what_all_need_is_found_once(tmp_path: Path) -> None:
    """Before the processes start, and so in none of them."""
    asked: list[int] = []
    found_by: list[int] = []

    def fact(project: Project) -> int:
        asked.append(os.getpid())
        return os.getpid()

    def check(project: Project) -> Iterator[Finding]:
        who = project.fact(fact)
        for document in project.checked_documents():
            yield rule.found(Place(document.path, Span(1, 1, 1, 2), f"{who}"))

    rule = Rule("T000", "test", "", check)
    found_by += [int(finding.message) for finding in checked(open_tree(tmp_path, FILES), [rule], 2).findings]
    assert set(found_by) == set(asked) == {os.getpid()}
    assert len(asked) == 1


def test_a_killed_process_is_made_up_for(tmp_path: Path) -> None:
    parent = os.getpid()

    def die(path: str) -> None:
        if path == "m6.py" and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    report = checked(open_tree(tmp_path, FILES), [rule_that(quiet, "T000"), rule_that(die)], 2)
    assert len(report.findings) == 2 * len(FILES)
    assert report.failed_rules == ()


def test_what_cannot_be_sent_is_found_here(tmp_path: Path) -> None:
    class Text(str):
        """A class that no other process can look up."""

    def check(project: Project) -> Iterator[Finding]:
        for document in project.checked_documents():
            yield rule.found(Place(document.path, Span(1, 1, 1, 2), Text("found")))

    rule = Rule("T000", "test", "", check)
    assert len(checked(open_tree(tmp_path, FILES), [rule], 2).findings) == len(FILES)


def test_a_failing_rule_is_told_as_from_one_process(tmp_path: Path) -> None:
    def fail(path: str) -> None:
        if path in ("m3.py", "m7.py"):
            raise ValueError(path)

    one, two = (
        checked(open_tree(tmp_path, FILES), [rule_that(fail), rule_that(quiet, "T002")], jobs) for jobs in (1, 2)
    )
    assert [skip.path for skip in one.failed_rules] == ["T001"]
    assert "ValueError: m3.py" in one.failed_rules[0].reason
    assert (two.failed_rules, two.findings) == (one.failed_rules, one.findings)


def test_an_interrupt_ends_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    fork = os.fork

    def noting() -> int:
        started.append(fork())
        return started[-1]

    def interrupt(project: Project, rule: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(processes.os, "fork", noting)
    monkeypatch.setattr(processes._Run, "_show", lambda run: interrupt(run.project, ""))
    with pytest.raises(KeyboardInterrupt):
        checked(open_tree(tmp_path, FILES), [rule_that(quiet)], 2)
    assert len(started) == 2


def test_progress_tells_of_each_rule_once(tmp_path: Path) -> None:
    told: list[str] = []
    rules = [rule_that(quiet, f"T00{number}") for number in range(5)]
    engine.check(open_tree(tmp_path, FILES), rules, TARGET, Options(jobs=3, progress=told.append))
    assert told == [f"{rule.code} {rule.name}" for rule in rules]


def test_one_process_where_another_thread_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise AssertionError("forked beside a thread")

    monkeypatch.setattr(processes.threading, "active_count", lambda: 2)
    monkeypatch.setattr(processes.os, "fork", refuse)
    assert len(checked(open_tree(tmp_path, FILES), [rule_that(quiet)], 2).findings) == len(FILES)
