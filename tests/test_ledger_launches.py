"""What belongs to which run: each launch line has its own flags and variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState, RunReport

from .fixture_cases import all_rules
from .test_audited_runs import read, said
from .test_moving import moved

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
MADE = """
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
net = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
if args.amp:
    scaler = torch.amp.GradScaler("cuda")
else:
    scaler = None
for batch in torch.ones(2, 3, 2).cuda():
    with torch.autocast("cuda", enabled=scaler is not None):
        loss = net(batch).sum()
    loss = scaler.scale(loss) if scaler is not None else loss
    loss.backward()
"""
PASSED = """
import argparse

import torch


def train(net, batches, optimizer, scaler):
    net.train()
    for batch in batches:
        with torch.autocast("cuda", enabled=scaler is not None):
            loss = net(batch).sum()
        loss = scaler.scale(loss) if scaler is not None else loss
        loss.backward()


def main(args):
    net = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda") if args.amp else None
    train(net, torch.ones(2, 3, 2).cuda(), optimizer, scaler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    main(parser.parse_args())
"""
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
        (MADE, ["--amp", ""], ["fp16-mixed", "fp32"], [[1], []]),
        (PASSED, ["--amp", ""], ["fp16-mixed", "fp32"], [[1], []]),
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


CONFIG = """
class Node(dict):
    pass


_C = Node()
_C.AMP = True
_C.SEED = 1


def config_of(args):
    config = Node(_C)
    if args.disable_amp:
        config.AMP = False
    return config
"""
BY_CONFIG = """
import argparse

import torch

from config import config_of

parser = argparse.ArgumentParser()
parser.add_argument("--disable_amp", action="store_true")
config = config_of(parser.parse_args())
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16, enabled=config.AMP):
    loss = net(torch.ones(2, 4).cuda()).sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
"""


@pytest.mark.parametrize(("default", "shown"), [("True", "fp16-mixed"), ("False", "fp32; fp16-mixed with AMP")])
def test_a_default_counts_and_not_what_a_branch_makes_of_it(default: str, shown: str, tmp_path: Path) -> None:
    other = {"True": "False", "False": "True"}[default]
    config = CONFIG.replace("_C.AMP = True", f"_C.AMP = {default}").replace(
        "config.AMP = False", f"config.AMP = {other}"
    )
    found = read(tmp_path, {"config.py": config, "train.py": BY_CONFIG})
    assert [run.shown for run in found.runs] == [shown]
    rows = {entry.declaration.span.row for entry in found.runs[0].entries if entry.declaration.path == "config.py"}
    assert rows == {6, 13}


EVALUATED = """
import torch
from transformers import Trainer, TrainingArguments

from nets import net, rows

trainer = Trainer(net, TrainingArguments("out"))
trainer.train()
for row in rows:
    with torch.autocast("cuda", dtype=torch.float16):
        with torch.no_grad():
            print(net(row))
"""


def test_a_region_without_gradients_says_nothing_of_training(tmp_path: Path) -> None:
    assert said(read(tmp_path, {"train.py": EVALUATED}).runs) == {"train.py": "unknown"}
    kept = EVALUATED.replace("        with torch.no_grad():\n            print", "        print")
    assert said(read(tmp_path, {"train.py": kept}).runs) == {"train.py": "fp16-mixed"}


POLICIES = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

from nets import net

half = MixedPrecision(param_dtype=torch.float16)
brain = MixedPrecision(param_dtype=torch.bfloat16)


def policy(cfg):
    return half if cfg.use_fp16 else brain


def main(cfg):
    model = FullyShardedDataParallel(net, mixed_precision=policy(cfg))
    model(torch.ones(2)).sum().backward()


if __name__ == "__main__":
    main(None)
"""


def test_of_two_policies_to_choose_from_the_first_is_not_the_one(tmp_path: Path) -> None:
    assert said(read(tmp_path, {"train.py": POLICIES}).runs) == {"train.py": "unknown"}
    one = POLICIES.replace("brain = MixedPrecision(param_dtype=torch.bfloat16)", "brain = None")
    assert said(read(tmp_path / "one", {"train.py": one}).runs) == {"train.py": "fp16-mixed"}


