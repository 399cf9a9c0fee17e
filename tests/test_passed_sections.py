"""Sections of configuration files that code passes to a trainer as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_audited_runs import read, said
from .test_moving import moved

LOADS = """
import argparse

import yaml
from transformers import AutoModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
with open(parser.parse_args().config) as file:
    config = yaml.safe_load(file)
"""
TRAINS = 'Trainer(AutoModel.from_pretrained("gpt2"), arguments).train()\n'
CLASS = """

class Job:
    def __init__(self, options):
        self.options = dict(options)

    def run(self):
        arguments = TrainingArguments("out", **self.options)
        Trainer(AutoModel.from_pretrained("gpt2"), arguments).train()


section = config["training"]
Job(section).run()
"""
FILES = {
    "conf/a.yaml": "training:\n  seed: 1\n  fp16: true\nlora:\n  fp16: 8\n",
    "run.sh": "python train.py --config conf/a.yaml\n",
    "requirements.txt": "transformers>=4.40\nlightning>=2.2\n",
}
COMPOSED = """
import hydra
from lightning.pytorch import Trainer as Engine

from net import Net


@hydra.main(config_path="conf", config_name="all", version_base=None)
def main(cfg):
    Engine(**cfg.engine).fit(Net())


main()
"""


@pytest.mark.parametrize(
    "program",
    [
        LOADS + 'arguments = TrainingArguments(**config["training"])\n' + TRAINS,
        LOADS + 'arguments = TrainingArguments("out", **dict(config["training"]))\n' + TRAINS,
        LOADS + CLASS,
    ],
)
def test_a_section_is_read_and_moved_as_what_it_is_passed_to(program: str, tmp_path: Path) -> None:
    files = {**FILES, "train.py": program}
    assert said(read(tmp_path / "read", files).runs) == {FILES["run.sh"].strip(): "fp16-mixed"}
    report, runs = moved(tmp_path / "moved", all_rules(), files)
    assert [run.state for run in runs.values()] == [MoveState.MOVED]
    assert [change.after.decode() for change in report.changes] == [
        FILES["conf/a.yaml"].replace("  fp16: true", "  bf16: true")
    ]


@pytest.mark.parametrize(
    ("program", "files"),
    [
        ('arguments = TrainingArguments(**config["other"])\n', {}),
        ('arguments = TrainingArguments(**config["training"])\n', {"run.sh": "python train.py --config $1\n"}),
        ('arguments = TrainingArguments(**{"training": 1}["training"])\n', {}),
    ],
)
def test_what_a_call_is_not_seen_to_be_passed_says_nothing(program: str, files: dict[str, str], tmp_path: Path) -> None:
    found = read(tmp_path, {**FILES, **files, "train.py": LOADS + program + TRAINS})
    assert [run.regime for run in found.runs] == ["unknown"]
    assert not [entry for run in found.runs for entry in run.entries if entry.declaration.path == "conf/a.yaml"]


def test_a_file_of_a_hydra_group_is_passed_to_a_class_under_another_name(tmp_path: Path) -> None:
    files = {
        "train.py": COMPOSED,
        "net.py": "import lightning\n\n\nclass Net(lightning.LightningModule):\n    pass\n",
        "requirements.txt": FILES["requirements.txt"],
        "conf/all.yaml": "defaults:\n  - engine: one\n",
        "conf/engine/one.yaml": "devices: 1\nprecision: 16-mixed\n",
        "conf/motor/one.yaml": "devices: 1\nprecision: 32\n",
    }
    found = read(tmp_path / "read", files)
    assert said(found.runs) == {"train.py": "fp16-mixed"}
    report, runs = moved(tmp_path / "moved", all_rules(), files)
    assert [run.state for run in runs.values()] == [MoveState.MOVED]
    assert {change.path: change.after for change in report.changes} == {
        "conf/engine/one.yaml": b"devices: 1\nprecision: bf16-mixed\n"
    }
