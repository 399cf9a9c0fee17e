"""``migrate --to portable``: bfloat16 where the machine has it, else float16 with a scaler, asked once per module."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from precfix.codemod.engine import Options, check, migrate
from precfix.codemod.outcome import Report, Target
from precfix.codemod.source.project import Project
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .project_tree import open_tree

COMMENT = "# bfloat16 where it is native; float16, with loss scaling, on older CUDA GPUs\n"
ASKED = COMMENT + "USE_BF16 = not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] >= 8\n"
ASKED_SINCE_2_4 = (
    COMMENT + "USE_BF16 = not torch.cuda.is_available() or torch.cuda.is_bf16_supported(including_emulation=False)\n"
)
EITHER = "torch.bfloat16 if USE_BF16 else torch.float16"


def portable(tmp_path: Path, files: dict[str, str]) -> tuple[dict[str, str], Report]:
    """The files after the move, and what was done; all rules run, and a second run changes nothing."""
    project = open_tree(tmp_path, files).with_frameworks(load_frameworks())
    report = moved(project)
    texts = {change.path: change.after.decode() for change in report.changes}
    for text in texts.values():
        ast.parse(text)
    again = moved(project.with_texts(texts))
    assert again.changes == ()
    return texts, report


def moved(project: Project) -> Report:
    report = migrate(project.with_target("portable"), load(), Target("portable", "a test"), Options())
    assert not report.failed_rules
    return report


def messages(report: Report) -> list[str]:
    return [finding.message for finding in report.remaining]


# --- plain torch code -------------------------------------------------------------------------------------------------

LOOP = """
    import torch
    from torch import nn


    def train(model, batches, optimizer):
        scaler = torch.amp.GradScaler("cuda"{switch})
        for batch in batches:
            with torch.autocast("cuda"{dtype}):
                loss = model(batch).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize("dtype", ["", ", dtype=torch.float16", ", dtype=torch.bfloat16"])
def test_region_and_scaler_follow_the_machine(tmp_path: Path, dtype: str) -> None:
    texts, report = portable(tmp_path, {"train.py": LOOP.format(dtype=dtype, switch="")})
    text = texts["train.py"]
    assert f"from torch import nn\n\n{ASKED}\n\ndef train" in text
    assert f'torch.autocast("cuda", dtype={EITHER})' in text
    assert 'torch.amp.GradScaler("cuda", enabled=not USE_BF16)' in text
    assert not report.remaining


def test_the_scaler_keeps_its_own_switch(tmp_path: Path) -> None:
    source = LOOP.format(dtype=", enabled=use_amp", switch=", enabled=use_amp").replace(
        "optimizer)", "optimizer, use_amp)", 1
    )
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    assert "enabled=use_amp and not USE_BF16)" in text
    assert f"enabled=use_amp, dtype={EITHER})" in text


def test_a_scaler_that_is_off_is_switched_on_for_float16(tmp_path: Path) -> None:
    source = LOOP.format(dtype=", dtype=torch.bfloat16", switch=", enabled=False")
    assert 'GradScaler("cuda", enabled=not USE_BF16)' in portable(tmp_path, {"train.py": source})[0]["train.py"]


def test_ordinary_rules_have_nothing_to_say_afterwards(tmp_path: Path) -> None:
    source = LOOP.format(dtype="", switch="")
    texts, _ = portable(tmp_path, {"train.py": source})
    after = open_tree(tmp_path, texts)
    assert check(after, load(), Target("auto", "a test")).findings == ()


def test_a_plain_loop_gets_a_scaler(tmp_path: Path) -> None:
    source = """
        import torch

        def train(model, loader, optimizer, device):
            for epoch in range(3):
                for batch in loader:
                    optimizer.zero_grad()
                    with torch.autocast(device.type, dtype=torch.bfloat16):
                        loss = model(batch).mean()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
    """
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    assert "    scaler = torch.cuda.amp.GradScaler(enabled=not USE_BF16)\n    for epoch" in text
    assert (
        text.index("scaler.unscale_(optimizer)") < text.index("clip_grad_norm_") < text.index("scaler.step(optimizer)")
    )