TWO_MODELS = """
import torch
from transformers import AutoModel

policy = AutoModel.from_pretrained("gpt2", torch_dtype=torch.float32)
reference = AutoModel.from_pretrained("gpt2", torch_dtype=torch.float16)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
loss = policy(torch.ones(2)).sum() - reference(torch.ones(2)).sum()
loss.backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (TWO_MODELS, "fp32"),
        (TWO_MODELS.replace("torch.float32", "torch.bfloat16"), "bf16-true"),
        (TWO_MODELS.replace("reference", "other").replace("torch.float32", "torch.bfloat16"), "unknown"),
        (
            TWO_MODELS.replace("reference", "other")
            .replace("torch.float32", "torch.bfloat16")
            .replace("loss =", "other.requires_grad_(False)\nloss ="),
            "bf16-true",
        ),
    ],
)
def test_the_weights_that_are_not_trained_do_not_decide(code: str, shown: str, tmp_path: Path) -> None:
    (run,) = read(tmp_path, {"train.py": code}).runs or read(tmp_path, {"train.py": code}).elsewhere
    assert run.shown == shown
    assert len(run.entries) == 2


ORTHOGONAL = """
import torch


def orthogonal(G):
    X = G.bfloat16()
    return X / X.norm()


class Muon(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for each in group["params"]:
                each.data.add_(orthogonal(each.grad).to(each.dtype), alpha=-0.1)
"""


def test_a_cast_inside_an_optimizer_is_told_as_that(tmp_path: Path) -> None:
    files = {"muon.py": ORTHOGONAL, "train.py": LOOP.replace("layer", "muon").replace("Scale", "Muon")}
    (cast,) = [entry for run in read(tmp_path, files).elsewhere for entry in run.entries]
    assert cast.declaration.condition == "inside an optimizer"


def test_a_number_of_digits_is_no_precision(tmp_path: Path) -> None:
    flags = '"--int_precision", type=int, default=20', '"--precision", type=int, default=16'
    declared = "".join(f"parser.add_argument({flag})\n" for flag in flags)
    code = f"import argparse\n\nparser = argparse.ArgumentParser()\n{declared}parser.parse_args()\n"
    found = read(tmp_path, {"train.py": code})
    assert [(item.key, item.value) for item in found.declarations] == [("precision", "16")]


BY_PART = """
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="{default}")
args = parser.parse_args()
dtype = torch.bfloat16 if {test} else torch.float16
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.autocast("cuda", dtype=dtype):
    loss = net(torch.ones(2, 4).cuda()).sum()
loss.backward()
optimizer.step()
"""
EITHER = '"bf16" in args.precision or args.precision == "amp_bfloat16"'


@pytest.mark.parametrize(
    ("default", "test", "regime"),
    [
        ("amp_bf16", EITHER, "bf16-mixed"),
        ("amp_bfloat16", EITHER, "bf16-mixed"),
        ("amp_bf16", '"bf16" in args.precision', "bf16-mixed"),
        ("amp_bf16", '"bf16" in args.precision or args.brain', "unknown"),
        ("amp_bf16", '"bf16" in args.features', "unknown"),
    ],
)
def test_a_part_of_a_word_picks_a_dtype(default: str, test: str, regime: str, tmp_path: Path) -> None:
    found = read(tmp_path, {"train.py": BY_PART.format(default=default, test=test)})
    assert [run.regime for run in (*found.runs, *found.elsewhere)] == [regime]


SHARDED = """
import argparse

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="bf16")
parser.add_argument("--fsdp", action="store_true")
args = parser.parse_args()
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kind = None
if args.fsdp:
    if args.precision in ("amp", "fp16"):
        kind = torch.float16
    elif args.precision in ("amp_bf16", "bf16"):
        kind = torch.bfloat16
    fully_shard(net, mp_policy=MixedPrecisionPolicy(param_dtype=kind))
dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[args.precision]
with torch.autocast("cuda", dtype=dtype):
    loss = net(torch.ones(2, 4).cuda()).sum()
