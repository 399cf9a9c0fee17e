"""Which fixes the settings let through, in every command and format; what counts and what does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from precfix.codemod import engine
from precfix.codemod.model import Applicability, Edit, Finding, Fix, ReplaceText, Rule, Span
from precfix.codemod.outcome import Silence, Target
from precfix.codemod.screening.screen import Screen
from precfix.codemod.settings.settings import ProjectSettings, settings_in, settings_of
from precfix.codemod.settings.settings_tree import SettingsTree, settings_below
from precfix.codemod.source.project import Project

from .cli_runs import AFTER, LOOP, Runner
from .project_tree import write_tree

OPEN = """
import torch

def train(model, batches):
    for x in batches:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).mean()
        loss.backward()

def other(model, optimizer, batches):
    for x in batches:
        with torch.autocast("cuda"):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""
"""PF302, whose fix ``dtype`` is unsafe."""
APPLICABILITIES = {
    "one": Applicability.SAFE,
    "two": Applicability.UNSAFE,
    "three": Applicability.DISPLAY_ONLY,
}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


def fixes(run: Runner, root: Path, code: str) -> list[str]:
    """``name [applicability]`` of the first finding of a rule, as JSON tells them."""
    report = json.loads(run("check", root, "--select", code, "--output-format", "json").out)
    first = report["diagnostics"][0]
    listed = [*([first["fix"]] if first["fix"] else []), *first["alternatives"]]
    return [f"{each['name']} [{each['applicability']}]" for each in listed]


# --- the screen itself ------------------------------------------------------------------------------------------------


def _check(project: Project) -> list[Finding]:
    """A finding at each row that holds ``bad``, with a fix of every applicability."""
    found = []
    for path in project.paths:
        document = project.document(path)
        for row in range(1, (document.rows if document else 0) + 1):
            if document is None or "bad" not in document.line(row):
                continue
            start = document.offset(row, 1) + document.line(row).index("bad")
            listed = tuple(
                Fix(name, name, level, (Edit(path, ReplaceText(start, start + 3, name)),))
                for name, level in APPLICABILITIES.items()
            )
            found.append(Finding("PF101", "a-mistake", "bad", path, Span(row, 1, row, 4), fixes=listed))
    return found


RULE = Rule("PF101", "a-mistake", "Title.", _check)


def screened(root: Path, settings: ProjectSettings, unsafe: bool = False, chosen: str = "") -> dict[str, str]:
    """The files after a migration under these settings."""
    project = Project.open([root])
    settings = ProjectSettings(**{name: getattr(settings, name) for name in _NAMES}, path=root / "precfix.toml")
    screen = Screen(project.root, SettingsTree(settings), (RULE,), (RULE,))
    options = engine.Options(unsafe, {"PF101": chosen} if chosen else {}, screen=screen)
    report = engine.migrate(project, [RULE], Target("fp32", "test"), options)
    return {change.path: change.after.decode() for change in report.changes}


_NAMES = [name for name in ProjectSettings.__dataclass_fields__ if name != "path"]


@pytest.mark.parametrize(
    ("settings", "unsafe", "chosen", "after"),
    [
        (ProjectSettings(), False, "", "one"),
        (ProjectSettings(unfixable=("PF1",)), True, "", None),
        (ProjectSettings(fixable=()), True, "", None),
        (ProjectSettings(fixable=("PF2",)), True, "", None),
        (ProjectSettings(fixable=("a-mistake",)), False, "", "one"),
        (ProjectSettings(fixable=("PF1",), unfixable=("PF101",)), True, "", None),
        (ProjectSettings(extend_unsafe_fixes=("PF101",)), False, "", None),
        (ProjectSettings(extend_unsafe_fixes=("PF101=one",)), True, "", "one"),
        (ProjectSettings(extend_unsafe_fixes=("PF101=one",), extend_safe_fixes=("PF101=two",)), False, "", "two"),
        (ProjectSettings(extend_unsafe_fixes=("PF",), extend_safe_fixes=("PF101=two",)), False, "", None),
        (ProjectSettings(extend_safe_fixes=("PF101",)), False, "two", "two"),
        (ProjectSettings(extend_safe_fixes=("PF101=three",)), True, "three", None),
        (ProjectSettings(extend_unsafe_fixes=("PF101=three",)), True, "three", None),
        (ProjectSettings(extend_safe_fixes=("PF101",)), True, "three", None),
    ],
)
def test_settings_decide_which_fix_is_used(
    tmp_path: Path, settings: ProjectSettings, unsafe: bool, chosen: str, after: str | None
) -> None:
    write_tree(tmp_path, {"a.txt": "bad\n"})
    assert screened(tmp_path, settings, unsafe, chosen) == ({} if after is None else {"a.txt": after + "\n"})


