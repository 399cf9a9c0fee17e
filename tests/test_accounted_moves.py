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


PICKED = """
    import argparse
    from contextlib import suppress

    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--native-amp", action="store_true")
    args = parser.parse_args()
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    backend = None
    if args.native_amp:
        backend = "native"
    {made}
    for inputs in torch.ones(4, 4, 8, device="cuda"):
        with {entered}:
            loss = model(inputs).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
PASSED_ON = "context = suppress\n    if backend == 'native':\n        context = torch.cuda.amp.autocast"
MADE = "context = torch.autocast('cuda') if backend == 'native' else suppress()"


@pytest.mark.parametrize(
    ("made", "entered"),
    [
        (PASSED_ON, "context()"),
        ("", "torch.autocast('cuda', enabled=backend == 'native')"),
        ("", "torch.autocast('cuda', enabled=backend in ('native', 'torch'))"),
        (MADE, "context"),
    ],
)
def test_a_word_that_a_switch_picks_switches_regions(made: str, entered: str, tmp_path: Path) -> None:
    files = {"train.py": PICKED.format(made=made, entered=entered), "run.sh": "python train.py --native-amp\n"}
    found = read(tmp_path / "given", files)
    assert [each.regime for each in found.runs] == ["fp16-mixed"]
    (run,) = read(tmp_path / "off", {"train.py": files["train.py"]}).runs
    assert (run.default, run.otherwise) == ("fp32", "fp16-mixed with native_amp")
    _, runs = moved(tmp_path / "moved", all_rules(), {**files, "requirements.txt": PINS}, "fp32")
    assert runs["run.sh"].after != "fp32" or runs["run.sh"].state is MoveState.MOVED


COMMANDS = """
    import argparse

    import torch

    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("pretrain").add_argument("--precision", default="fp16", choices=["fp16", "bf16"])
    commands.add_parser("tune").add_argument("--precision", default="{other}", choices=["fp32", "fp16", "bf16"])
    args = parser.parse_args()
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    dtype = {{"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}}[args.precision]
    for inputs in torch.ones(4, 4, 8, device="cuda"):
        with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
            loss = model(inputs).sum()
        loss.backward()
        optimizer.step()
"""


def test_commands_with_other_defaults_of_one_option_are_not_told_apart(tmp_path: Path) -> None:
    files = {"train.py": COMMANDS.format(other="bf16"), "run.sh": "python train.py tune\n", "requirements.txt": PINS}
    _, runs = moved(tmp_path / "other", all_rules(), files)
    assert (runs["run.sh"].before, runs["run.sh"].after) == ("unknown", "bf16-mixed")
    report, runs = moved(tmp_path / "off", all_rules(), {**files, "train.py": COMMANDS.format(other="fp32")})
    assert (not report.changes, runs["run.sh"].before) == (True, "unknown")
    _, runs = moved(tmp_path / "same", all_rules(), {**files, "train.py": COMMANDS.format(other="fp16")})
    assert (runs["run.sh"].before, runs["run.sh"].after) == ("fp16-mixed", "bf16-mixed")


MMCV = """
    import argparse

    from mmcv import Config
    from mmdet.apis import train_detector

    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    cfg = Config.fromfile(parser.parse_args().config)
    train_detector(build(cfg.model), [], cfg)
"""
HOOK = "_base_ = './base.py'\noptimizer_config = dict(type='{}', loss_scale=512.0, distributed=False{})\n"
OLD_CONFIGS = {
    "base.py": "optimizer = dict(type='SGD', lr=0.02)\noptimizer_config = dict(grad_clip=None)\n",
    "section.py": "_base_ = './base.py'\nfp16 = dict(loss_scale=512.0)\n",
    "hook.py": HOOK.format("Fp16OptimizerHook", ""),
    "often.py": HOOK.format("GradientCumulativeFp16OptimizerHook", ", cumulative_iters=4"),
    "own.py": HOOK.format("EmaFp16OptimizerHook", ""),
    "unseen.py": "_base_ = '../library/base.py'\nfp16 = dict(loss_scale=512.0)\n",
}


def test_a_configuration_of_mmcv_without_its_switch_is_in_float32(tmp_path: Path) -> None:
    names = [name for name in OLD_CONFIGS if name != "base.py"]
    files = {f"configs/{name}": text for name, text in OLD_CONFIGS.items()}
    files |= {f"{name}.sh": f"python train.py configs/{name}\n" for name in names}
    report, runs = moved(tmp_path, all_rules(), {**files, "train.py": MMCV}, "fp32")
    arrived = {path: each.after for path, each in runs.items() if path.endswith(".sh")}
    left = {"own.py.sh": "fp16-mixed", "unseen.py.sh": "fp16-mixed"}
    assert arrived == {**{f"{name}.sh": "fp32" for name in names}, **left}
    (often,) = (change.after.decode() for change in report.changes if change.path == "configs/often.py")
    assert "dict(type='GradientCumulativeOptimizerHook', cumulative_iters=4)" in often


SECTION_PASSED = """
    import argparse

    import yaml
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    with open(parser.parse_args().config) as file:
        cfg = yaml.safe_load(file)
    Trainer(AutoModelForCausalLM.from_pretrained("m"), TrainingArguments(**cfg["training"])).train()
"""


@pytest.mark.parametrize(
    "shown", ["Run `python train.py --config conf/x.yaml`.", "(`python train.py --config conf/x.yaml`)"]
)
def test_a_file_that_a_sentence_of_a_read_me_names_is_that_of_the_run(shown: str, tmp_path: Path) -> None:
    files = {"train.py": SECTION_PASSED, "conf/x.yaml": "training:\n  output_dir: out\n  fp16: true\n"}
    _, runs = moved(tmp_path, all_rules(), {**files, "README.md": f"# It\n\n{shown}\n", "requirements.txt": PINS})
    assert (runs["train.py"].before, runs["train.py"].after) == ("fp16-mixed", "bf16-mixed")


COMPOSED = """
    import hydra
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


    @hydra.main(config_path="conf", config_name="config", version_base=None)
    def main(cfg):
        Trainer(AutoModelForCausalLM.from_pretrained(cfg.model), TrainingArguments(**cfg.trainer)).train()


    main()
"""


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("trainer.fp16=true", "fp16-mixed", "trainer.fp16=false"),
        ("++trainer.bf16=true", "bf16-mixed", "++trainer.bf16=false"),
        ("trainer.bf16=false", "fp32", "trainer.bf16=false"),
    ],
)
def test_a_line_says_over_a_section_that_is_passed_on(line: str, before: str, after: str, tmp_path: Path) -> None:
    config = "model: m\ntrainer:\n  output_dir: out\n  fp16: false\n  bf16: false\n"
    files = {"train.py": COMPOSED, "conf/config.yaml": config, "run.sh": f"python train.py {line}\n"}
    _, runs = moved(tmp_path / "away", all_rules(), {**files, "requirements.txt": PINS}, "fp16-mixed", unsafe=True)
    assert runs["run.sh"].before == before
    report, runs = moved(tmp_path / "off", all_rules(), {**files, "requirements.txt": PINS}, "fp32")
    assert runs["run.sh"].after == "fp32"
    assert [change.after.decode() for change in report.changes] == [f"python train.py {after}\n"] * (line != after)


def test_a_line_that_switches_one_of_two_off_leaves_the_other_to_the_file(tmp_path: Path) -> None:
    config = "model: m\ntrainer:\n  output_dir: out\n  bf16: true\n"
    files = {"train.py": COMPOSED, "conf/config.yaml": config, "run.sh": "python train.py +trainer.fp16=false\n"}
    assert [run.regime for run in read(tmp_path, files).runs] == ["bf16-mixed"]


BY_WORD = """
    import argparse
    from contextlib import nullcontext

    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="fp32", choices={words})
    args = parser.parse_args()


    def autocast(precision):
    {body}


    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    region = autocast(args.precision)
    for inputs in torch.ones(4, 4, 8, device="cuda"):
        with region{called}:
            loss = model(inputs).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
ON_AMP = 'return torch.autocast("cuda", dtype=torch.float16) if precision == "amp" else nullcontext()'
PLAIN = 'if precision == "amp":\n            return torch.cuda.amp.autocast\n        return nullcontext'
BUT_FP32 = 'return nullcontext() if precision == "fp32" else torch.autocast("cuda", dtype=torch.float16)'


def by_word(body: str, words: str, called: str = "") -> str:
    return BY_WORD.replace("    {body}", f"        {body}").format(words=words, called=called)


@pytest.mark.parametrize(
    "code",
    [
        by_word(ON_AMP, "['fp32', 'amp']"),
        by_word(PLAIN, "['fp32', 'amp']", "()"),
        by_word(BUT_FP32, "['fp32', 'fp16']"),
    ],
)
def test_a_word_switches_the_region_that_it_is_tested_for(code: str, tmp_path: Path) -> None:
    (run,) = read(tmp_path / "off", {"train.py": code}).runs
    assert run.regime == "fp32"
    word = "amp" if "'amp'" in code else "fp16"
    (run,) = read(tmp_path / "on", {"train.py": code, "run.sh": f"python train.py --precision {word}\n"}).runs
    assert run.regime == "fp16-mixed"
    report, _ = moved(tmp_path / "fp32", all_rules(), {"train.py": code, "requirements.txt": PINS}, "fp32")
    assert not report.changes  # the word would do nothing then


def test_a_word_for_one_dtype_is_not_made_to_choose_the_other(tmp_path: Path) -> None:
    files = {"train.py": by_word(BUT_FP32, "['fp32', 'fp16']"), "requirements.txt": PINS}
    report, _ = moved(tmp_path / "named", all_rules(), files)
    assert not report.changes
    report, _ = moved(tmp_path / "open", all_rules(), {**files, "train.py": by_word(ON_AMP, "['fp32', 'amp']")})
    assert [change.path for change in report.changes] == ["train.py"]


def test_what_moves_for_runs_that_switch_it_on_is_accounted_for(tmp_path: Path) -> None:
    code = by_word(ON_AMP, "['fp32', 'amp']").replace(
        "for inputs in", "model.set_up(dtype=torch.float16)\n    for inputs in"
    )
    report, runs = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": PINS})
    assert not report.changes
    assert "set_up" in runs["train.py"].why[0].message


BANK = """
    import torch


    class Bank(list):
        @classmethod
        def load(cls, path, half=False):
            return cls(row.half() if half else row for row in torch.load(path))
"""
WITH_BANK = """
    import torch

    from bank import Bank

    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for inputs in Bank.load("bank.pt"{given}):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(inputs).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("given", "held"), [(", half=True", True), ("", False)])
def test_a_cast_behind_a_switch_that_is_given_is_accounted_for(given: str, held: bool, tmp_path: Path) -> None:
    code = WITH_BANK.format(given=given)
    files = {"train.py": code, "bank.py": BANK, "requirements.txt": PINS}
    report, _ = moved(tmp_path, all_rules(), files)
    assert bool(report.changes) is not held


LOOKS_ALIKE = "trainer:\n  max_epochs: 3\n  accelerator: gpu\n  devices: 2\n  precision: 16-mixed\n"
ENGINE = """
    import sys

    import yaml
    from lightning.fabric import Fabric

    import engine

    engine.start(yaml.safe_load(open(sys.argv[1])))
"""
OWN_TRAINER = """
    import sys

    import yaml
    from lightning.pytorch import Trainer

    from net import Net

    cfg = yaml.safe_load(open(sys.argv[1]))
    Trainer(**cfg["trainer"]).fit(Net())
"""
NET = "from lightning.pytorch import LightningModule\n\n\nclass Net(LightningModule):\n    pass\n"


@pytest.mark.parametrize(("code", "moves"), [(ENGINE, False), (OWN_TRAINER, True)])
def test_a_file_that_only_looks_like_a_trainers_needs_leave(code: str, moves: bool, tmp_path: Path) -> None:
    files = {"train.py": code, "net.py": NET, "settings.yaml": LOOKS_ALIKE, "run.sh": "python train.py settings.yaml\n"}
    report, _ = moved(tmp_path, all_rules(), {**files, "requirements.txt": "torch>=2.4\nlightning>=2.2\n"})
    assert [change.path for change in report.changes] == ["settings.yaml"] * moves


TURNED = """
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from LIBRARY import FUNCTION

    def turned(x, cos, sin):
        return x * cos + FUNCTION(x) * sin

    model = AutoModelForCausalLM.from_pretrained("gpt2")
    model.apply_turn = turned
    Trainer(model, TrainingArguments("out", bf16=True)).train()
"""


@pytest.mark.parametrize(
    ("library", "function", "is_moved"),
    [
        ("transformers.models.llama.modeling_llama", "rotate_half", True),
        ("flash_attn.layers.rotary", "rotate_half", True),
        ("apex.fp16_utils", "network_to_half", False),
        ("kit", "rotate_half_bf16", False),
        ("kit", "half", False),
    ],
)
def test_half_of_a_tensor_is_no_precision(library: str, function: str, is_moved: bool, tmp_path: Path) -> None:
    code = TURNED.replace("LIBRARY", library).replace("FUNCTION", function)
    _, runs = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": PINS}, "fp16-mixed")
    assert runs["train.py"].state is (MoveState.MOVED if is_moved else MoveState.WITHDRAWN)


PREPARED = """
    import torch
    from accelerate import Accelerator
    from accelerate.utils import AutocastKwargs

    accelerator = Accelerator(HANDLERS)
    model = torch.nn.Linear(8, 8)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    for number, inputs in enumerate(torch.ones(4, 4, 8)):
        with accelerator.autocast(GIVEN):
            loss = model(inputs).sum()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("handlers", "given", "is_moved"),
    [
        ("", "", True),
        ("", "autocast_handler=AutocastKwargs(enabled=number < 2)", True),
        ("", "AutocastKwargs(enabled=False)", True),
        ("kwargs_handlers=[AutocastKwargs(enabled=False)]", "", False),
        ("", "KINDS[number]", False),
    ],
)
@pytest.mark.parametrize("target", ["fp32", "fp16-mixed"])
def test_a_handler_can_only_leave_a_region_of_accelerate_out(
    handlers: str, given: str, target: str, is_moved: bool, tmp_path: Path
) -> None:
    code = PREPARED.replace("HANDLERS", handlers).replace("GIVEN", given)
    files = {
        "train.py": code,
        "run.sh": "accelerate launch --mixed_precision bf16 train.py\n",
        "requirements.txt": PINS,
    }
    report, _ = moved(tmp_path, all_rules(), files, target)
    assert bool(report.changes) is is_moved


IN_SLURM = {"job.sh": "#!/bin/bash\n#SBATCH --export=ALL,TRAIN_PRECISION=fp16\nsrun python train.py\n"}
BY_GIN = f"""
import gin
import torch


@gin.configurable
def chosen(precision="fp16"):
    return {{"fp16": torch.float16, "bf16": torch.bfloat16}}[precision]


gin.parse_config_file("base.gin")
DTYPE = chosen()
{STEP}"""


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": BY_VARIABLE, **IN_SLURM},
        {"train.py": BY_VARIABLE, "README.md": "With TRAIN_PRECISION=fp16 it is slow.\n\n    python train.py\n"},
        {"train.py": BY_GIN, "base.gin": "chosen.precision = 'fp16'\n"},
    ],
    ids=["scheduler", "prose", "gin"],
)
def test_other_places_that_say_over_a_default_hold_a_move_back(files: dict[str, str], tmp_path: Path) -> None:
    report, _ = moved(tmp_path, all_rules(), {**files, "requirements.txt": PINS})
    assert not report.changes
