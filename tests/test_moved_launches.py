"""Launches that are written in unusual ways: sweeps, answers of accelerate in any file, words for switches."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.formats.opening import open_config
from precfix.codemod.formats.yaml_commands import commands_in
from precfix.codemod.outcome import MoveState
from precfix.codemod.trainers.reading.auditing import ledger_of
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import all_rules
from .project_tree import open_tree
from .test_accounted_moves import BY_ACCELERATE
from .test_moving import REQUIRED, moved, paths_changed

LOOP = """
    import torch
    {before}
    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled={on})
    for _ in range(10):
        with torch.autocast("cuda", dtype=torch.float16, enabled={on}):
            loss = model(torch.randn(4, 8, device="cuda")).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
OPTION = 'import argparse; p = argparse.ArgumentParser(); p.add_argument("--amp", {}); a = p.parse_args()'
BY_HYDRA = """
    import hydra
    import torch


    @hydra.main(config_path="configs", config_name="config")
    def main(cfg):
        model = torch.nn.Linear(8, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", enabled=cfg.training.use_amp)
        for _ in range(10):
            with torch.autocast("cuda", dtype=torch.float16, enabled=cfg.training.use_amp):
                loss = model(torch.randn(4, 8, device="cuda")).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


    if __name__ == "__main__":
        main()
"""
HYDRA = {"train.py": BY_HYDRA, "configs/config.yaml": "training:\n  use_amp: false\n"}
SWEEP = "program: train.py\nmethod: grid\nparameters:\n"
ONLY_FLAGS = "command:\n- python\n- train.py\n- ${args_no_boolean_flags}\n"
AMP = "python train.py --amp"
NO_HYPHENS = "command:\n  - ${env}\n  - python\n  - ${program}\n  - ${args_no_hyphens}\n"
SWITCHED = {"train.py": LOOP.format(before=OPTION.format('action="store_true"'), on="a.amp")}
COUNTED = {"train.py": LOOP.format(before=OPTION.format("default=1, type=int"), on="a.amp")}


def regimes(root: Path, files: dict[str, str]) -> dict[str, str]:
    project = open_tree(root, {**REQUIRED, **files}).with_frameworks(load_frameworks())
    return {run.path: run.regime for run in ledger_of(project).runs}


@pytest.mark.parametrize(
    ("files", "sweep", "row"),
    [
        (HYDRA, f"{SWEEP}  training.use_amp:\n    value: True\n{NO_HYPHENS}", 4),
        (HYDRA, f"{SWEEP}  lr:\n    values: [1, 2]\n  training.use_amp:\n    values: [false, true]\n{NO_HYPHENS}", 6),
        (HYDRA, f"{NO_HYPHENS}{SWEEP}  training.use_amp:\n    value: true\n", 9),
        (SWITCHED, f"{SWEEP}  lr: {{values: [0.1, 0.01]}}\ncommand: [python, train.py, --amp]\n", 5),
        (
            SWITCHED,
            f"{SWEEP}  amp:\n    value: true\ncommand:\n- python\n- train.py\n- ${{args_no_boolean_flags}}\n",
            5,
        ),
    ],
)
def test_a_sweep_is_a_run_whose_parameters_are_told(
    tmp_path: Path, files: dict[str, str], sweep: str, row: int
) -> None:
    files = {**files, "sweep.yaml": sweep}
    assert regimes(tmp_path / "read", files)["sweep.yaml"] == "fp16-mixed"
    report, runs = moved(tmp_path / "moved", all_rules(), {**REQUIRED, **files}, "fp32", unsafe=True)
    assert paths_changed(report) == set()
    assert runs["sweep.yaml"].state is MoveState.LEFT
    assert abs(runs["sweep.yaml"].why[0].span.row - row) <= 1, runs["sweep.yaml"].why


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{SWEEP}  lr:\n    value: 1\n", "python train.py --lr=1"),
        ("parameters:\n  lr:\n    value: 1e-5\nprogram: train.py\nmethod: random\n", "python train.py --lr=1e-5"),
        (f"{SWEEP}  lr:\n    min: 0.1\n", "python train.py"),
        (
            f"{SWEEP}  amp: {{value: true}}\ncommand: ['${{interpreter}}', train.py, '${{args_no_boolean_flags}}']\n",
            AMP,
        ),
        ("program: train.py\nmethod: exact\nparameters:\n  lr: {value: 1}\n", ""),
    ],
)
def test_what_a_sweep_starts(text: str, words: str) -> None:
    found = [item.text[item.start : item.end].split() for item in commands_in(text, open_config(text, "yaml"))]
    assert all(len(item.text) == len(text) for item in commands_in(text, open_config(text, "yaml")))
    assert [" ".join(item) for item in found] == ([words] if words else [])


ACCELERATED = """
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.backward(model(torch.randn(4, 8, device=accelerator.device)).square().mean())
    optimizer.step()
"""
ANSWERS = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: 'fp16'\nnum_processes: 2\n"


