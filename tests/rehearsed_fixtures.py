"""What a rehearsal says of each example that raises before its fix: ``python -m tests.rehearsed_fixtures``.

Each is rehearsed with everything on a simulated GPU, and where that tells nothing, as it is, on the CPU.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precfix.codemod.cli.rehearsed import report_rehearsal

from .fixture_cases import DIFF, Case, cases, copied, files_of, migrate, write_files
from .gpu.programs import moved
from .rehearsal_runs import records

RAISING = tuple(case for case in cases() if case.settings.error)
BEFORE, AFTER = "before", "after"
OWN_ERROR = "the program itself raises: no error of torch, and of no dtype"
OFF = "its rule is off by default; the rule that is told names the same tensor"
NEIGHBOR = "the rule that is told has a safe fix for the same tensor, its own has none"
CPU_ONLY = "only a CPU refuses it"
NOT_OWN: Mapping[str, tuple[str, str]] = {}
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
    """Whether its own rule tells of a line at which it is expected."""
    failures: tuple[str, ...]


def told_of(selected: Sequence[Case]) -> list[Told]:
    """What is told of each, before and after its fix."""
    on_gpu = _told(selected, "cuda")
    silent = [each.case for each in on_gpu if each.state == BEFORE and not each.codes]
    on_cpu = {(each.case.id, each.state): each for each in _told(silent, "cpu")}
    return [on_cpu.get((each.case.id, each.state), each) for each in on_gpu] + [
        each for each in on_gpu if (each.case.id, each.state) in on_cpu and each.state == AFTER
    ]


def _told(selected: Sequence[Case], device: str) -> list[Told]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        states = [(case, state, _laid_out(case, state, device, folder)) for case in selected for state in _states(case)]
        jobs = [
            (f"{case.id} {state}", str(place), case.settings.run, device, 0) for case, state, place in states
        ]
        found = records(jobs, 3000.0) if jobs else {}
        return [_of(case, state, device, place, found[f"{case.id} {state}"]) for case, state, place in states]


def _states(case: Case) -> tuple[str, ...]:
    return (BEFORE, AFTER) if (case.folder / DIFF).exists() else (BEFORE,)


def _laid_out(case: Case, state: str, device: str, folder: Path) -> Path:
    root = copied(case, folder / f"{device}-{state}")
    files = files_of(root)
    if state == AFTER:
        files |= {change.path: change.after for change in migrate(root, case, case.rules()).changes}
    return write_files(root, moved(files, case.settings.run) if device == "cuda" else files)


def _of(case: Case, state: str, device: str, place: Path, answer: Mapping[str, Any]) -> Told:
    output = place.with_suffix(".json")
    report_rehearsal(json.dumps(answer["record"]), root=place, output_format="json", output=output)
    found = json.loads(output.read_text("utf-8"))["diagnostics"]
    own = {rule.code for rule in case.rules()}
    wanted = [each for each in found if each["code"] in own and _is_wanted(place, each)]
    codes = tuple(sorted({each["code"] for each in found}, key=lambda code: (code not in own, code)))
    failures = tuple(each["error"] for each in answer["record"]["failures"])
    return Told(case, state, device, codes, bool(wanted), failures)


def _is_wanted(place: Path, diagnostic: Mapping[str, Any]) -> bool:
    """Whether the line of a finding says that it is expected there."""
    lines = (place / diagnostic["filename"]).read_text("utf-8").splitlines()
    first, last = diagnostic["location"]["row"], diagnostic["end_location"]["row"]
    return any(f"want {diagnostic['code']}" in line for line in lines[first - 1 : last])


def lines(told: Iterable[Told]) -> list[str]:
    """The table, and its sums."""
    sums: Counter[str] = Counter()
    found = ["| example | device | told by | |", "|---|---|---|---|"]
    for each in told:
        if each.state == AFTER:
            sums["after: something told" if each.codes or each.failures else "after: nothing told"] += 1
            continue
        code, why = NOT_OWN.get(each.case.id, ("", ""))
        verdict = "its own rule, its line" if each.at_its_line else why if code in (*each.codes, "-") else "WRONG"
        sums[f"before: {verdict}"] += 1
        found.append(f"| {each.case.id} | {each.device} | {', '.join(each.codes) or '-'} | {verdict} |")
    return [*found, "", *(f"{count} {name}" for name, count in sorted(sums.items()))]


if __name__ == "__main__":
    print("\n".join(lines(told_of(RAISING))))
