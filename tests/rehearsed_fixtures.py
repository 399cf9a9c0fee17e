"""``python -m tests.rehearsed_fixtures``: what a rehearsal says of each example that raises before its fix."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precfix.codemod.cli.rehearsed import report_rehearsal

from .fixture_cases import DIFF, Case, cases, copied, files_of, migrate, write_files
from .gpu.programs import _moved
from .rehearsal_runs import records

RAISING = [case for case in cases() if case.settings.error]


@dataclass(frozen=True)
class Told:
    case: Case
    state: str
    codes: tuple[str, ...]
    line: bool
    record: dict[str, Any]
    error: str


def rehearsed(selected: Sequence[Case], device: str, moved: bool) -> list[Told]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        jobs = []
        for case in selected:
            root = copied(case, folder)
            changes = migrate(root, case, case.rules()).changes
            files = files_of(root)
            after = {**files, **{change.path: change.after for change in changes}}
            for state, content in (("before", files), ("after", after)):
                if state == "after" and not (case.folder / DIFF).exists():
                    continue
                place = folder / f"{root.name}--{state}"
                write_files(place, _moved(content, case.settings.run) if moved else content)
                jobs.append((f"{case.id} {state}", str(place), case.settings.run, device, 0))
        found = records(jobs)
        told = []
        for key, place, *_ in jobs:
            name, state = key.split(" ")
            case = next(each for each in selected if each.id == name)
            answer = found[key]
            import os
            os.chdir(place)
            output = Path(place) / "o.json"
            report_rehearsal(json.dumps(answer["record"]), root=Path(place), output_format="json", output=output)
            report = json.loads(output.read_text())
            codes = tuple(each["code"] for each in report["diagnostics"])
            told.append(Told(case, state, codes, False, report, answer["error"]))
        return told


def main() -> None:
    device, moved = sys.argv[1], len(sys.argv) > 2
    for each in rehearsed(RAISING, device, moved):
        own = [rule.code for rule in each.case.rules()]
        verdict = "own" if set(own) & set(each.codes) else "other" if each.codes else "NOTHING"
        fails = [f"{f['filename']}:{(f['location'] or {}).get('row')} {f['error'][:70]}" for f in each.record["failures"]]
        if each.state == "before" and verdict != "own" or each.state == "after" and each.codes:
            print(each.state, verdict, each.case.id, own, each.codes, fails, "DIED " + each.error.strip().splitlines()[-1][:150] if each.error else "", flush=True)
        else:
            print(each.state, "ok", each.case.id)


if __name__ == "__main__":
    main()
