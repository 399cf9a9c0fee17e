"""The programs of ``fixtures/shadow`` with everything on the device, under the shadow.

``python -m tests.gpu.shadows OUT.jsonl [DEVICE]``: one line per program with what the shadow tells first.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from precfix.probes.rehearsal.inside.places import UserFrames
from precfix.probes.rehearsal.inside.shadow.shadow import Shadow

from ..test_shadow import LOSSES, PROGRAMS, planted

AT_ONCE = 5


def told(program: Path, name: str, device: str) -> dict[str, Any]:
    """What the shadow says of one program, moved to the device."""
    with tempfile.TemporaryDirectory() as scratch:
        text = re.sub(r"""(["'])cpu\1""", f'"{device}"', (program / name).read_text("utf-8"))
        script = Path(scratch) / name
        script.write_text(text, "utf-8")
        torch.set_default_device(device)
        with Shadow(UserFrames(scratch)) as shadow:
            runpy.run_path(str(script), run_name="__main__")
            found = shadow.findings()
    first = found.worst[0] if found.worst else None
    expected = name == "before.py" and first is not None and first.loss is LOSSES[program.name]
    right = not found.worst if name == "after.py" else expected and first.line == (name, planted(program / name))
    return {
        "right": bool(right),
        "told": [f"{each.loss.value} {each.line} {each.detail}" for each in found.worst[:3]],
        "restarted": dict(found.restarted),
    }


def main(out: str, device: str = "cuda") -> None:
    work = [(program, name) for program in PROGRAMS for name in ("before.py", "after.py")]
    children: dict[int, None] = {}
    for program, name in work:
        while len(children) >= AT_ONCE:
            children.pop(os.wait()[0])
        child = os.fork()
        if child == 0:
            began = time.monotonic()
            try:
                line = told(program, name, device)
            except Exception:
                line = {"right": False, "failed": traceback.format_exc()[-700:]}
            line = {"program": f"{program.name}/{name}", **line, "seconds": round(time.monotonic() - began, 1)}
            with open(out, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
            os._exit(0)
        children[child] = None
    while children:
        children.pop(os.wait()[0])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
