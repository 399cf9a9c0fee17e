"""What is shown on a terminal while a run takes its time, and what is not."""

from __future__ import annotations

import io
import sys

import pytest
from precfix.codemod.cli import output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, seconds: float, stream: io.StringIO) -> str:
    monkeypatch.setattr(output, "QUIET_SECONDS", seconds)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "__stderr__", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with output.progress(1234) as step:
        if step is not None:
            step("PF101 grad-scaler-under-bf16")
            step("PF102 [not markup]")
    return stream.getvalue()


def test_a_long_run_shows_its_files_and_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, -1, Terminal())
    assert "precfix: 1,234 files" in text
    assert "PF101 grad-scaler-under-bf16" in text
    assert "PF102 [not markup]" in text


def test_a_short_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 60, Terminal()) == ""


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, -1, io.StringIO()) == ""
