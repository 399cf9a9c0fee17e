"""Fixes come to rest: no rule takes back what another one has done on the way to a target."""

from __future__ import annotations

import pytest
from precfix.codemod import engine
from precfix.codemod.engine import Options
from precfix.codemod.outcome import Target
from precfix.transforms import load

from .readers import FIXTURES, open_project

CASES = [
    ("frameworks/lightning/release_2", None),  # one variable, two launches that disagree
    ("frameworks/nanotron/train", "bf16-true"),  # a contradiction's fix against the target's own settings
    ("rules/fsdp-mixed-dtypes/policy-against-autocast", "fp16-mixed"),  # the policy is there, autocast is not yet
    ("rules/load-dtype-differs/float16-adapters", "bf16-mixed"),  # the load is there, the trainer is not yet
    ("rules/load-dtype-differs/float16-adapters", "bf16-true"),
    ("rules/load-dtype-differs/silent-right", "bf16-mixed"),
    ("rules/load-dtype-differs/silent-right", "bf16-true"),
]


@pytest.mark.parametrize(("case", "target"), CASES)
def test_fixes_come_to_rest(case: str, target: str | None) -> None:
    project = open_project(FIXTURES / case / "input", target)
    report = engine.migrate(project, load(), Target(target or "unknown", "a test"), Options(unsafe_fixes=True))
    assert not report.failed_rules
    assert not [skip.reason for skip in report.skipped if "settle" in skip.reason]


def test_a_variable_of_two_launches_that_disagree_is_left_alone() -> None:
    project = open_project(FIXTURES / "frameworks" / "lightning" / "release_2" / "input")
    report = engine.migrate(project, load(), Target("unknown", "a test"), Options(unsafe_fixes=True))
    (finding,) = [item for item in report.findings if item.code == "PF503" and item.path == "scripts/train.sh"]
    assert not finding.fixes
    assert [item.span for item in report.remaining if item.code == "PF503"][:1] == [finding.span]
