"""Every framework's table: it follows the schema, its cases are found and moved as expected, other bytes stay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import tomlkit
import yaml
from precfix.codemod.outcome import FileChange, Report
from precfix.codemod.trainers.framework import TARGETS, Framework
from precfix.codemod.trainers.framework_file import FrameworkInvalid, framework_of
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .framework_cases import FrameworkCase, expectations, framework_cases, moved, moves_of_case, opened
from .nightly import NIGHTLY
from .soft import Soft

CASES = framework_cases()
FRAMEWORKS = load_frameworks()


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.id)
def test_every_framework_has_a_case_and_says_how_to_reach_targets(framework: Framework) -> None:
    assert [case for case in CASES if case.framework == framework.id]
    assert [name for name, _ in framework.targets] == [target for target in TARGETS if framework.actions(target)]
    assert framework.sources, "say where the facts come from"


def test_contradictions_name_rules_that_exist() -> None:
    codes = {rule.code for rule in load()}
    assert {item.rule for framework in FRAMEWORKS for item in framework.contradictions} <= codes


def test_ids_are_unique() -> None:
    ids = [item.id for framework in FRAMEWORKS for item in framework.contradictions]
    assert len(ids) == len(set(ids))


def spelled(value: str) -> tuple[str, ...]:
    """The regimes that a value can mean by the way it is written; empty when it says nothing, as ``true``."""
    word = value.lower().replace("_", "").replace("float", "fp").replace("half", "fp16").replace("bfp", "bf")
    families = [family for family in ("bf16", "fp16", "fp32") if family in word]
    families = families or [f"fp{word[:2]}"] * word.startswith(("16-", "32-"))
    kinds = [f"-{kind}" for kind in ("mixed", "true") if word.endswith(f"-{kind}")] or ["-mixed", "-true"]
    return tuple("fp32" if family == "fp32" else family + kind for family in families[:1] for kind in kinds)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.id)
def test_values_mean_what_they_spell(framework: Framework) -> None:
    wrong = [
        (key.name, value, regime)
        for key in framework.keys
        for value, regime in key.means
        if spelled(value) and regime not in spelled(value)
    ]
    assert wrong == []


def settling_targets(number: int) -> Sequence[str]:
    """Two of the targets for each case, in turn, at night all."""
    return TARGETS if NIGHTLY else [TARGETS[(2 * number + step) % len(TARGETS)] for step in range(2)]


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)), ids=[case.id for case in CASES])
def test_findings_and_moves_are_the_expected_ones_and_settle(number: int, case: FrameworkCase, tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(case.input, root)
    project = opened(root)
    moves = moves_of_case(project)
    with Soft() as soft:
        for path, wanted in expectations(case, project, moves).items():
            with soft(path.name):
                expected = path.read_bytes() if path.is_file() else b""
                assert wanted.decode() == expected.decode(), path.name
        for target in settling_targets(number):
            with soft(f"{target} settles"):
                check_settles(case, target, moves[target], tmp_path / target)


def check_settles(case: FrameworkCase, target: str, report: Report, root: Path) -> None:
    shutil.copytree(case.input, root)
    assert not report.failed_rules
    for change in report.changes:
        _assert_reads(change)
        (root / change.path).write_bytes(change.after)
    again = moved(opened(root), target)
    assert again.changes == ()


def _assert_reads(change: FileChange) -> None:
    text = change.after.decode()
    if change.path.endswith(".json"):
        json.loads(text)
    elif change.path.endswith((".yaml", ".yml")):
        assert list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    elif change.path.endswith(".toml"):
        tomlkit.parse(text)
    assert _kept_lines(change) >= 0


def _kept_lines(change: FileChange) -> int:
    """How many lines stay; no comment line is ever changed or lost (an idiom that is added may bring one)."""
    before, after = change.before.splitlines(), change.after.splitlines()
    left = iter(after)
    assert all(line in left for line in before if line.strip().startswith(b"#"))
    return len(set(before) & set(after))


WRONG = {
    "no mapping": ("- a", "a mapping is expected"),
    "missing keys": ("id: x\ntitle: X\nrecognize: {}\n", "'keys' is missing"),
    "unknown entry": ("id: x\ntitle: X\nrecognize: {}\nkeys: {}\nkyes: {}\n", "unknown entry 'kyes'"),
    "unknown role": ("id: x\ntitle: X\nrecognize: {}\nkeys:\n  a: {role: color}\n", "'color' is none of"),
    "unknown regime": (
        "id: x\ntitle: X\nrecognize: {}\nkeys:\n  a: {role: compute, means: {b: half}}\n",
        "'half' is none of",
    ),
    "bad action": (
        "id: x\ntitle: X\nrecognize: {}\nkeys:\n  a: {role: compute}\ntargets:\n  fp32: [switch a off]\n",
        "is not an action",
    ),
    "bad condition": (
        "id: x\ntitle: X\nrecognize: {}\nkeys:\n  a: {role: compute}\n"
        "contradictions:\n  c: {rule: PF505, when: [a equals b], message: m, severity: crash}\n",
        "is not a condition",
    ),
    "unknown key": (
        "id: x\ntitle: X\nrecognize: {}\nkeys:\n  a: {role: compute}\ntargets:\n  fp32: [set b=c]\n",
        "no key 'b'",
    ),
    "not YAML": ("id: [", "not YAML"),
    "aliases": ("id: &a x\ntitle: *a\n", "aliases"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_told_where_and_what(name: str) -> None:
    text, said = WRONG[name]
    with pytest.raises(FrameworkInvalid, match=r"our\.yaml") as caught:
        framework_of(text, "our.yaml")
    assert said in str(caught.value)
