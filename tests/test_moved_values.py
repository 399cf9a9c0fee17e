"""What the new value of a setting comes to in the code of a run: tables and cascades of words, branches of 16 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import REQUIRED, moved, paths_changed

WORDS = """
    import argparse

    import torch
    from accelerate import Accelerator

    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default="fp16", choices=["no", "fp16", "bf16"])
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    {read}
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    net, optimizer = accelerator.prepare(net, optimizer)
    accelerator.backward(net(torch.randn(4, 8).to(accelerator.device).to(dtype)).float().mean())
    optimizer.step()
"""
TABLE = '{"fp16": torch.float16, "fp32": torch.float32, "bf16": torch.bfloat16}'
CASCADE = """
    if args.mixed_precision == "fp16":
        dtype = torch.float16
    elif args.mixed_precision == "bf16":
        dtype = torch.bfloat16
"""
MATCH = """
    match args.mixed_precision:
        case "fp16":
            dtype = torch.float16
        case "bf16":
            dtype = torch.bfloat16
"""
LOST = [
    (f"dtype = {TABLE}[args.mixed_precision]", "does not know 'no', which args.mixed_precision is then"),
    (f"DTYPES = {TABLE}; dtype = DTYPES[args.mixed_precision.lower()]", "does not know 'no'"),
    ("dtype = getattr(torch, args.mixed_precision)", "does not know 'no'"),
    (CASCADE, "no test sets dtype for 'no', which args.mixed_precision is then"),
    (
        f"{CASCADE}    else:\n        raise ValueError(args.mixed_precision)\n",
        "raise ValueError(args.mixed_precision) refuses",
    ),
    (MATCH, "no test sets dtype for 'no'"),
    (f"{MATCH}        case _:\n            raise ValueError()\n", "raise ValueError() refuses 'no'"),
    (f'assert args.mixed_precision in ("fp16", "fp32")\n    dtype = {TABLE}["fp32"]', "refuses 'no'"),
    ('if args.mixed_precision not in ["fp16", "fp32"]: raise ValueError()\n    dtype = None', "refuses 'no'"),
]
KNOWN = [
    f'dtype = {{**{TABLE}, "no": torch.float32}}[args.mixed_precision]',
    f'DTYPES = {TABLE}\n    DTYPES["no"] = torch.float32\n    dtype = DTYPES[args.mixed_precision]',
    f'dtype = torch.float32\n    if args.mixed_precision != "no":\n        dtype = {TABLE}[args.mixed_precision]',
    f"dtype = torch.float32\n{CASCADE}",
    f"{CASCADE}    else:\n        dtype = torch.float32\n",
    f"{MATCH}        case _:\n            dtype = torch.float32\n",
    f"try:\n        dtype = {TABLE}[args.mixed_precision]\n    except KeyError:\n        dtype = torch.float32",
    'assert args.mixed_precision in ("no", "fp16")\n    dtype = torch.float32',
    'dtype = {"no": torch.float32, "fp16": torch.float16}[args.mixed_precision]',
]


@pytest.mark.parametrize(("read", "said"), LOST)
def test_a_word_that_other_code_of_the_run_does_not_know_needs_leave(tmp_path: Path, read: str, said: str) -> None:
    files = {"train.py": WORDS.format(read=read.strip()), **REQUIRED}
    report, runs = moved(tmp_path / "safe", all_rules(), files, "fp32")
    assert paths_changed(report) == set()
    assert any(said in place.message for place in runs["train.py"].why), runs["train.py"].why
    report, runs = moved(tmp_path / "unsafe", all_rules(), files, "fp32", unsafe=True)
    assert paths_changed(report) == {"train.py"}
    assert any(said in fix.message for _, fix in report.applied)


@pytest.mark.parametrize("read", KNOWN)
def test_a_word_that_all_code_of_the_run_knows_is_written(tmp_path: Path, read: str) -> None:
    report, runs = moved(tmp_path, all_rules(), {"train.py": WORDS.format(read=read.strip()), **REQUIRED}, "fp32")
    assert (paths_changed(report), runs["train.py"].state) == ({"train.py"}, MoveState.MOVED), runs


SWITCHED = """
    import torch
    import yaml
    from torch import nn
    from transformers import Trainer, TrainingArguments

    cfg = yaml.safe_load(open("conf.yaml"))
    args = TrainingArguments("out", bf16=cfg["bf16"], fp16=cfg["fp16"])


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.vision = nn.Linear(8, 8)
            self.head = nn.Linear(8, 1)

        def forward(self, x):
            return {{"loss": self.head(self.vision(x)).square().mean()}}


    model = Net()
    {cast}
    Trainer(model=model, args=args, train_dataset=[{{"x": torch.randn(8)}} for _ in range(8)]).train()
"""
LEFT_OVER = "model.vision = model.vision.to(dtype=torch.bfloat16 if args.bf16 else torch.float16)"
BY_IF = """
    dtype = torch.float16
    if args.bf16:
        dtype = torch.bfloat16
    model.vision.to(dtype)
