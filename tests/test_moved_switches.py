"""A project's own switch is what moves: it is never made to do nothing; a run at the target needs no edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .project_tree import write_tree
from .test_audited_runs import read, said
from .test_cli import precfix
from .test_moving import REQUIRED, moved, paths_changed

LOOP = """
{before}
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", enabled={on})
for _ in range(10):
    with torch.autocast("cuda", dtype=torch.float16, enabled={on}):
        loss = model(torch.randn(4, 8, device="cuda")).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
OPTION = """import argparse
import torch
p = argparse.ArgumentParser()
p.add_argument("{}", action="store_true")
a = p.parse_args()
"""
LOADED = 'import torch\nimport yaml\na = yaml.safe_load(open("conf.yaml"))\n'
FULL = LOOP.format(before=OPTION.format("--full-precision"), on="not a.full_precision")
FULL_IN_FILE = LOOP.format(before=LOADED, on='not a["full_precision"]')


def texts_after(tmp_path: Path, files: dict[str, str], regime: str = "fp32") -> tuple[dict[str, str], list[MoveState]]:
    report, runs = moved(tmp_path, all_rules(), {**files, **REQUIRED}, regime)
    new = {change.path: change.after.decode() for change in report.changes}
    return new, [each.state for _, each in sorted(runs.items())]


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        ({"train.py": FULL, "run.sh": "python train.py --full-precision\n"}, {}),
        (
            {"train.py": FULL, "run.sh": "python train.py\n"},
            {"run.sh": "python train.py --full-precision\n"},
        ),
        ({"train.py": FULL_IN_FILE, "conf.yaml": "full_precision: true\n"}, {}),
        (
            {"train.py": FULL_IN_FILE, "conf.yaml": "full_precision: false\n"},
            {"conf.yaml": "full_precision: true\n"},
        ),
    ],
)
def test_a_switch_for_float32_is_what_moves(files: dict[str, str], changed: dict[str, str], tmp_path: Path) -> None:
    new, states = texts_after(tmp_path, files)
    assert (new, states) == (changed, [MoveState.MOVED if changed else MoveState.THERE])


def test_a_closing_switch_of_another_name_moves_with_leave_only(tmp_path: Path) -> None:
    files = {"train.py": LOOP.format(before=LOADED, on='not a["debug"]'), "conf.yaml": "debug: false\n"}
    assert texts_after(tmp_path, files) == ({}, [MoveState.LEFT])


ENGINE = """
import torch

amp_dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
pt_dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[amp_dtype]


class Engine:
    def __init__(self, model, optimizer, use_amp: bool = False):
        self.model = model
        self.optimizer = optimizer
        self.pt_dtype = pt_dtype if use_amp else torch.float32
        self.scaler = torch.GradScaler("cuda", enabled=self.pt_dtype == torch.float16)

    def step(self, x):
        with torch.autocast("cuda", dtype=self.pt_dtype):
            loss = self.model(x).square().mean()
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
STARTS = f"""{OPTION.format("--use_amp")}
from engine import Engine
model = torch.nn.Linear(8, 2).cuda()
engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), use_amp=a.use_amp)
for _ in range(10):
    engine.step(torch.randn(4, 8, device="cuda"))
"""


@pytest.mark.parametrize(
    ("script", "changed", "states"),
    [
        ("python train.py\n", {}, [MoveState.THERE]),
        ("python train.py --use_amp\n", {"run.sh": "python train.py\n"}, [MoveState.MOVED]),
    ],
)
def test_a_dtype_that_a_switch_picks_stays(
    script: str, changed: dict[str, str], states: list[MoveState], tmp_path: Path
) -> None:
    assert texts_after(tmp_path, {"engine.py": ENGINE, "train.py": STARTS, "run.sh": script}) == (changed, states)


def test_a_run_that_is_left_is_no_clean_project(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = STARTS.replace("use_amp=a.use_amp", 'use_amp=bool(os.environ.get("AMP"))')
    root = write_tree(tmp_path, {"engine.py": ENGINE, "train.py": f"import os\n{program}", **REQUIRED})
    run = precfix(capfd, monkeypatch, "migrate", "--to", "fp32", "--dry-run", "--no-cache", root)
    assert run.code == 1
    assert "No automatic edit in 3 files; nothing changed; 1 run left." in run.out + run.err
    assert "No precision mistakes" not in run.out + run.err


BY_FILE = """
import argparse
import torch
import yaml
from easydict import EasyDict
p = argparse.ArgumentParser()
p.add_argument("--config", required=True)
opt = EasyDict(yaml.load(open(p.parse_args().config), yaml.FullLoader))
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda") if {test} else None
for _ in range(10):
    x = torch.randn(4, 8, device="cuda")
    optimizer.zero_grad()
    if {asked}:
        with torch.autocast("cuda"):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        model(x).square().mean().backward()
        optimizer.step()
