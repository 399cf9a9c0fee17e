"""Fixtures that run on a CPU: the fix keeps every printed number, or takes the error away."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from .fixture_cases import DIFF, Case, cases, copied, files_of, migrate, write_files
from .warm_torch import python

pytest.importorskip("torch")
RUNNABLE = [case for case in cases() if case.settings.run]
FIXED = [case for case in RUNNABLE if (case.folder / DIFF).exists()]
"""Those that precfix repairs; of the others only the error is shown."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """(case id, ``before`` or ``after``) -> what it printed and its error."""
    folder = tmp_path_factory.mktemp("runs")
    jobs = []
    for case in RUNNABLE:
        root = copied(case, folder)
        changes = migrate(root, case, case.rules()).changes
        after = folder / f"{root.name}--after"
        write_files(after, {**files_of(root), **{change.path: change.after for change in changes}})
        jobs += [
            (f"{case.id} {state}", str(place), case.settings.run)
            for state, place in (("before", root), ("after", after))
        ]
    program = Path(__file__).with_name("run_cases.py")
    done = subprocess.run([python(), str(program)], input=json.dumps(jobs), capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {tuple(line["key"].split(" ")): line for line in lines}


@pytest.mark.parametrize("case", FIXED, ids=lambda case: case.id)
def test_the_fixed_script_runs(case: Case, results: Mapping[tuple[str, str], Mapping[str, str]]) -> None:
    after = results[case.id, "after"]
    assert after["error"] == ""
    assert after["printed"], "a runnable case prints something to compare"


@pytest.mark.parametrize("case", RUNNABLE, ids=lambda case: case.id)
def test_before_is_as_the_case_says(case: Case, results: Mapping[tuple[str, str], Mapping[str, str]]) -> None:
    """Without ``error`` in its settings a case claims that the fix changes no number."""
    before, after = results[case.id, "before"], results[case.id, "after"]
    if case.settings.error:
        assert case.settings.error in before["error"]
    else:
        assert (before["printed"], before["error"]) == (after["printed"], "")
