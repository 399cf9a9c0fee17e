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
