"""Which configuration file a run reads: known, walked through by a loop, or left to whoever starts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_audited_runs import read, said
from .test_moving import moved

READS = """
import argparse

import torch
import yaml

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
args = parser.parse_args()
with open(args.config) as file:
    cfg = yaml.safe_load(file)
use = bool(cfg["train"].get("amp", False))
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.autocast("cuda", dtype=torch.bfloat16, enabled=use):
    loss = net(torch.ones(2, 4).cuda()).sum()
loss.backward()
optimizer.step()
"""
WITH_DEFAULT = READS.replace("required=True", 'default="conf/on.yaml"')
OPTIONAL = READS.replace(", required=True", "").replace(
    "with open(args.config) as file:\n    cfg = yaml.safe_load(file)",
    "cfg = yaml.safe_load(open(args.config)) if args.config else {}",
)
POSITIONAL = READS.replace('"--config", required=True', '"config"')
OF_DTYPE = READS.replace("dtype=torch.bfloat16, enabled=use", "dtype=dtype, enabled=use").replace(
    "net =", "dtype = torch.bfloat16 if use else torch.float32\nnet ="
)
UNFOLLOWED = READS.replace("yaml.safe_load(file)", "read(file)").replace(
    "import yaml\n\nparser = argparse.ArgumentParser()",
    'from readers import read\n\nparser = argparse.ArgumentParser()\nparser.add_argument("--config_name")',
)
TRAINER = """
import argparse

import lightning
import yaml

from nets import Net

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
cfg = yaml.safe_load(open(parser.parse_args().config))
lightning.Trainer(precision=cfg["train"].get("precision", "16-mixed")).fit(Net())
"""
OPEN = "unknown; bf16-mixed where amp is on"
FILES = {"conf/on.yaml": "train:\n  amp: true\n", "conf/off.yaml": "train:\n  amp: false\n"}
WALKED = "for cfg in {}; do\n  python train.py --config $cfg\ndone\n"


def shown(root: Path, program: str, script: str, **files: str) -> list[str]:
    started = {"go.sh": script} if script else {}
    return list(said(read(root, {"train.py": program, **FILES, **started, **files}).runs).values())


@pytest.mark.parametrize(
    ("program", "script", "expected"),
    [
        (READS, "python train.py --config $1\n", OPEN),
        (READS, "python train.py --config conf/gone.yaml\n", OPEN),
        (READS, "python train.py --config=conf/gone.yaml\n", OPEN),
        (READS, "", OPEN),
        (POSITIONAL, "python train.py $1\n", OPEN),
        (WITH_DEFAULT, "python train.py --config conf/gone.yaml\n", OPEN),
        (OF_DTYPE, "python train.py --config $1\n", OPEN),
        (UNFOLLOWED, "python train.py --config $1\n", OPEN),
        (UNFOLLOWED, "python train.py --config_name base --config $1\n", OPEN),
        (TRAINER, "python train.py --config $1\n", "unknown"),
        (READS, "python train.py --config conf/on.yaml\n", "bf16-mixed"),
        (READS, "python train.py --config conf/off.yaml\n", "fp32"),
        (OF_DTYPE, "python train.py --config conf/on.yaml\n", "bf16-mixed"),
        (OF_DTYPE, "python train.py --config conf/off.yaml\n", "fp32"),
        (POSITIONAL, "python train.py conf/on.yaml\n", "bf16-mixed"),
        (WITH_DEFAULT, "python train.py --config conf/off.yaml\n", "fp32"),
        (WITH_DEFAULT, "python train.py\n", "bf16-mixed"),
        (OPTIONAL, "python train.py\n", "fp32"),
        (OPTIONAL, "python train.py --config $1\n", OPEN),
    ],
)
def test_a_default_says_nothing_where_the_file_that_decides_is_unknown(
    tmp_path: Path, program: str, script: str, expected: str
) -> None:
    assert shown(tmp_path, program, script) == [expected]


def test_a_file_without_the_key_leaves_it_to_the_default(tmp_path: Path) -> None:
    files = {"conf/other.yaml": "train:\n  steps: 3\n"}
    assert shown(tmp_path, READS, "python train.py --config conf/other.yaml\n", **files) == ["fp32"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            'ALL=(\n  conf/on.yaml\n)\nfor cfg in "${ALL[@]}"; do\n  python train.py --config "$cfg"\ndone\n',
            "bf16-mixed",
        ),
        (WALKED.format("conf/on.yaml"), "bf16-mixed"),
        (WALKED.format("conf/off.yaml"), "fp32"),
        (WALKED.format("conf/on.yaml conf/off.yaml"), "fp32; bf16-mixed with conf/on.yaml"),
        (WALKED.format("conf/*.yaml"), "fp32; bf16-mixed with conf/on.yaml"),
        ("for name in on; do\n  python train.py --config conf/$name.yaml\ndone\n", "bf16-mixed"),
        ("config=on\nfor c in conf; do\n  python train.py --config $c/$config.yaml\ndone\n", "bf16-mixed"),
        ("for cfg in $(ls conf); do\n  python train.py --config $cfg\ndone\n", OPEN),
        (
            f"{WALKED.format('conf/on.yaml')}cfg=conf/off.yaml\npython train.py --config $cfg --again\n",
            "bf16-mixed fp32",
        ),
    ],
)
def test_a_loop_over_files_is_a_run_with_each_of_them(tmp_path: Path, script: str, expected: str) -> None:
    assert " ".join(shown(tmp_path, READS, script)) == expected


def test_a_run_whose_file_is_unknown_is_not_there_already(tmp_path: Path) -> None:
    files = {"train.py": READS, "go.sh": "python train.py --config $1\n", **FILES}
    report, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert runs["go.sh"].state is MoveState.LEFT
    assert not report.changes


MADE = READS.replace("enabled=use", "enabled=scaler is not None").replace(
    "optimizer =", 'scaler = torch.amp.GradScaler("cuda") if use else None\noptimizer ='
)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("python train.py --config $1\n", OPEN),
        ("python train.py --config conf/on.yaml\n", "bf16-mixed"),
        ("python train.py --config conf/off.yaml\n", "fp32"),
    ],
)
def test_what_a_scaler_is_made_with_switches_the_region_that_asks_for_it(
    tmp_path: Path, script: str, expected: str
) -> None:
    assert shown(tmp_path, MADE, script) == [expected]


GUARDED = """
import argparse

import torch

try:
    from torch.amp import autocast

    AMP_AVAILABLE = True
except ImportError:
    AMP_AVAILABLE = False

parser = argparse.ArgumentParser()
parser.add_argument("--use_amp", action="store_true")
args = parser.parse_args()
use_amp = args.use_amp and AMP_AVAILABLE and torch.cuda.is_available()
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
if use_amp:
    with autocast("cuda", dtype=torch.bfloat16):
        loss = net(torch.ones(2, 4).cuda()).sum()
else:
    loss = net(torch.ones(2, 4).cuda()).sum()
loss.backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", "fp32; bf16-mixed with use_amp"),
        ("python train.py\n", "fp32"),
        ("python train.py --use_amp\n", "bf16-mixed"),
    ],
)
def test_what_the_libraries_can_do_switches_nothing_on(tmp_path: Path, script: str, expected: str) -> None:
    assert shown(tmp_path, GUARDED, script) == [expected]
