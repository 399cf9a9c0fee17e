"""PF403: weights loaded in another 16-bit dtype than they are trained in."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("trainer.load_dtype_differs")
HEAD = """
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer
"""
HALF = 'model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)\n'
BRAIN = 'model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.bfloat16)\n'
TRAIN_BF16 = 'Trainer(model=model, args=TrainingArguments("o", bf16=True)).train()\n'
TRAIN_FP16 = 'Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()\n'


def messages(folder: Path, source: str, **more: str) -> list[str]:
    files = {name.replace("_", "."): text for name, text in more.items()}
    return [item.message for item in findings(RULE, written(folder, {"train.py": HEAD + source, **files}))]


WRONG = {
    "positional": HALF + 'Trainer(model, TrainingArguments("o", bf16=True)).train()',
    "moved": HALF.rstrip() + '.to("cuda")\n' + TRAIN_BF16,
    "through a dictionary": (
        'options = dict(torch_dtype=torch.float16)\nmodel = AutoModelForCausalLM.from_pretrained("m", **options)\n'
        + TRAIN_BF16
    ),
    "arguments in a dictionary": HALF
    + 'said = {"bf16": True}\nTrainer(model=model, args=TrainingArguments("o", **said))',
    "loaded by the trainer": (
        'config = SFTConfig("o", bf16=True, model_init_kwargs={"torch_dtype": torch.float16})\n'
        'SFTTrainer(model="m", args=config).train()'
    ),
    "subclasses": (
        "class Arguments(TrainingArguments):\n    pass\n\nclass MyTrainer(Trainer):\n    pass\n\n"
        + HALF
        + 'MyTrainer(model=model, args=Arguments("o", bf16=True)).train()'
    ),
    "in functions": (
        "def load():\n    model = AutoModelForCausalLM.from_pretrained('m', torch_dtype='float16')\n"
        "    return model, 1\n\n"
        "def run(model, arguments):\n    Trainer(model=model, args=arguments).train()\n\n"
        "def main():\n    model, other = load()\n    run(model, TrainingArguments('o', bf16=True))\n"
    ),
    "in a class": (
        "class Job:\n    def __init__(self):\n"
        "        self.model = AutoModelForCausalLM.from_pretrained('m', dtype=torch.half)\n"
        "        self.arguments = TrainingArguments('o', bf16=True)\n\n"
        "    def run(self):\n        Trainer(model=self.model, args=self.arguments).train()\n"
    ),
    "accelerate": (
        'accelerator = Accelerator(mixed_precision="bf16")\n'
        + HALF
        + "model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))\n"
        "accelerator.backward(model(1))\n"
    ),
    "the gpu decides": HALF + 'Trainer(model=model, args=TrainingArguments("o", bf16=torch.cuda.is_bf16_supported()))',
    "scaled bfloat16": BRAIN + TRAIN_FP16,
    "scaled float16": HALF + TRAIN_FP16,
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found_once_and_gone_after_its_fix(name: str, tmp_path: Path) -> None:
    project = written(tmp_path / "before", {"train.py": HEAD + WRONG[name]})
    assert len(findings(RULE, project)) == 1
    _, changed = migrated([RULE], project, unsafe=True)
    assert not findings(RULE, written(tmp_path / "after", changed))


RIGHT = {
    "same dtype": BRAIN + TRAIN_BF16,
    "float32": HALF.replace("float16", "float32") + TRAIN_BF16,
    "adapters under a scaler": HALF + "model = get_peft_model(model, LoraConfig())\n" + TRAIN_FP16,
    "adapters under bfloat16": HALF + "model = get_peft_model(\n    model, LoraConfig()\n)\n" + TRAIN_BF16,
    "adapters by the trainer": HALF
    + 'SFTTrainer(model=model, peft_config=LoraConfig(), args=SFTConfig("o", bf16=True)).train()',
    "bfloat16 under adapters that a scaler serves": BRAIN
    + "model = get_peft_model(model, LoraConfig())\n"
    + TRAIN_FP16,
    "four bits": (
        "from transformers import BitsAndBytesConfig\n"
        "config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)\n"
        'model = AutoModelForCausalLM.from_pretrained("m", quantization_config=config)\n'
        "model = get_peft_model(model, LoraConfig())\n" + TRAIN_BF16
    ),
    "upcast": HALF + "for p in model.parameters():\n    p.data = p.data.to(torch.float32)\n" + TRAIN_FP16,
    "frozen": HALF + "model.requires_grad_(False)\n" + TRAIN_BF16,
    "deepspeed": HALF + 'Trainer(model=model, args=TrainingArguments("o", fp16=True, deepspeed="z.json"))',
    "option": HALF + "Trainer(model=model, args=TrainingArguments('o', bf16=options.bf16))",
    "changed": HALF + "args = TrainingArguments('o', bf16=True)\nargs.bf16 = False\nTrainer(model=model, args=args)",
    "other model": HALF.replace("model =", "judge =") + BRAIN + TRAIN_BF16,
    "rebound": HALF + BRAIN + TRAIN_BF16,
    "trl without a version": HALF + "SFTTrainer(model=model, args=SFTConfig('o'))",
    "own class": "class TrainingArguments:\n    pass\n" + HALF + TRAIN_BF16,
    "dtype from outside": HALF.replace("torch.float16", "options.dtype") + TRAIN_BF16,
    "a trainer of another library": HALF + "Trainer(model=model, max_epochs=3, precision='bf16-mixed').fit(model)",
    "filled dictionary": (
        "o = {'torch_dtype': torch.float16}\no['torch_dtype'] = options.dtype\n"
        "model = AutoModelForCausalLM.from_pretrained('m', **o)\n" + TRAIN_BF16
    ),
    "endless": (
        "model = model\nargs = args\nTrainer(model=model, args=args)\ndef f(m):\n    return f(m)\nTrainer(f(1), f(2))"
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert messages(tmp_path, RIGHT[name]) == []


def test_a_variable_that_others_read_keeps_its_value(tmp_path: Path) -> None:
    source = HEAD + (
        "half = torch.float16\nvae = AutoModelForCausalLM.from_pretrained('v', torch_dtype=half)\n"
        "model = AutoModelForCausalLM.from_pretrained('m', torch_dtype=half)\n" + TRAIN_BF16
    )
    _, changed = migrated([RULE], written(tmp_path, {"train.py": source}), unsafe=True)
    assert "half = torch.float16" in changed["train.py"]
    assert "'m', torch_dtype=torch.bfloat16" in changed["train.py"]


def test_trl_computes_in_bfloat16_unless_told_otherwise(tmp_path: Path) -> None:
    source = HALF + "SFTTrainer(model=model, args=SFTConfig('o')).train()"
    assert len(messages(tmp_path / "new", source, requirements_txt="trl==0.20.0\n")) == 1
    assert not messages(tmp_path / "old", source, requirements_txt="trl>=0.12\n")


@pytest.mark.parametrize(("pin", "found"), [("transformers==4.40.0", 1), ("transformers<5", 0), ("transformers", 0)])
def test_a_keyword_is_only_wrong_for_versions_that_lack_it(pin: str, found: int, tmp_path: Path) -> None:
    source = "model = AutoModelForCausalLM.from_pretrained('m', dtype=torch.bfloat16)\n"
    assert len(messages(tmp_path, source, requirements_txt=pin + "\n")) == found


def test_nothing_is_written_without_leave_where_numbers_change(tmp_path: Path) -> None:
    _, changed = migrated([RULE], written(tmp_path, {"train.py": HEAD + HALF + TRAIN_BF16}))
    assert not changed


def test_what_torch_does_with_such_weights() -> None:
    torch = pytest.importorskip("torch")
    assert torch.promote_types(torch.float16, torch.bfloat16) is torch.float32
    for dtype, works in ((torch.float16, False), (torch.float32, True)):
        model = torch.nn.Linear(2, 2, dtype=dtype)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu")
        with torch.autocast("cpu", dtype=torch.float16):
            scaler.scale(model(torch.ones(1, 2, dtype=dtype)).sum()).backward()
        if works:
            scaler.step(optimizer)
        else:
            with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
                scaler.step(optimizer)


def test_small_gradients_of_float16_weights_vanish_under_bfloat16_autocast() -> None:
    torch = pytest.importorskip("torch")
    gradients = {}
    for dtype in (torch.float16, torch.bfloat16):
        model = torch.nn.Linear(1, 1, bias=False, dtype=dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.full((1, 1), 1e-9, dtype=torch.float32)).sum()
        loss.backward()
        gradients[dtype] = float(model.weight.grad)
    assert gradients[torch.float16] == 0
    assert gradients[torch.bfloat16] > 0
