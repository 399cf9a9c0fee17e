"""GitHub annotations, GitLab Code Quality, JUnit and JSON lines, each read back by a strict reader."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from precfix.codemod import engine
from precfix.codemod.cli.output import places_in
from precfix.codemod.model import Finding, Span
from precfix.codemod.outcome import FileChange, Report, Skipped
from precfix.codemod.report.github import SHOWN, to_github
from precfix.codemod.report.gitlab import to_gitlab
from precfix.codemod.report.json_report import to_json, to_json_lines
from precfix.codemod.report.junit import to_junit
from precfix.codemod.report.outcomes import FindingState, outcomes
from precfix.codemod.report.places import ReportPlaces
from precfix.codemod.report.printable import printable
from precfix.codemod.source.project import Project
from precfix.transforms import load

from .report_samples import (
    CHECKED,
    DISABLE,
    DROP,
    NASTY_PATHS,
    NASTY_TEXTS,
    OTHER,
    PLACES,
    TARGET,
    checked,
    finding,
    fix,
    hostile,
    in_cell,
    is_harmless,
    migrated,
    write_project,
)

EMPTY = Report(TARGET, ())
FAILED = Report(TARGET, (), failed_rules=(Skipped("PF102", "ValueError"),))
CELLS = in_cell(lambda row: row + 40)
NO_ROWS = in_cell(lambda row: None)


# --- what became of the findings --------------------------------------------------------------------------------------


def states(report: Report) -> list[tuple[str, str]]:
    return [(each.finding.message, each.state.value) for each in outcomes(report)]


def test_outcomes() -> None:
    assert states(migrated()) == [
        ("stays", "left"),
        ("it is wrong", "repaired"),
        ("goes with it", "repaired"),
        ("comes up later", "later"),
    ]
    assert {state for _, state in states(CHECKED)} == {"left"}


def test_equal_findings_are_told_apart_by_number() -> None:
    one, two, three = finding(1, fixes=(DROP,)), finding(2), finding(3)
    change = (FileChange("train.py", b"a", b"b"),)
    some = Report(TARGET, (one, two, three), (finding(1), finding(2)), change, ((one, DROP),))
    assert [state for _, state in states(some)] == ["repaired", "left", "left"]
    more = replace(some, remaining=(finding(1), finding(2), finding(5)))
    assert [(each.state, each.finding.span.row) for each in outcomes(more)][3:] == [(FindingState.LATER, 5)]
    less = replace(some, remaining=(finding(1),))
    assert [state for _, state in states(less)] == ["repaired", "left", "repaired"]


# --- GitHub -----------------------------------------------------------------------------------------------------------


def unescaped(text: str, *, value: bool) -> str:
    """As the runner does it; only what the escapes leave may be left."""
    pairs = [("%0D", "\r"), ("%0A", "\n"), *([("%3A", ":"), ("%2C", ",")] if value else []), ("%25", "%")]
    for escape, char in pairs:
        text = text.replace(escape, char)
    return text


def commands(text: str) -> tuple[list[tuple[str, dict[str, str], str]], str]:
    """The workflow commands of a log and its last line; fails on any other line."""
    text.encode("utf-8")
    assert text.endswith("\n")
    assert "\r" not in text
    *lines, last = text.removesuffix("\n").split("\n")
    found = []
    for line in lines:
        match = re.fullmatch(r"::(error|warning|notice) (.*?)::(.*)", line)
        assert match, line
        values = dict(each.split("=", 1) for each in match[2].split(","))
        plain = {name: unescaped(value, value=True) for name, value in values.items()}
        found.append((match[1], plain, unescaped(match[3], value=False)))
    assert not last.startswith(("::", "#"))
    return found, last


def test_github_in_full() -> None:
    assert to_github(CHECKED, PLACES) == (
        "::error title=precfix%3A a rule failed::PF102: ValueError: no\n"
        "::warning file=train.py,line=1,endLine=1,col=10,endColumn=22,title=PF101 scaler-under-bf16::it is wrong"
        "%0Abecause: conf/a b.yaml:2 bf16 is asked for here%0Afix [safe] drop: remove the scaler"
        "%0Afix [unsafe] disable: enabled=False; gradients are no longer scaled"
        "%0Afix [display-only] think: choose one\n"
        "::warning file=b.py,line=3,endLine=3,col=10,endColumn=22,title=PF900 third-party::nothing helps\n"
        "::warning file=train.py,line=2,endLine=2,col=10,endColumn=22,title=PF101 scaler-under-bf16::it is wrong"
        "%0Afix [unsafe] both: use bf16 in both places\n"
        "::notice title=precfix%3A skipped::.: fixes did not settle\n"
        "::notice file=x y.py,title=precfix%3A skipped::x y.py: line 3: invalid syntax\n"
        "precfix: 3 found, 2 skipped, 1 rule failed.\n"
    )


def test_github_after_migrate() -> None:
    found, last = commands(to_github(migrated(), PLACES))
    assert [(level, values["file"], text.split("\n")[0]) for level, values, text in found] == [
        ("warning", "b.py", "stays"),
        ("warning", "b.py", "comes up later"),
        ("notice", "train.py", "it is wrong"),
        ("notice", "train.py", "goes with it"),
    ]
    assert "found once the fixes are carried out" in found[1][2]
    assert found[2][2].endswith("repaired: use bf16 in both places")
    assert last == "precfix: 2 found, 2 repaired."


def test_every_rule_is_among_the_annotations_that_github_shows() -> None:
    many = [finding(row, fixes=(DISABLE,)) for row in range(1, 30)]
    report = checked(*many, finding(99, fixes=(DROP,)), finding(1, "z.py", "rare", rule=OTHER))
    found, last = commands(to_github(report, PLACES))
    shown = [text.split("\n")[0] for _, _, text in found[:SHOWN]]
    assert "rare" in shown
    assert last.endswith("this log has them all.")
    assert len(found) == 31


@pytest.mark.parametrize("changed", [False, True])
def test_github_takes_no_commands_from_a_project(changed: bool) -> None:
    report = hostile(changed=changed)
    found, last = commands(to_github(report, PLACES))
    assert len(found) == 3 * len(NASTY_PATHS)
    assert last.startswith("precfix: ")
    files = {values["file"] for level, values, _ in found if level == "warning"}
    assert files == {shown(each.path) for each in report.remaining}
    assert {text.split("\n")[0] for level, _, text in found if level == "warning"} == {
        printable(each.message) for each in report.remaining
    }
    for _, values, text in found:
        assert set(values) <= {"file", "line", "endLine", "col", "endColumn", "title"}
        assert is_harmless("".join(values.values()).replace("\n", "").replace("\r", ""))
        assert is_harmless(text.replace("\n", ""))


def test_github_columns_only_within_one_row() -> None:
    each = replace(finding(), span=Span(2, 5, 4, 1))
    ((_, values, _),), _ = commands(to_github(checked(each), PLACES))
    assert {name: values[name] for name in values if name != "title"} == {
        "file": "train.py",
        "line": "2",
        "endLine": "3",
    }


def test_github_in_notebooks() -> None:
    ((_, values, text),), _ = commands(to_github(checked(finding(2)), CELLS))
    assert (values["line"], "col" in values, text) == ("42", False, "cell 3, row 2: it is wrong")
    ((_, values, _),), _ = commands(to_github(checked(finding(2)), NO_ROWS))
    assert set(values) == {"file", "title"}


def test_github_without_findings() -> None:
    assert to_github(EMPTY, PLACES) == "precfix: 0 found.\n"
    found, last = commands(to_github(FAILED, PLACES))
    assert [(level, text) for level, _, text in found] == [("error", "PF102: ValueError")]
    assert last == "precfix: 0 found, 1 rule failed."


def shown(path: str) -> str:
    """A path in an annotation: line ends as they are, what could do harm to a log as escapes."""
    lines = re.split("([\r\n])", path.replace("\udcff", "\\xff"))
    return "".join(part if part in "\r\n" else printable(part) for part in lines)


# --- GitLab -----------------------------------------------------------------------------------------------------------


def gitlab(report: Report, places: ReportPlaces = PLACES) -> Any:
    text = to_gitlab(report, places)
    assert text.isascii()
    issues = json.loads(text)
    json.dumps(issues, ensure_ascii=False).encode("utf-8")
    assert len({each["fingerprint"] for each in issues}) == len(issues)
    for each in issues:
        assert each["severity"] in {"info", "minor", "major", "critical", "blocker"}
        lines = each["location"]["lines"]
        assert 1 <= lines["begin"] <= lines["end"]
        assert is_harmless(each["description"])
        assert each["check_name"]
    return issues


def test_gitlab_in_full() -> None:
    first = gitlab(CHECKED)[1]
    assert len(first.pop("fingerprint")) >= 32
    assert first == {
        "type": "issue",
        "check_name": "PF101",
        "description": "PF101 scaler-under-bf16: it is wrong",
        "categories": ["Bug Risk"],
        "severity": "major",
        "location": {"path": "train.py", "lines": {"begin": 1, "end": 1}},
    }


def test_gitlab_after_migrate_and_in_notebooks() -> None:
    assert [each["description"].partition(": ")[2] for each in gitlab(migrated())] == [
        "stays",
        "comes up later: found once the fixes are carried out",
    ]
    (each,) = gitlab(checked(finding(2)), replace(CELLS, prefix="sub/"))
    assert each["description"] == "PF101 scaler-under-bf16: cell 3, row 2: it is wrong"
    assert each["location"] == {"path": "sub/train.py", "lines": {"begin": 42, "end": 42}}
    assert gitlab(checked(finding(2)), NO_ROWS)[0]["location"]["lines"] == {"begin": 1, "end": 1}


def test_gitlab_fingerprints_do_not_depend_on_rows() -> None:
    before = gitlab(checked(finding(1), finding(2)))
    moved = gitlab(checked(finding(1), finding(2), finding(3)))
    assert [each["fingerprint"] for each in before] == [each["fingerprint"] for each in moved[:2]]


def test_gitlab_of_hostile_and_empty_reports() -> None:
    issues = gitlab(hostile())
    assert {each["location"]["path"] for each in issues} == {path.replace("\udcff", "\\xff") for path in NASTY_PATHS}
    assert {each["description"] for each in issues} == {printable(f"PF101 n{text}: {text}") for text in NASTY_TEXTS}
    assert gitlab(EMPTY) == gitlab(FAILED) == []


# --- JUnit ------------------------------------------------------------------------------------------------------------


def suite_of(report: Report, places: ReportPlaces = PLACES) -> Any:
    """The suite as junitparser reads it; the numbers it computes are those that were written."""
    junitparser = pytest.importorskip("junitparser", reason="reads JUnit XML: pip install junitparser")
    data = to_junit(report, places).encode("utf-8")
    whole = junitparser.JUnitXml.fromstring(data)
    (suite,) = whole
    written = (suite.tests, suite.failures, suite.errors, suite.skipped)
    assert (whole.tests, whole.failures, whole.errors) == written[:3]
    suite.update_statistics()
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == written
    assert suite.tests > 0
    return suite


def cases(report: Report, places: ReportPlaces = PLACES) -> list[tuple[str, str, str]]:
    return [
        (case.classname, case.name, ", ".join(type(each).__name__ for each in case.result) or "passed")
        for case in suite_of(report, places)
    ]


def test_junit_of_check() -> None:
    assert cases(CHECKED) == [
        ("b.py", "PF900 third-party at b.py:3:10", "Failure"),
        ("train.py", "PF101 scaler-under-bf16 at train.py:1:10", "Failure"),
        ("train.py", "PF101 scaler-under-bf16 at train.py:2:10", "Failure"),
        ("precfix", "PF102", "Error"),
        (".", ".", "Skipped"),
        ("x y.py", "x y.py", "Skipped"),
    ]
    failure = list(suite_of(CHECKED))[1].result[0]
    assert (failure.type, failure.message) == ("PF101 scaler-under-bf16", "it is wrong")
    assert failure.text == (
        "train.py:1:10 it is wrong\n"
        "because: conf/a b.yaml:2 bf16 is asked for here\n"
        "fix [safe] drop: remove the scaler\n"
        "fix [unsafe] disable: enabled=False; gradients are no longer scaled\n"
        "fix [display-only] think: choose one"
    )


def test_junit_of_migrate() -> None:
    report = migrated()
    assert [(name.rpartition(" ")[2], outcome) for _, name, outcome in cases(report)] == [
        ("b.py:3:10", "Failure"),
        ("train.py:1:10", "passed"),
        ("train.py:2:10", "passed"),
        ("b.py:2:10", "Failure"),
        ("third-party", "passed"),
    ]
    outs = [case.system_out for case in suite_of(report)]
    assert outs[1].endswith("repaired: use bf16 in both places")
    assert outs[2].endswith("repaired: gone with the other changes")


def test_junit_without_findings() -> None:
    assert cases(checked()) == [
        ("precfix", "PF101 scaler-under-bf16", "passed"),
        ("precfix", "PF900 third-party", "passed"),
    ]
    assert cases(EMPTY) == [("precfix", "no precision mistakes found", "passed")]
    assert cases(FAILED) == [("precfix", "PF102", "Error")]


@pytest.mark.parametrize("changed", [False, True])
def test_junit_of_a_hostile_project(changed: bool) -> None:
    report = hostile(changed=changed)
    assert len(cases(report)) == 3 * len(NASTY_PATHS)
    text = to_junit(report, PLACES)
    root = ElementTree.fromstring(text)
    for each in NASTY_TEXTS[:4]:
        assert any(printable(each) in (element.text or "") for element in root.iter())
    tags = {element.tag for element in root.iter()}
    assert tags <= {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202e]", text)


def test_junit_in_notebooks() -> None:
    (case, _) = suite_of(checked(finding(2)), replace(CELLS, prefix="sub/"))
    assert case.name == "PF101 scaler-under-bf16 at sub/train.py:cell 3:2:10"
    element = ElementTree.fromstring(to_junit(checked(finding(2)), replace(CELLS, prefix="sub/")))
    first = element.find("testsuite/testcase")
    assert first is not None
    assert (first.get("file"), first.get("line")) == ("sub/train.py", "42")


# --- JSON lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: CHECKED, migrated, hostile, lambda: hostile(changed=True), lambda: EMPTY])
def test_json_lines_are_the_diagnostics_of_json(make: Callable[[], Report]) -> None:
    text = to_json_lines(make(), PLACES)
    assert text.isascii()
    lines = text.split("\n")
    assert lines.pop() == ""
    whole = json.loads(to_json(make(), PLACES))
    assert [json.loads(line) for line in lines] == whole["diagnostics"]


# --- all of them ------------------------------------------------------------------------------------------------------

FORMATS: dict[str, Callable[[Report], str]] = {
    "github": lambda report: to_github(report, PLACES),
    "gitlab": lambda report: to_gitlab(report, PLACES),
    "junit": lambda report: to_junit(report, PLACES),
    "json-lines": lambda report: to_json_lines(report, PLACES),
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_order_of_findings_does_not_matter(name: str) -> None:
    for report in (CHECKED, migrated(), hostile(changed=True)):
        back: dict[str, tuple[Any, ...]] = {
            field: getattr(report, field)[::-1]
            for field in ("findings", "remaining", "changes", "skipped", "failed_rules", "silenced", "rules")
        }
        assert FORMATS[name](replace(report, **back)) == FORMATS[name](report)  # type: ignore[arg-type]


def test_formats_of_a_real_project(tmp_path: Path) -> None:
    project = Project.open([write_project(tmp_path)])
    places = places_in(project)
    for report in (engine.check(project, load(), TARGET), engine.migrate(project, load(), TARGET)):
        here = [each for each in outcomes(report) if each.state is not FindingState.REPAIRED]
        assert len(here) == len(report.remaining)
        found, _ = commands(to_github(report, places))
        assert sum(level == "warning" for level, _, _ in found) == len(here)
        for _, values, _ in found:
            if "file" in values:
                assert (tmp_path / values["file"]).is_file()
        issues = json.loads(to_gitlab(report, places))
        assert [(tmp_path / each["location"]["path"]).is_file() for each in issues] == [True] * len(here)
        suite = suite_of(report, places)
        assert suite.failures == len(here)
        assert suite.skipped == len(report.skipped) > 0
        lines = to_json_lines(report, places).splitlines()
        assert len(lines) == len(report.findings) > 10


def test_a_finding_that_is_not_in_the_text() -> None:
    """Findings of a document that cannot be shown any more, and rules that were not told."""
    each = Finding("XX1", "else where", "gone", "missing.py", Span(900, 7, 900, 9), fixes=(fix(),))
    report = Report(TARGET, (each,), (each,))
    assert gitlab(report)[0]["check_name"] == "XX1"
    assert cases(report) == [("missing.py", "XX1 else where at missing.py:900:7", "Failure")]