@pytest.mark.parametrize("name", ["acc_config.sh", "acc_config.cfg", "answers.txt", "acc.yaml"])
@pytest.mark.parametrize("given", ["--config_file {}", "--config_file={}", "--main_process_port 1 --config-file {}"])
def test_the_answers_of_accelerate_are_read_whatever_their_file_is_called(
    tmp_path: Path, name: str, given: str
) -> None:
    files = {"train.py": ACCELERATED, name: ANSWERS, "run.sh": f"accelerate launch {given.format(name)} train.py\n"}
    report, runs = moved(tmp_path, all_rules(), {**files, **REQUIRED}, "fp32")
    assert (paths_changed(report), runs["run.sh"].state) == ({name}, MoveState.MOVED), runs


@pytest.mark.parametrize("word", ["t", "yes", "True", "1"])
def test_a_word_for_a_switch_that_an_unknown_library_reads_leaves_a_run_unknown(tmp_path: Path, word: str) -> None:
    code = """
        import argparse

        from kit import Config, Trainer

        p = argparse.ArgumentParser()
        p.add_argument("--mixed_precision", default=False, type=lambda v: v.lower() in ("yes", "true", "t", "1"))
        args = p.parse_args()
        Trainer(Config(batch_size=32, mixed_precision=args.mixed_precision)).fit()
    """
    files = {"train.py": code, "run.sh": f"python train.py --mixed_precision {word}\n"}
    assert regimes(tmp_path / "read", files) == {"run.sh": "unknown"}
    _, runs = moved(tmp_path / "moved", all_rules(), files, "fp32")
    (told,) = runs["run.sh"].still
    assert (told.path, told.message) == ("run.sh", "still switches mixed precision on: --mixed_precision")


def test_a_number_of_a_read_me_does_not_hold_a_switch_back(tmp_path: Path) -> None:
    files = {**COUNTED, "README.md": "```bash\npython train.py --amp 1\n```\n", "run.sh": "python train.py --amp 1\n"}
    report, runs = moved(tmp_path, all_rules(), {**files, **REQUIRED}, "fp32")
    assert (paths_changed(report), runs["run.sh"].state) == ({"train.py", "run.sh"}, MoveState.MOVED), runs
    assert "README.md" in [place.path for place in runs["run.sh"].still]


def test_what_an_imported_module_does_as_a_script_does_not_hold_a_run_back(tmp_path: Path) -> None:
    net = """
        import torch
        from torch import nn


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.f = nn.Linear(8, 1)

            def forward(self, x):
                return {"loss": self.f(x).square().mean()}


        if __name__ == "__main__":
            print(Net().bfloat16()(torch.zeros(2, 8).bfloat16()))
    """
    code = """
        import torch
        import yaml
        from net import Net
        from transformers import Trainer, TrainingArguments

        cfg = yaml.safe_load(open("conf.yaml"))
        args = TrainingArguments("out", bf16=cfg["bf16"])
        Trainer(model=Net(), args=args, train_dataset=[{"x": torch.randn(8)} for _ in range(8)]).train()
    """
    files = {"train.py": code, "net.py": net, "conf.yaml": "bf16: true\n", **REQUIRED}
    report, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert (paths_changed(report), runs["train.py"].state) == ({"conf.yaml"}, MoveState.MOVED), runs


def test_what_one_sweep_gives_counts_in_no_other_run(tmp_path: Path) -> None:
    files = {**HYDRA, "on.yaml": f"{SWEEP}  training.use_amp:\n    value: True\n{NO_HYPHENS}"}
    files |= {"off.yaml": f"{SWEEP}  lr:\n    value: 1\n{NO_HYPHENS}", "run.sh": "python train.py lr=2\n"}
    assert regimes(tmp_path, files) == {"on.yaml": "fp16-mixed", "off.yaml": "fp32", "run.sh": "fp32"}


@pytest.mark.parametrize("where", ["if args.new:\n    from first import train\nelse:\n    from second import train\n"])
def test_a_function_that_tests_import_is_each_of_them(tmp_path: Path, where: str) -> None:
    body = """
        import torch

        def train(args):
            model = torch.nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(10):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(torch.randn(4, 8, device="cuda")).square().mean()
                loss.backward()
                optimizer.step()
    """
    start = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--new", action="store_true")\n'
    files = {"train.py": f"{start}args = p.parse_args()\n{where}train(args)\n", "first.py": body, "second.py": body}
    report, runs = moved(tmp_path, all_rules(), {**files, **REQUIRED}, "fp32")
    assert paths_changed(report) == {"first.py", "second.py"}, runs
    assert {path: run.state for path, run in runs.items()} == {"train.py": MoveState.MOVED}


