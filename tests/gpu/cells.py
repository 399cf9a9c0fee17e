"""One side of the comparison: what each operation gives for each dtypes of its operands, under each kind of autocast.

``python -m tests.gpu.cells real|simulated|cpu none|bfloat16|float16 FILE [START]`` writes one JSON row per cell.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
STICKY = ("CUDA error", "device-side assert", "illegal memory access")
BROKEN = 9
"""Exit code: the process cannot go on after an error of the device."""


def combinations(count: int, autocast: str) -> Iterator[tuple[str, ...]]:
    """Dtypes for so many groups of operands."""
    every = ("float32", "bfloat16", "float16")
    if autocast == "none":
        yield from itertools.product(every, repeat=count) if count < 3 else _of_three("bfloat16")
    elif count == 1:
        yield from ((each,) for each in every)
    else:
        yield from itertools.product(("float32", autocast), repeat=count)
        other = "float16" if autocast == "bfloat16" else "bfloat16"
        yield ("float32", *[other] * (count - 1))


def _of_three(half: str) -> Iterator[tuple[str, ...]]:
    yield from itertools.product(("float32", half), repeat=3)
    yield from (("float16",) * 3, (half, "float16", "float16"), ("float16", "float32", "float32"))


def cells(autocast: str) -> list[tuple[Any, tuple[str, ...]]]:
    from .operations import OPERATIONS

    wanted = [each for each in OPERATIONS if autocast == "none" or each.family != "training"]
    return [(each, dtypes) for each in wanted for dtypes in combinations(len(each.groups), autocast)]


def main(side: str, autocast: str, file: str, start: int = 0) -> None:
    import torch

    session = _session(torch) if side == "simulated" else None
    device = "cpu" if side == "cpu" else "cuda"
    from .operations import prepare

    torch.set_num_threads(1)
    prepare(device)
    warnings.simplefilter("ignore")
    with open(file, "a", encoding="utf-8") as out:
        for number, (operation, dtypes) in enumerate(cells(autocast)):
            if number < start:
                continue
            out.write(json.dumps({"start": number}) + "\n")
            out.flush()
            row = _row(torch, session, device, operation, dtypes, autocast)
            named = {"n": number, "family": operation.family, "op": operation.name, "autocast": autocast}
            out.write(json.dumps({**named, "dtypes": [SHORT[each] for each in dtypes], **row}) + "\n")
            out.flush()
            if any(text in str(row) for text in STICKY):
                os._exit(BROKEN)
    os._exit(0)


def _session(torch: Any) -> Any:
    """A rehearsal as on a GPU within this process."""
    from precfix.probes.rehearsal.inside import start
    from precfix.probes.rehearsal.inside.settings import ProcessSettings
    from precfix.probes.rehearsal.running import Rehearsal, settings_for

    folder = Path(tempfile.mkdtemp())
    request = Rehearsal(["python"], Path(__file__).parent, os.environ.get("PROFILE", "cuda"), steps=0)
    start.start(torch, ProcessSettings(**settings_for(request, folder)))
    return start.SESSION[0]


def _row(
    torch: Any, session: Any, device: str, operation: Any, dtypes: tuple[str, ...], autocast: str
) -> dict[str, str]:
    torch.manual_seed(0)
    if session is not None:
        session.recorder.failures.clear()
        session.failures.assumed = False
    chosen = dict(zip(operation.groups, (getattr(torch, each) for each in dtypes), strict=True))
    operands = [_operand(torch, device, chosen[group], shape) for group, shape in operation.operands]
    leaves = [each for each in operands if isinstance(each, torch.Tensor)]
    region: Any = contextlib.nullcontext()
    if autocast != "none":
        region = torch.autocast(device, dtype=getattr(torch, autocast))
    result, row = None, {"forward": "", "backward": ""}
    try:
        with region:
            result = operation.run(*operands)
        row["forward"] = _dtypes(torch, result)
        _wait(torch, device)
    except Exception as error:
        row["forward"] = _said(error)
    _of_session(session, row, "forward")
    if not row["forward"].startswith("!"):
        try:
            if _backward(torch, result):
                row["backward"] = ",".join(str(each.grad.dtype) if each.grad is not None else "-" for each in leaves)
                row["backward"] = row["backward"].replace("torch.", "")
            _wait(torch, device)
        except Exception as error:
            row["backward"] = _said(error)
        _of_session(session, row, "backward")
    return row


def _of_session(session: Any, row: dict[str, str], part: str) -> None:
    """What the rehearsal has recorded and passed over."""
    if session is None:
        return
    for failure in session.recorder.failures.values():
        if failure["kind"] != "nonfinite" and not any(each.startswith("!") for each in row.values()):
            row[part] = f"!{failure['error_type']}: {' '.join(failure['error'].split())}"[:300]
    session.recorder.failures.clear()


def _wait(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _operand(torch: Any, device: str, dtype: Any, shape: str) -> Any:
    if shape == "dtype":
        return dtype
    made = torch.rand([int(size) for size in shape.split(",")], device=device) * 0.8 + 0.1
    return made.to(dtype).requires_grad_()


def _tensors(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(torch, each)]
    return []


def _dtypes(torch: Any, result: Any) -> str:
    found = [str(each.dtype).removeprefix("torch.") for each in _tensors(torch, result)]
    return ",".join(found) or type(result).__name__


def _backward(torch: Any, result: Any) -> bool:
    total = None
    for each in _tensors(torch, result):
        if not each.requires_grad or not (each.is_floating_point() or each.is_complex()):
            continue
        part = (torch.view_as_real(each.resolve_conj()) if each.is_complex() else each).float().sum()
        total = part if total is None else total + part
    if total is None:
        return False
    total.backward()
    return True


def _said(error: Exception) -> str:
    return f"!{type(error).__name__}: {' '.join(str(error).split())}"[:300]


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:5]))
