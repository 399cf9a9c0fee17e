"""The command line called in this process, projects that need mending, and real git repositories."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from .test_cli import AFTER, LOOP, Run, precfix

__all__ = ["AFTER", "LOOP", "SCALER_ROW", "Run", "Runner", "commit", "diagnostics", "git", "repository"]

SCALER_ROW = '    scaler = torch.amp.GradScaler("cuda")\n'
"""The row of `LOOP` that PF101 is about."""

_SETTINGS = (
    "user.name=a",
    "user.email=a@b",
    "commit.gpgsign=false",
    "init.defaultBranch=main",
    "protocol.file.allow=always",
)


class Runner:
    """Calls ``precfix`` with arguments, and bytes on standard input."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd = capfd
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: object, stdin: bytes | None = None) -> Run:
        if stdin is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return precfix(self._capfd, self._monkeypatch, *arguments)

    def found(self, *arguments: object, stdin: bytes | None = None) -> list[str]:
        """``path:row code`` of everything that ``check`` finds."""
        done = self("check", *arguments, "--output-format", "json", stdin=stdin)
        assert done.code in (0, 1), done.err
        return diagnostics(done)


def diagnostics(done: Run) -> list[str]:
    """``path:row code`` of a JSON report."""
    report = cast("dict[str, list[dict[str, object]]]", json.loads(done.out))
    return [
        f"{each['filename']}:{cast('dict[str, int]', each['location'])['row']} {each['code']}"
        for each in report["diagnostics"]
    ]


def git(folder: Path, *words: str) -> str:
    """What git answers in a folder, whatever the machine's own settings are."""
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    options = [word for setting in _SETTINGS for word in ("-c", setting)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *options, "-C", str(folder), *words],
        env=kept | quiet,
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.decode().strip()


def commit(folder: Path, message: str = "next") -> str:
    """Commit everything; the id of the commit."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, files: dict[str, str]) -> Path:
    """A git repository with one commit that holds ``files``."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="")
    commit(folder, "first")
    return folder
