"""The real library parses what was moved: each program of fixtures/parsers runs as its launch line says."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .fixture_cases import FIXTURES
from .test_cli import precfix

PROGRAMS = {
    "absl": "absl",
    "argparse-by-subprocess": "argparse",
    "argparse-negated-switch": "argparse",
    "argparse-negative-switch": "argparse",
    "argparse-switch-left-out": "argparse",
    "argparse-truth-word": "argparse",
    "argparse-two-switches": "argparse",
    "argparse-with-parents": "argparse",
    "attrs": "attrs",
    "click": "click",
    "fire": "fire",
    "hydra": "hydra",
    "hydra-groups": "hydra",
    "hydra-sections": "hydra",
    "jsonargparse": "jsonargparse",
    "ml-collections": "ml_collections",
    "mmengine": "mmengine",
    "omegaconf": "omegaconf",
    "pydantic": "pydantic",
    "tap": "tap",
    "tap-on-by-default": "tap",
    "transformers-flags": "transformers",
    "transformers-yaml": "transformers",
    "trl": "trl",
    "typer": "typer",
    "tyro": "tyro",
    "yacs": "yacs",
    "yaml": "yaml",
}
"""The programs, and the library that parses for them."""
HEAVY = ("transformers", "trl")
"""Their installation takes a minute: they are no development tools, and their programs run where they are installed."""
KEPT_NOWHERE = ("loop", "config", "absl", "ml_collections")
"""Modules that are imported anew for each start: the programs' own, and libraries that remember flags."""
BEFORE, AFTER = {"torch.float16", "fp16"}, {"torch.bfloat16", "bf16"}


def test_every_program_is_listed() -> None:
    assert {script.parent.name for script in (FIXTURES / "parsers").glob("*/run.sh")} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_library_gives_the_target_after_the_move(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(PROGRAMS[name])
    if PROGRAMS[name] in HEAVY:  # its arguments ask for a GPU with bfloat16; they are only parsed here
        monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)
    root = tmp_path / "project"
    shutil.copytree(FIXTURES / "parsers" / name, root)
    assert _output(root) & (BEFORE | AFTER) <= BEFORE, "the program does not start in float16"
    done = precfix(capfd, monkeypatch, "migrate", "--to", "bf16-mixed", "--unsafe-fixes", root)
    assert done.code in (0, 1), done.err
    found = _output(root)
    assert found & AFTER, done.err
    assert not found & BEFORE, done.err


def _output(root: Path) -> set[str]:
    """The lines that the program prints when it is started as ``run.sh`` says."""
    words = shlex.split((root / "run.sh").read_text("utf-8").replace("\\\n", " "))
    assert words[0] == "python"
    printed = io.StringIO()
    with _started_in(root, words[1:]), contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(words[1], run_name="__main__")
        except SystemExit as stopped:
            if stopped.code:
                raise
    return set(printed.getvalue().split())


@contextlib.contextmanager
def _started_in(root: Path, argv: list[str]) -> Iterator[None]:
    """The folder, the arguments and the search path of a program, and no module of another one."""
    folder, path, arguments = os.getcwd(), sys.path[:], sys.argv[:]
    os.chdir(root)
    sys.path.insert(0, str(root))
    sys.argv = argv
    try:
        yield
    finally:
        os.chdir(folder)
        sys.path[:], sys.argv = path, arguments
        for name in [name for name in sys.modules if name.partition(".")[0] in KEPT_NOWHERE]:
            del sys.modules[name]
