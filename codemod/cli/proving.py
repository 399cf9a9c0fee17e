"""``migrate --prove -- COMMAND``: rehearsals on copies, before and after the fixes; what makes it worse goes."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..applying.copying import copy_of, write_changes
from ..model import Finding, Fix, UsageError
from ..observed.comparing import DIED, RunComparison, same_losses
from ..outcome import Report

if TYPE_CHECKING:
    from ..observed.observation import Observation
    from ..source.project import Project

MAX_RUNS = 40
"""Rehearsals of one proof."""
LONGEST_END = 30.0
"""Seconds that a rehearsal may take to end its program."""
IN_FOLDER = 'cd "$1" && shift && exec "$@"'
ProvingKey = tuple[str, str, str, str, str]
"""A fix, known again where lines have moved: code, file, message, name, the text of the line."""
Migrating = Callable[["Project", frozenset[ProvingKey]], Report]
"""The migration of a project without some fixes."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the rehearsals showed."""

    report: Report
    """The migration that is left."""
    comparison: RunComparison
    taken_out: tuple[tuple[Finding, Fix, RunComparison], ...] = ()
    """Each fix that made it worse, and how."""


def key_of(project: Project, finding: Finding, fix: Fix) -> ProvingKey:
    """The name of a fix across rounds and runs."""
    document = project.document(finding.path)
    line = document.line(finding.span.row).strip() if document is not None else ""
    return finding.code, finding.path, finding.message, fix.name, line


def without(taken_out: frozenset[ProvingKey]) -> Callable[[Project, Finding, Fix], Fix | None]:
    """What `engine.Options.decide` asks: fixes that were taken out are not used."""
    return lambda project, finding, fix: None if key_of(project, finding, fix) in taken_out else fix


def proof_of(project: Project, command: Sequence[str], migrating: Migrating, steps: int = 3) -> Proof:
    """Rehearse, migrate, rehearse again; take out what makes it worse. Raises UsageError where the command fails."""
    run = _Prover(project, tuple(command), migrating, steps)
    return run.proof()


class _Prover:
    """One proof: every rehearsal is done in a new copy of the project."""

    def __init__(self, project: Project, command: tuple[str, ...], migrating: Migrating, steps: int) -> None:
        self.command, self.migrating, self.steps = command, migrating, steps
        self.runs = 0
        self.before = self._rehearse(project, None)
        if self.before.ended in DIED:
            reason = self.before.error or self.before.ended
            raise UsageError(f"--prove: the command does not get through without any fix: {reason}")
        if not self.before.steps and not self.before.failures:
            raise UsageError("--prove: the command made no optimizer step, so there is nothing to compare")
        self.project = project if project.observation is not None else project.with_observation(self.before)
        self.draws_anew: bool | None = None
        self._reports: dict[frozenset[ProvingKey], tuple[Report, Observation]] = {}

    def proof(self) -> Proof:
        report, _ = self._migrated(frozenset())
        named = {key_of(self.project, *each): each for each in report.applied}
        worse = self._worse(frozenset(), [*named])
        out = frozenset(worse)
        for key in worse:
            if len(worse) > 1 and not self._compared(self._seen(out), self._seen(out - {key})).is_worse:
                out -= {key}  # it was only wrong beside another one
        report, after = self._migrated(out)
        taken = tuple((*named[key], how) for key, how in worse.items() if key in out)
        return Proof(report, self._compared(self.before, after), taken)

    def _worse(self, out: frozenset[ProvingKey], tried: Sequence[ProvingKey]) -> dict[ProvingKey, RunComparison]:
        """The fixes that make it worse, found by halves; ``out`` are those that are not made meanwhile."""
        if not tried or self.runs >= MAX_RUNS:
            return {}
        comparison = self._compared(self._seen(out.union(tried)), self._seen(out))
        if not comparison.is_worse:
            return {}
        if len(tried) == 1:
            return {tried[0]: comparison}
        half = len(tried) // 2
        found = self._worse(out.union(tried[half:]), tried[:half])
        return found | self._worse(out.union(found), tried[half:])

    def _seen(self, out: frozenset[ProvingKey]) -> Observation:
        return self._migrated(out)[1]

    def _migrated(self, out: frozenset[ProvingKey]) -> tuple[Report, Observation]:
        known = self._reports.get(out)
        if known is None:
            report = self.migrating(self.project, out)
            same = next((seen for done, seen in self._reports.values() if done.changes == report.changes), None)
            seen = same or (self._rehearse(self.project, report) if report.changes else self.before)
            known = self._reports[out] = (report, seen)
        return known

    def _compared(self, before: Observation, after: Observation) -> RunComparison:
        """Losses are compared where the program gives the same ones each time, which is tried when they differ."""
        comparison = RunComparison(before, after)
        if not comparison.apart:
            return comparison
        if self.draws_anew is None:
            self.draws_anew = not same_losses(self.before, self._rehearse(self.project, None))
        return replace(comparison, draws_anew=self.draws_anew)

    def _rehearse(self, project: Project, report: Report | None) -> Observation:
        self.runs += 1
        print(f"precfix: rehearsal {self.runs}: {shlex.join(self.command)}", file=sys.stderr)
        with copy_of(project.root) as copy:
            if report is not None:
                write_changes(copy, report.changes)
            seen = rehearsed(_in_copy(self.command, project.root, copy), copy, _folder_in(project.root), self.steps)
            return replace(seen, command=self.command)


