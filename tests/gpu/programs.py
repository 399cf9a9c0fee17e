"""Writes the programs that a GPU and a rehearsal both run: ``python -m tests.gpu.programs FOLDER``.

The rules are asked here, so the machine with the GPU needs the folder and :mod:`tests.gpu.jobs` alone.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..fixture_cases import DIFF, cases, files_of, migrate, write_files
from ..mutation.models import MODELS, Model
from ..rehearsal_programs import PAIRS
from ..test_rehearsal_programs import RIGHT
from .loops import LOOPS

REGIMES = ("float32", "bf16 autocast", "fp16 autocast", "bf16 weights")
_ON_CUDA = "import torch\ntorch.set_default_device('cuda')\n"
_OF_ONE_GPU = {
    "_capability() == (8, 0)": "_capability() > (7, 0)",
    "set_device(1)": "set_device(0)",
    "current_device() == 1": "current_device() == 0",
    '"cuda:1"': '"cuda:0"',
    ".to(1)": ".to(0)",
    'peak"] == 0': 'peak"] >= 0',
}
"""The programs expect an A100 among several that never were there."""
Files = Mapping[str, bytes]


def main(folder: Path) -> None:
    jobs = []
    for number, (key, files, script) in enumerate(_programs()):
        place = f"{number:04}"
        write_files(folder / place, files)
        jobs.append([key, place, script])
    (folder / "jobs.json").write_text(json.dumps(jobs), "utf-8")


def _programs() -> Iterator[tuple[str, Files, str]]:
    for name, source in RIGHT.items():
        for said, instead in _OF_ONE_GPU.items():
            source = source.replace(said, instead)
        yield f"right/{name}", {"train.py": source.encode()}, "train.py"
    for name, pair in PAIRS.items():
        for side in ("wrong", "right"):
            yield f"pair/{name}/{side}", {"train.py": pair.source.format(getattr(pair, side)).encode()}, "train.py"
    for name, source in LOOPS.items():
        yield f"loop/{name}", {"train.py": source.encode()}, "train.py"
    for model in MODELS:
        for regime in REGIMES:
            yield f"model/{model.name}/{regime}", {"train.py": training(model, regime).encode()}, "train.py"
    yield from _fixtures()


def training(model: Model, regime: str) -> str:
    """A training loop on the device in one regime."""
    module = model.modules[0]
    names = ", ".join(sorted({model.name, *(["BasicBlock"] if "BasicBlock" in model.build else [])}))
    dtype = "torch.bfloat16" if "bf16" in regime else "torch.float16"
    half, region, scaled = regime.endswith("weights"), regime.endswith("autocast"), regime.startswith("fp16")
    lines = ["import torch", *model.imports.splitlines(), f"from {module} import {names}", "torch.manual_seed(0)"]
    lines += [f"model = {model.build}.to('cuda'{', torch.bfloat16' if half else ''}).train()"]
    lines += ["optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)"]
    lines += [f"scaler = torch.amp.GradScaler('cuda', enabled={scaled})", "for _ in range(3):"]
    for name, value in model.inputs:
        made = value.removeprefix("FLOAT ")
        lines.append(f"    {name} = {made}.to('cuda'{', torch.bfloat16' if half and made != value else ''})")
    call = f"model({', '.join(f'{name}={name}' for name, _ in model.inputs)})"
    lines += [f"    with torch.autocast('cuda', dtype={dtype}, enabled={region}):", f"        output = {call}"]
    lines += [f"    loss = {model.result}.float().pow(2).mean()", "    scaler.scale(loss).backward()"]
    lines += ["    scaler.step(optimizer)", "    scaler.update()", "    optimizer.zero_grad()"]
    return "\n".join(lines) + "\n"


def _fixtures() -> Iterator[tuple[str, Files, str]]:
    """Each example that runs, before and after its fix, as it is and with everything on the device."""
    for case in cases():
        if not case.settings.run or not (case.folder / DIFF).exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            root = write_files(Path(scratch) / "input", files_of(case.input))
            before = files_of(root)
            changes = migrate(root, case, case.rules()).changes
        after = {**before, **{change.path: change.after for change in changes}}
        for state, files in (("before", before), ("after", after)):
            if any(b"cuda" in data for data in files.values()):
                yield f"fixture/{case.id}/{state}", files, case.settings.run
            yield f"moved fixture/{case.id}/{state}", moved(files, case.settings.run), case.settings.run


def moved(files: Files, script: str) -> Files:
    """The same on the device: by default, and where the CPU is named."""
    changed = {}
    for name, data in files.items():
        if name.endswith(".py"):
            text = re.sub(r"""(["'])cpu\1""", '"cuda"', data.decode("utf-8", "surrogateescape"))
            text = _after_future(text) if name == script else text
            data = text.encode("utf-8", "surrogateescape")
        changed[name] = data
    return changed


def _after_future(text: str) -> str:
    """The default device is set first, but ``from __future__`` must stay before it."""
    found = list(re.finditer(r"^from __future__ .*\n", text, re.MULTILINE))
    at = found[-1].end() if found else 0
    return text[:at] + _ON_CUDA + text[at:]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
