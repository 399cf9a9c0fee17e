"""The operations that the rules know, asked of a real GPU: ``python -m tests.gpu.table OUT.jsonl [DEVICE]``."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .. import flow_calls
from ..test_flow_operations import BF16, expected, measured, mixed, operands_of, pure, rows, same

FP16 = torch.float16


def main(out: str, device: str = "cuda") -> None:
    warnings.simplefilter("ignore")
    counts = {"agree": 0, "differ": 0, "failed": 0}
    with open(out, "w", encoding="utf-8") as stream, flow_calls.on_device(device):
        for name, operation in rows(wide=True):
            for autocast, dtypes in _cells(name):
                region: Any = torch.autocast(device, dtype=BF16) if autocast else contextlib.nullcontext()
                try:
                    with region:
                        found = measured(name, dtypes)
                    told = expected(operation, dtypes, device, autocast)
                except Exception as error:
                    counts["failed"] += 1
                    _write(stream, name, dtypes, autocast, f"failed: {type(error).__name__}: {error}", "")
                    continue
                agrees = same(found, told, operation)
                counts["agree" if agrees else "differ"] += 1
                if not agrees:
                    _write(stream, name, dtypes, autocast, str(found), str(told), _error(name, dtypes, region))
        stream.write(json.dumps(counts) + "\n")
    print(counts)


def _cells(name: str) -> Iterator[tuple[bool, tuple[torch.dtype, ...]]]:
    count = operands_of(name)
    for dtypes in (*pure(count), (FP16,) * count, *mixed(count)):
        yield False, dtypes
    for dtypes in (*pure(count), *mixed(count)):
        yield True, dtypes


def _error(name: str, dtypes: tuple[torch.dtype, ...], region: Any) -> str:
    from ..test_flow_operations import case_of, tensors

    case = case_of(name)
    try:
        with region:
            case.call(*tensors(case.shapes, dtypes))
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def _write(stream: Any, name: str, dtypes: Any, autocast: bool, found: str, told: str, error: str = "") -> None:
    shown = [str(each).removeprefix("torch.") for each in dtypes]
    row = {"op": name, "dtypes": shown, "autocast": autocast, "found": found, "table": told, "error": error}
    stream.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