def test_what_does_not_count_is_told_with_its_reason(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "precfix.toml": "[per-file-ignores]\n'b.py' = ['PF101']\n",
            "a.py": "bad = 1  # precfix: ignore[PF101] known\n",
            "b.py": "bad = 1\n",
        },
    )
    project = Project.open([tmp_path])
    screen = Screen(project.root, SettingsTree(settings_of(tmp_path)), (RULE,), (RULE,))
    done = screen(project, tuple(_check(project)))
    assert [finding.path for finding in done.findings] == []
    assert {each.finding.path: each.by for each in done.silenced} == {"a.py": Silence.COMMENT, "b.py": Silence.SETTINGS}


# --- through the commands ---------------------------------------------------------------------------------------------


def test_unsafe_fixes_of_the_settings_and_of_the_command_line(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": OPEN})
    assert run("migrate", tmp_path, "--dry-run").out == ""
    assert "+" in run("migrate", tmp_path, "--dry-run", "--unsafe-fixes").out
    write_tree(tmp_path, {"precfix.toml": "unsafe-fixes = true\n"})
    assert '+        with torch.autocast("cuda", dtype=torch.bfloat16):' in run("migrate", tmp_path, "--dry-run").out
    assert run("migrate", tmp_path, "--dry-run", "--no-unsafe-fixes").out == ""
    assert run("migrate", tmp_path, "--dry-run", "--isolated").out == ""
    assert "needs --unsafe-fixes" not in run("check", tmp_path).out


def test_a_single_fix_is_trusted_more_or_less(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": OPEN, "loop.py": LOOP})
    assert fixes(run, tmp_path, "PF302")[0] == "dtype [unsafe]"
    assert fixes(run, tmp_path, "PF101") == ["drop [safe]", "disable [safe]"]
    write_tree(
        tmp_path, {"precfix.toml": "extend-safe-fixes = ['PF302=dtype']\nextend-unsafe-fixes = ['PF101=drop']\n"}
    )
    assert fixes(run, tmp_path, "PF302")[0] == "dtype [safe]"
    assert sorted(fixes(run, tmp_path, "PF101")) == ["disable [safe]", "drop [unsafe]"]
    done = run("migrate", tmp_path, "--dry-run", "--show-fixes")
    assert "PF302 dtype [safe]" in done.err
    assert "PF101 disable [safe]" in done.err
    assert "dtype=torch.bfloat16" in done.out
    assert "enabled=False" in done.out


def test_unfixable_findings_are_told_and_stay(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": LOOP, "precfix.toml": "unfixable = ['PF101']\n"})
    done = run("check", tmp_path)
    assert done.code == 1
    assert "PF101" in done.out
    assert "there is no automatic repair" in done.out
    done = run("migrate", tmp_path)
    assert done.code == 1
    assert (tmp_path / "train.py").read_text() == LOOP.lstrip("\n")
    assert fixes(run, tmp_path, "PF101") == []
    assert run("migrate", tmp_path, "--fix", "PF101=drop", "--dry-run").out == ""


def test_the_table_of_fixes_chooses(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": LOOP, "precfix.toml": "[fix]\ngrad-scaler-under-bf16 = 'disable'\n"})
    assert "enabled=False" in run("migrate", tmp_path, "--dry-run").out
    done = run("migrate", tmp_path, "--fix", "PF101=drop")
    assert done.code == 0
    assert (tmp_path / "train.py").read_text() == AFTER


@pytest.mark.parametrize("name", ["PF101 = 'dsable'", "PF999 = 'drop'", "PF1 = 'drop'"])
def test_a_fix_that_does_not_exist_is_told(run: Runner, tmp_path: Path, name: str) -> None:
    """It would otherwise switch the repair of a rule off in silence."""
    write_tree(tmp_path, {"train.py": LOOP, "precfix.toml": f"[fix]\n{name}\n"})
    for command in (["check"], ["migrate", "--dry-run"]):
        done = run(*command, tmp_path)
        assert (done.code, done.out) == (2, "")
        assert "precfix.toml: fix: no " in done.err


def test_fixes_of_nested_settings_hold_for_their_files(run: Runner, tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "a.py": LOOP,
            "in/precfix.toml": "unfixable = ['PF101']\n",
            "in/b.py": LOOP,
            "in2/pyproject.toml": "[tool.precfix]\nextend-unsafe-fixes = ['PF101']\n",
            "in2/c.py": LOOP,
        },
    )
    done = run("migrate", tmp_path)
    assert done.code == 1
    changed = [name for name in ("a.py", "in/b.py", "in2/c.py") if (tmp_path / name).read_text() == AFTER]
    assert changed == ["a.py"]
    assert run("migrate", tmp_path, "--unsafe-fixes", "--allow-dirty").code == 1
    assert (tmp_path / "in2/c.py").read_text() == AFTER


@pytest.mark.parametrize(("where", "changed"), [("", []), ("in/", ["a.txt", "in/b.txt"])])
def test_a_fix_over_several_files_goes_by_the_settings_of_its_finding(
    tmp_path: Path, where: str, changed: list[str]
) -> None:
    def check(project: Project) -> list[Finding]:
        document = project.document("a.txt")
        if document is None or document.text != "bad\n":
            return []
        edits = tuple(Edit(path, ReplaceText(0, 3, "one")) for path in ("a.txt", "in/b.txt"))
        fix = Fix("both", "both", Applicability.SAFE, edits)
        return [Finding("PF101", "a-mistake", "bad", "a.txt", Span(1, 1, 1, 4), fixes=(fix,))]

    write_tree(tmp_path, {"a.txt": "bad\n", "in/b.txt": "bad\n", f"{where}precfix.toml": "unfixable = ['PF101']\n"})
    project = Project.open([tmp_path])
    rule = Rule("PF101", "a-mistake", "Title.", check)
    tree = settings_below(tmp_path, settings_in(tmp_path) or ProjectSettings(), project.paths)
    screen = Screen(project.root, tree, (rule,), (rule,))
    report = engine.migrate(project, [rule], Target("fp32", "test"), engine.Options(screen=screen))
    assert [change.path for change in report.changes] == changed
    assert len(report.findings) == 1


def test_a_comment_is_not_unused_where_its_rule_is_not_selected(run: Runner, tmp_path: Path) -> None:
    """The rule runs for the outer folder and finds something here, so the comment has a use."""
    text = LOOP.replace('GradScaler("cuda")', 'GradScaler("cuda")  # precfix: ignore[PF101] known')
    write_tree(tmp_path, {"a.py": LOOP, "in/precfix.toml": "ignore = ['PF101']\n", "in/b.py": text})
    assert run.found(tmp_path) == ["a.py:4 PF101"]


def test_unused_comments_are_told_where_their_rule_is_selected(run: Runner, tmp_path: Path) -> None:
    text = "print(1)  # precfix: ignore[PF101]\n"
    write_tree(tmp_path, {"a.py": text, "in/precfix.toml": "ignore = ['PF002']\n", "in/b.py": text})
    assert run.found(tmp_path) == ["a.py:1 PF002"]
    write_tree(tmp_path, {"precfix.toml": "[per-file-ignores]\n'a.py' = ['unused-suppression']\n"})
    assert run.found(tmp_path) == []


def test_what_settings_ignore_is_not_repaired(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP, "b.py": LOOP, "precfix.toml": "[per-file-ignores]\n'b.py' = ['PF101']\n"})
    assert run("migrate", tmp_path).code == 0
    assert (tmp_path / "a.py").read_text() == AFTER
    assert (tmp_path / "b.py").read_text() == LOOP.lstrip("\n")


def test_ignore_on_the_command_line_keeps_what_the_settings_ignore(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP, "b.py": OPEN, "precfix.toml": "ignore = ['PF101']\n"})
    assert run.found(tmp_path) == ["b.py:11 PF302"]
    assert run.found(tmp_path, "--ignore", "PF302") == []
    assert run.found(tmp_path, "--select", "PF101") == ["a.py:4 PF101"]


def test_silenced_findings_are_counted_in_json(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP, "precfix.toml": "[per-file-ignores]\n'*.py' = ['PF1']\n"})
    report = cast("dict[str, object]", json.loads(run("check", tmp_path, "--output-format", "json").out))
    assert report["diagnostics"] == []
    assert "silenced" in json.dumps(report["summary"])
