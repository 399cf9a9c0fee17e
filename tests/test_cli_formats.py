"""Every output format through the command line: a reader of it understands it, and stdout holds nothing else."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
from precfix.codemod.cli.options import CHECK_FORMATS, MIGRATE_FORMATS

from .cli_runs import AFTER, LOOP, Runner, repository

CELL = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": LOOP.lstrip("\n")}
BOOK = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project is a folder of its repository, and the folder's name has a blank."""
    return repository(tmp_path, {"my code/a.py": LOOP.lstrip("\n"), "my code/n.ipynb": BOOK + "\n"}) / "my code"


def _json(text: str) -> list[str]:
    return [each["filename"] for each in json.loads(text)["diagnostics"]]


def _lines(text: str) -> list[str]:
    return [each["filename"] for each in map(json.loads, text.splitlines()) if "filename" in each]


def _sarif(text: str) -> list[str]:
    results = json.loads(text)["runs"][0]["results"]
    return [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results]


def _github(text: str) -> list[str]:
    return [line.partition("file=")[2].partition(",")[0] for line in text.splitlines() if " file=" in line]


def _gitlab(text: str) -> list[str]:
    return [each["location"]["path"] for each in json.loads(text)]


def _junit(text: str) -> list[str]:
    root = ElementTree.fromstring(text)
    return [str(case.get("file") or case.get("classname")) for case in root.iter("testcase") if len(case)]


def _markdown(text: str) -> list[str]:
    return [name for name in ("my code/a.py", "my code/n.ipynb") if name in text]


HERE = ["a.py", "n.ipynb"]
TOP = ["my code/a.py", "my code/n.ipynb"]
READERS: dict[str, tuple[Callable[[str], list[str]], list[str]]] = {
    "json": (_json, HERE),
    "json-lines": (_lines, HERE),
    "sarif": (_sarif, ["my%20code/a.py", "my%20code/n.ipynb"]),
    "github": (_github, TOP),
    "gitlab": (_gitlab, TOP),
    "junit": (_junit, TOP),
    "markdown": (_markdown, TOP),
}
"""How the files of the findings are read from a format, and the names they have there."""
FORMATS = pytest.mark.parametrize("chosen", sorted(READERS))


def files(chosen: str, text: str) -> list[str]:
    return sorted(set(READERS[chosen][0](text)))


def test_every_format_is_tried_here() -> None:
    assert {each.value for each in CHECK_FORMATS} == {*READERS, "text"}
    assert {each.value for each in MIGRATE_FORMATS} == {*READERS, "text", "diff"}


@FORMATS
def test_check(run: Runner, project: Path, tmp_path: Path, chosen: str) -> None:
    done = run("check", project, "--output-format", chosen)
    assert (done.code, done.err) == (1, "")
    assert files(chosen, done.out) == READERS[chosen][1]
    again = run("check", project, "--output-format", chosen, "-o", tmp_path / "result", "-q", "--statistics")
    assert (again.code, again.out, again.err) == (1, "", "")
    assert (tmp_path / "result").read_text("utf-8").rstrip("\n") == done.out.rstrip("\n")
    assert run("check", project, "--output-format", chosen, "--exit-zero").code == 0


@FORMATS
def test_check_finds_nothing(run: Runner, project: Path, chosen: str) -> None:
    done = run("check", project, "--output-format", chosen, "--select", "PF2")
    assert (done.code, done.err) == (0, "")
    assert files(chosen, done.out) == []


@FORMATS
def test_dry_run(run: Runner, project: Path, tmp_path: Path, chosen: str) -> None:
    done = run("migrate", project, "--dry-run", "--output-format", chosen)
    assert done.code == 1
    told = [] if chosen == "gitlab" else READERS[chosen][1]  # GitLab is told what is left after the fixes
    assert files(chosen, done.out) == told
    again = run("migrate", project, "--dry-run", "--output-format", chosen, "-o", tmp_path / "result")
    assert (again.code, again.out) == (1, "")
    assert (tmp_path / "result").read_text("utf-8").rstrip("\n") == done.out.rstrip("\n")
    assert (project / "a.py").read_text() == LOOP.lstrip("\n")


@FORMATS
def test_applied(run: Runner, project: Path, chosen: str) -> None:
    done = run("migrate", project, "--output-format", chosen)
    assert (done.code, done.err) == (0, "")
    files(chosen, done.out)  # what a reader of the format would do
    assert (project / "a.py").read_text() == AFTER
    assert json.loads((project / "n.ipynb").read_text())["cells"][0]["source"] == AFTER


@FORMATS
def test_a_named_file_that_cannot_be_read(run: Runner, project: Path, chosen: str) -> None:
    (project / "bad.py").write_text("import torch\ndef (:\n")
    for command in (["check"], ["migrate", "--dry-run"]):
        done = run(*command, project / "bad.py", "--output-format", chosen)
        assert done.code == 2
        assert files(chosen, done.out) in ([], ["bad.py"], ["my code/bad.py"]), "as skipped, where there is a place"
        assert done.err.startswith("precfix: bad.py: not parsed")
    assert run("check", project, "--output-format", chosen).code == 1, "it was not named"


@FORMATS
@pytest.mark.parametrize("name", ["a.py", "gone/x", "."])
def test_a_result_that_cannot_be_written(run: Runner, project: Path, chosen: str, name: str) -> None:
    for command in (["check"], ["migrate"]):
        done = run(*command, project, "--output-format", chosen, "-o", project / name)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert (project / "a.py").read_text() == LOOP.lstrip("\n"), "then nothing is applied either"


def test_the_row_of_a_notebook_is_that_of_its_cell_or_of_the_file(run: Runner, project: Path) -> None:
    report = json.loads(run("check", project / "n.ipynb", "--output-format", "json").out)
    assert (report["diagnostics"][0]["cell"], report["diagnostics"][0]["location"]["row"]) == (1, 4)
    github = run("check", project / "n.ipynb", "--output-format", "github").out
    assert "cell 1" in github
    assert "file=my code/n.ipynb" in github


def test_diff_and_text_of_migrate(run: Runner, project: Path, tmp_path: Path) -> None:
    done = run("migrate", project, "--dry-run", "--output-format", "text")
    assert done.code == 1
    assert done.out.startswith("a.py")
    assert "Would apply 2 fixes" in done.out
    run("migrate", project, "--dry-run", "-o", tmp_path / "x.patch")
    assert (tmp_path / "x.patch").read_bytes().startswith(b"diff --git")


def test_rules_as_json(run: Runner) -> None:
    done = run("rules", "--output-format", "json")
    assert (done.code, done.err) == (0, "")
    rules = json.loads(done.out)
    assert [rule["code"] for rule in rules] == sorted(rule["code"] for rule in rules)
    first = next(rule for rule in rules if rule["code"] == "PF101")
    assert first["name"] == "grad-scaler-under-bf16"
    assert {"name": "drop", "applicability": "safe"} in first["fixes"]
    assert first["url"].endswith("/grad-scaler-under-bf16.md")


def test_a_format_that_does_not_exist(run: Runner, project: Path) -> None:
    for command in ("check", "migrate", "rules"):
        words = [] if command == "rules" else [project]
        done = run(command, *words, "--output-format", "jsn")
        assert (done.code, done.out) == (2, "")
        assert "json" in done.err
