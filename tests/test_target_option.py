"""``migrate --to``: which target counts, what is printed of it, and what moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fixture_cases import FIXTURES
from .project_tree import write_tree
from .test_cli import precfix

CONFIG = {
    "config.json": '{\n  "model_family": "flux",\n  "data_backend_config": "d.json",\n  "mixed_precision": "bf16"\n}\n',
    "README.md": "simpletuner train --config config.json\n",
}
PROFILE = FIXTURES / "profiles"


def test_the_flag_comes_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {**CONFIG, "precfix.toml": 'target = "fp16-mixed"\n'})
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--dry-run", "--to", "fp32")
    assert (done.code, "target fp32 (asked for with --to)" in done.err) == (1, True)
    assert '+  "mixed_precision": "no"' in done.out


def test_then_the_settings(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {**CONFIG, "precfix.toml": 'target = "fp16-mixed"\n'})
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--dry-run", "--profile", PROFILE / "a100.json")
    assert "target fp16-mixed (the settings in" in done.err
    assert '+  "mixed_precision": "fp16"' in done.out
    done = precfix(capfd, monkeypatch, "check", tmp_path)
    assert (done.code, "PF001" in done.out) == (1, True), "the target of the team holds for check as well"


def test_then_a_profile(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, CONFIG)
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--dry-run", "--profile", PROFILE / "t4.json")
    assert "target fp16-mixed (recommended by the profile" in done.err
    assert '+  "mixed_precision": "fp16"' in done.out


def test_else_the_project_itself_and_nothing_moves(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, CONFIG)
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--dry-run", "-v")
    assert (done.code, done.out) == (0, "")
    assert "bf16-mixed (declared by the project itself)" in done.err


def test_there_and_back_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, CONFIG)
    before = (tmp_path / "config.json").read_bytes()
    assert precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "fp32").code == 0
    assert b'"no"' in (tmp_path / "config.json").read_bytes()
    back = ("migrate", tmp_path, "--to", "bf16-mixed")
    assert precfix(capfd, monkeypatch, *back).code == 1
    assert b'"no"' in (tmp_path / "config.json").read_bytes(), "what is declared off is not switched on unasked"
    assert precfix(capfd, monkeypatch, *back, "--unsafe-fixes").code == 0
    assert (tmp_path / "config.json").read_bytes() == before


def test_an_unknown_target_is_a_usage_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "half").code == 2


OLD_LOOP = """\
import torch
from torch.cuda.amp import GradScaler, autocast


def train(model, optimizer, loader):
    scaler = GradScaler()
    for batch in loader:
        with autocast():
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_what_is_not_at_the_target_is_said_last(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing may be written for an unknown PyTorch; the run that stays behind is named, and the code is 1."""
    write_tree(tmp_path, {"train.py": OLD_LOOP})
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "bf16-mixed")
    assert (tmp_path / "train.py").read_text() == OLD_LOOP
    assert (done.code, done.out.splitlines()[-1]) == (1, "bf16-mixed: 1 run: 1 left.")
    assert "  train.py:6  fp16-mixed  fp16-mixed  left" in done.out


def test_a_project_at_its_target_has_no_such_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"train.py": OLD_LOOP, "requirements.txt": "torch==2.1\n"})
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "bf16-mixed")
    assert "dtype=torch.bfloat16" in (tmp_path / "train.py").read_text()
    assert done.out.splitlines()[-1] == "bf16-mixed: 1 run: 1 moved."


def test_a_move_leaves_deprecations_unless_they_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"train.py": OLD_LOOP, "requirements.txt": "torch>=2.4\n"})
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "fp16-mixed")
    assert (tmp_path / "train.py").read_text() == OLD_LOOP
    assert "a move leaves this: migrate without --to, or with --fix PF301=respell" in done.out
    precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "fp16-mixed", "--fix", "PF301=respell")
    assert "from torch.amp import GradScaler, autocast" in (tmp_path / "train.py").read_text()