def test_without_a_plain_place_for_a_scaler_nothing_is_written(tmp_path: Path) -> None:
    source = """
        import torch

        def step(model, batch, optimizer):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch).mean()
            loss.backward()
            optimizer.step()
    """
    texts, report = portable(tmp_path, {"train.py": source})
    assert not texts
    assert any("no simple place" in message for message in messages(report))


@pytest.mark.parametrize(
    ("requirement", "asked"), [("torch>=2.4", ASKED_SINCE_2_4), ("torch>=2.3", ASKED), ("", ASKED)]
)
def test_the_question_is_one_that_every_allowed_release_knows(tmp_path: Path, requirement: str, asked: str) -> None:
    source = LOOP.format(dtype=", dtype=torch.bfloat16", switch="")
    texts, _ = portable(tmp_path, {"train.py": source, "requirements.txt": requirement})
    assert asked in texts["train.py"]


def test_region_and_scaler_in_two_files(tmp_path: Path) -> None:
    files = {
        "engine.py": """
            import torch

            def train_one_epoch(model, batches, optimizer, scaler):
                for batch in batches:
                    with torch.cuda.amp.autocast():
                        loss = model(batch).mean()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
        """,
        "main.py": """
            import torch
            from engine import train_one_epoch

            def main(model, batches, optimizer):
                scaler = torch.cuda.amp.GradScaler()
                train_one_epoch(model, batches, optimizer, scaler)
        """,
        "requirements.txt": "torch>=2.0\n",
    }
    texts, _ = portable(tmp_path, files)
    question = "USE_BF16 = not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] >= 8\n"
    assert question in texts["engine.py"]
    assert question in texts["main.py"]
    assert f", dtype={EITHER})" in texts["engine.py"]
    assert "enabled=not USE_BF16)" in texts["main.py"]


HELD = {
    "requirements.txt": "torch>=2.4",
    "misc.py": """
        import torch

        class NativeScaler:
            def __init__(self):
                self._scaler = torch.cuda.amp.GradScaler()

            def __call__(self, loss, optimizer):
                self._scaler.scale(loss).backward()
                self._scaler.step(optimizer)
                self._scaler.update()
    """,
    "train.py": """
        import torch
        from misc import NativeScaler

        def train(model, batches, optimizer):
            loss_scaler = NativeScaler()
            for batch in batches:
                with torch.cuda.amp.autocast():
                    loss = model(batch).mean()
                loss_scaler(loss, optimizer)
    """,
}


def test_a_scaler_inside_a_wrapper(tmp_path: Path) -> None:
    texts, report = portable(tmp_path, HELD)
    assert "enabled=not USE_BF16)" in texts["misc.py"]
    assert f"dtype={EITHER})" in texts["train.py"]
    assert not report.remaining


def test_a_scaler_whose_state_is_read_stays_on(tmp_path: Path) -> None:
    read = "loss_scaler(loss, optimizer); print(loss_scaler._scaler._scale)"
    files = {**HELD, "train.py": HELD["train.py"].replace("loss_scaler(loss, optimizer)", read)}
    texts, report = portable(tmp_path, files)
    assert "enabled=" not in texts["misc.py"]
    assert any("inner state is read" in message for message in messages(report))


def test_devices_chosen_or_processes_forked_later_make_it_a_function(tmp_path: Path) -> None:
    source = textwrap.dedent(LOOP).format(dtype="", switch="") + textwrap.dedent(
        """
        def main(gpu):
            import os
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu
        """
    )
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    assert "def use_bf16() -> bool:\n" in text
    assert "dtype=torch.bfloat16 if use_bf16() else torch.float16" in text
    assert "enabled=not use_bf16()" in text


def test_a_constant_dtype_changes_where_it_is_written(tmp_path: Path) -> None:
    source = (
        textwrap.dedent(LOOP)
        .format(dtype=", dtype=DTYPE", switch="")
        .replace("from torch import nn\n", "from torch import nn\n\nDTYPE = torch.float16\n")
    )
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    assert f"DTYPE = {EITHER}\n" in text
    assert 'autocast("cuda", dtype=DTYPE)' in text
    assert "enabled=" in text


