"""Calls of precfix in this process, with a cache folder of the test's own or with none."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from precfix.codemod import __main__, engine

TICK = 0.03
"""Seconds after which a change is certainly older than a run."""


class CachedRuns:
    """Runs and counts those that had to work."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.worked = 0
        self._capfd, self._monkeypatch = capfd, monkeypatch
        monkeypatch.setattr(__main__, "_leave_at_once", lambda code: None)  # it would end the tests as well
        for name in ("check", "migrate"):
            monkeypatch.setattr(engine, name, self._counting(getattr(engine, name)))

    def _counting(self, function):  # type: ignore[no-untyped-def]
        def counted(*arguments: object, **named: object) -> object:
            self.worked += 1
            return function(*arguments, **named)

        return counted

    def warm(self, *words: object) -> tuple[int, str, str]:
        """Exit code, output and messages of a run that may be told again."""
        time.sleep(TICK)
        self._monkeypatch.delenv("PRECFIX_NO_CACHE", raising=False)
        self._monkeypatch.setenv("PRECFIX_CACHE_DIR", os.fspath(self.folder))
        return self._run(words)

    def cold(self, *words: object) -> tuple[int, str, str]:
        """The same from nothing."""
        self._monkeypatch.setenv("PRECFIX_NO_CACHE", "1")
        return self._run(words)

    def told_again(self, *words: object) -> bool:
        """Whether a run is told without work; what it tells must be what a cold run does."""
        before = self.worked
        told = self.warm(*words)
        worked = self.worked > before
        assert told == self.cold(*words)
        return not worked

    def _run(self, words: tuple[object, ...]) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["precfix", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            __main__.main()
        out, err = self._capfd.readouterr()
        return int(stop.value.code or 0), out, err


@pytest.fixture
def runs(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CachedRuns:
    return CachedRuns(tmp_path / "cache", capfd, monkeypatch)
