"""PF604: checkpoints that do not fit into float16."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.transforms.hardware.fp16_unsafe_model.unsafe_families import breaks_when_halved, family_of, loads_model

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("hardware.fp16_unsafe_model")


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("google/flan-t5-base", True),
        ("/data/models/flan-t5-xl", True),
        ("google-t5/t5-large", True),
        ("google/mt5-small", True),
        ("bigscience/T0pp", True),
        ("google/pegasus-xsum", True),
        ("google/gemma-3-4b-it", True),
        ("t5-small", False),
        ("t5-base", False),
        ("google/gemma-2-9b", False),
        ("Salesforce/codet5-base", False),
        ("someone/t0", False),
        ("someone/pegasus-plane-detector", False),
        ("google/flan-t5-base-gguf", False),
        ("tlkh/t5_large_fp16_untuned", False),
        ("a model like flan-t5-base", False),
        ("", False),
        ("/", False),
    ],
)
def test_families(model: str, known: bool) -> None:
    assert (family_of(model) is not None) is known


def test_only_large_ones_break_when_halved() -> None:
    assert breaks_when_halved("google/flan-t5-xxl")
    assert not breaks_when_halved("google/flan-t5-large")


def test_what_is_no_model() -> None:
    names = ["T5TokenizerFast", "AutoTokenizer", "T5EncoderModel", "AutoProcessor", "T5Config"]
    assert not any(loads_model(name) for name in names)
    assert loads_model("T5ForConditionalGeneration")


TRAINER = """
import torch
from transformers import AutoModelForSeq2SeqLM, Trainer, TrainingArguments

def main():
    model = AutoModelForSeq2SeqLM.from_pretrained({load})
    args = TrainingArguments("out", {args})
    Trainer(model=model, args=args).train()
"""


@pytest.mark.parametrize(
    ("load", "args", "count"),
    [
        ('"google/flan-t5-base"', "fp16=True", 1),
        ('"google/flan-t5-base"', "bf16=False, fp16=True", 1),
        ('"google/flan-t5-base"', "bf16=True", 0),
        ('"google/flan-t5-base"', "fp16=False", 0),
        ('"google/flan-t5-base"', "fp16=use_fp16()", 0),
        ('"google/flan-t5-base", load_in_8bit=True', "fp16=True", 0),
        ('"t5-small"', "fp16=True", 0),
        ("name()", "fp16=True", 0),
    ],
)
def test_trainers(load: str, args: str, count: int, tmp_path: Path) -> None:
    files = {"train.py": TRAINER.format(load=load, args=args)}
    assert len(findings(RULE, written(tmp_path, files))) == count


def test_arguments_beside_fp16_move_with_it(tmp_path: Path) -> None:
    text = TRAINER.format(load='"google/mt5-base"', args="fp16=True, fp16_full_eval=True")
    report, texts = migrated([RULE], written(tmp_path, {"train.py": text}), unsafe=True)
    assert len(report.findings) == 1
    assert "bf16=True, fp16_full_eval=False, bf16_full_eval=True" in texts["train.py"]


@pytest.mark.parametrize(
    ("target", "wanted"), [(None, "bf16=True"), ("bf16-mixed", "bf16=True"), ("fp32", "fp16=False"), ("fp16-mixed", "")]
)
def test_the_target_decides_where_to_go(target: str | None, wanted: str, tmp_path: Path) -> None:
    text = TRAINER.format(load='"google/mt5-base"', args="fp16=True")
    project = written(tmp_path, {"train.py": text}).with_target(target)
    _, texts = migrated([RULE], project, unsafe=True)
    assert (wanted in texts["train.py"]) if wanted else not texts


SCRIPTS = {
    "python train.py --model_name_or_path google/mt5-base --fp16": 1,
    "python train.py --model_name_or_path google/mt5-base --fp16 True": 1,
    "python train.py --model_name_or_path google/mt5-base --fp16 False": 0,
    "python train.py --model_name_or_path google/mt5-base --fp16 --bf16": 0,
    "python evaluate.py --model_name_or_path google/mt5-base --fp16": 0,
    "python train.py --model_name_or_path $MODEL --fp16": 0,
    "python train.py --teacher_model google/mt5-base --fp16": 0,
}


@pytest.mark.parametrize("line", SCRIPTS)
def test_command_lines(line: str, tmp_path: Path) -> None:
    report, _ = migrated([RULE], written(tmp_path, {"run.sh": line + "\n"}), unsafe=True)
    assert len(report.findings) == SCRIPTS[line]
    assert not report.remaining


def test_odd_files_do_not_raise(tmp_path: Path) -> None:
    files = {
        "a.yaml": "- fp16: true\n- model: {name: [google/mt5-base]}\n- {fp16: , model: google/mt5-base}\n",
        "b.json": '{"fp16": {"enabled": true}, "model": "google/mt5-base"}',
        "c.py": "import t5\nT5.from_pretrained('google/flan-t5-xl', *a).half(1)\nx.from_pretrained(*a).half()\n"
        "A.from_pretrained().half()\n(lambda: 1).from_pretrained('google/mt5-xl').to(torch.float16)\n",
        "run.sh": "--fp16 --model google/mt5-base\npython\n$X --fp16 --model_name google/mt5-base\n",
    }
    found = findings(RULE, written(tmp_path, files))
    assert {item.path for item in found} <= {"c.py"}
