"""Scopes of the ledger in Python dictionaries, configuration modules, nested arguments, methods and overrides."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.outcome import Target
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.framework import Framework
from precfix.codemod.trainers.framework_file import framework_of
from precfix.codemod.trainers.reading.declarations import scopes_of
from precfix.codemod.trainers.reading.scopes import SettingScope

from .framework_cases import MOVING
from .test_audited_runs import read

RUNNER = """
id: runner
title: Runner
formats: [python, yaml, cli]
packages: [runner]
recognize:
  strong: [wrapper.kind, trainer._target_]
  programs: [runner-train]
  calls: [runner.Trainer, runner.Model.fit]
  mappings: [module]
keys:
  kind: {role: compute, at: [wrapper.kind], flags: [], means: {Plain: fp32, Amp: fp16-mixed}, yields_to: [dtype]}
  dtype:
    role: compute
    at: [wrapper.dtype, trainer.kwargs.dtype]
    flags: []
    arguments: [kwargs.dtype]
    means: {float16: fp16-mixed, bfloat16: bf16-mixed, $torch.float16: fp16-mixed}
  scale: {role: scaler, at: [wrapper.scale], flags: []}
  amp: {role: compute, at: [amp, trainer.amp], flags: []}
targets:
  bf16-mixed:
    - if: kind == Plain
      do:
        - set kind=Amp
        - add dtype=bfloat16
        - add scale=dict(enabled=False)
    - if: place is call
      do: set dtype=torch.bfloat16
    - if: place is command
      do: put amp=bf16
    - if: [place is file, package runner surely >= 2]
      do: set dtype=$torch.bfloat16
    - if: [place is file, package runner not surely >= 2]
      do:
        - report: runner 2 is needed
  fp32:
    - set kind=Plain
    - if: place is mapping
      do: drop dtype