@pytest.mark.parametrize(
    "question",
    [
        "BF16 = torch.cuda.is_bf16_supported()",
        "BF16 = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8",
    ],
)
def test_the_projects_own_question_is_used(tmp_path: Path, question: str) -> None:
    source = (
        textwrap.dedent(LOOP)
        .format(dtype="", switch="")
        .replace("from torch import nn\n", f"from torch import nn\n\n{question}\n")
    )
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    assert "USE_BF16" not in text
    assert "dtype=torch.bfloat16 if BF16 else torch.float16" in text
    assert "enabled=not BF16" in text


@pytest.mark.parametrize(
    "imports",
    [
        "import os\ntry:\n    import torch\nexcept ImportError:\n    raise SystemExit\n",
        "from torch import autocast\nfrom torch.amp import GradScaler\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
        "import sys\nsys.path.append('..')\nimport torch.nn as nn\nimport torch as th\n",
        '"""What it does."""\nfrom __future__ import annotations\nimport torch, os\nSEED = 1\nimport sys\n',
        "import torch; import os\n",
    ],
)
def test_the_question_stands_below_torchs_import(tmp_path: Path, imports: str) -> None:
    body = LOOP.format(dtype="", switch="").partition("from torch import nn\n")[2]
    source = imports + textwrap.dedent(body)
    if "import autocast" in imports:
        source = source.replace("torch.autocast(", "autocast(").replace("torch.amp.GradScaler(", "GradScaler(")
    if "as th" in imports:
        source = source.replace("torch.a", "th.a")
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    scope: dict[str, object] = {}
    exec(compile(text, "train.py", "exec"), scope)
    assert scope["USE_BF16"] is True or scope["USE_BF16"] is False
    assert text.count("USE_BF16 =") == 1


SILENT = {
    "asks already": LOOP.format(dtype=f", dtype={EITHER}", switch=", enabled=not USE_BF16").replace(
        "from torch import nn", "USE_BF16 = torch.cuda.is_bf16_supported(including_emulation=False)"
    ),
    "a dtype by the machine": LOOP.format(dtype=", dtype=dtype", switch=", enabled=dtype == torch.float16").replace(
        "from torch import nn", "dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16"
    ),
    "an island": """
        import torch

        def train(model, x, optimizer):
            with torch.autocast("cuda", enabled=False):
                loss = model(x).mean()
            loss.backward()
            optimizer.step()
    """,
    "on the CPU": """
        import torch

        def train(model, x, optimizer):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(x).mean()
            loss.backward()
            optimizer.step()
    """,
    "inference": """
        import torch

        @torch.no_grad()
        def predict(model, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return model(x)
    """,
}


@pytest.mark.parametrize("name", SILENT)
def test_these_stay_as_they_are(tmp_path: Path, name: str) -> None:
    texts, report = portable(tmp_path, {"train.py": SILENT[name]})
    assert not texts
    assert not [finding for finding in report.remaining if finding.code == "PF001"]


def test_a_users_setting_is_left_to_the_user(tmp_path: Path) -> None:
    source = LOOP.format(dtype=", dtype={'fp16': torch.float16, 'bf16': torch.bfloat16}[args.amp]", switch="")
    files = {
        "train.py": source.replace("optimizer):", "optimizer, args):"),
        "run.py": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--amp', default='fp16')\n",
    }
    texts, report = portable(tmp_path, files)
    assert "USE_BF16" not in "".join(texts.values())
    assert any("args.amp picks the dtype" in message for message in messages(report))


def test_a_name_that_is_taken_is_not_used_twice(tmp_path: Path) -> None:
    source = LOOP.format(dtype="", switch="").replace("def train(model", "def train(USE_BF16, model")
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    assert "COMPUTE_IN_BF16 = not torch.cuda.is_available()" in text
    assert "enabled=not COMPUTE_IN_BF16" in text


# --- trainers ---------------------------------------------------------------------------------------------------------