def _folder_in(root: Path) -> str:
    """Where the command runs: in the current folder, where that is a part of the project, else at its top."""
    here = Path.cwd().resolve()
    return str(here.relative_to(root)) if here.is_relative_to(root) else "."


def _in_copy(command: Sequence[str], root: Path, copy: Path) -> list[str]:
    """The command with paths into the project leading into the copy."""
    here = Path.cwd().resolve()
    outside = not here.is_relative_to(root)
    words = []
    for word in command:
        path = (here / word).resolve() if outside or Path(word).is_absolute() else None
        inside = path is not None and path.is_relative_to(root) and path.exists()
        words.append(str(copy / path.relative_to(root)) if inside and path is not None else word)
    return words


def command_of(text: str) -> list[str]:
    """The words of a command; raises UsageError where there are none."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--prove: the command cannot be read: {error}") from None
    if not words:
        raise UsageError("--prove requires a command: precfix migrate PATH --prove -- python train.py")
    return words


def show_proof(proof: Proof, *, to_stdout: bool) -> None:
    """The table; on stderr where stdout holds something else."""
    from ..report.proof_lines import proof_lines
    from ..report.text import show

    lines = proof_lines(proof.comparison, proof.taken_out, [change.path for change in proof.report.changes])
    show(lines, sys.stdout if to_stdout else sys.stderr, color=False)


def with_proof(text: str, proof: Proof) -> str:
    """A JSON report with the proof as one more field."""
    import json

    from ..report.proof_lines import proof_json

    return json.dumps({**json.loads(text), "proof": proof_json(proof.comparison, proof.taken_out)}, indent=2) + "\n"


def rehearsed(command: Sequence[str], root: Path, below: str = ".", steps: int = 3) -> Observation:
    """What ``precfix rehearse`` sees of a command in the folder ``below`` the root of a project.

    Raises UsageError where it cannot be rehearsed.
    """
    from ..observed.comparing import DIED
    from ..observed.observed_file import load_observation

    with tempfile.TemporaryDirectory(prefix="precfix-observed-") as scratch:
        saved = Path(scratch) / "observed.json"
        words = ["rehearse", "-q", f"--steps={steps}", f"--save={saved}", "--", *_starting(command, below)]
        done = _run([*_precfix(), *words], root)
        if not saved.is_file():
            said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise UsageError(f"the command cannot be rehearsed: {said.removeprefix('precfix: ')}")
        observation = replace(load_observation(saved), command=tuple(command))
        if observation.ended not in DIED:
            return observation
        closing = done.stdout.strip().splitlines()[-1:]
        return replace(observation, error=closing[0] if closing else observation.error)


def _run(words: Sequence[str], root: Path) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run``, but an interrupted child has the time to end what it has started."""
    from ...probes.rehearsal.running import ended_like_ctrl_c

    quiet = subprocess.PIPE
    with (
        ended_like_ctrl_c(),
        subprocess.Popen(
            words, cwd=root, stdin=subprocess.DEVNULL, stdout=quiet, stderr=quiet, text=True, errors="replace"
        ) as process,
    ):
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()
            process.wait(LONGEST_END)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def _starting(command: Sequence[str], below: str) -> list[str]:
    """The command, begun in its folder: files are named from the root, which the rehearsal takes for the project."""
    return [*command] if below == "." else ["sh", "-c", IN_FOLDER, "sh", below, *command]


def _precfix() -> list[str]:
    """This precfix, away from modules of the project where Python can be told so."""
    safely = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safely, "-m", "precfix.codemod"]