"""


@pytest.fixture(scope="module")
def runner() -> Framework:
    return framework_of(RUNNER, "runner.yaml")


def _project(root: Path, framework: Framework, **files: str) -> Project:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return Project.open([root]).with_frameworks((framework,))


def _only(project: Project) -> SettingScope:
    (scope,) = scopes_of(project)
    return scope


def _values(scope: SettingScope) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in scope.settings}


def _moved(project: Project, target: str, *, unsafe: bool = False) -> dict[str, str]:
    options = engine.Options(unsafe_fixes=unsafe)
    report = engine.migrate(project.with_target(target), [MOVING], Target(target, "a test"), options)
    assert not report.failed_rules
    return {change.path: change.after.decode() for change in report.changes}


def test_imported_classes_are_read_by_their_name_and_replaced_by_a_sibling(tmp_path: Path, runner: Framework) -> None:
    project = _project(
        tmp_path, runner, cfg__py="from runner.wrappers import Amp\nwrapper = dict(kind=Amp, dtype='float16')\n"
    )
    assert _values(_only(project)) == {"wrapper.kind": "Amp", "wrapper.dtype": "float16"}
    assert _moved(project, "fp32")["cfg.py"] == ("from runner.wrappers import Amp, Plain\nwrapper = dict(kind=Plain)\n")


def test_a_variable_is_not_taken_for_a_name(tmp_path: Path, runner: Framework) -> None:
    project = _project(tmp_path, runner, cfg__py="Amp = choose()\nwrapper = dict(kind=Amp, dtype=PRECISION)\n")
    assert set(_values(_only(project)).values()) == {None}


def test_an_alias_is_not_respelled(tmp_path: Path, runner: Framework) -> None:
    project = _project(
        tmp_path, runner, cfg__py="from runner.wrappers import Amp as A\nwrapper = dict(kind=A, dtype='float16')\n"
    )
    assert _moved(project, "fp32") == {}


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("wrapper = dict(kind='Plain')\n", "wrapper = dict(kind='Amp', dtype='bfloat16', scale=dict(enabled=False))\n"),
        ("wrapper.update(kind='Plain')\n", "wrapper.update(kind='Amp', dtype='bfloat16', scale=dict(enabled=False))\n"),
        (
            'wrapper.update(dict(kind="Plain"))\n',
            'wrapper.update(dict(kind="Amp", dtype="bfloat16", scale=dict(enabled=False)))\n',
        ),
        (
            "_base_ = ['b.py']\nwrapper: dict = dict(kind='Plain', scale='dynamic')\n",
            "_base_ = ['b.py']\nwrapper: dict = dict(kind='Amp', scale=dict(enabled=False), dtype='bfloat16')\n",
        ),
    ],
)
def test_sections_of_modules_grow_in_the_style_of_the_file(
    text: str, after: str, tmp_path: Path, runner: Framework
) -> None:
    project = _project(tmp_path, runner, cfg__py=text)
    assert _moved(project, "bf16-mixed") == {}, "a wrapper without 16 bits is not replaced unasked"
    assert _moved(project, "bf16-mixed", unsafe=True)["cfg.py"] == after


def test_attributes_and_subscripts_of_variables_are_keys(tmp_path: Path, runner: Framework) -> None:
    project = _project(tmp_path, runner, cfg__py="from .base import wrapper\nwrapper['kind'] = 'Amp'\n")
    scope = _only(project)
    assert _values(scope) == {"wrapper.kind": "Amp"}
    assert scope.is_open
    assert scope.regime is None, "the base may name the dtype"


@pytest.mark.parametrize(
    ("text", "regime"),
    [
        ("wrapper = dict(kind='Amp')\n", "fp16-mixed"),
        ("wrapper = dict(kind='Amp', dtype='bfloat16')\n", "bf16-mixed"),
        ("wrapper = dict(kind='Plain')\n", "fp32"),
    ],
)
def test_a_key_yields_to_the_one_that_says_more(text: str, regime: str, tmp_path: Path, runner: Framework) -> None:
    assert _only(_project(tmp_path, runner, cfg__py=text)).regime == regime


def test_deep_nests_end(tmp_path: Path, runner: Framework) -> None:
    nest = "dict(a=" * 40 + "1" + ")" * 40
    project = _project(tmp_path, runner, cfg__py=f"wrapper = dict(kind='Plain', deep={nest})\n")
    assert _only(project).regime == "fp32"


def test_nested_arguments_of_calls(tmp_path: Path, runner: Framework) -> None:
    text = 'import torch\nfrom runner import Trainer\nTrainer(amp=True, kwargs={"dtype": torch.float16})\n'
    project = _project(tmp_path, runner, train__py=text)
    assert _values(_only(project)) == {"amp": "true", "kwargs.dtype": "float16"}
    assert _moved(project, "bf16-mixed")["train.py"] == text.replace("float16", "bfloat16")


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("model = Model('a')\nmodel.fit(amp=True)", True),
        ("Model('a').fit(amp=True)", True),
        ("model = Other()\nmodel.fit(amp=True)", False),
        ("model = Model('a')\nmodel = wrap(model)\nmodel.fit(amp=True)", False),
    ],
)
def test_methods_of_objects_whose_class_is_known(made: str, is_found: bool, tmp_path: Path, runner: Framework) -> None:
    project = _project(tmp_path, runner, train__py=f"from runner import Model\n{made}\n")
    assert bool(scopes_of(project)) is is_found


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("runner-train data=a.yaml lr=1  # x\n", "runner-train data=a.yaml lr=1 amp=bf16  # x\n"),
        ("runner-train a=1 \\\n    b=2\n", "runner-train a=1 \\\n    b=2 amp=bf16\n"),
        ("runner-train a=1 \\\n    b=2 \\\n    $@\n", "runner-train a=1 \\\n    b=2 \\\n    amp=bf16 \\\n    $@\n"),
        ("runner-train a=1 amp=fp16\n", "runner-train a=1 amp=bf16\n"),
    ],
)
def test_words_are_added_behind_words_of_the_same_kind(
    command: str, after: str, tmp_path: Path, runner: Framework
) -> None:
    project = _project(tmp_path, runner, run__sh=f"export precision=1\n{command}")
    assert _moved(project, "bf16-mixed")["run.sh"] == f"export precision=1\n{after}"


def test_references_to_other_settings_are_no_settings(tmp_path: Path, runner: Framework) -> None:
    text = 'amp: true\ntrainer:\n  _target_: T\n  amp: "@amp"\n  kwargs: {dtype: "@unknown"}\n'
    assert _values(_only(_project(tmp_path, runner, cfg__yaml=text))) == {"amp": "true", "trainer.kwargs.dtype": None}


@pytest.mark.parametrize(("pin", "is_written"), [("runner>=2.1", True), ("runner>=1.0", False), ("torch", False)])
def test_what_only_new_releases_know_is_written_where_pins_promise_them(
    pin: str, is_written: bool, tmp_path: Path, runner: Framework
) -> None:
    text = "trainer:\n  _target_: T\n  kwargs: {dtype: $torch.float16}\n"
    told = "runner-train cfg.yaml\n"
    project = _project(tmp_path, runner, cfg__yaml=text, requirements__txt=f"{pin}\n", README__md=told)
    assert ("cfg.yaml" in _moved(project, "bf16-mixed")) is is_written


def test_a_file_behind_a_flag_does_not_open_a_command(tmp_path: Path, runner: Framework) -> None:
    project = _project(
        tmp_path,
        runner,
        a__sh="runner-train a=1 --deepspeed zero.json --precision x\n",
        b__sh="runner-train args.json a=1 --precision x\n",
    )
    assert {scope.path: scope.is_open for scope in scopes_of(project)} == {"a.sh": False, "b.sh": True}


LOGGED = """
import deepspeed
import torch
import wandb

