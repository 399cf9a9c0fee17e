"""Rules that were wrong too often on projects nobody had used edit nothing by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.model import Applicability
from precfix.codemod.proof.needs import RAISES
from precfix.codemod.proof.proving import proved
from precfix.codemod.proof.verdicts import VERDICTS, Trusted

from .fixture_cases import FINDINGS, REPOSITORY, cases
from .rule_runs import written

CERTAIN = "is bfloat16: "
"""What PF208 says of a tensor that was certainly cast: of these its fix stays safe."""

ONLY = {"PF203": "cast"}
"""The fix that was judged, where a rule has others of another kind."""


def verdicts_of_the_page() -> dict[str, tuple[int, int]]:
    """Right findings and all, by rule, as docs/quality.md has them."""
    text = (REPOSITORY / "docs" / "quality.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| PF")]
    return {row[0]: (int(row[1]), sum(int(cell) for cell in row[1:4])) for row in rows}


def test_the_table_says_what_the_page_says() -> None:
    page = verdicts_of_the_page()
    assert {rule: (verdict.right, verdict.judged) for rule, verdict in VERDICTS.items()} == {
        rule: page[rule] for rule in VERDICTS
    }
    assert not any(verdict.is_enough for verdict in VERDICTS.values())


def test_a_rule_that_was_wrong_too_often_has_no_safe_fix(tmp_path: Path) -> None:
    project = written(tmp_path, {"train.py": "x = 1\n"})
    fix = proved(project, "trial", "write it", [], RAISES, Trusted("PF211"))
    assert fix.applicability is Applicability.UNSAFE
    reason = "the code may be right as it is, so read it first"
    assert fix.message == f"write it; unsafe, as {reason}"


@pytest.mark.parametrize("need", [Trusted("PF211", certain=True), Trusted("PF301")], ids=["certain", "not listed"])
def test_what_is_certain_or_was_right_stays_safe(tmp_path: Path, need: Trusted) -> None:
    project = written(tmp_path, {"train.py": "x = 1\n"})
    assert proved(project, "trial", "write it", [], RAISES, need).applicability is Applicability.SAFE


def test_no_fixture_shows_a_safe_fix_of_such_a_rule() -> None:
    wrong, seen = [], set()
    for case in cases():
        path = case.folder / FINDINGS
        for block in path.read_text().split("\n\n") if path.is_file() else ():
            rule = next((word for word in block.partition("\n")[0].split()[1:2] if word in VERDICTS), "")
            seen.add(rule)
            safe = f"fix {ONLY[rule]} [safe]" if rule in ONLY else "[safe]"
            if rule and safe in block and CERTAIN not in block:
                wrong.append(f"{case.id}: {block.partition(chr(10))[0]}")
    assert wrong == []
    assert seen >= VERDICTS.keys()
