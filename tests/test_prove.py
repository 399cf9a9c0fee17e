"""``migrate --prove``: rehearsals on copies, the table, and fixes that make it worse.

The rehearsals here read the program's text: what a program says of itself in comments is what they see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from precfix.codemod.applying.copying import copy_of
from precfix.codemod.cli import proving, request
from precfix.codemod.model import Finding, Fix, Rule, Span, UsageError
from precfix.codemod.observed.comparing import RunComparison
from precfix.codemod.observed.observation import Failure, FailureKind, Observation, TrainingSeen
from precfix.codemod.python.names import names_of
from precfix.codemod.report.proof_lines import proof_lines
from precfix.codemod.source.project import Project

from .test_cli import precfix

PROGRAM = """import torch

a = 1.0  # mistake
b = 2.0  # mistake
c = 3.0
d = 4.0
e = 5.0
"""
EDITS = {"1.0": "1.5", "2.0": "2.5", "3.0": "raise", "4.0": "44.0", "5.0": "5.5"}
"""What the rules under test write: the first two are right, 3.0 becomes something that raises, 4.0 another loss."""


def check(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(("torch",)):
        module = names_of(project, document)
        for row, line in enumerate(document.text.splitlines(), 1):
            value = line.partition("= ")[2].partition(" ")[0]
            if value in EDITS:
                span = Span(row, 5, row, 5 + len(value))
                new = "print(0) or 0" if EDITS[value] == "raise" else EDITS[value]
                fix = Fix.unsafe("change", f"write {new}", module.replace(span, new))
                yield RULE.at(module, span, f"{value} is wrong", [], [fix])


RULE = Rule("TT101", "wrong-number", "A number is wrong.\n", check)


def seen(text: str) -> Observation:
    """One failure for each number that is called a mistake and not repaired, and for each ``print``."""
    failures = []
    for row, line in enumerate(text.splitlines(), 1):
        wrong = "mistake" in line and ".5" not in line
        if wrong or "print" in line:
            span = Span(row, 1, row, 2)
            error = f"{line[0]} is refused"
            failures.append(Failure(FailureKind.DTYPE_MISMATCH, "train.py", span, error, "RuntimeError"))
    loss = 44.0 if "44.0" in text else 4.0
    training = TrainingSeen((loss, 3.0), ("float32",), {"float32": 4}, {"float32": 4}, {"float32": 8}, "SGD")
    return Observation(("python", "train.py"), steps=2, ended="steps", failures=tuple(failures), training=training)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    monkeypatch.setattr(request, "known_rules", lambda *_: ((RULE,), ()))
    monkeypatch.setattr(
        proving, "rehearsed", lambda command, where, below, steps: seen((where / "train.py").read_text())
    )
    monkeypatch.chdir(folder)
    return folder


def test_two_wrong_fixes_are_taken_out_and_named(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("migrate", ".", "--unsafe-fixes", "--allow-dirty", "--prove", "--", "python", "train.py")
    done = precfix(capfd, monkeypatch, *words)
    text = (root / "train.py").read_text()
    assert [line.split(" ")[2] for line in text.splitlines()[2:]] == ["1.5", "2.5", "3.0", "4.0", "5.5"]
    taken = [line for line in done.out.splitlines() if line.startswith("Taken out")]
    assert taken == [
        "Taken out: TT101 change at train.py:5: with it this happens: c is refused",
        "Taken out: TT101 change at train.py:6: with it the loss of step 1 is 44 instead of 4",
    ]
    assert "raises           train.py:3, train.py:4  nothing" in done.out
    assert "Nothing raises after the fixes." in done.out
    assert done.code == 1, "two findings are left"


def test_the_proof_is_part_of_the_json_report_and_nothing_is_written_on_a_dry_run(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("migrate", ".", "--dry-run", "--unsafe-fixes", "--output-format", "json", "--prove", "python train.py")
    done = precfix(capfd, monkeypatch, *words)
    proof = json.loads(done.out)["proof"]
    assert [len(proof[side]["raises"]) for side in ("before", "after")] == [2, 0]
    assert [each["row"] for each in proof["taken_out"]] == [5, 6]
    assert proof["command"] == ["python", "train.py"]
    assert (root / "train.py").read_text() == PROGRAM


def test_a_result_that_still_raises_is_exit_code_1(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "train.py").write_text("import torch\n\na = 1.0\nx = 9.0  # mistake\n")
    done = precfix(capfd, monkeypatch, "migrate", ".", "--unsafe-fixes", "--allow-dirty", "--prove", "python train.py")
    assert "a = 1.5" in (root / "train.py").read_text()
    assert "The result still raises: 1 of 1 places are left." in done.out
    assert done.code == 1


def test_losses_that_differ_without_any_fix_say_nothing(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "train.py").write_text("import torch\n\nd = 4.0\n")
    number = iter(range(100))

    def drawn(command: Sequence[str], where: Path, below: str, steps: int) -> Observation:
        training = TrainingSeen((float(next(number)),), ("float32",), {"float32": 4})
        return Observation(("python", "train.py"), steps=2, ended="steps", training=training)

    monkeypatch.setattr(proving, "rehearsed", drawn)
    done = precfix(capfd, monkeypatch, "migrate", ".", "--unsafe-fixes", "--allow-dirty", "--prove", "python train.py")
    assert (done.code, (root / "train.py").read_text()) == (0, "import torch\n\nd = 44.0\n")
    assert "other numbers are drawn in each run" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--prove", "--"), "--prove requires a command"),
        (("--prove", "python 'x"), "the command cannot be read"),
        (("--prove", "python train.py", "--interactive"), "--interactive"),
    ],
)
def test_what_cannot_be_asked(
    root: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    done = precfix(capfd, monkeypatch, "migrate", ".", *words)
    assert done.code == 2
    assert message in done.err


def test_a_command_that_cannot_be_rehearsed_changes_nothing(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(command: Sequence[str], where: Path, below: str, steps: int) -> Observation:
        raise UsageError("the command cannot be rehearsed: no such file")

    monkeypatch.setattr(proving, "rehearsed", fails)
    done = precfix(capfd, monkeypatch, "migrate", ".", "--allow-dirty", "--prove", "python train.py")
    assert (done.code, (root / "train.py").read_text()) == (2, PROGRAM)
    assert done.err.splitlines()[-1] == "precfix: the command cannot be rehearsed: no such file"


def test_a_copy_has_the_files_and_links_of_the_project_and_goes_away(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "data"
    outside.mkdir()
    (outside / "x.bin").write_bytes(b"1")
    for name in ("src", ".git", "venv", "__pycache__"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text(name)
    (root / "venv" / "pyvenv.cfg").write_text("")
    (root / "inside").symlink_to("src/file")
    (root / "data").symlink_to("../data")
    with copy_of(root) as copy:
        assert sorted(path.name for path in copy.iterdir()) == ["data", "inside", "src"]
        assert (copy / "inside").read_text() == "src"
        assert (copy / "inside").resolve() == (copy / "src" / "file").resolve()
        assert (copy / "data" / "x.bin").read_bytes() == b"1"
        kept = copy
    assert not kept.exists()
    assert (outside / "x.bin").exists()


def test_too_large_a_project_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precfix.codemod.applying.copying.MAX_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text(name)
    with pytest.raises(UsageError, match="too large to be copied"), copy_of(tmp_path):
        pass


def test_losses_are_compared_in_the_narrowest_dtype() -> None:
    def of(loss: float, dtype: str) -> Observation:
        return Observation(ended="steps", training=TrainingSeen((loss,), (dtype,), {"float32": 1}))

    assert RunComparison(of(1.0, "float32"), of(1.01, "bfloat16")).apart == ()
    assert RunComparison(of(1.0, "float32"), of(1.01, "float32")).apart == (1,)
    assert RunComparison(of(1.0, "float32"), of(1.2, "bfloat16")).apart == (1,)


@pytest.mark.parametrize(("skipped", "apart"), [((), (1, 2)), ((1,), (1,)), ((0,), ())])
def test_what_one_run_only_has_skipped_is_not_compared(skipped: tuple[int, ...], apart: tuple[int, ...]) -> None:
    def of(loss: float, skipped: tuple[int, ...]) -> Observation:
        training = TrainingSeen((loss, loss), ("float32",), {"float32": 1}, skipped_losses=skipped)
        return Observation(ended="steps", training=training)

    comparison = RunComparison(of(2.0, skipped), of(5.0, ()))
    assert comparison.apart == apart
    told = [row[3].startswith("not within") for row in comparison.rows()[2:4]]
    assert told == [step in apart for step in (1, 2)]
    assert RunComparison(of(2.0, skipped), of(5.0, skipped)).apart == (1, 2)


@pytest.mark.parametrize(("losses", "worse"), [((None, 1.0), False), ((1.0, None), True), ((None, None), True)])
def test_an_overflow_that_a_scaler_skips_is_not_worse(losses: tuple[float | None, ...], worse: bool) -> None:
    failure = Failure(FailureKind.NONFINITE, "train.py", Span(1, 1, 1, 2), "the loss is not finite")
    before = Observation(ended="steps", steps=2, training=TrainingSeen((1.0, 1.0)))
    training = TrainingSeen(losses, skipped_steps=1, skipped_losses=(0,))
    after = Observation(ended="steps", steps=2, training=training, failures=(failure,))
    assert RunComparison(before, after).is_worse == worse


def test_a_program_that_dies_of_something_else_is_told_before_anything_is_changed(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    died = Observation(("python", "train.py"), ended="error", error="the program died: no such file: data.bin")
    monkeypatch.setattr(proving, "rehearsed", lambda command, where, below, steps: died)
    done = precfix(capfd, monkeypatch, "migrate", ".", "--allow-dirty", "--prove", "python train.py")
    assert (done.code, (root / "train.py").read_text()) == (2, PROGRAM)
    assert "does not get through without any fix: the program died: no such file: data.bin" in done.err


def test_a_fix_that_ends_the_program_is_taken_out(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import torch\n\na = 1.0  # mistake\ne = 5.0\n"
    (root / "train.py").write_text(text)

    def run(command: Sequence[str], where: Path, below: str, steps: int) -> Observation:
        now = (where / "train.py").read_text()
        return replace(seen(now), ended="error", steps=1, error="KeyError: 'x'") if "5.5" in now else seen(now)

    monkeypatch.setattr(proving, "rehearsed", run)
    done = precfix(capfd, monkeypatch, "migrate", ".", "--unsafe-fixes", "--allow-dirty", "--prove", "python train.py")
    assert (root / "train.py").read_text() == "import torch\n\na = 1.5  # mistake\ne = 5.0\n"
    assert "Taken out: TT101 change at train.py:4: with it the run ends after 1 step: KeyError: 'x'" in done.out


def test_a_command_is_run_in_the_folder_of_the_copy_that_stands_for_the_current_one(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], str]] = []

    def run(command: Sequence[str], where: Path, below: str, steps: int) -> Observation:
        asked.append((list(command), below))
        assert (where.name, where == root) == ("project", False)
        assert (where / "train.py").read_text() == PROGRAM
        return seen("")

    monkeypatch.setattr(proving, "rehearsed", run)
    (root / "scripts").mkdir()
    (root / "scripts" / "run.sh").write_text("python ../train.py\n")
    absolute = root / "scripts" / "run.sh"
    monkeypatch.chdir(root / "scripts")
    precfix(capfd, monkeypatch, "migrate", "..", "--prove", "--", "sh", absolute, "run.sh")
    monkeypatch.chdir(root.parent)
    precfix(capfd, monkeypatch, "migrate", "project", "--prove", "--", "sh", "project/scripts/run.sh", "--x=1")
    [(first, below), (second, top)] = asked
    assert (first[0], first[2], below, top) == ("sh", "run.sh", "scripts", ".")
    assert first[1].endswith("/project/scripts/run.sh")
    assert first[1] != str(absolute), "it is the one of the copy"
    assert second[1].endswith("/project/scripts/run.sh")
    assert second[2] == "--x=1"


@pytest.mark.parametrize(
    ("changed", "ran", "told"),
    [
        (["later.py"], {"train.py": "0"}, True),
        (["later.py", "train.py"], {"train.py": "0"}, False),
        (["conf.yaml"], {"train.py": "0"}, False),
        (["later.py"], {}, False),
        ([], {"train.py": "0"}, False),
    ],
)
def test_changes_in_files_that_did_not_run_are_not_called_proved(
    changed: list[str], ran: dict[str, str], told: bool
) -> None:
    record = replace(seen(PROGRAM), files=ran)
    lines = ["".join(text for text, _ in line) for line in proof_lines(RunComparison(record, record), (), changed)]
    assert any("No tensor was seen in later.py" in line for line in lines) == told
