"""Programs are runs of their own with what they import, and what nobody follows there is told after a move."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.model import Applicability
from precfix.codemod.outcome import MoveState, RunMove
from precfix.codemod.report.move_table import move_lines

from .fixture_cases import REPOSITORY, all_rules
from .test_audited_runs import read
from .test_moving import moved, paths_changed

STEP = """
    import torch


    def train(config, model, data, optimizer):
        dtype = torch.float16 if config.mixed_precision == "fp16" else torch.bfloat16
        use_amp = config.mixed_precision in ("fp16", "bf16")
        scaler = torch.amp.GradScaler("cuda", enabled=config.mixed_precision == "fp16")
        for inputs in data:
            with torch.autocast("cuda", dtype=dtype, enabled=use_amp):
                loss = model(inputs).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
CONFIG = """
    from dataclasses import dataclass


    @dataclass
    class Settings:
        rate: float
        mixed_precision: str = "fp16"
"""
PROGRAM = """
    import argparse

    from config import Settings
    from step import train

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--mixed_precision", default="fp16", choices=["no", "fp16", "bf16"])
        args = parser.parse_args()
        train(Settings(1e-4, mixed_precision=args.mixed_precision), None, [], None)
"""
PINS = "torch>=2.4\n"
TREE = {"main.py": PROGRAM, "step.py": STEP, "config.py": CONFIG, "requirements.txt": PINS}
TRAINER = """
    import torch
    from transformers import Trainer, TrainingArguments

    {before}
    args = TrainingArguments("out", bf16=True)
    Trainer(make(), args).train()
"""


def closing(runs: dict[str, RunMove], target: str) -> str:
    lines = move_lines(list(runs.values()), target, lambda path, row: f"{path}:{row}", planned=True)
    return "\n".join("".join(text for text, _ in line) for line in lines)


def test_a_program_is_a_run_with_the_modules_that_it_imports(tmp_path: Path) -> None:
    _, runs = moved(tmp_path, all_rules(), TREE, unsafe=True)
    assert list(runs) == ["main.py"]
    assert (runs["main.py"].before, runs["main.py"].after) == ("fp16-mixed", "bf16-mixed")


def test_a_program_that_only_imports_from_the_step_is_no_run(tmp_path: Path) -> None:
    step = f"{STEP}\n\n    def names():\n        return []\n"
    show = 'from step import names\n\nif __name__ == "__main__":\n    print(names())\n'
    _, runs = moved(tmp_path, all_rules(), {**TREE, "step.py": step, "show.py": show}, unsafe=True)
    assert list(runs) == ["main.py"]


def test_what_a_class_is_built_with_moves_and_not_the_default_that_it_replaces(tmp_path: Path) -> None:
    report, _ = moved(tmp_path, all_rules(), TREE, unsafe=True)
    assert {change.path for change in report.changes} == {"main.py"}
    (change,) = report.changes
    assert '"--mixed_precision", default="bf16"' in change.after.decode()


def test_a_word_that_no_test_of_the_setting_knows_is_not_written(tmp_path: Path) -> None:
    step = STEP.replace('in ("fp16", "bf16")', '!= "no"') + '\n    words = ("fp16", "bf16")\n'
    report, runs = moved(tmp_path, all_rules(), {**TREE, "step.py": step}, unsafe=True)
    assert report.changes == ()
    assert runs["main.py"].state is MoveState.LEFT


def test_a_program_that_does_not_train_is_no_run(tmp_path: Path) -> None:
    show = 'import torch\n\nif __name__ == "__main__":\n    print(torch.zeros(1, dtype=torch.float16))\n'
    _, runs = moved(tmp_path, all_rules(), {**TREE, "show.py": show}, unsafe=True)
    assert list(runs) == ["main.py"]


