"""What was seen in this process, collected as plain data and written to one file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from .births import TracedBirth
from .places import FramePlace

LONGEST_NOTE = 300
MOST_VALUES, MOST_FAILURES, MOST_NOTES = 20000, 400, 50
ObservedJson = Any


class Recorder:
    """Values, failures, modules, the course of the training and notes."""

    def __init__(self, answers: str) -> None:
        self.folder = Path(answers)
        self.values: dict[tuple[FramePlace, str], dict[str, Any]] = {}
        self.failures: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.modules: dict[str, dict[str, Any]] = {}
        self.training: dict[str, Any] = {}
        self.notes: list[str] = []
        self.state: dict[str, Any] = {"ended": "exit", "steps": 0}
        self.process = os.getpid()

    def note(self, sentence: str) -> None:
        sentence = sentence.splitlines()[0][:LONGEST_NOTE] if sentence else ""
        if sentence not in self.notes and len(self.notes) < MOST_NOTES:
            self.notes.append(sentence)

    def value(self, place: FramePlace, part: str, dtype: str, rank: int, device: str) -> None:
        """``part``: "call" for the value of the expression, "0", "1" for what stands in it as an argument."""
        seen = self.values.get((place, part))
        if seen is None:
            if len(self.values) >= MOST_VALUES:
                return
            seen = self.values[place, part] = {"dtypes": {}, "ranks": {}, "devices": {}, "count": 0}
        seen["dtypes"][dtype] = seen["ranks"][rank] = seen["devices"][device] = True
        seen["count"] += 1

    def failure(self, key: tuple[Any, ...], entry: dict[str, Any]) -> bool:
        """Keep a failure; the same one again is counted. Whether it is new."""
        known = self.failures.get(key)
        if known is not None:
            known["count"] += 1
            return False
        if len(self.failures) < MOST_FAILURES:
            self.failures[key] = {**entry, "count": 1}
        return True

    def write(self) -> None:
        """All of it, in one go, so that a reader never finds half a file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = {
            "process": self.process,
            "rank": int(os.environ.get("RANK", "0") or 0) if os.environ.get("RANK", "0").isdigit() else 0,
            "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
            **self.state,
            "values": [
                [*place, part, sorted(seen["dtypes"]), sorted(seen["ranks"]), sorted(seen["devices"]), seen["count"]]
                for (place, part), seen in self.values.items()
            ],
            "failures": list(self.failures.values()),
            "modules": list(self.modules.values()),
            "training": self.training,
            "notes": self.notes,
        }
        part = self.folder / f"{self.process}.part"
        part.write_text(json.dumps(data), "utf-8")
        os.replace(part, self.folder / f"{self.process}.json")


def place_of(place: FramePlace | None) -> ObservedJson:
    return None if place is None else list(place)


def born(birth: TracedBirth | None) -> ObservedJson:
    """The lines of a chain, as data: nearest first."""
    if birth is None:
        return []
    steps = birth.chain()
    last = steps[-1] if steps else None
    return [
        {
            "place": place_of(step.place),
            "message": f"{step.dtype} from {step.operation}"
            if step is last
            else f"{step.operation} keeps {step.dtype}",
        }
        for step in steps
    ]
