"""What an install of precfix finds in a tree and would write, for `tests.compare`: run once, then kept. Not a test.

A kept result holds as long as the install's files are the same bytes, so changing the install is enough to run again.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FINGERPRINT = """
import hashlib, importlib.util, pathlib
total = hashlib.sha256()
for name in ("codemod", "transforms", "probes"):
    spec = importlib.util.find_spec("precfix." + name)
    root = pathlib.Path(spec.origin).parent
    for path in sorted(each for each in root.rglob("*") if each.is_file() and each.suffix != ".pyc"):
        total.update(f"{name}/{path.relative_to(root)}\\0".encode() + path.read_bytes() + b"\\0")
print(total.hexdigest()[:16])
"""
"""Which code an install runs. Run by the install's own interpreter: only it knows where its packages are."""


class NoInstall(Exception):
    """An interpreter cannot run precfix; the message says why."""


@dataclass(frozen=True, slots=True)
class Install:
    """An interpreter that has precfix, and the fingerprint of the code that it runs."""

    interpreter: Path
    fingerprint: str

    @staticmethod
    def at(path: Path) -> Install:
        """The install of an interpreter, or of a checkout with a ``.venv``. Raises NoInstall."""
        interpreter = path / ".venv" / "bin" / "python" if path.is_dir() else path
        try:
            done = subprocess.run([interpreter, "-c", FINGERPRINT], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoInstall(f"{interpreter} cannot import precfix: {error}") from error
        return Install(interpreter, done.stdout.strip())


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a command may run, and whether the diff of the safe fixes is wanted too (a second command)."""

    seconds: float
    safe_diff: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """One tree under one install. ``problem`` says why there is no result; ``safe_diff`` is None when not asked for."""

    tree: str
    report: dict[str, Any]
    unsafe_diff: str
    safe_diff: str | None
    seconds: float
    problem: str = ""
    limit: float = 0.0

    def answers(self, limits: Limits) -> bool:
        """Whether running again with ``limits`` would tell nothing more."""
        if self.problem:
            return self.limit >= limits.seconds
        return self.safe_diff is not None or not limits.safe_diff


def result_of(install: Install, tree: Path, kept: Path, limits: Limits) -> Result:
    """The kept result of ``tree`` under ``install``, else one made now and kept in the folder ``kept``."""
    place = kept / install.fingerprint / f"{tree.name}.json"
    if place.is_file():
        result = Result(**json.loads(place.read_text("utf-8")))
        if result.answers(limits):
            return result
    result = _made(install, tree, limits)
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".part")
    draft.write_text(json.dumps(asdict(result), indent=1), "utf-8")
    draft.replace(place)
    return result


def _made(install: Install, tree: Path, limits: Limits) -> Result:
    started = time.perf_counter()
    safe_diff: str | None = None
    with tempfile.TemporaryDirectory() as folder:
        patch = Path(folder, "unsafe.diff")
        options = ["--unsafe-fixes", "--output-format", "json", "--report", f"diff={patch}"]
        try:
            report = json.loads(_migrate(install, tree, options, limits))
            unsafe_diff = patch.read_text("utf-8", "surrogateescape") if patch.exists() else ""
            if limits.safe_diff:
                safe_diff = _safe_diff(install, tree, report, unsafe_diff, limits)
        except _Failed as failed:
            seconds = time.perf_counter() - started
            return Result(tree.name, {}, "", None, seconds, str(failed), limits.seconds)
    return Result(tree.name, report, unsafe_diff, safe_diff, time.perf_counter() - started)


def _safe_diff(install: Install, tree: Path, report: dict[str, Any], unsafe_diff: str, limits: Limits) -> str:
    """Only where the first command does not already tell it: a second one costs as much again."""
    fixes = [fix for each in report["diagnostics"] for fix in (each["fix"], *each["alternatives"]) if fix]
    levels = {fix["applicability"] for fix in fixes}
    if "safe" not in levels:
        return ""
    in_first_round = sum(each["applied"] for each in report["diagnostics"])
    if levels == {"safe"} and report["summary"]["applied"] == in_first_round:
        return unsafe_diff
    return _migrate(install, tree, ["--no-unsafe-fixes", "--output-format", "diff"], limits)


class _Failed(Exception):
    """A command did not finish with a report; the message says why."""


def _migrate(install: Install, tree: Path, options: Sequence[str], limits: Limits) -> str:
    command = [str(install.interpreter), "-m", "precfix.codemod", "migrate", "--dry-run", "--isolated"]
    try:
        done = subprocess.run(
            [*command, "--color", "never", *options, str(tree)],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=limits.seconds,
            cwd=tree.parent,
            env={**os.environ, "COLUMNS": "120", "PYTHONHASHSEED": "0", "PRECFIX_NO_CACHE": "1"},
        )
    except subprocess.TimeoutExpired as expired:
        raise _Failed(f"not done after {limits.seconds:.0f} s") from expired
    if done.returncode not in (0, 1):
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise _Failed(f"exit code {done.returncode}: {last}")
    return done.stdout