"""
IS_TRUE = "opt.Train.mixed_precision is True"
BY_TEST = BY_FILE.format(test=IS_TRUE, asked=f"{IS_TRUE} and scaler is not None")
BY_SCALER = BY_FILE.format(test=IS_TRUE, asked="scaler is not None")
ON, OFF = "Train:\n  mixed_precision: True\n", "Train:\n  mixed_precision: False\n"
BY_HAND = "torchrun train.py --config $1\n"
OFF_IN_ALL = "fp32; fp16-mixed with mixed_precision"


@pytest.mark.parametrize("program", [BY_TEST, BY_SCALER])
@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (OFF, OFF, OFF_IN_ALL),
        (OFF, ON, "fp16-mixed; fp16-mixed where mixed_precision is on"),
        (ON, ON, "fp16-mixed"),
    ],
)
def test_what_all_files_say_that_may_be_given_is_what_a_run_has(
    program: str, one: str, other: str, shown: str, tmp_path: Path
) -> None:
    files = {"train.py": program, "run.sh": BY_HAND, "configs/a.yaml": one, "configs/b.yaml": other}
    (found,) = said(read(tmp_path, files).runs).values()
    assert found.replace("unknown; ", "fp16-mixed; ") == shown


def test_a_file_that_another_program_loads_is_one_of_those_that_may_be_given(tmp_path: Path) -> None:
    own = BY_TEST.replace("open(p.parse_args().config)", 'open("configs/a.yaml")')
    files = {"train.py": BY_TEST, "own.py": own, "run.sh": BY_HAND, "configs/a.yaml": OFF, "configs/b.yaml": OFF}
    assert said(read(tmp_path, files).runs) == {BY_HAND.strip(): OFF_IN_ALL, "own.py": "fp32"}


def test_a_run_that_all_files_leave_in_float32_needs_no_edit(tmp_path: Path) -> None:
    files = {"train.py": BY_TEST, "run.sh": BY_HAND, "configs/a.yaml": OFF, "configs/b.yaml": OFF}
    assert texts_after(tmp_path, files) == ({}, [MoveState.THERE])


TRAINER = f"""
import torch


class BaseTrainer:
    def __init__(self, cfg):
        self.cfg = cfg

    def fit(self):
        {LOOP.format(before="", on="self.cfg.amp").strip().replace(chr(10), chr(10) + "        ")}
"""
SCRIPT = """
import argparse
from trainer import BaseTrainer


def parse():
    cfg = argparse.ArgumentParser().parse_args()
    cfg.amp = {}
    return cfg


if __name__ == "__main__":
    BaseTrainer(parse()).fit()
"""


def test_each_of_several_scripts_says_for_itself_whether_it_is_on(tmp_path: Path) -> None:
    off = "fp32; fp16-mixed with amp"
    files = {"trainer.py": TRAINER, "a.py": SCRIPT.format("False"), "b.py": SCRIPT.format("False")}
    assert said(read(tmp_path / "off", files).runs) == {"a.py": off, "b.py": off}
    files["b.py"] = SCRIPT.format("True")
    assert said(read(tmp_path / "on", files).runs) == {"a.py": off, "b.py": "fp16-mixed"}
    new, states = texts_after(tmp_path / "moved", files)
    assert {path: text.strip() for path, text in new.items()} == {"b.py": SCRIPT.format("False").strip()}
    assert states == [MoveState.THERE, MoveState.MOVED]


BASE = """
class Base:
    def __init__(self, model, use_amp: bool = True):
        self.model = model
        self.use_amp = use_amp
"""
MADE = f"""
import torch
import yaml
from base import Base


class Trainer(Base):
{{made}}

    def fit(self):
        {LOOP.format(before="", on="self.use_amp").strip().replace(chr(10), chr(10) + "        ")}


config = yaml.safe_load(open("conf.yaml"))
{{start}}.fit()
"""
BY_CLASS_METHOD = """    @classmethod
    def of(cls, config):
        return cls(None, use_amp=config["use_amp"])"""
BY_SUPER = """    def __init__(self, config):
        super().__init__(None, use_amp=config["use_amp"])"""


@pytest.mark.parametrize(
    ("made", "start"),
    [
        (BY_CLASS_METHOD, "Trainer.of(config)"),
        (BY_SUPER, "Trainer(config)"),
        ("", 'Trainer(None, use_amp=config["use_amp"])'),
    ],
)
def test_what_a_class_below_passes_decides_and_not_the_default(made: str, start: str, tmp_path: Path) -> None:
    files = {"base.py": BASE, "train.py": MADE.format(made=made, start=start), "conf.yaml": "use_amp: true\n"}
    report, runs = moved(tmp_path, all_rules(), {**files, **REQUIRED}, "fp32")
    assert ("conf.yaml" in paths_changed(report), runs["train.py"].state) == (True, MoveState.MOVED)


LAZY = """
from mmengine.config import read_base

