"""`tests.compare`: what counts as a difference, and that an unchanged install is not run again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from . import compare, compare_runs
from .compare_findings import Kind, Seen, diff_changes, differences

SEEN = Seen("PF301", "train.py", (0, 7, 1), (7, 9), "wording", (("safe", frozenset({("train.py", 7, "a")})),))


def _changed(**fields: object) -> Seen:
    return Seen(**{**{name: getattr(SEEN, name) for name in Seen.__slots__}, **fields})


@pytest.mark.parametrize(
    ("new", "kinds"),
    [
        ([SEEN], []),
        ([], [Kind.GONE]),
        ([SEEN, _changed(path="other.py")], [Kind.NEW]),
        ([_changed(message="other wording")], []),
        ([_changed(start=(0, 7, 5))], [Kind.MOVED]),
        ([_changed(start=(0, 9, 1))], [Kind.MOVED]),
        ([_changed(start=(0, 90, 1))], [Kind.GONE, Kind.NEW]),
        ([_changed(start=(2, 7, 1))], [Kind.GONE, Kind.NEW]),
        ([_changed(code="PF302")], [Kind.RECODED]),
        ([_changed(fixes=(("unsafe", SEEN.fixes[0][1]),))], [Kind.APPLICABILITY]),
        ([_changed(fixes=(("safe", frozenset({("train.py", 7, "b")})),))], [Kind.FIXES]),
        ([_changed(start=(0, 8, 1), fixes=())], [Kind.FIXES, Kind.MOVED]),
    ],
)
def test_each_change_of_a_finding_has_its_kind(new: list[Seen], kinds: list[Kind]) -> None:
    assert [each.kind for each in differences([SEEN], new)] == kinds


def test_wording_counts_only_when_asked_for() -> None:
    found = differences([SEEN], [_changed(message="other wording")], messages=True)
    assert [each.kind for each in found] == [Kind.MESSAGE]


def test_patches_are_compared_by_file_and_not_by_line_number() -> None:
    one = "diff --git a/x.py b/x.py\n@@ -1,2 +1,2 @@\n-a\n+b\n"
    other = one.replace("-1,2 +1,2", "-5,2 +5,2")
    third = "diff --git a/y.py b/y.py\n@@ -1,2 +1,2 @@\n-a\n+c\n"
    assert diff_changes(one, other) == []
    assert diff_changes(one + third, other) == ["y.py"]


def test_the_same_install_twice_is_run_once_and_has_no_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "train.py").write_text("import torch\n\nscaler = torch.cuda.amp.GradScaler()\n", "utf-8")
    (tmp_path / "list").write_text(f"{tree}\n", "utf-8")
    kept = tmp_path / "kept"
    arguments = [sys.executable, sys.executable, "--trees", str(tmp_path / "list"), "--out", str(kept)]

    assert compare.main(arguments) == 0

    assert "| tree |" in capsys.readouterr().out
    (result,) = kept.rglob("tree.json")
    assert "PF301" in [each["code"] for each in json.loads(result.read_text("utf-8"))["report"]["diagnostics"]]
    monkeypatch.setattr(compare_runs, "_made", None)
    assert compare.main(arguments) == 0


def test_a_missing_tree_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main([sys.executable, "--trees", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    assert "no such folder" in capsys.readouterr().err
