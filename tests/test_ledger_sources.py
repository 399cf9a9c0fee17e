"""Where the ledger finds settings: commands inside YAML, variables behind flags, files under other names; and what
belongs to a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.reading.auditing import Ledger, ledger_of
from precfix.transforms.frameworks import load_frameworks

from .project_tree import write_tree

HF = "from transformers import HfArgumentParser, TrainingArguments\nHfArgumentParser(TrainingArguments)\n"
COMMANDS = {
    "workflow": """
        jobs:
          train:
            steps:
              - run: |
                  pip install .
                  python train.py \\
                    --per_device_train_batch_size 1 \\
                    --bf16
        """,
    "folded": """
        services:
          trainer:
            command: >-
              torchrun train.py
              --per_device_train_batch_size 1 --bf16
        """,
    "quoted argument of a job": """
        spec:
          arguments: ['deepspeed
              train.py
              --per_device_train_batch_size 4
              --bf16
            ']
        """,
    "container with command and args": """
        containers:
          - name: main
            command: [python, train.py]
            args: ["--per_device_train_batch_size", "1", "--bf16"]
        """,
    "shell of a container": """
        containers:
          - command:
              - /bin/sh
              - -c
              - python train.py --per_device_train_batch_size 1 --bf16
        """,
}


def ledger(folder: Path, files: dict[str, str], as_they_are: dict[str, str] | None = None) -> Ledger:
    for path, text in (as_they_are or {}).items():
        (folder / path).write_text(text)
    return ledger_of(Project.open([write_tree(folder, files)]).with_frameworks(load_frameworks()))


def told(found: Ledger, path: str) -> list[tuple[str, str]]:
    return [(item.key, item.value) for item in found.declarations if item.path == path]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_inside_yaml_starts_a_run(tmp_path: Path, name: str) -> None:
    found = ledger(tmp_path, {"job.yaml": COMMANDS[name], "train.py": HF})
    assert ("--bf16", "true") in told(found, "job.yaml")
    assert [(run.path, run.regime) for run in found.runs] == [("job.yaml", "bf16-mixed")]


def test_a_flag_inside_yaml_is_changed_where_it_stands(tmp_path: Path) -> None:
    from precfix.codemod.model import ReplaceText
    from precfix.codemod.source.documents import FileKind
    from precfix.codemod.trainers.reading.configs import config_files

    text = "steps:\n  - run: accelerate launch --mixed_precision bf16 train.py  # on every push\n"
    project = Project.open([write_tree(tmp_path, {"ci.yaml": text})])
    (command,) = [item for item in config_files(project, ("precision",), (FileKind.YAML,)) if item.is_shell]
    (flag,) = [entry for entry in command.text.entries if entry.kind == "flag"]
    edit = command.text.set(flag, "fp16")
    assert isinstance(edit, ReplaceText)
    after = text[: edit.start] + edit.text + text[edit.end :]
    assert after == text.replace("bf16", "fp16")
    assert [entry.value for entry in command.opened_again(after).entries if entry.kind == "flag"] == ["fp16"]


@pytest.mark.parametrize("written", ['"$P"', "${P}", "${P:-bf16}"])
def test_every_value_of_a_variable_behind_a_flag_is_listed(tmp_path: Path, written: str) -> None:
    script = f"""
        if [ "$(uname)" = Darwin ]; then
            export P="no"
        fi
        if [ -z "$P" ]; then
            P=fp16
        fi
        accelerate launch --mixed_precision={written} train.py
        """
    found = told(ledger(tmp_path, {"run.sh": script, "train.py": "x = 1"}), "run.sh")
    assert ("P", "no") in found
    assert ("P", "fp16") in found
    assert ("--mixed_precision", written.strip('"')) in found or written == '"$P"'


@pytest.mark.parametrize("name", ["zero.conf", "zero.json.example", "config.json.sample"])
def test_json_under_another_name_is_read(tmp_path: Path, name: str) -> None:
    found = ledger(tmp_path, {name: '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'})
    assert ("bf16.enabled", "true") in told(found, name)


def test_another_file_of_that_ending_is_not_complained_about(tmp_path: Path) -> None:
    project = Project.open([write_tree(tmp_path, {"nginx.conf": "server { listen 80; fp16 on; }", "a.py": "x = 1"})])
    ledger_of(project.with_frameworks(load_frameworks()))
    assert project.skipped == ()


def test_what_is_passed_on_is_listed_beside_where_it_comes_from(tmp_path: Path) -> None:
    code = """
        import argparse
        from transformers import TrainingArguments

        parser = argparse.ArgumentParser()
        parser.add_argument("--fp16", default=False, action="store_true")
        args = parser.parse_args()
        arguments = TrainingArguments(
            "out",
            fp16=args.fp16,
        )
        """
    found = told(ledger(tmp_path, {"tune.py": code}), "tune.py")
    assert ("fp16", "args.fp16") in found
    assert ("fp16", "false") in found


def test_a_published_model_says_its_dtype(tmp_path: Path) -> None:
    model = '{"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}'
    other = '{"rows": [1], "torch_dtype": "bfloat16"}'
    found = ledger(tmp_path, {"model/config.json": model, "data.json": other})
    assert told(found, "model/config.json") == [("torch_dtype", "bfloat16")]
    assert told(found, "data.json") == []


LIBRARY = {
    "lib/__init__.py": "",
    "lib/models.py": """
        import torch


        def load(model):
            return model.half()


        def export(model):
            return model.to(torch.bfloat16)
        """,
    "train.py": """
        from lib.models import load

        if __name__ == "__main__":
            load(None)
        """,
    "run.sh": "python train.py\n",
}


def test_a_run_declares_what_it_uses_and_not_what_it_imports(tmp_path: Path) -> None:
    found = ledger(tmp_path, LIBRARY)
    (run,) = found.runs
    assert [entry.declaration.key for entry in run.entries] == ["model.half()"]
    assert run.regime == "fp16-true"
    assert [(file.path, [entry.declaration.key for entry in file.entries]) for file in found.elsewhere] == [
        ("lib/models.py", ["model.to()"])
    ]
    assert told(found, "lib/models.py") == [("model.half()", "float16"), ("model.to()", "bfloat16")]


def test_a_launch_of_a_program_that_states_no_precision_is_no_run_of_the_ledger(tmp_path: Path) -> None:
    files = {"run.sh": "python prepare.py\npython train.py --bf16 --per_device_train_batch_size 1\n"}
    found = ledger(tmp_path, files | {"prepare.py": "print(1)", "train.py": HF})
    assert [run.regime for run in found.runs] == ["bf16-mixed"]


def test_a_flag_that_the_program_itself_defines_is_listed(tmp_path: Path) -> None:
    code = """
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
        run(parser.parse_args().precision)
        """
    files = {"train.py": code, "run.sh": "python train.py --precision bf16 --other_precision bf16\n"}
    assert told(ledger(tmp_path, files), "run.sh") == [("--precision", "bf16")]


def cells(*sources: str) -> str:
    body = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    return json.dumps({"cells": [body | {"source": text} for text in sources], "nbformat": 4, "metadata": {}})


WRITTEN = {
    "line of a notebook": ("a.ipynb", cells("!python train.py --bf16\n")),
    "bash cell": ("a.ipynb", cells("x = 1", "%%bash\nset -e\n\npython train.py \\\n  --bf16\n")),
    "sh cell": ("a.ipynb", cells("%%sh\npython train.py --bf16")),
    "script cell": ("a.ipynb", cells("%%script bash\npython train.py --bf16\n")),
    "recipe": ("Makefile", "PY = python\ntrain:\n\t@$(PY) train.py \\\n\t  --bf16\n"),
    "docker run": ("Dockerfile", "FROM x\nRUN python train.py --bf16\n"),
    "docker command": ("Dockerfile", "FROM x\nCMD python train.py --bf16\n"),
    "docker command in words": ("Dockerfile", 'FROM x\nCMD ["python", "train.py", "--bf16"]\n'),
    "docker entry point": ("Dockerfile", 'FROM x\nENTRYPOINT ["python", "train.py", "--bf16"]\n'),
    "wrapped job": ("job.sh", 'sbatch --gres=gpu:1 --wrap "srun python train.py --bf16"\n'),
    "wrapped job, equals": ("job.sh", "sbatch --wrap='python train.py --bf16'\n"),
    "extended variable": ("job.sh", 'ARGS="--lr 1"\nARGS="$ARGS --bf16"\npython train.py $ARGS\n'),
    "variable of the caller": ("job.sh", 'if x; then\n  A="$A --bf16"\nfi\npython -u train.py ${A}\n'),
    "appended array": ("job.sh", 'ARGS=(--lr 1)\nARGS+=(--bf16)\npython train.py "${ARGS[@]}"\n'),
    "command in a variable": ("job.sh", 'ARGS="--bf16"\nCMD="python train.py $ARGS"\necho $CMD\n$CMD | tee log\n'),
    "evaluated command": ("job.sh", 'ARGS="--bf16"\nCMD="python train.py $ARGS"\neval "$CMD"\n'),
    "extended command": ("job.sh", 'CMD="python train.py"\nCMD="$CMD --lr 1"\nCMD+=" --bf16"\neval $CMD\n'),
    "command with more behind it": ("job.sh", 'CMD="torchrun train.py"\nsrun bash -c "$CMD --bf16"\n'),
    "command and arguments": ("job.sh", 'A="--bf16"\nS=train.py\nC="torchrun $S"\nsrun bash -c "$C $A"\n'),
    "command of an array": ("job.sh", 'CMD=(python train.py)\nCMD+=(--bf16)\nsrun "${CMD[@]}"\n'),
    "here-document that is written": ("job.sh", "cat > a.sh <<EOF\npython train.py --bf16\nEOF\nsbatch a.sh\n"),
    "here-document that is submitted": ("job.sh", "sbatch <<'EOF'\n#!/bin/bash\nsrun python train.py --bf16\nEOF\n"),
    "here-document that is run": ("job.sh", "bash -s <<EOF\npython train.py --bf16\nEOF\n"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_command_starts_a_run_wherever_it_is_written(tmp_path: Path, name: str) -> None:
    path, text = WRITTEN[name]
    found = ledger(tmp_path, {"train.py": HF}, {path: text})
    assert told(found, path) == [("--bf16", "true")]
    assert [(run.path, run.regime) for run in found.runs] == [(path, "bf16-mixed")]


def test_a_here_document_that_another_program_reads_is_no_script(tmp_path: Path) -> None:
    found = ledger(tmp_path, {"train.py": HF}, {"job.sh": "mail me <<EOF\npython train.py --bf16\nEOF\n"})
    assert told(found, "job.sh") == []


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("accelerate launch --mixed_precision ${P:-bf16} train.py\n", ("--mixed_precision", "bf16")),
        ("Q=bf16\naccelerate launch --mixed_precision ${P:-${Q}} train.py\n", ("Q", "bf16")),
        (': "${P:=bf16}"\naccelerate launch --mixed_precision "$P" train.py\n', ("--mixed_precision", "bf16")),
        ('P=${1:-bf16}\naccelerate launch --mixed_precision "$P" train.py\n', ("--mixed_precision", "bf16")),
        ('if [ -z "$P" ]; then\n  P=bf16\nfi\naccelerate launch --mixed_precision "$P" train.py\n', ("P", "bf16")),
    ],
)
def test_a_default_of_a_shell_variable_is_listed(tmp_path: Path, script: str, place: tuple[str, str]) -> None:
    assert place in told(ledger(tmp_path, {"train.py": "x = 1"}, {"run.sh": script}), "run.sh")


def test_arguments_of_several_lines_belong_to_each_of_them(tmp_path: Path) -> None:
    script = 'A="--bf16"\npython train.py $A --lr 1\npython train.py $A --lr 2\nA="--fp16"\npython train.py $A --lr 3\n'
    found = ledger(tmp_path, {"train.py": HF}, {"run.sh": script})
    assert [(run.row, run.regime) for run in found.runs] == [(2, "bf16-mixed"), (3, "bf16-mixed"), (5, "fp16-mixed")]


def test_a_command_in_a_variable_is_started_with_what_stands_behind_it(tmp_path: Path) -> None:
    script = 'RUN="python train.py --lr 1"\n$RUN --bf16\n$RUN --fp16\n'
    found = ledger(tmp_path, {"train.py": HF}, {"run.sh": script})
    assert [run.regime for run in found.runs] == ["bf16-mixed", "fp16-mixed"]


def test_a_key_inside_a_section_is_not_one_at_the_top_of_an_unread_file(tmp_path: Path) -> None:
    code = """
        import json, sys
        from accelerate import Accelerator

        config = json.load(open(sys.argv[1]))
        accelerator = Accelerator(mixed_precision=config["accelerator"]["mixed_precision"])
        print(accelerator.num_processes)
        """
    found = ledger(tmp_path, {"train.py": code, "launch.yaml": "num_processes: 2\nmixed_precision: 'no'\n"})
    assert [run.regime for run in found.runs + found.elsewhere if run.path == "train.py"] == ["unknown"]
    assert not [item for item in found.declarations if item.feeds]


def test_a_word_that_picks_the_dtype_of_a_cast_is_listed_with_the_run_that_loads_it(tmp_path: Path) -> None:
    code = """
        import json
        import torch
        from transformers import AutoModelForCausalLM

        cfg = json.load(open("config.json"))
        if cfg["model"]["dtype"] == "bfloat16":
            dtype = torch.bfloat16
        else:
            dtype = torch.float32
        model = AutoModelForCausalLM.from_pretrained("m").to("cuda", dtype=dtype)
        """
    files = {"train.py": code, "config.json": '{"model": {"dtype": "bfloat16"}}', "run.sh": "python train.py\n"}
    found = ledger(tmp_path, files)
    assert told(found, "config.json") == [("model.dtype", '"bfloat16"')]
    assert [entry.declaration.path for run in found.runs for entry in run.entries].count("config.json") == 1


LOADING = """
    import yaml
    from model import build

    config = yaml.safe_load(open("conf/small.yaml"))
    build(config["lr"], config["torch_dtype"])
    """
SMALL = "lr: 1\ntorch_dtype: bfloat16\n"


def test_a_file_like_one_that_a_program_loads_is_listed_too(tmp_path: Path) -> None:
    likes = {"conf/large.yaml": SMALL, "conf/other.yaml": f"seed: 1\n{SMALL}", "elsewhere/small.yaml": SMALL}
    tests = {"tests/test_conf.py": 'open("conf/large.yaml")\n'}
    found = ledger(tmp_path, {"train.py": LOADING, "conf/small.yaml": SMALL, **likes, **tests})
    assert {item.path for item in found.declarations} == {"conf/small.yaml", "conf/large.yaml"}


def test_weights_in_a_dtype_that_a_file_picks_are_the_regime_where_nothing_else_decides(tmp_path: Path) -> None:
    code = """
        import json
        import torch
        from transformers import AutoModelForCausalLM

        cfg = json.load(open("config.json"))
        model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=getattr(torch, cfg["dtype"]))
        {}
        """
    files = {"config.json": '{"dtype": "bfloat16"}', "run.sh": "python train.py\n"}
    found = ledger(tmp_path / "alone", {**files, "train.py": code.format("")})
    assert [run.regime for run in found.runs] == ["bf16-true"]
    region = 'with torch.autocast("cuda", dtype=torch.float16): model(1)'
    found = ledger(tmp_path / "region", {**files, "train.py": code.format(region)})
    assert [run.regime for run in found.runs] == ["fp16-mixed"]


def test_what_stands_for_words_that_are_not_accepted_is_no_source(tmp_path: Path) -> None:
    code = """
        from dataclasses import dataclass
        from accelerate import Accelerator

        @dataclass
        class Config:
            mixed_precision: str = "bf16"

        config = Config()
        chosen = config.mixed_precision
        accelerator = Accelerator(mixed_precision=chosen if chosen in ("no", "bf16") else "no")
        """
    found = ledger(tmp_path, {"train.py": code})
    assert [run.regime for run in found.runs + found.elsewhere] == ["bf16-mixed"]


def test_options_of_fastcore_and_what_a_function_returns_are_listed(tmp_path: Path) -> None:
    code = """
        import torch
        from fastcore.script import call_parse
        from model import Model

        @call_parse()
        def main(precision: str = "fp16"):
            dtype = torch.float16 if precision == "fp16" else torch.bfloat16
            with torch.autocast("cuda", dtype=dtype):
                Model()(1)
        """
    model = """
        class Model:
            @property
            def mixed_precision(self):
                return "bf16"

            def create(self, config):
                return config(bf16=(self.mixed_precision == "bf16"))
        """
    found = ledger(tmp_path, {"train.py": code, "model.py": model, "run.sh": "python train.py --precision bf16\n"})
    assert told(found, "run.sh") == [("--precision", "bf16")]
    assert told(found, "model.py") == [
        ("mixed_precision()", "bf16"),
        ("config(bf16=)", "self.mixed_precision == 'bf16'"),
    ]


def test_autocast_by_another_name_is_a_region(tmp_path: Path) -> None:
    code = """
        import torch

        autocast = torch.amp.autocast

        def step(model, batch, region):
            with region("cuda"):
                return model(batch)

        for batch in batches:
            with autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch)
            step(model, batch, autocast)
            loss.backward()
        """
    found = ledger(tmp_path, {"train.py": code})
    assert told(found, "train.py") == [("autocast", "bfloat16"), ("autocast", "float16 (the default)")]


@pytest.mark.parametrize("publishing", ["", "def main():\n    "], ids=["under the guard", "in a function called there"])
def test_the_options_of_a_module_that_is_a_script_as_well_are_its_own(tmp_path: Path, publishing: str) -> None:
    made = (
        f"{publishing}parser = argparse.ArgumentParser()\n{publishing and '    '}"
        'parser.add_argument("--precision", default="fp32")\n'
    )
    guard = 'if __name__ == "__main__":\n'
    publish = f"{made}{guard}    main()\n" if publishing else guard + "".join(f"    {x}\n" for x in made.splitlines())
    found = ledger(
        tmp_path,
        {
            "lib/__init__.py": "from .publish import push\n",
            "lib/publish.py": f"import argparse\n\ndef push(precision='fp32'):\n    pass\n\n{publish}",
            "options.py": """
                import argparse
                def parsed():
                    parser = argparse.ArgumentParser()
                    parser.add_argument("--precision", default="bf16")
                    return parser.parse_args()
                """,
            "loop.py": """
                import torch
                import lib

                def train(net, args, optimizer):
                    dtype = torch.bfloat16 if args.precision == "bf16" else torch.float16
                    with torch.autocast("cuda", dtype=dtype):
                        loss = net(torch.ones(1, device="cuda"))
                    loss.backward()
                    optimizer.step()
                """,
            "train.py": """
                import torch
                from loop import train
                from options import parsed

                net = torch.nn.Linear(1, 1).cuda()
                train(net, parsed(), torch.optim.SGD(net.parameters(), lr=0.1))
                """,
        },
    )
    (run,) = (item for item in found.runs if item.title == "train.py")
    assert run.regime == "bf16-mixed"
    assert "lib/publish.py" not in {item.declaration.path for item in run.entries}


STANDS_IN = {
    "an assignment": "try:\n    autocast = torch.cuda.amp.autocast\nexcept AttributeError:\n    "
    "class autocast:\n        pass\n",
    "an import": "try:\n    from torch.cuda.amp import autocast\nexcept:\n    class autocast:\n        pass\n",
}


@pytest.mark.parametrize("made", STANDS_IN.values(), ids=STANDS_IN)
def test_a_model_in_a_folder_that_the_script_adds_to_its_path(tmp_path: Path, made: str) -> None:
    found = ledger(
        tmp_path,
        {
            "core/__init__.py": "",
            "core/net.py": f"import torch\n{made}\n"
            + "class Net(torch.nn.Linear):\n    def forward(self, x):\n"
            + "        with autocast(enabled=self.args.mixed_precision):\n            return super().forward(x)\n",
            "train.py": """
                import argparse
                import sys
                sys.path.append("core")
                import torch
                from net import Net
                parser = argparse.ArgumentParser()
                parser.add_argument("--mixed_precision", action="store_true")
                args = parser.parse_args()
                net = Net(4, 4).cuda()
                net.args = args
                optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cuda", enabled=args.mixed_precision)
                scaler.scale(net(torch.ones(4, device="cuda")).sum()).backward()
                scaler.step(optimizer)
                """,
            "run.sh": "python train.py --mixed_precision\npython train.py\n",
        },
    )
    assert [item.regime for item in found.runs] == ["fp16-mixed", "fp32"]
