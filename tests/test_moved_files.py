"""A file moves by itself only where something is known to read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fixture_cases import all_rules
from .test_moving import moved, paths_changed

PINS = "torch>=2.4\ntransformers>=4.46,<5\nhydra-core>=1.3\n"
COMPOSED = """
import hydra
from accelerate import Accelerator


@hydra.main(version_base=None, config_path="../recipes", config_name="base")
def main(cfg):
    print(cfg)


if __name__ == "__main__":
    main()
"""
OF_LAUNCHER = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_machines: 1\n"
)
FILES = {
    "src/run.py": COMPOSED,
    "recipes/base.yaml": "defaults:\n  - task: a\n",
    "recipes/task/a.yaml": "steps: 3\n",
    "recipes/launch/one.yaml": OF_LAUNCHER,
    "requirements.txt": PINS,
}


@pytest.mark.parametrize(
    ("texts", "is_safe"),
    [
        ({}, False),
        ({"recipes/launch/extra.yaml": "steps: 3\n"}, False),
        ({"run.sh": "python src/run.py +task=a\n"}, False),
        ({"recipes/base.yaml": "defaults:\n  - task: a\n  - launch: one\n"}, True),
        ({"recipes/base.yaml": "defaults:\n  - launch: two\n", "recipes/launch/two.yaml": "steps: 3\n"}, True),
        ({"README.md": "```\npython src/run.py +launch=one\n```\n"}, True),
    ],
)
def test_a_file_in_a_group_that_hydra_composes_for_nobody_is_not_known_to_be_read(
    texts: dict[str, str], is_safe: bool, tmp_path: Path
) -> None:
    report, _ = moved(tmp_path, all_rules(), FILES | texts, "fp16-mixed")
    assert ("recipes/launch/one.yaml" in paths_changed(report)) is is_safe


MISTYPED = """
import argparse

import torch
import yaml
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--config", default="NAMED")
args = parser.parse_args()
settings = yaml.safe_load(open(args.config))
accelerator = Accelerator(mixed_precision=settings["training"]["mixed_precision"])
model = torch.nn.Linear(8, 8)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
accelerator.backward(model(torch.ones(4, 8)).sum())
optimizer.step()
"""


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("./configs/one.yaml", ["config/one.yaml", "config/two.yaml"]),
        ("./configs/three.yaml", []),
        ("", []),
    ],
)
def test_files_beside_one_that_a_wrong_path_means_are_told(named: str, told: list[str], tmp_path: Path) -> None:
    texts = dict.fromkeys(("config/one.yaml", "config/two.yaml"), "training:\n  mixed_precision: fp16\n  rate: 1\n")
    files = {"train.py": MISTYPED.replace("NAMED", named), "other/four.yaml": texts["config/one.yaml"], **texts}
    report, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert not report.changes
    assert [place.path for place in runs["train.py"].why if place.path != "train.py"] == told