STAYING = {
    "a tensor is made": "buffer = torch.zeros(4, dtype=torch.bfloat16)",
    "a tensor is cast": "x = torch.rand(4).type(torch.bfloat16)",
}
EXPLAINED = {
    "a default": "def make(x, dtype=torch.bfloat16):\n        return x.to(dtype)",
    "a comment on something else": "# bfloat16, torch.bfloat16\n    steps = 3",
    "a string": 'print("torch.bfloat16")',
    "a comparison": "is_half = torch.get_default_dtype() == torch.bfloat16",
    "a collection": "known = [torch.bfloat16, torch.float32]",
    "a table": 'table = {"bf16": torch.bfloat16, "fp16": torch.float16}',
    "a choice": "import sys\n    x = torch.bfloat16 if sys.argv else torch.float16",
    "a branch": "use_bf16 = print()\n    if use_bf16:\n        x = torch.zeros(4, dtype=torch.bfloat16)",
}


@pytest.mark.parametrize("before", STAYING.values(), ids=STAYING)
def test_what_still_names_the_old_type_is_told(before: str, tmp_path: Path) -> None:
    files = {"train.py": TRAINER.format(before=before), "requirements.txt": "torch>=2.4\ntransformers>=4.40\n"}
    _, runs = moved(tmp_path, all_rules(), files, "fp16-mixed")
    assert runs["train.py"].state is MoveState.LEFT
    assert "train.py:4 " in closing(runs, "fp16-mixed")
    report, _ = moved(tmp_path, all_rules(), files, "fp16-mixed", unsafe=True)
    assert not any(b"bfloat16" in change.after for change in report.changes)


@pytest.mark.parametrize("before", EXPLAINED.values(), ids=EXPLAINED)
def test_what_states_nothing_is_not(before: str, tmp_path: Path) -> None:
    files = {"train.py": TRAINER.format(before=before), "requirements.txt": "torch>=2.4\ntransformers>=4.40\n"}
    _, runs = moved(tmp_path, all_rules(), files, "fp16-mixed", unsafe=True)
    assert (runs["train.py"].state, runs["train.py"].still) == (MoveState.MOVED, ())


def test_files_that_nothing_is_seen_to_read_wait_for_leave(tmp_path: Path) -> None:
    reads = """
        import json
        import sys

        from accelerate import Accelerator

        config = json.load(open(sys.argv[1]))
        accelerator = Accelerator(mixed_precision=config["mixed_precision"])
        accelerator.backward(config["rate"] + config["steps"])
    """
    setting = '{"rate": 1, "steps": 2, "mixed_precision": "fp16"}\n'
    files = {"train.py": reads, "one.json": setting, "two.json": setting, "requirements.txt": PINS}
    _, runs = moved(tmp_path, all_rules(), files)
    assert {path: each.state for path, each in runs.items() if path.endswith("json")} == {
        "one.json": MoveState.LEFT,
        "two.json": MoveState.LEFT,
    }
    said = closing(runs, "bf16-mixed")
    assert "needs --unsafe-fixes, as nothing is seen to read this file" in said
    assert "3 runs: 3 left" in said


def test_the_accelerator_branch_of_a_choice_by_a_device_moves(tmp_path: Path) -> None:
    code = """
        import torch
        from lightning import Trainer

        trainer = Trainer(precision="16-mixed" if torch.cuda.is_available() else "32-true")
        trainer.fit(make())
    """
    report, runs = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": "torch>=2.4\nlightning>=2.1\n"})
    assert runs["train.py"].state is MoveState.MOVED
    (change,) = report.changes
    assert '"bf16-mixed" if torch.cuda.is_available() else "32-true"' in change.after.decode()


def test_a_section_that_code_takes_by_its_name_is_not_renamed(tmp_path: Path) -> None:
    code = """
        import json

        import deepspeed

        with open("ds.json") as file:
            config = json.load(file)
        config["fp16"]["enabled"] = True
        engine, *_ = deepspeed.initialize(model=make(), config=config)
        engine.backward(engine(1))
    """
    setting = '{"train_batch_size": 4, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}\n'
    report, runs = moved(tmp_path, all_rules(), {"train.py": code, "ds.json": setting}, unsafe=True)
    assert report.changes == ()
    assert any("takes the section fp16 from this file" in place.message for place in runs["train.py"].why)