settings = {"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": True}, "optimizer": {"params": {"lr": 1}}}
wandb.init(config=settings)
"""


@pytest.mark.parametrize(
    ("line", "regimes"),
    [
        ("print(settings)\n", []),
        ("engine = deepspeed.initialize(model=torch.nn.Linear(8, 8), config=settings)[0]\n", ["fp16-mixed"]),
    ],
)
def test_a_dictionary_that_only_a_tracker_is_passed_says_nothing(tmp_path: Path, line: str, regimes: list[str]) -> None:
    assert [run.regime for run in read(tmp_path, {"train.py": LOGGED + line}).runs] == regimes


HELD = """
import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--fp16_enabled", action="store_true")
args = parser.parse_args()
settings = {
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
    "fp16": {"enabled": args.fp16_enabled, "loss_scale": 0},
}
net = torch.nn.Linear(8, 8)
engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=settings)
engine.backward(engine(torch.ones(1, 8)).mean())
engine.step()
"""


@pytest.mark.parametrize(("flag", "regime"), [(" --fp16_enabled", "fp16-mixed"), ("", "fp32")])
def test_a_key_of_a_dictionary_has_the_value_of_its_launch_line(flag: str, regime: str, tmp_path: Path) -> None:
    runs = read(tmp_path, {"train.py": HELD, "run.sh": f"deepspeed train.py{flag}\n"}).runs
    assert [(run.path, run.regime) for run in runs] == [("run.sh", regime)]


@pytest.mark.parametrize(
    ("line", "regime"),
    [('dtype="float16", accumulative_counts=2', "fp16-mixed"), ("accumulative_counts=2", "bf16-mixed")],
)
def test_a_configuration_updates_the_one_that_it_builds_on(line: str, regime: str, tmp_path: Path) -> None:
    files = {
        "conf/base.py": 'optim_wrapper = dict(type="AmpOptimWrapper", dtype="bfloat16", optimizer=dict(type="SGD"))\n',
        "conf/top.py": "from mmengine.config import read_base\n\nwith read_base():\n    from .base import *\n\n"
        f"optim_wrapper.update({line})\n",
    }
    ledger = read(tmp_path, files)
    runs = [run for run in (*ledger.runs, *ledger.elsewhere) if run.path == "conf/top.py"]
    assert [run.regime for run in runs] == [regime]