def test_calls_of_trainers(tmp_path: Path) -> None:
    source = """
        import lightning as L
        from accelerate import Accelerator
        from transformers import TrainingArguments
        from trl import SFTConfig

        arguments = TrainingArguments("out", fp16=True)
        config = SFTConfig(output_dir="out")
        accelerator = Accelerator(mixed_precision="fp16")
        trainer = L.Trainer(precision="bf16-mixed")
    """
    texts, report = portable(tmp_path, {"train.py": source})
    text = texts["train.py"]
    assert text.count("USE_BF16 =") == 1
    assert text.index("import torch\n") < text.index("USE_BF16 =") < text.index("arguments =")
    both = "bf16=USE_BF16 and torch.cuda.is_available()"
    assert f'TrainingArguments("out", fp16=not USE_BF16, {both})' in text
    assert f'SFTConfig(output_dir="out", {both}, fp16=not USE_BF16)' in text
    assert 'Accelerator(mixed_precision="bf16" if USE_BF16 else "fp16")' in text
    assert 'L.Trainer(precision="bf16-mixed" if USE_BF16 else "16-mixed")' in text
    assert not report.remaining


def test_a_device_test_is_no_question_about_bfloat16(tmp_path: Path) -> None:
    source = """
        import torch
        from transformers import TrainingArguments

        first = TrainingArguments("out", fp16=torch.cuda.is_available())
        second = TrainingArguments("out", bf16=torch.cuda.is_bf16_supported(), fp16=not torch.cuda.is_bf16_supported())
        third = TrainingArguments("out", bf16=torch.cuda.is_bf16_supported())
    """
    open_end = "from transformers import TrainingArguments\n\nfourth = TrainingArguments('out', bf16=chosen)\n"
    texts, report = portable(tmp_path, {"train.py": source, "other.py": open_end})
    rows = texts["train.py"].splitlines()
    assert 'first = TrainingArguments("out", fp16=not USE_BF16, bf16=USE_BF16 and torch.cuda.is_available())' in rows
    assert rows[-2:] == textwrap.dedent(source).splitlines()[-2:]
    assert [finding.path for finding in report.remaining if finding.code == "PF001"] == ["other.py"]


def test_lightning_1_has_other_words(tmp_path: Path) -> None:
    files = {
        "train.py": "import pytorch_lightning as pl\n\ntrainer = pl.Trainer(precision=16)\n",
        "requirements.txt": "pytorch-lightning==1.9.5\ntorch>=2.4\n",
    }
    assert 'precision="bf16" if USE_BF16 else 16)' in portable(tmp_path, files)[0]["train.py"]


def test_files_cannot_ask(tmp_path: Path) -> None:
    files = {
        "accelerate.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nmixed_precision: fp16\n",
        "off.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nmixed_precision: 'no'\n",
        "axolotl.yaml": "base_model: m\nmicro_batch_size: 1\nbf16: true\n",
        "ds_config.json": '{"train_batch_size": "auto", "fp16": {"enabled": true}, "bf16": {"enabled": false}}\n',
        "ds_own.json": '{"train_batch_size": 8, "bf16": {"enabled": true}}\n',
        "README.md": "axolotl train axolotl.yaml\n\ndeepspeed train.py --deepspeed ds_config.json\n",
    }
    texts, report = portable(tmp_path, files)
    assert texts["axolotl.yaml"].endswith("bf16: auto\n")
    assert texts["ds_config.json"].count('{"enabled": "auto"}') == 2
    told = {finding.path: finding.message for finding in report.remaining}
    assert set(told) == {"accelerate.yaml", "ds_own.json"}
    assert "a file cannot ask the machine" in told["accelerate.yaml"]


# --- weights ----------------------------------------------------------------------------------------------------------


def test_quantized_and_frozen_weights(tmp_path: Path) -> None:
    source = """
        import torch
        from peft import get_peft_model
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

        bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
        model = AutoModelForCausalLM.from_pretrained("m", torch_dtype="bfloat16", quantization_config=bits)
        arguments = TrainingArguments("out", fp16=True)
        Trainer(get_peft_model(model), arguments).train()
    """
    text = portable(tmp_path, {"train.py": source})[0]["train.py"]
    assert f"bnb_4bit_compute_dtype={EITHER})" in text
    assert 'torch_dtype="bfloat16" if USE_BF16 else "float16", quantization' in text


def test_trained_half_weights_are_reported(tmp_path: Path) -> None:
    source = """
        import torch
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
        arguments = TrainingArguments("out", bf16=True)
        Trainer(model, arguments).train()
    """
    texts, report = portable(tmp_path, {"train.py": source})
    assert texts == {}, "the arguments stay with the weights that have to be cast by hand"
    assert any("keep trainable parameters in float32" in message for message in messages(report))
