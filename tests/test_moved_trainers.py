"""What a trainer gets or makes out of sight has to fit after a move, too: a DeepSpeed file, a scaler."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fixture_cases import all_rules
from .test_moving import moved, paths_changed

PINS = "torch>=2.4\ntransformers>=4.40\naccelerate>=1.0\nlightning>=2.2\n"
TRAINER = """
    import argparse
    import os

    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--out", default="out")
    parser.add_argument("--deepspeed", default=DEFAULT)
    args = parser.parse_args()
    settings = TrainingArguments(args.out, fp16=SWITCH, deepspeed=args.deepspeed)
    Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), settings).train()
"""
SHARDED = '{"fp16": {"enabled": true, "loss_scale": 0}, "zero_optimization": {"stage": 2}}\n'


@pytest.mark.parametrize(
    ("default", "switch", "texts", "is_safe"),
    [
        ("None", "True", {"run.sh": "python train.py\n"}, True),
        ("None", "True", {"run.sh": "python train.py --out $OUT\n"}, True),
        ("None", "args.fp16", {"run.sh": "python train.py --fp16 $DS\n"}, False),
        (
            "None",
            "True",
            {"run.sh": 'F=""\nif [ $N -gt 1 ]; then F="--deepspeed z/ds.json"; fi\npython train.py $F\n'},
            False,
        ),
        ("None", "True", {"run.sh": 'python train.py --out x "$@"\n'}, False),
        ("None", "True", {"run.sh": "python train.py --deepspeed $DS\n"}, False),
        ("None", "args.fp16", {"run.sh": "python train.py --fp16\n"}, True),
        (
            "None",
            "args.fp16",
            {"run.sh": "source env.sh\npython train.py --fp16 $DS\n", "env.sh": 'export DS="--deepspeed z/ds.json"\n'},
            False,
        ),
        ('os.environ.get("DS")', "True", {"run.sh": "export DS=z/ds.json\npython train.py\n"}, False),
        ('""', "True", {"run.sh": "export DS=z/ds.json\npython train.py\n"}, True),
    ],
)
def test_a_trainer_that_may_get_a_deepspeed_file_does_not_move_without_it(
    default: str, switch: str, texts: dict[str, str], is_safe: bool, tmp_path: Path
) -> None:
    code = TRAINER.replace("DEFAULT", default).replace("SWITCH", switch)
    files = {"train.py": code, "z/ds.json": SHARDED, "requirements.txt": PINS, **texts}
    report, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert (not paths_changed(report).isdisjoint(("train.py", "run.sh"))) == is_safe
    assert is_safe or any("z/ds.json" in place.message for place in runs["run.sh"].why)


OF_ACCELERATE = """
    from accelerate import Accelerator

    acc = Accelerator(mixed_precision="fp16")
    model, optimizer, data = acc.prepare(build(), make(), load())
    for x in data:
        acc.backward(model(x).float().mean())
        optimizer.step()
        READ
"""
OF_LIGHTNING = """
    import lightning as L
    import torch


    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def training_step(self, batch, index):
            return self.layer(batch).float().pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def on_before_optimizer_step(self, optimizer):
            READ


    L.Trainer(precision="16-mixed", accelerator="gpu").fit(Net(), load())
"""
OF_PLUGIN = "self.trainer.precision_plugin"


@pytest.mark.parametrize("regime", ["bf16-mixed", "fp32"])
@pytest.mark.parametrize(
    ("code", "read", "is_safe"),
    [
        (OF_ACCELERATE, "print(acc.scaler.get_scale())", False),
        (OF_ACCELERATE, "print(acc.scaler.get_scale() if acc.scaler is not None else 1)", True),
        (OF_ACCELERATE, "held = acc.scaler; print(held.get_scale())", False),
        (OF_ACCELERATE, "held = acc.scaler; print(held.get_scale() if held is not None else 1)", True),
        (OF_ACCELERATE, "print(acc.num_processes)", True),
        (OF_ACCELERATE, "print(data.scaler.inverse_transform(x))", True),
        (OF_LIGHTNING, f"self.log('scale', {OF_PLUGIN}.scaler.get_scale())", False),
        (OF_LIGHTNING, f"{OF_PLUGIN}.scaler and self.log('scale', {OF_PLUGIN}.scaler.get_scale())", True),
    ],
)
def test_a_trainer_whose_scaler_is_read_leaves_float16_with_leave(
    code: str, read: str, is_safe: bool, regime: str, tmp_path: Path
) -> None:
    files = {"train.py": code.replace("READ", read), "requirements.txt": PINS}
    report, runs = moved(tmp_path / "safe", all_rules(), files, regime)
    assert bool(report.changes) == is_safe
    assert is_safe or "reads the scaler" in runs["train.py"].why[0].message
    report, _ = moved(tmp_path / "unsafe", all_rules(), files, regime, unsafe=True)
    assert paths_changed(report) == {"train.py"}