loss.backward()
optimizer.step()
"""


def test_a_policy_that_the_word_of_the_run_picks_holds_nothing_back(tmp_path: Path) -> None:
    files = {"train.py": SHARDED, "run.sh": "python train.py --precision bf16\n", "requirements.txt": "torch>=2.6\n"}
    found = read(tmp_path / "read", files)
    assert [(run.path, run.regime) for run in found.runs] == [("run.sh", "bf16-mixed")]
    report, runs = moved(tmp_path / "moved", all_rules(), files)
    assert runs["run.sh"].state is MoveState.THERE
    assert not [item for item in report.remaining if item.code == "PF001"]


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


def test_a_module_with_statements_at_its_top_that_others_import_is_no_run(tmp_path: Path) -> None:
    code = 'import sys\n\nimport torch\n\nsys.path.append(".")\n\n\ndef load(net):\n    return net.half()\n'
    assert [run.path for run in read(tmp_path / "alone", {"tools.py": code}).runs] == ["tools.py"]
    found = read(tmp_path / "both", {"tools.py": code, "net.py": "from tools import load\n"})
    assert (found.runs, [run.path for run in found.elsewhere]) == ((), ["tools.py"])


def test_a_file_that_only_names_the_one_that_states_a_precision_is_read(tmp_path: Path) -> None:
    files = {
        "run.sh": "accelerate launch --config_file accelerate.yaml train.py\n",
        "train.py": "from accelerate import Accelerator\n\nAccelerator().backward(None)\n",
        "accelerate.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_machines: 1\n"
        "deepspeed_config:\n  deepspeed_config_file: zero.json\n",
        "zero.json": '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}\n',
    }
    assert [(run.path, run.regime) for run in read(tmp_path, files).runs] == [("run.sh", "bf16-mixed")]


LOOKED_UP = {
    "train.py": """
        import hydra
        import torch
        from transformers import AutoModel

        import trainers


        @hydra.main(config_path="config", config_name="config")
        def main(config):
            policy = AutoModel.from_pretrained("gpt2", torch_dtype=getattr(torch, config.model.policy_dtype))
            reference = AutoModel.from_pretrained("gpt2", torch_dtype=getattr(torch, config.model.reference_dtype))
            getattr(trainers, config.trainer)(policy, reference).run()


        if __name__ == "__main__":
            main()
        """,
    "trainers.py": """
        class Basic:
            def run(self):
                self.policy.loss().backward()
                self.optimizer.step()
        """,
    "config/config.yaml": "defaults:\n  - model: small\ntrainer: Basic\n",
    "config/model/small.yaml": "policy_dtype: float32\nreference_dtype: float16\n",
}


def test_a_trainer_looked_up_by_its_name_makes_a_run_and_groups_of_hydra_are_none(tmp_path: Path) -> None:
    assert said(read(tmp_path, LOOKED_UP).runs) == {"train.py": "fp32"}
    half = {"config/model/small.yaml": "policy_dtype: bfloat16\nreference_dtype: float16\n"}
    (run,) = read(tmp_path / "half", {**LOOKED_UP, **half}).runs
    assert run.regime == "bf16-true"
    assert {entry.declaration.value: entry.status for entry in run.entries if entry.declaration.feeds} == {
        "bfloat16": "wins",
        "float16": "",
    }


@pytest.mark.parametrize(
    ("line", "runs"), [("accelerate config default", 0), ("accelerate config", 0), ("accelerate launch config", 1)]
)
def test_what_sets_accelerate_up_launches_nothing(tmp_path: Path, line: str, runs: int) -> None:
    config = 'import lightning\n\nfrom nets import Net\n\nlightning.Trainer(precision="bf16-mixed").fit(Net())\n'
    found = read(tmp_path, {"config.py": config, "go.sh": f"{line}\n"})
    assert sum(run.path == "go.sh" for run in found.runs) == runs


@pytest.mark.parametrize(
    ("given", "regime"),
    [('CONF="$1"', "bf16-mixed"), ("CONF=conf/other.yaml", "unknown"), ("CONF=$HOME/a.yaml", "unknown")],
)
def test_a_configuration_that_the_script_may_be_passed_is_that_of_who_passes_none(
    given: str, regime: str, tmp_path: Path
) -> None:
    script = f'CONF="conf/base.yaml"\nif [ $# -eq 1 ]; then\n    {given}\nfi\npython train.py --conf "$CONF"\n'
    code = """
        import argparse
        import lightning
        import yaml


        class Net(lightning.LightningModule):
            def training_step(self, batch, index):
                return batch.sum()


        parser = argparse.ArgumentParser()
        parser.add_argument("--conf")
        cfg = yaml.safe_load(open(parser.parse_args().conf))
        lightning.Trainer(precision=cfg["precision"]).fit(Net())
    """
    files = {"train.py": code, "run.sh": script, "conf/base.yaml": "precision: bf16-mixed\nseed: 1\n"}
    found = read(tmp_path, files)
    (run,) = (run for run in (*found.runs, *found.elsewhere) if run.path == "run.sh")
    assert run.regime == regime


def test_a_script_that_an_image_starts_by_its_own_path_is_looked_up_once(tmp_path: Path) -> None:
    """Whether ``/workspace`` is the project's folder is asked of the lines that start its Python files alone."""
    code = """
        from transformers import HfArgumentParser, Trainer, TrainingArguments

        (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
        Trainer(args=args).train()
    """
    files = {
        "train.py": code,
        "run.sh": "python /workspace/train.py --output_dir out --fp16 True --deepspeed /workspace/ds.json\n",
        "ds.json": '{"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}\n',
        "Dockerfile": 'ADD ./run.sh /workspace/run.sh\nENTRYPOINT ["bash", "/workspace/run.sh"]\n',
    }
    (run,) = (run for run in read(tmp_path, files).runs if run.path == "run.sh")
    assert run.regime == "fp16-mixed"
    assert {entry.declaration.path for entry in run.entries} == {"run.sh", "ds.json"}
