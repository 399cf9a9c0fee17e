"""What precfix says about a program, and whether its fixes make the step run."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .operators import Mutant
from .programs import Program
from .running import Ran, forked, run

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One mutant: how it ran, the codes of the findings at it, whether each level of fixes makes it run."""

    mutant: Mutant
    program: str
    ran: Ran
    codes: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    repaired: bool = False
    repaired_safely: bool = False


def judged(program: Program, mutant: Mutant) -> Verdict:
    """Run a mutant; where torch refuses it, ask precfix and run what it repaired."""
    changed = replace(program, files={**program.files, mutant.path: mutant.text})
    with laid_out(changed) as folder:
        ran = run(folder)
        if not ran.refused or _fails_in_float32(changed, mutant):
            return Verdict(mutant, program.name, replace(ran, refused=False))
        findings = findings_in(folder)
        wanted = {(mutant.path, mutant.row), (ran.path, ran.row)}
        here = [item["code"] for item in findings if wanted & set(_places(item))]
        other = [item["code"] for item in findings if not wanted & set(_places(item))]
        safe = bool(findings) and not _repaired(changed, []).error
        unsafe = bool(findings) and (safe or not _repaired(changed, ["--unsafe-fixes"]).error)
    return Verdict(mutant, program.name, ran, tuple(sorted(here)), tuple(sorted(other)), unsafe, safe)


def _fails_in_float32(program: Program, mutant: Mutant) -> bool:
    if mutant.path == "train.py":
        return False
    with laid_out(replace(program, files={**program.files, "train.py": program.plain})) as folder:
        return bool(run(folder).error)


def findings_in(folder: Path) -> list[dict[str, Any]]:
    """The findings of ``precfix check`` as its JSON report gives them."""
    text = forked(lambda: _precfix(folder, ["check", str(folder), "--isolated", "--output-format", "json"]))
    diagnostics: list[dict[str, Any]] = json.loads(text)["diagnostics"]
    return diagnostics


def _repaired(program: Program, options: list[str]) -> Ran:
    with laid_out(program) as folder:
        forked(lambda: _precfix(folder, ["migrate", str(folder), "--isolated", *options]))
        return run(folder)


def fixed_by(program: Program, options: list[str], record: str) -> Ran:
    """How a program runs after ``migrate --observed`` with what a rehearsal of it saw."""
    with laid_out(program) as folder:
        saved = folder.parent / "observed.json"
        saved.write_text(record, encoding="utf-8")
        forked(lambda: _precfix(folder, ["migrate", str(folder), "--isolated", "--observed", str(saved), *options]))
        return run(folder)


def _precfix(folder: Path, arguments: list[str]) -> str:
    """The standard output of a run of the command line inside this process, which has nothing else to do."""
    from precfix.codemod.cli.app import app

    output = folder.parent / f"{folder.name}.out"
    stream = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(stream, 1)
    with suppress(SystemExit):
        app(arguments)
    sys.stdout.flush()
    text = output.read_text()
    output.unlink()
    return text


def _places(finding: dict[str, Any]) -> Iterator[Place]:
    first, last = finding["location"]["row"], finding["end_location"]["row"]
    yield from ((finding["filename"], row) for row in range(first, last + 1))
    yield from ((item["filename"], item["row"]) for item in finding["evidence"])


@contextmanager
def laid_out(program: Program) -> Iterator[Path]:
    """A program in a folder of its own, which is gone afterwards."""
    top = Path(tempfile.mkdtemp()).resolve()
    folder = top / "program"
    folder.mkdir()
    for name, text in program.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    try:
        yield folder
    finally:
        shutil.rmtree(top, ignore_errors=True)
