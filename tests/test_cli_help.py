"""Typing errors are answered with what was probably meant, shells complete, and the help names every option."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod import cli

from . import warm
from .project_tree import write_tree
from .test_cli import precfix


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek", "."], "Did you mean 'check'?"),
        (["check", "--selct", "PF1", "."], "--select"),
        (["check", "--select", "PF10l", "."], "did you mean PF101?"),
        (["check", "--ignore", "grad-scaler-under-bf61", "."], "did you mean grad-scaler-under-bf16?"),
        (["check", "--output-format", "sarrif", "."], "did you mean sarif?"),
        (["check", "--report", "sarif", "."], "write FORMAT=FILE"),
        (["check", "--report", "pdf=x.pdf", "."], "one of text, json"),
        (["migrate", "--to", "bf16", "."], "did you mean bf16-mixed or bf16-true?"),
        (["migrate", "--to", "half", "."], "it must be one of bf16-mixed"),
        (["migrate", "--fix", "PF101", "."], "write CODE=NAME"),
        (["migrate", "--fix", "PF1O1=drop", "."], "did you mean PF101?"),
        (["check", "trian.py"], "did you mean 'train.py'?"),
        (["check", "conf/acelerate.yaml"], "did you mean 'conf/accelerate.yaml'?"),
        (["check", "nothing/like/it"], "no such file"),
        (["./conf"], "write `precfix check ./conf`"),
        (["train.py"], "write `precfix check train.py`"),
        (["explain", "PF10"], "did you mean PF101?"),
        (["check", "--add-ignore", "--write-baseline", "b.json", "."], "cannot be combined"),
        (["check", "--reason", "x", "."], "requires --add-ignore"),
        (["check", "--add-ignore", "--report", "json=x.json", "."], "write no report"),
        (["check", "-o", "a.txt", "--report", "json=a.txt", "."], "two results would be written to 'a.txt'"),
        (["migrate", "--patch", "./a.txt", "-o", "a.txt", "."], "two results would be written to 'a.txt'"),
        (["check", "-o", "-", "."], "write to standard output"),
        (["audit", "--output-format", "jsn", "."], "did you mean json?"),
        (["explain", "PF999"], "`precfix rules` lists them"),
    ],
)
def test_a_typing_error_is_one_helpful_message(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    said: str,
) -> None:
    write_tree(tmp_path, {"train.py": "import torch\n", "conf/accelerate.yaml": "mixed_precision: bf16\n"})
    monkeypatch.chdir(tmp_path)
    result = precfix(capfd, monkeypatch, *arguments)
    assert result.code == 2
    assert said in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


def completed(words: str) -> list[str]:
    variables = {"_PRECFIX_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return warm.text(warm.precfix(environment=variables)).stdout.split()


def test_shells_complete_commands_values_and_rules() -> None:
    assert completed("precfix mi") == ["migrate"]
    assert completed("precfix migrate --to bf") == ["bf16-mixed", "bf16-true"]
    assert completed("precfix check --output-format js") == ["json", "json-lines"]
    assert completed("precfix explain PF102") == ["PF102"]
    assert "--diff-base" in completed("precfix check --d")


def test_the_help_of_every_command_names_its_options(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    wanted = {
        "check": ["--diff-base", "--baseline", "--write-baseline", "--add-ignore", "--stdin-filename", "--statistics"],
        "migrate": ["--interactive", "--show-fixes", "--unsafe-fixes", "--patch", "--report", "--isolated"],
        "audit": ["--output-format"],
        "probe": ["--require"],
    }
    for command, options in wanted.items():
        result = precfix(capfd, monkeypatch, command, "--help")
        assert result.code == 0
        assert [option for option in options if option not in result.out] == []


def test_the_command_line_is_one_package() -> None:
    assert cli.__all__ == ["main"]
