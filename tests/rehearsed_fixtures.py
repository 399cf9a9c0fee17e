"""What a rehearsal says of each example that raises before its fix: ``python -m tests.rehearsed_fixtures``.

Each is rehearsed with everything on a simulated GPU, and where that tells nothing, as it is, on the CPU.
"""

from __future__ import annotations

import io
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from precfix.codemod.cli.options import Format
from precfix.codemod.cli.rehearsed import report_rehearsal

from .fixture_cases import DIFF, Case, cases, copied, files_of, migrate, write_files
from .gpu.programs import moved
from .rehearsal_runs import records
from .warm_torch import python

RAISING = tuple(case for case in cases() if case.settings.error)
BEFORE, AFTER = "before", "after"
WRONG = "WRONG"
OWN_ERROR = "the program itself raises: no error of torch, and of no dtype"
OFF = "its rule is off by default; the rule that is told names the same tensor or optimizer"
NEIGHBOR = "the rule that is told has a safe fix for the same tensor, its own has none"
SAME_FIX = "the rule that is told has the same fix for the same tensor, and names the layer that raises"
ON_DEVICE = "device type tensor to numpy"
"""What a GPU says, too, of examples that were moved there with their ``.numpy()``."""
CPU_ONLY = "only a CPU refuses it, and its rule speaks of GPUs or asks for a profile of the CPU"
NOTHING = "-"
NOT_OWN: Mapping[str, tuple[str, str]] = {
    "rules/default-dtype-half/finds": ("PF107", OFF),
    "rules/dtype-comparison-never-holds/runs-the-other-branch": (NOTHING, OWN_ERROR),
    "rules/precision-test-always-true/no-bf16-on-this-machine": (NOTHING, OWN_ERROR),
    "rules/fsdp-mixed-dtypes/policy-against-autocast": ("PF901", CPU_ONLY),
    "rules/op-without-16-bit-kernel/profile-of-a-cpu": ("PF901", CPU_ONLY),
    "rules/mask-concat-dtype/coordinates-beside-features": ("PF202", NEIGHBOR),
    "rules/mask-concat-dtype/ones-beside-cast-latents": ("PF202", SAME_FIX),
}
"""Examples that are not told by their own rule: the rule that is told instead, and why."""


@dataclass(frozen=True, slots=True)
class Told:
    """One example in one state."""

    case: Case
    state: str
    device: str
    codes: tuple[str, ...]
    """Of the rules that tell of it, best first."""
    at_its_line: bool
    """Whether its own rule tells of a line at which it is expected, or of the line at which torch raises on a CPU."""
    failures: tuple[str, ...]


def told_of(selected: Sequence[Case]) -> list[Told]:
    """What is told of each, before and after its fix."""
    raised = _lines_that_raise(selected)
    on_gpu = _told(selected, "cuda", raised)
    silent = [each.case for each in on_gpu if each.state == BEFORE and not each.codes]
    on_cpu = {(each.case.id, each.state): each for each in _told(silent, "cpu", raised)}
    return [on_cpu.get((each.case.id, each.state), each) for each in on_gpu] + [
        each for each in on_gpu if (each.case.id, each.state) in on_cpu and each.state == AFTER
    ]


def _lines_that_raise(selected: Sequence[Case]) -> dict[str, str]:
    """Case -> the text of its line at which a plain run on the CPU dies."""
    with tempfile.TemporaryDirectory() as scratch:
        jobs = [(case.id, str(copied(case, Path(scratch))), case.settings.run) for case in selected]
        program = str(Path(__file__).with_name("run_cases.py"))
        done = subprocess.run([python(), program], input=json.dumps(jobs), capture_output=True, text=True)
        errors = {line["key"]: line["error"] for line in map(json.loads, done.stdout.splitlines())}
        return {key: _last_line(errors.get(key, ""), folder) for key, folder, _ in jobs}


def _last_line(error: str, folder: str) -> str:
    """The last line of a traceback that is of the program itself."""
    lines = error.splitlines()
    shown = [after for line, after in pairwise(lines) if line.lstrip().startswith(f'File "{folder}')]
    return shown[-1].strip() if shown else ""


def _told(selected: Sequence[Case], device: str, raised: Mapping[str, str]) -> list[Told]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        states = [(case, state, _laid_out(case, state, device, folder)) for case in selected for state in _states(case)]
        jobs = [(f"{case.id} {state}", str(place), case.settings.run, device, 0) for case, state, place in states]
        found = records(jobs, 3000.0) if jobs else {}
        return [
            _of(case, state, device, place, found[f"{case.id} {state}"], raised[case.id])
            for case, state, place in states
        ]


def _states(case: Case) -> tuple[str, ...]:
    return (BEFORE, AFTER) if (case.folder / DIFF).exists() else (BEFORE,)


def _laid_out(case: Case, state: str, device: str, folder: Path) -> Path:
    root = copied(case, folder / f"{device}-{state}")
    files = files_of(root)
    if state == AFTER:
        files |= {change.path: change.after for change in migrate(root, case, case.rules()).changes}
    return write_files(root, moved(files, case.settings.run) if device == "cuda" else files)


def _of(case: Case, state: str, device: str, place: Path, answer: Mapping[str, Any], raised: str) -> Told:
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as written:
        report_rehearsal(json.dumps(answer["record"]), place, Format.JSON)
        written.seek(0)
        found, failures = json.load(written)["diagnostics"], answer["record"]["failures"]
    own = {rule.code for rule in case.rules()}
    of_own = [each for each in found if each["code"] in own]
    at_raised = any(raised and raised in _text(place, each) for each in failures if each["location"])
    unmarked = b"want PF" not in b"".join(files_of(case.input).values())
    wanted = any(f"want {each['code']}" in _text(place, each) for each in of_own)
    at_its_line = bool(of_own) and (at_raised or wanted or unmarked)
    codes = tuple(sorted({each["code"] for each in found}, key=lambda code: (code not in own, code)))
    return Told(case, state, device, codes, at_its_line, tuple(each["error"] for each in failures))


def _text(place: Path, found: Mapping[str, Any]) -> str:
    """The lines of a finding or failure."""
    lines = (place / found["filename"]).read_text("utf-8").splitlines()
    return "\n".join(lines[found["location"]["row"] - 1 : found["end_location"]["row"]])


def lines(told: Iterable[Told]) -> list[str]:
    """The table, and its sums."""
    sums: Counter[str] = Counter()
    found = ["| example | device | told by | |", "|---|---|---|---|"]
    for each in told:
        if each.state == AFTER:
            told_after = bool([error for error in each.failures if ON_DEVICE not in error])
            sums["after: something told" if told_after else "after: nothing told"] += 1
            found += [
                f"| {each.case.id}, repaired | {each.device} | {', '.join(each.failures)} | {WRONG} |"
            ] * told_after
            continue
        code, why = NOT_OWN.get(each.case.id, ("", ""))
        verdict = "its own rule, its line" if each.at_its_line else why if code in (each.codes or (NOTHING,)) else WRONG
        sums[f"before: {verdict}"] += 1
        found.append(f"| {each.case.id} | {each.device} | {', '.join(each.codes) or '-'} | {verdict} |")
    return [*found, "", *(f"{count} {name}" for name, count in sorted(sums.items()))]


if __name__ == "__main__":
    print("\n".join(lines(told_of(RAISING))))
