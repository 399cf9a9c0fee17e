"""What the two sides of the comparison say of each cell, counted by family.

``python -m tests.gpu.comparing FOLDER``: ``real-*.jsonl`` beside ``simulated-*.jsonl``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
PARTS = ("forward", "backward")
AGREES, WORDING, MISSED, FALSE, DTYPE = "agrees", "other words", "missed", "false alarm", "other dtype"


def rows_of(folder: Path, side: str) -> dict[tuple[Any, ...], Row]:
    found = {}
    for file in sorted(folder.glob(f"{side}-*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            if "op" in row:
                found[row["family"], row["op"], tuple(row["dtypes"]), row["autocast"]] = row
    return found


def verdict(real: Row, simulated: Row) -> str:
    """How the rehearsal did at one cell."""
    raised = [next((row[part] for part in PARTS if row[part].startswith("!")), "") for row in (real, simulated)]
    phases = [next((part for part in PARTS if row[part].startswith("!")), "") for row in (real, simulated)]
    if phases[0] != phases[1]:
        return FALSE if not phases[0] else MISSED
    if phases[0]:
        return AGREES if _plain(raised[0]) == _plain(raised[1]) else WORDING
    return AGREES if all(real[part] == simulated[part] for part in PARTS) else DTYPE


def _plain(text: str) -> str:
    return text.partition(". ")[0].partition(" Exception raised")[0].strip()


def main(folder: Path, most: int = 400) -> None:
    real, simulated = rows_of(folder, "real"), rows_of(folder, "simulated")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for key in real.keys() & simulated.keys():
        counts[key[0]][verdict(real[key], simulated[key])] += 1
    kinds = (AGREES, WORDING, DTYPE, MISSED, FALSE)
    print("| family | cells |", " | ".join(kinds), "|")
    for family in [*sorted(counts), None]:
        found = counts[family] if family else sum(counts.values(), Counter())
        print(f"| {family or 'all'} | {sum(found.values())} |", " | ".join(str(found[kind]) for kind in kinds), "|")
    print(f"alone: {len(real.keys() - simulated.keys())} real, {len(simulated.keys() - real.keys())} simulated")
    for line in list(_differences(real, simulated))[:most]:
        print(line)


def _differences(real: Mapping[Any, Row], simulated: Mapping[Any, Row]) -> Iterator[str]:
    """One line for each operation and pair of answers."""
    merged: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key in sorted(real.keys() & simulated.keys()):
        one, other = real[key], simulated[key]
        kind = verdict(one, other)
        if kind != AGREES:
            answers = [" / ".join(row[part][:160] for part in PARTS if row[part]) for row in (one, other)]
            merged[(kind, key[0], key[1], *answers)].append(f"{'+'.join(key[2])} {key[3]}")
    for (kind, family, name, one, other), where in sorted(merged.items()):
        yield f"[{kind}] {family}: {name} ({'; '.join(where)})\n    GPU:       {one}\n    rehearsal: {other}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