"""
YAML = "fp16: False\nbf16: True\n"


@pytest.mark.parametrize("target", ["fp32", "fp16-mixed"])
@pytest.mark.parametrize("cast", [LEFT_OVER, BY_IF])
def test_a_branch_of_16_bits_that_is_then_taken_needs_leave(tmp_path: Path, target: str, cast: str) -> None:
    files = {"train.py": SWITCHED.format(cast=cast.strip()), "conf.yaml": YAML, **REQUIRED}
    report, runs = moved(tmp_path / "safe", all_rules(), files, target)
    assert paths_changed(report) == set()
    assert any("is float16 then: model.vision.to(" in place.message for place in runs["train.py"].why), runs


@pytest.mark.parametrize(
    "cast",
    [
        "model.vision.to(torch.bfloat16 if args.bf16 else torch.float32)",
        "if args.bf16 or args.fp16: model.vision.to(torch.bfloat16 if args.bf16 else torch.float32)",
    ],
)
def test_a_branch_of_float32_is_taken_safely(tmp_path: Path, cast: str) -> None:
    report, runs = moved(
        tmp_path, all_rules(), {"train.py": SWITCHED.format(cast=cast), "conf.yaml": YAML, **REQUIRED}, "fp32"
    )
    assert paths_changed(report) == {"conf.yaml"}, runs


TUNED = """
    from dataclasses import dataclass

    from transformers import AutoModelForSeq2SeqLM, HfArgumentParser, Seq2SeqTrainer, Seq2SeqTrainingArguments


    @dataclass
    class ModelArguments:
        model_name_or_path: str = "t5-base"


    model_args, args = HfArgumentParser((ModelArguments, Seq2SeqTrainingArguments)).parse_args_into_dataclasses()
    Seq2SeqTrainer(AutoModelForSeq2SeqLM.from_pretrained(model_args.model_name_or_path), args).train()
"""
TUNED_ON = """
    import argparse

    import torch
    import yaml
    from accelerate import Accelerator
    from transformers import T5ForConditionalGeneration

    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    cfg = yaml.safe_load(open(parser.parse_args().config))
    accelerator = Accelerator()
    model = T5ForConditionalGeneration.from_pretrained(cfg["model"]["ckpt"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    model, optimizer = accelerator.prepare(model, optimizer)
    for ids in [torch.ones(2, 8, dtype=torch.long).to(accelerator.device)]:
        accelerator.backward(model(input_ids=ids, labels=ids).loss)
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("model", "folder", "is_held"),
    [
        ("t5-large", "out/sft", True),
        ("t5-large", "./out/sft/checkpoint-100", True),
        ("t5-large", "out/sft-of-others", False),
        ("t5-base", "out/sft", False),
    ],
)
def test_weights_that_another_run_writes_need_what_that_run_needs(
    tmp_path: Path, model: str, folder: str, is_held: bool
) -> None:
    first = f"torchrun sft.py --model_name_or_path {model} --do_train --bf16 --output_dir out/sft\n"
    files = {"sft.py": TUNED, "rl.py": TUNED_ON, "rl.yml": f"model:\n  ckpt: {folder}\n", "sft.sh": first}
    files["rl.sh"] = "accelerate launch --mixed_precision bf16 rl.py --config rl.yml\n"
    report, runs = moved(tmp_path, all_rules(), {**files, **REQUIRED}, "fp16-mixed")
    told = [place.message for place in runs["rl.sh"].why]
    assert any(said.startswith("loads out/sft, which sft.sh:1 writes") for said in told) is is_held
    assert ("rl.sh" in paths_changed(report)) is not is_held


FLAGS = """
    import torch
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    {read}
    Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args).train()
"""
STOPPED = [
    ("if not args.fp16: raise ValueError('float16 alone is tested')", "stops it, as args.fp16 is off then"),
    ("if args.bf16: raise ValueError('no bfloat16')", "stops it, as args.bf16 is on then"),
    ("assert args.fp16, 'float16 alone is tested'", "stops it, as args.fp16 is off then"),
    ("frozen = torch.nn.Linear(2, 2).to(torch.float16 if args.fp16 else torch.float32)", "is float32 then"),
]
GOES_ON = [
    "if not (args.fp16 or args.bf16): raise ValueError('16 bits alone are tested')",
    "if args.fp16 and not torch.cuda.is_available(): raise ValueError('needs a GPU')",
    "if args.use_cpu: raise ValueError('needs a GPU')",
    "frozen = torch.nn.Linear(2, 2).to(torch.float32 if args.use_cpu else torch.float32)",
]


@pytest.mark.parametrize(("read", "said"), STOPPED)
def test_a_switch_that_is_not_as_it_was_needs_leave_where_code_stops_or_widens(
    tmp_path: Path, read: str, said: str
) -> None:
    files = {
        "train.py": FLAGS.format(read=read),
        "run.sh": "python train.py --fp16 True --output_dir out\n",
        **REQUIRED,
    }
    report, runs = moved(tmp_path, all_rules(), files)
    assert paths_changed(report) == set()
    assert any(said in place.message for run in runs.values() for place in run.why), runs


@pytest.mark.parametrize("read", GOES_ON)
def test_a_switch_that_other_tests_ask_beside_the_new_one_moves(tmp_path: Path, read: str) -> None:
    files = {
        "train.py": FLAGS.format(read=read),
        "run.sh": "python train.py --fp16 True --output_dir out\n",
        **REQUIRED,
    }
    report, runs = moved(tmp_path, all_rules(), files)
    assert paths_changed(report) == {"run.sh"}, runs