HELD = """
    from transformers import Seq2SeqTrainingArguments, Trainer, TrainingArguments

    if make():
        made = {first}
    else:
        made = TrainingArguments
    Trainer(make(), made("out", fp16=True)).train()
"""
TRAINERS = "torch>=2.4\ntransformers>=4.40\n"


def test_a_constructor_that_a_variable_holds_is_called_through_it(tmp_path: Path) -> None:
    files = {"train.py": HELD.format(first="Seq2SeqTrainingArguments"), "requirements.txt": TRAINERS}
    report, runs = moved(tmp_path, all_rules(), files)
    assert runs["train.py"].state is MoveState.MOVED
    (change,) = report.changes
    assert 'made("out", bf16=True)' in change.after.decode()


def test_a_variable_that_may_hold_something_else_calls_no_trainer(tmp_path: Path) -> None:
    files = {"train.py": HELD.format(first="dict"), "requirements.txt": TRAINERS}
    report, runs = moved(tmp_path, all_rules(), files)
    assert report.changes == ()
    assert runs["train.py"].state is MoveState.LEFT, "the argument is told all the same"


def test_a_launch_line_of_a_program_that_is_not_here_is_told(tmp_path: Path) -> None:
    _, runs = moved(tmp_path, all_rules(), {"run.sh": "python elsewhere.py --precision bf16-true\n"}, "fp16-mixed")
    assert "run.sh:1 still says bfloat16: --precision is bf16-true" in closing(runs, "fp16-mixed")


GENERATED = """
    import argparse

    parser = argparse.ArgumentParser()
    for name, value in {{"rate": 1.0, "use_fp16": False}}.items():
        parser.add_argument({flag}, default=value)
    args = parser.parse_args()
    make(args).backward()
"""


@pytest.mark.parametrize(("flag", "is_told"), [('f"--{name}"', True), ('"--rate"', False)])
def test_options_that_code_makes_of_data_are_taken(flag: str, is_told: bool, tmp_path: Path) -> None:
    files = {"train.py": GENERATED.format(flag=flag), "run.sh": "python train.py --use_fp16 True\n"}
    _, runs = moved(tmp_path, all_rules(), files)
    assert ("--use_fp16 is True" in closing(runs, "bf16-mixed").replace("true", "True")) is is_told


def test_the_level_of_apex_is_told(tmp_path: Path) -> None:
    code = """
        from apex import amp

        if args.fp16:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        loss.backward()
    """
    _, runs = moved(tmp_path, all_rules(), {"train.py": code})
    assert "train.py:4 amp.initialize is O1: no automatic edit is known" in closing(runs, "bf16-mixed")


def test_a_setting_that_stands_in_very_many_files_is_followed(tmp_path: Path) -> None:
    code = """
        import argparse
        import json

        from accelerate import Accelerator

        parser = argparse.ArgumentParser()
        parser.add_argument("--config")
        config = json.load(open(parser.parse_args().config))
        accelerator = Accelerator(mixed_precision=config["mixed_precision"])
        accelerator.backward(config["rate"])
    """
    files = {f"c{number}.json": '{"rate": 1, "mixed_precision": "fp16"}\n' for number in range(30)}
    lines = "".join(f"python train.py --config {name}\n" for name in files)
    tree = {"train.py": code, "run.sh": lines, "requirements.txt": "accelerate>=1.0\n", **files}
    report, _ = moved(tmp_path, all_rules(), tree, unsafe=True)
    assert {change.path for change in report.changes} == set(files)


BESIDE_A_HALF = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            return self.layer(x)


    def main():
        model = Net().to("cuda")
        opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for x in [torch.randn(4, 8) for _ in range(4)]:
            x = x.to("cuda")
            with torch.autocast("cuda", dtype=torch.float16):
                out = model(x)
            out.float().mean().backward()
            opt.step()
            back = out.detach() @ torch.ones(4, 4, dtype=torch.float16)


    if __name__ == "__main__":
        main()