AMONG_TESTS = """
    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    args = TrainingArguments(output_dir="out", bf16=True)
    model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
    Trainer(model=model, args=args, train_dataset=[]).train()
"""


@pytest.mark.parametrize(
    ("path", "told"), [("tests/demo.py", True), ("tests/test_demo.py", False), ("tests/conftest.py", False)]
)
def test_a_script_among_tests_that_trains_is_told_as_left(path: str, told: bool, tmp_path: Path) -> None:
    report, runs = moved(tmp_path, all_rules(), {path: AMONG_TESTS, **REQUIRED}, "fp32")
    assert (path in runs, paths_changed(report)) == (told, set())
    assert not told or (runs[path].state is MoveState.LEFT and {place.path for place in runs[path].why} == {path})


def test_what_users_type_is_told_of_a_run_that_is_left(tmp_path: Path) -> None:
    code = """
        import torch
        from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

        (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
        attention = {"attn_implementation": "flash_attention_2"}
        model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16, **attention)
        Trainer(model=model, args=args, train_dataset=[]).train()
    """
    shown = "```bash\ndeepspeed --include localhost:0,1 train.py \\\n  --deepspeed ds.json \\\n  --bf16\n```\n"
    files = {"train.py": code, "README.md": shown, "ds.json": '{"bf16": {"enabled": "auto"}}\n', **REQUIRED}
    _, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert runs["train.py"].is_left
    assert [(place.path, place.span.row) for place in runs["train.py"].still] == [("README.md", 4)]


SUBCLASS = """
    import torch
    from transformers import Trainer


    class PlainTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **rest):
            with torch.autocast("cuda"):
                return model(**inputs).loss
"""
PROGRAM = """
    {}


    def main():
        print("nothing yet")


    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize(
    ("imported", "beside", "is_moved"),
    [("from plain import PlainTrainer", True, True), ("import math", True, False), ("", False, True)],
)
def test_what_nothing_imports_moves_with_leave_beside_programs(
    imported: str, beside: bool, is_moved: bool, tmp_path: Path
) -> None:
    files = {"plain.py": SUBCLASS, **({"main.py": PROGRAM.format(imported)} if beside else {}), **REQUIRED}
    report, runs = moved(tmp_path / "safe", all_rules(), files, "fp32")
    assert paths_changed(report) == ({"plain.py"} if is_moved else set()), runs
    report, _ = moved(tmp_path / "leave", all_rules(), files, "fp32", unsafe=True)
    assert paths_changed(report) == {"plain.py"}


@pytest.mark.parametrize(
    ("line", "is_moved"),
    [
        ("accelerate launch --mixed_precision fp16 train.py", True),
        ('accelerate launch --mixed_precision fp16 train.py "$@"', True),
        ("PROGRAM=train.py\naccelerate launch --mixed_precision fp16 $PROGRAM", True),
        ('accelerate launch --mixed_precision fp16 "$@"', False),
        ("accelerate launch --mixed_precision fp16 $1 --steps 3", False),
        ('START="accelerate launch --mixed_precision fp16"\neval $START "$1"', False),
        ("accelerate launch --config_file a.yaml $1", False),
    ],
)
def test_a_line_that_starts_whichever_program_it_is_given_needs_leave(
    line: str, is_moved: bool, tmp_path: Path
) -> None:
    answers = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp16\n"
    files = {"train.py": BY_ACCELERATE, "run.sh": f"{line}\n", "a.yaml": answers if "a.yaml" in line else ""}
    report, _ = moved(tmp_path, all_rules(), files, "fp32")
    assert bool(report.changes) is is_moved


MERGED = """
    import argparse
    import json

    from mmengine.config import Config
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    args, rest = parser.parse_known_args()
    MADE
    (given,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(rest)
    settings = GIVEN
    Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=settings, train_dataset=[]).train()
"""


@pytest.mark.parametrize(
    ("made", "given", "is_moved"),
    [
        ("base = TrainingArguments(**Config.fromfile(args.config).training)", "base", False),
        ("base = TrainingArguments(**json.load(open(args.config)))", "base", False),
        ("print(Config.fromfile(args.config))", "given", True),
    ],
)
def test_flags_of_a_program_that_reads_a_python_configuration_too_are_the_trainers(
    made: str, given: str, is_moved: bool, tmp_path: Path
) -> None:
    files = {
        "train.py": MERGED.replace("MADE", made).replace("GIVEN", given),
        "config/a.py": 'training = dict(output_dir="out", num_train_epochs=1)\n',
        "run.sh": "torchrun train.py config/a.py --tf32=False --bf16=False --fp16=True\n",
        "requirements.txt": "torch>=2.4\ntransformers>=4.46,<5\n",
    }
    report, runs = moved(tmp_path, all_rules(), files)
    assert bool(report.changes) is is_moved
    places = runs["run.sh"].why
    assert is_moved or ("run.sh", 1) in [(place.path, place.span.row) for place in places]
