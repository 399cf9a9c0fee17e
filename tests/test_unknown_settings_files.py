"""A launch line whose settings file is not known: what the code falls back to decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fixture_cases import all_rules
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
        ("--config $1", "unknown"),
        ("--config=lost.yaml", "unknown"),
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
