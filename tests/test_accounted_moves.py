"""A move that is safe accounts for everything that the run says of precision, wherever it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_audited_runs import read
from .test_moving import moved

PINS = "torch>=2.4\ntransformers>=4.46,<5\naccelerate>=1.0\n"
STEP = """
def main(data):
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=DTYPE == torch.float16)
    for inputs in data:
        with torch.autocast("cuda", dtype=DTYPE):
            loss = model(inputs).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(torch.ones(4, 4, 8, device="cuda"))
"""
BY_VARIABLE = f"""import os

import torch

PRECISION = os.environ.get("TRAIN_PRECISION", "fp16")
DTYPE = {{"fp16": torch.float16, "bf16": torch.bfloat16}}[PRECISION]

{STEP}"""
BY_ACCELERATE = """
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 8)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    with accelerator.autocast():
        loss = model(torch.ones(4, 8, device=accelerator.device)).sum()
    accelerator.backward(loss)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("shown", "row"),
    [
        ("```bash\nexport TRAIN_PRECISION=fp16\n\npython train.py\n```\n", 2),
        ("First:\n\n```\n$env:TRAIN_PRECISION = 'fp16'\n```\n\nThen `python train.py`.\n", 4),
        ("    setenv TRAIN_PRECISION fp16\n    python train.py\n", 1),
    ],
)
def test_a_variable_that_instructions_set_is_told(shown: str, row: int, tmp_path: Path) -> None:
    files = {"train.py": BY_VARIABLE, "README.md": shown, "requirements.txt": PINS}
    report, runs = moved(tmp_path, all_rules(), files)
    assert not report.changes
    assert [(place.path, place.span.row) for place in runs["train.py"].why][:1] == [("README.md", row)]


def test_a_variable_is_told_at_the_head_of_a_program_and_of_its_trainer(tmp_path: Path) -> None:
    head = '"""Trains.\n\n    export TRAIN_PRECISION=fp16\n    python train.py\n"""\n'
    shown = "Set it once:\n\n```\nexport ACCELERATE_MIXED_PRECISION=fp16\n```\n\n`accelerate launch launched.py`\n"
    files = {"train.py": head + BY_VARIABLE, "launched.py": BY_ACCELERATE, "README.md": shown, "requirements.txt": PINS}
    report, runs = moved(tmp_path, all_rules(), files)
    assert not report.changes
    assert [(each.state, each.why[0].path, each.why[0].span.row) for _, each in sorted(runs.items())] == [
        (MoveState.LEFT, "README.md", 4),
        (MoveState.WITHDRAWN, "train.py", 3),
    ]


def test_a_variable_of_another_program_is_not_told(tmp_path: Path) -> None:
    shown = "```\nexport OTHER_PRECISION=fp16\npython other.py\n```\n\n```\npython train.py\n```\n"
    others = {"other.py": "import torch\n", "notes.md": "    export TRAIN_PRECISION=fp16\n    python elsewhere.py\n"}
    files = {"train.py": BY_VARIABLE, "README.md": shown, "requirements.txt": PINS, **others}
    _, runs = moved(tmp_path, all_rules(), files)
    assert runs["train.py"].state is MoveState.MOVED
    listed = [item.path for item in read(tmp_path / "stated", files).declarations if item.role == "documented"]
    assert "notes.md" not in listed
