"""What belongs to which run: each launch line has its own flags and variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import RunReport

from .test_audited_runs import read

TRAINS = """
import argparse

import lightning

from nets import Net

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default=None)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
lightning.Trainer(precision=args.precision).fit(Net())
"""
SWITCHED = TRAINS.replace('"--precision", default=None', '"--amp", action="store_true"').replace(
    "precision=args.precision", 'precision="16-mixed" if args.amp else "32-true"'
)
COMPOSED = """
import hydra
import lightning

from nets import Net


@hydra.main(config_path="conf", config_name="base")
def main(cfg):
    lightning.Trainer(precision=cfg.precision).fit(Net())


main()
"""


def places(run: RunReport) -> list[int]:
    """The rows of the launch script in which something is said of a run."""
    return [entry.declaration.span.row for entry in run.entries if entry.declaration.path == run.path]


@pytest.mark.parametrize(
    ("program", "lines", "regimes", "rows"),
    [
        (
            TRAINS,
            ["--precision=16-mixed", "--precision 32-true", "--seed 3", "--precision=bf16-mixed"],
            ["fp16-mixed", "fp32", "unknown", "bf16-mixed"],
            [[1], [2], [], [4]],
        ),
        (SWITCHED, ["--amp", "--seed 3", "--amp --seed 4"], ["fp16-mixed", "fp32", "fp16-mixed"], [[], [], []]),
        (
            COMPOSED,
            ["precision=16-mixed", "precision=32-true", "seed=3"],
            ["fp16-mixed", "fp32", "bf16-mixed"],
            [[1], [2], []],
        ),
    ],
)
def test_a_launch_line_has_its_own_flags(
    program: str, lines: list[str], regimes: list[str], rows: list[list[int]], tmp_path: Path
) -> None:
    script = "".join(f"python train.py {line}\n" for line in lines)
    files = {"train.py": program, "run.sh": script, "conf/base.yaml": "precision: bf16-mixed\nseed: 1\n"}
    found = read(tmp_path, files)
    runs = sorted((run for run in (*found.runs, *found.elsewhere) if run.path == "run.sh"), key=lambda run: run.row)
    assert [run.regime for run in runs] == regimes
    assert [places(run) for run in runs] == rows


def test_a_variable_belongs_to_the_lines_that_pass_it_on(tmp_path: Path) -> None:
    script = "P=16-mixed\npython train.py --precision $P\npython train.py --precision 32-true\n"
    runs = read(tmp_path, {"train.py": TRAINS, "run.sh": script}).runs
    assert [(run.regime, places(run)) for run in runs if run.path == "run.sh"] == [("fp16-mixed", [1]), ("fp32", [3])]


LAYER = """
import torch


class Scale(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cuda", enabled=False):
            return x.float().half()


def _test_scale():
    x = torch.ones(2, requires_grad=True)
    Scale()(x).sum().backward()


if __name__ == "__main__":
    _test_scale()
"""
LOOP = """
import torch

from layer import Scale

net = Scale()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(2)).sum().backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("layer", "runs"),
    [
        (LAYER, {"train.py"}),
        (LAYER.replace("_test_scale()\n", "main()\n").replace("def _test_scale", "def main"), {"train.py", "layer.py"}),
    ],
)
def test_a_module_that_tries_itself_out_is_no_run(layer: str, runs: set[str], tmp_path: Path) -> None:
    found = read(tmp_path, {"layer.py": layer, "train.py": LOOP})
    assert {run.path for run in found.runs} == runs


def test_a_module_that_nobody_imports_is_a_run_whatever_it_does(tmp_path: Path) -> None:
    assert [run.path for run in read(tmp_path, {"layer.py": LAYER}).runs] == ["layer.py"]


def test_the_configuration_of_a_model_is_no_run(tmp_path: Path) -> None:
    model = '{"architectures": ["LlamaForCausalLM"], "torch_dtype": "float32"}'
    found = read(tmp_path, {"model/config.json": model})
    assert (found.runs, [run.path for run in found.elsewhere]) == ((), ["model/config.json"])


AMP = "SOLVER:\n  AMP:\n    ENABLED: {}\n  IMS_PER_BATCH: 2\nMODEL:\n  META_ARCHITECTURE: GeneralizedRCNN\n"
PREDICTS = """
import argparse

from detectron2.config import get_cfg
from detectron2.engine import DefaultPredictor

parser = argparse.ArgumentParser()
parser.add_argument("--config_file", default="configs/large.yaml")
cfg = get_cfg()
cfg.merge_from_file(parser.parse_args().config_file)
print(DefaultPredictor(cfg)(None))
"""
LEARNS = PREDICTS.replace("DefaultPredictor(cfg)(None)", "DefaultTrainer(cfg).train()").replace("Predictor", "Trainer")


@pytest.mark.parametrize(("program", "regime"), [(PREDICTS, None), (LEARNS, "fp32"), ("x = 1\n", "fp32")])
def test_a_file_is_a_run_with_those_that_it_builds_on_unless_it_only_predicts(
    program: str, regime: str | None, tmp_path: Path
) -> None:
    large = f"_BASE_: base.yaml\n{AMP.format('false')}"
    files = {"main.py": program, "configs/large.yaml": large, "configs/base.yaml": AMP.format("true")}
    found = read(tmp_path, files)
    assert [run.regime for run in found.runs] == ([regime] if regime is not None else [])
    (told,) = (*found.runs, *found.elsewhere)
    large, base = told.entries
    assert (large.declaration.path, large.status) == ("configs/large.yaml", "wins")
    assert (base.declaration.path, base.status) == ("configs/base.yaml", "overridden")


OPTIONAL = """
import argparse
import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--deepspeed", action="store_true")
args = parser.parse_args()
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
if args.deepspeed:
    settings = {"train_batch_size": 8, "fp16": {"enabled": True}, "zero_optimization": {"stage": 2}}
    net, optimizer, _, _ = deepspeed.initialize(model=net, optimizer=optimizer, config=settings)
net(torch.ones(1)).backward()
optimizer.step()
"""


@pytest.mark.parametrize(("flags", "row"), [("", []), (" --deepspeed", [11]), (' "$@"', [11])])
def test_a_dictionary_under_a_switch_is_of_the_lines_that_give_it(tmp_path: Path, flags: str, row: list[int]) -> None:
    line = f"accelerate launch --mixed_precision bf16 train.py{flags}\n"
    runs = read(tmp_path, {"train.py": OPTIONAL, "run.sh": line}).runs
    (run,) = (item for item in runs if item.path == "run.sh")
    rows = [item.declaration.span.row for item in run.entries if item.declaration.path == "train.py"]
    assert rows == row
