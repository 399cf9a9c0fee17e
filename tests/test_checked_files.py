"""Mistakes looked for in some files only: the findings of the whole project that are in these files, and no others."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.model import Finding, Place, Rule, Span
from precfix.codemod.outcome import Target
from precfix.codemod.source.project import Project
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import REPOSITORY
from .project_tree import open_tree

TARGET = Target("unknown", "a test")
FIXTURES = REPOSITORY / "fixtures"
TREES = (
    FIXTURES / "projects",
    *(FIXTURES / "rules" / name for name in (
        "autocast-dtype-differs", "constant-overflows-half", "gradient-cast-between-accumulation-steps",
        "launcher-precision-conflict", "load-dtype-differs", "out-buffer-dtype",
    )),
)  # fmt: skip
"""Findings here rest on callers, imports, launch scripts and settings in other files."""


def opened(tree: Path, target: str | None) -> Project:
    return Project.open([tree]).with_frameworks(load_frameworks()).with_target(target)


def findings(project: Project, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    report = engine.check(project, rules, TARGET)
    assert report.failed_rules == ()
    return report.findings


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_findings_of_a_part_are_those_of_the_whole_in_it(tree: Path) -> None:
    rules = load()
    target = "bf16-mixed" if tree.name == "projects" else None
    whole = findings(opened(tree, target), rules)
    assert whole
    paths = list(opened(tree, target).paths)
    random.Random(tree.name).shuffle(paths)
    for part in (frozenset(paths[::2]), frozenset(paths[1::2])):
        expected = tuple(finding for finding in whole if finding.path in part)
        assert findings(opened(tree, target).checking(part), rules) == expected


def test_facts_see_the_whole_project(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "x = 1\n", "b.py": "x = 2\n"}).checking(["b.py"])
    assert [document.path for document in project.checked_documents()] == ["b.py"]
    assert project.fact(_all_checked) == ["a.py", "b.py"]
    assert project.memo(_checked_with, "x") == ["a.py", "b.py"]
    assert project.checked_fact(_all_checked) == ["b.py"]
    assert project.checking(None).checked_fact(_all_checked) == ["a.py", "b.py"]


def test_a_change_keeps_what_is_checked(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "x = 1\n", "b.py": "x = 2\n"}).checking(["b.py"])
    changed = project.with_texts({"a.py": "x = 3\n"}).with_target("fp32")
    assert changed.fact(_texts) == ["x = 3\n", "x = 2\n"]
    assert [document.path for document in changed.checked_documents()] == ["b.py"]


def test_only_what_is_checked_is_parsed(tmp_path: Path) -> None:
    """The first loop of a rule opens nothing else: counted, for all rules that look for casts of integers."""
    text = "import torch\nweight_dtype = torch.float16\nids = torch.arange(9).to(torch.float16)\n"
    project = open_tree(tmp_path, {f"m{number}.py": text for number in range(20)})
    rules = [rule for rule in load() if rule.name == "integers-in-16-bit"]
    engine.check(project.checking(["m7.py"]), rules, TARGET)
    assert project.parsed == {"m7.py"}


def test_findings_elsewhere_are_dropped_whoever_yields_them(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "x = 1\n", "b.py": "x = 2\n"}).checking(["b.py"])
    rule = Rule("T000", "test", "", _in_every_file)
    assert [finding.path for finding in engine.check(project, [rule], TARGET).findings] == ["b.py"]


def _all_checked(project: Project) -> list[str]:
    return [document.path for document in project.checked_documents()]


def _checked_with(project: Project, word: str) -> list[str]:
    return [document.path for document in project.checked_documents((word,))]


def _texts(project: Project) -> list[str]:
    return [document.text for document in project.python_documents()]


def _in_every_file(project: Project) -> Iterator[Finding]:
    for path in project.paths:
        yield Rule("T000", "test", "", _in_every_file).found(Place(path, Span(1, 1, 1, 2), "found"))
