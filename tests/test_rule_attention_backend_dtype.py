"""PF404: FlashAttention-2 with float32 weights or on an old GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("trainer.attention_backend_dtype")
HEAD = "from transformers import AutoModel, BitsAndBytesConfig\n"
OLD = {"requirements.txt": "transformers==4.44.0\n"}
FLASH = 'attn_implementation="flash_attention_2"'


def source(arguments: str = "", after: str = "", use: str = "print(model.generate(1))\n") -> str:
    return f"{HEAD}model = AutoModel.from_pretrained('m', {FLASH}{arguments}){after}\n{use}"


def test_torch_is_imported_where_it_is_missing(tmp_path: Path) -> None:
    _, changed = migrated([RULE], written(tmp_path / "a", {"run.py": source(), **OLD}))
    assert "import torch" in changed["run.py"]
    assert f"{FLASH}, torch_dtype=torch.bfloat16)" in changed["run.py"]
    assert not findings(RULE, written(tmp_path / "b", {**OLD, **changed}))


WRONG = {
    "none": source(", torch_dtype=None"),
    "moved": source("", ".to('cuda').eval()"),
    "called": source(use="print(model(1))\n"),
    "written out": source(", torch_dtype='float32'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found_and_gone_after_its_fix(name: str, tmp_path: Path) -> None:
    project = written(tmp_path / "a", {"run.py": WRONG[name], **OLD})
    assert len(findings(RULE, project)) == 1
    _, changed = migrated([RULE], project)
    assert not findings(RULE, written(tmp_path / "b", {**OLD, **changed}))


RIGHT = {
    "automatic": source(", torch_dtype='auto'"),
    "unknown": source(", torch_dtype=dtype"),
    "half in one go": source("", ".half()"),
    "half later": source(use="model.half()\nmodel.generate(1)\n"),
    "cast by argument": source("", ".to('cuda', dtype)"),
    "quantized": source(", load_in_4bit=True"),
    "with other arguments": source(", **options"),
    "autocast": source(use="with torch.autocast('cuda'):\n    model.generate(1)\n"),
    "not run": source(use="model.eval()\n"),
    "chosen": source().replace('"flash_attention_2"', '"flash_attention_2" if fast else "sdpa"'),
    "from a configuration": source().replace("from_pretrained", "from_config"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"run.py": RIGHT[name], **OLD}))


def test_a_load_without_dtype_is_right_from_transformers_five_on(tmp_path: Path) -> None:
    for name, pin in (("open", "transformers>=4.40"), ("five", "transformers==5.1.0"), ("none", "numpy")):
        assert not findings(RULE, written(tmp_path / name, {"run.py": source(), "requirements.txt": pin + "\n"}))


def test_an_accelerate_configuration_may_turn_autocast_on(tmp_path: Path) -> None:
    text = (
        "from transformers import AutoModel, Trainer, TrainingArguments\n"
        f"model = AutoModel.from_pretrained('m', {FLASH}, torch_dtype='float32')\n"
        "Trainer(model=model, args=TrainingArguments('o')).train()\n"
    )
    assert len(findings(RULE, written(tmp_path / "a", {"run.py": text}))) == 1
    assert not findings(RULE, written(tmp_path / "b", {"run.py": text, "accelerate.yaml": "mixed_precision: bf16\n"}))
