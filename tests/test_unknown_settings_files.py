"""What decides nothing of a run: a fallback beside a settings file that is not seen, a library that may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.trainers.reading.auditing import ledger_of
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import all_rules
from .project_tree import open_tree
from .test_moving import moved

PROGRAM = """
    import argparse

    import torch
    import yaml

    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    args = parser.parse_args()
    cfg = yaml.safe_load(open(args.config))
    use = bool(cfg["train"].get("amp", False))
    model = torch.nn.Linear(4, 4).cuda()
    opt = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=use):
            loss = model(torch.randn(2, 4).cuda()).mean()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("--config $1", "bf16-mixed or fp32"),
        ("--config=lost.yaml", "bf16-mixed or fp32"),
        ("--config on.yaml", "bf16-mixed"),
        ("--config off.yaml", "fp32"),
    ],
)
def test_a_file_that_is_not_seen_leaves_the_run_unknown(line: str, before: str, tmp_path: Path) -> None:
    files = {
        "train.py": PROGRAM,
        "run.sh": f"python train.py {line}\n",
        "on.yaml": "train:\n  amp: true\n",
        "off.yaml": "train:\n  amp: false\n",
        "requirements.txt": "torch>=2.4\n",
    }
    _, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert runs["run.sh"].before == before


AVAILABLE = """
    import argparse

    import torch

    try:
        import extras
        HAS_EXTRAS = True
    except ImportError:
        HAS_EXTRAS = False

    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda")
    amp = args.amp and HAS_EXTRAS and device.type == "cuda"
    model = torch.nn.Linear(4, 4).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    if amp:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.ones(2, 4).cuda()).mean()
    else:
        loss = model(torch.ones(2, 4).cuda()).mean()
    loss.backward()
    opt.step()
"""


def test_a_library_that_may_be_missing_is_no_switch(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"train.py": AVAILABLE}).with_frameworks(load_frameworks())
    assert [run.shown for run in ledger_of(project).runs] == ["fp32; bf16-mixed with amp"]