with read_base():
    from ._base_.sched import *

"""
SCHED = """
from mmengine.optim import AmpOptimWrapper

optim_wrapper = dict(type=AmpOptimWrapper, dtype="float16", optimizer=dict(type="AdamW", lr=1e-4))
"""


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ('optim_wrapper = dict(optimizer=dict(type="SGD"))\n', {"configs/_base_/sched.py": "fp16-mixed"}),
        ("optim_wrapper = dict(**optim_wrapper, clip_grad=None)\n", {"configs/main.py": "fp16-mixed"}),
        ("optim_wrapper.update(dict(clip_grad=None))\n", {"configs/main.py": "fp16-mixed"}),
        ("", {"configs/main.py": "fp16-mixed"}),
    ],
)
def test_a_variable_of_a_file_with_read_base_replaces_that_of_its_base(
    own: str, shown: dict[str, str], tmp_path: Path
) -> None:
    files = {"configs/main.py": f"{LAZY}{own}", "configs/_base_/sched.py": SCHED}
    assert said(read(tmp_path, files).runs) == shown


@pytest.mark.parametrize("scale", ["512.", "dict(init_scale=512)", 'dict(init_scale=512.0, mode="dynamic")'])
def test_a_scale_of_mmcv_is_one_run_however_it_is_written(scale: str, tmp_path: Path) -> None:
    files = {"configs/base.py": 'optimizer = dict(type="SGD", lr=0.02)\n'}
    files["configs/half.py"] = f'_base_ = "./base.py"\nfp16 = dict(loss_scale={scale})\n'
    assert texts_after(tmp_path, files) == ({"configs/half.py": '_base_ = "./base.py"\n'}, [MoveState.MOVED])


YOLO = """
import yaml
from ultralytics import YOLO

settings = yaml.safe_load(open("conf.yaml"))
if settings["resume"]:
    model = {first}("last.pt")
else:
    model = YOLO("yolo11n.pt")
model.train(data="data.yaml", amp=settings["amp"])
"""


def test_a_trainer_that_each_branch_makes_is_one(tmp_path: Path) -> None:
    files = {"train.py": YOLO.format(first="YOLO"), "conf.yaml": "resume: false\namp: true\n"}
    assert texts_after(tmp_path / "same", files)[0] == {"conf.yaml": "resume: false\namp: false\n"}
    assert texts_after(tmp_path / "other", {**files, "train.py": YOLO.format(first="load")})[0] == {}


def test_what_a_configuration_passes_to_a_class_below_decides(tmp_path: Path) -> None:
    program = MADE.format(made="", start='instantiate(config["trainer"])').replace(
        "import yaml", "import yaml\nfrom hydra.utils import instantiate"
    )
    program = program.replace("config = yaml", 'if __name__ == "__main__":\n    config = yaml').replace(
        "\ninstantiate", "\n    instantiate"
    )
    conf = "trainer:\n  _target_: train.Trainer\n  model: null\n  use_amp: {}\n"
    files = {"base.py": BASE, "train.py": program, "conf.yaml": conf.format("true"), **REQUIRED}
    report, _ = moved(tmp_path, all_rules(), files, "fp32")
    assert "conf.yaml" in paths_changed(report)


CHOSEN = """
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--p", default="fp16")
args = parser.parse_args()
if args.p == "fp16":
    {store} = torch.float16
else:
    {store} = torch.bfloat16
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for _ in range(10):
    with torch.autocast("cuda", dtype={store}):
        loss = model(torch.randn(4, 8, device="cuda")).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("store", ["args.chosen", 'args.__dict__["chosen"]'])
def test_a_region_that_is_not_followed_is_named_and_not_the_scaler_beside_it(store: str, tmp_path: Path) -> None:
    report, runs = moved(tmp_path, all_rules(), {"train.py": CHOSEN.format(store=store), **REQUIRED}, "bf16-mixed")
    told = [(place.span.row, place.message) for each in runs.values() for place in each.why]
    assert (report.changes, [row for row, _ in told]) == ((), [16])
    assert "cannot be followed" in told[0][1]
