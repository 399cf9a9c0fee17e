"""Observations for tests: what a rehearsal of a few lines would have saved, said by the text of the places."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COMMAND = ("python", "train.py", "--bf16")


def place_of(root: Path, path: str, text: str) -> dict[str, Any]:
    """Where ``text`` stands in a file, as an observation says it; of ``f(|x|)`` the part between the bars."""
    whole = (root / path).read_text("utf-8")
    before, _, rest = text.partition("|") if "|" in text else ("", "", text)
    part, _, after = rest.partition("|")
    start = whole.index(before + part + after) + len(before)
    return {"filename": path, "location": _point(whole, start), "end_location": _point(whole, start + len(part))}


def _point(whole: str, offset: int) -> dict[str, int]:
    row = whole.count("\n", 0, offset) + 1
    return {"row": row, "column": offset - (whole.rfind("\n", 0, offset) + 1) + 1}


def value(root: Path, path: str, text: str, *dtypes: str) -> dict[str, Any]:
    """An expression and the dtypes that its tensors had."""
    return {**place_of(root, path, text), "kind": "name", "dtypes": [*dtypes], "count": 3}


def operand(
    root: Path, path: str, dtype: str, text: str = "", role: str = "argument", born: str = ""
) -> dict[str, Any]:
    """A tensor that an operation was given: what it is called in the call, and where it was born."""
    names = [text.split("|")[1] if "|" in text else text] if text else []
    found = {"dtype": dtype, "shape": [2, 4], "device": "cuda", "role": role, "names": names}
    births = [{"filename": path, **place_of(root, path, born)["location"], "message": ""}] if born else []
    return {**found, "born": births}


def failure(root: Path, path: str, text: str, operands: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A dtype mismatch at the place of ``text``."""
    found = {
        **place_of(root, path, text),
        "kind": "dtype_mismatch",
        "error_type": "RuntimeError",
        "error": "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
        "op": "aten.addmm.default",
        "phase": "forward",
        "operands": [*operands],
        "autocast": {"enabled": False},
        "count": 1,
    }
    return {**found, **more}


def observation(
    root: Path, failures: Sequence[Mapping[str, Any]] = (), values: Sequence[Mapping[str, Any]] = (), **more: Any
) -> dict[str, Any]:
    """The whole record, for the files as they are now."""
    files = {
        path.relative_to(root).as_posix(): {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in sorted(root.rglob("*.py"))
    }
    found = {
        "version": 1,
        "root": ".",
        "command": [*COMMAND],
        "torch": "2.13.0",
        "device": {"profile": "a100", "simulated": True},
        "files": files,
        "steps": 3,
        "ended": "steps",
        "values": [*values],
        "modules": [],
        "failures": [*failures],
        "training": {},
        "notes": [],
    }
    return {**found, **more}


def save(root: Path, record: Mapping[str, Any], name: str = "precfix-observed.json") -> Path:
    """Write a record into the project, where it is found by itself, or under another name."""
    path = root / name
    path.write_text(json.dumps(record), "utf-8")
    return path
