"""A cast decides what a run computes in unless all that follows leads to a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import moved

PINS = "torch>=2.4\ntransformers>=4.46,<5\n"
PROGRAM = """
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


def main():
    (given,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    net = AutoModelForCausalLM.from_pretrained("gpt2")
    BEFORE
    trainer = Trainer(model=net, args=given, train_dataset=[])
    trainer.train()
    AFTER


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ("net = net.bfloat16()", "trainer.save_model()", MoveState.LEFT),
        ("net.bfloat16()", "net.save_pretrained('out')", MoveState.LEFT),
        (
            "weights = net.bfloat16().state_dict()\n    net.load_state_dict(weights)",
            "trainer.save_model()",
            MoveState.WITHDRAWN,
        ),
        ("pass", "net.bfloat16()\n    net.save_pretrained('out')", MoveState.MOVED),
        ("pass", "net = net.eval().bfloat16()\n    net.cpu()\n    net.save_pretrained('out')", MoveState.MOVED),
    ],
)
def test_a_model_that_is_cast_and_saved_after_the_training_is_trained_so(
    before: str, after: str, state: MoveState, tmp_path: Path
) -> None:
    code = PROGRAM.replace("BEFORE", before).replace("AFTER", after)
    files = {"train.py": code, "train.sh": "torchrun train.py --bf16 True --output_dir o\n", "requirements.txt": PINS}
    report, runs = moved(tmp_path, all_rules(), files, "fp16-mixed")
    assert [each.state for each in runs.values()] == [state]
    assert bool(report.changes) is (state is MoveState.MOVED)