"""


def test_what_only_the_edits_write_is_not_said_to_be_there_still(tmp_path: Path) -> None:
    report, _ = moved(tmp_path, all_rules(), {"train.py": BESIDE_A_HALF, "requirements.txt": PINS}, "fp32", unsafe=True)
    (change,) = report.changes
    assert b"model(x).to(dtype=torch.float16)" in change.after
    said = [place.message for each in report.moves for place in each.still]
    assert "says float16 after the edits: model(x).to(float16)" in said
    assert any(text.startswith("still says float16: ones") for text in said)


SHOWN = """# Tune

```bash
accelerate launch main.py \\
  --mixed_precision fp16 \\
  --rate 1
```
`python main.py --bf16`
"""


@pytest.mark.parametrize("path", ["README.md", "docs/TRAINING.md"])
def test_what_a_read_me_starts_a_program_with_is_listed_and_told(path: str, tmp_path: Path) -> None:
    files = {**TREE, path: SHOWN, "run.sh": "python main.py --mixed_precision fp16\n"}
    listed = [item for item in read(tmp_path / "stated", files).declarations if item.role == "documented"]
    assert [(item.path, item.span.row, item.key, item.value) for item in listed] == [
        (path, 5, "--mixed_precision", "fp16"),
        (path, 8, "--bf16", "true"),
    ]
    _, runs = moved(tmp_path / "moved", all_rules(), files)
    assert runs["run.sh"].state is MoveState.MOVED
    told = [(place.path, place.span.row, place.message) for place in runs["run.sh"].still]
    assert told == [(path, 5, "a read-me still starts the program with --mixed_precision fp16")]


SWITCHED = """import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-amp", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", enabled=args.use_amp)
for _ in range(3):
    with torch.autocast("cuda", enabled=args.use_amp):
        loss = model(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def test_a_switch_of_a_region_that_a_read_me_shows_is_listed_and_told(tmp_path: Path) -> None:
    read_me = "Faster:\n\n    python train.py --use-amp\n\nas `python other.py --use-amp`\n"
    files = {
        "train.py": SWITCHED,
        "README.md": read_me,
        "requirements.txt": PINS,
        "run.sh": "python train.py --use-amp\n",
    }
    listed = [item for item in read(tmp_path / "stated", files).declarations if item.role == "documented"]
    assert [(item.path, item.span.row, item.key, item.value) for item in listed] == [
        ("README.md", 3, "--use_amp", "true")
    ]
    _, runs = moved(tmp_path / "moved", all_rules(), files, "fp32")
    (run,) = runs.values()
    assert run.state is MoveState.MOVED
    assert [(place.path, place.span.row) for place in run.still] == [("README.md", 3)]


def test_a_scaler_that_stays_on_in_float32_is_told_and_moves_with_leave(tmp_path: Path) -> None:
    case = REPOSITORY / "fixtures/rules/precision-off-target/scaler-in-a-class-of-another-file/input"
    files = {path.name: path.read_text() for path in case.iterdir()}
    report, runs = moved(tmp_path, all_rules(), files, "fp32")
    (run,) = runs.values()
    assert run.state is MoveState.MOVED
    assert [(place.path, place.span.row) for place in run.still] == [("scaling.py", 6)]
    (left,) = (item for item in report.remaining if item.code == "PF001")
    assert left.fixes[0].applicability is Applicability.UNSAFE


def test_a_fallback_is_no_reason_where_a_file_of_the_run_has_the_key(tmp_path: Path) -> None:
    case = REPOSITORY / "fixtures/rules/precision-off-target/silent-fallback-beside-a-file/input"
    files = {path.name: path.read_text() for path in case.iterdir()}
    _, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert [(place.path, place.span.row) for place in runs["run.sh"].why] == [("settings.json", 2)]


REMARKED = """#!/bin/bash
# the card is old: fp16, where bf16 would be better

# fp16 is faster here
python train.py --mixed_precision fp16
echo "done in float16"
cat > notes.txt <<END
kind: half precision
END
"""
BY_OPTION = """import argparse
import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--mixed_precision", default="no")
args = parser.parse_args()
accelerator = Accelerator(mixed_precision=args.mixed_precision)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(torch.ones(1, 8, device=accelerator.device)).sum())
optimizer.step()
"""


def test_remarks_that_the_edits_make_false_are_told(tmp_path: Path) -> None:
    files = {"run.sh": REMARKED, "train.py": BY_OPTION, "requirements.txt": PINS}
    _, runs = moved(tmp_path, all_rules(), files)
    assert runs["run.sh"].state is MoveState.MOVED
    told = sorted((place.path, place.span.row) for place in runs["run.sh"].still)
    assert told == [("run.sh", 4), ("run.sh", 6), ("run.sh", 8)]


BESIDE = """
from accelerate import Accelerator
import torch

accelerator = Accelerator(mixed_precision="fp16")  # 保持FP16精度
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(torch.ones(1, 8, device=accelerator.device)).sum())
optimizer.step()
"""


def test_a_remark_on_the_edited_line_is_told_in_any_script(tmp_path: Path) -> None:
    _, runs = moved(tmp_path, all_rules(), {"train.py": BESIDE.lstrip(), "requirements.txt": PINS})
    (run,) = runs.values()
    assert run.state is MoveState.MOVED
    assert [place.message for place in run.still] == ["still says float16 in words: 保持FP16精度"]


@pytest.mark.parametrize(
    ("remark", "target", "said"),
    [
        ("半精度训练", "bf16-mixed", "still says float16 in words"),
        ("entrena en media precisión", "bf16-mixed", "still says float16 in words"),
        ("混合精度", "fp32", "still speaks of mixed precision"),
        ("обучение в смешанной точности", "fp32", "still speaks of mixed precision"),
        ("混合精度", "bf16-mixed", ""),
        ("精度が高い", "fp32", ""),
    ],
)
def test_remarks_in_other_languages_are_told_too(tmp_path: Path, remark: str, target: str, said: str) -> None:
    text = BESIDE.lstrip().replace("保持FP16精度", remark)
    _, runs = moved(tmp_path, all_rules(), {"train.py": text, "requirements.txt": PINS}, target)
    (run,) = runs.values()
    assert run.state is MoveState.MOVED
    assert [place.message for place in run.still] == ([f"{said}: {remark}"] if said else [])


LAUNCHER = """
if [ -z "${ARGS:-}" ]; then
    ARGS="bf16=true fp16=false"
fi
llamafactory-cli train train.yaml output_dir=out $ARGS
cat > ds.json <<EOF
{"fp16": {"enabled": true}, "bf16": {"enabled": false}, "zero_optimization": {"stage": 2}}
EOF
"""


def test_a_setting_that_the_edits_switch_off_says_nothing(tmp_path: Path) -> None:
    recipe = "stage: sft\nfinetuning_type: full\ntemplate: qwen3\nbf16: true\n"
    files = {"run.sh": LAUNCHER.lstrip(), "train.yaml": recipe, "requirements.txt": "llamafactory\n"}
    report, _ = moved(tmp_path, all_rules(), files, "fp32", unsafe=True)
    assert {run.state for run in report.moves} == {MoveState.MOVED}
    assert not [place for run in report.moves for place in run.still]


def test_a_comment_that_speaks_of_mixed_precision_is_told_on_the_way_to_float32(tmp_path: Path) -> None:
    code = SWITCHED.replace("for _ in", "# the sampler is no part of it\nfor _ in").replace(
        '    with torch.autocast("cuda", enabled=args.use_amp):',
        '    # forward with AMP\n    with torch.autocast("cuda"):',
    )
    files = {"train.py": code.replace(", enabled=args.use_amp", ""), "requirements.txt": PINS}
    _, runs = moved(tmp_path, all_rules(), files, "fp32")
    (run,) = runs.values()
    assert run.state is MoveState.MOVED
    (told,) = run.still
    assert told.message == "still speaks of mixed precision: forward with AMP"


LEFT = {
    "train.py": """
        import sys

        from helpers import halve, pick
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


        class Halving(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                out = model(**{name: halve(value).to(pick(sys.argv[2])) for name, value in inputs.items()})
                return (out.loss, out) if return_outputs else out.loss


        args = TrainingArguments("out", bf16=True, deepspeed=sys.argv[1])
        Halving(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=args).train()
    """,
    "helpers.py": """
        import torch


        def pick(kind):
            return torch.bfloat16 if kind == "bf16" else torch.float16


        def halve(x):
            return x.to(torch.bfloat16)


        def never(x):
            return x.bfloat16()
    """,
    "ds_config.json": '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}\n',
}


@pytest.mark.parametrize(
    ("target", "told"), [("fp16-mixed", ["helpers.py:9"]), ("fp32", ["helpers.py:5", "helpers.py:9"])]
)
def test_a_run_that_is_left_is_searched_like_one_that_moves(tmp_path: Path, target: str, told: list[str]) -> None:
    _, runs = moved(tmp_path, all_rules(), LEFT, target)
    (left,) = (run for run in runs.values() if run.path == "train.py")
    assert left.state is MoveState.LEFT
    places = [f"{place.path}:{place.span.row}" for place in (*left.why, *left.still)]
    assert [place for place in places if place.startswith("helpers")] == told


PREPARED = """
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 8)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    accelerator.backward(model(torch.ones(4, 8)).sum())
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("code", "row"),
    [
        ('base = "A=1 accelerate launch --mixed_precision bf16 train.py --config "\nprint(base)', 1),
        ('rate = 3\nstart = f"accelerate launch --mixed_precision=bf16 train.py --rate {rate}"', 2),
        ('start = (\n    "accelerate launch "\n    "--mixed_precision bf16 train.py"\n)', 3),
        ('def job():\n    """Sends this:\n\n    accelerate launch --mixed_precision bf16 train.py\n    """', 4),
        ('start = "accelerate launch --mixed_precision bf16 other.py"', 0),
        ('start = "accelerate launch --mixed_precision no train.py"', 0),
        ('said = "train.py knows --mixed_precision bf16"', 0),
    ],
)
def test_a_launch_line_in_a_string_is_told(code: str, row: int, tmp_path: Path) -> None:
    files = {"train.py": PREPARED, "cluster.py": f"{code}\n", "requirements.txt": "torch>=2.4\naccelerate>=1.0\n"}
    files["run.sh"] = "accelerate launch --mixed_precision=fp16 train.py\n"
    report, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert paths_changed(report) == {"run.sh"}
    told = [(place.path, place.span.row) for place in runs["run.sh"].still]
    assert told == ([("cluster.py", row)] if row else [])


LOADED = """
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig


    def load(name, bits=None):
        kept, quantized = None, None
        if bits == "4bit":
            kept = torch.bfloat16
            quantized = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=kept)
        return AutoModelForCausalLM.from_pretrained(name, quantization_config=quantized, torch_dtype=kept)
"""


@pytest.mark.parametrize(
    ("texts", "target", "rows"),
    [
        ({"lib/load.py": LOADED}, "fp32", [8]),
        ({"lib/load.py": LOADED}, "fp16-mixed", [8]),
        ({"lib/load.py": LOADED}, "bf16-mixed", []),
        ({"tests/test_load.py": LOADED}, "fp32", []),
        ({"lib/load.py": LOADED, "train.py": TRAINER.format(before="make = print")}, "bf16-mixed", []),
    ],
)
def test_what_code_says_is_told_where_no_run_is_found(
    texts: dict[str, str], target: str, rows: list[int], tmp_path: Path
) -> None:
    report, runs = moved(tmp_path, all_rules(), texts, target)
    assert not report.changes
    assert [place.span.row for row in runs.values() for place in row.still if place.path == "lib/load.py"] == rows
