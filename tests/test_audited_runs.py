"""Which programs the ledger takes for runs, and what it says that they compute in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from precfix.codemod.outcome import RunReport
from precfix.codemod.trainers.reading.auditing import Ledger, ledger_of
from precfix.codemod.trainers.reading.stated_words import is_switch, speaks
from precfix.transforms.frameworks import load_frameworks

from .project_tree import open_tree
from .test_cli import precfix

LOOP = """
import torch


class Loop:
    def __init__(self, options):
        self.options = options
        self.net = torch.nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def run(self):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.net(torch.ones(2, 4).cuda()).sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
CLI = "from work.loop import Loop\n\n\ndef main():\n    Loop(None).run()\n"
TABLE = "TABLE = {}\n\n\ndef register(kind):\n    TABLE[kind.__name__] = kind\n    return kind\n"
ASKED = 'if __name__ == "__main__":\n    main()\n'
OPTION = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
Loop(parser.parse_args()).run()
"""
SWITCHED = LOOP.replace("dtype=torch.float16", "dtype=torch.float16, enabled=self.options.amp") + OPTION
IN_BRANCH = """
import argparse

import torch


def train(args, net, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    if args.amp:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.ones(2, 4).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        net(torch.ones(2, 4).cuda()).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    net = torch.nn.Linear(4, 4).cuda()
    train(parser.parse_args(), net, torch.optim.SGD(net.parameters(), lr=0.1))
"""
IN_A_HELPER = IN_BRANCH.replace(
    "\n\ndef train",
    '\n\ndef loss_of(net):\n    with torch.autocast("cuda", dtype=torch.float16):\n'
    "        return net(torch.ones(2, 4).cuda()).sum()\n\n\ndef train",
).replace(
    """        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.ones(2, 4).cuda()).sum()
""",
    "        loss = loss_of(net)\n",
)
BY_A_CAST = """
import argparse

import torch


def made(use_bf16):
    net = torch.nn.Linear(4, 4).cuda()
    if use_bf16:
        net = net.to(dtype=torch.bfloat16)
    return net


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--use_bf16", action="store_true")
    net = made(parser.parse_args().use_bf16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(2, 4).cuda()).sum().backward()
    optimizer.step()
"""
IN_CODE = """
import torch


def step(net, optimizer, scaler, use_amp):
    with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
        loss = net(torch.ones(2, 4).cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


if __name__ == "__main__":
    net = torch.nn.Linear(4, 4).cuda()
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    step(net, torch.optim.SGD(net.parameters(), lr=0.1), scaler, use_amp=False)
"""
WITH_A_NAME = IN_BRANCH.replace("if args.amp:", "use_amp = False\n    if use_amp:")
LEVELS = """
import argparse

from apex import amp

from nets import loss_of, net, optimizer

parser = argparse.ArgumentParser()
parser.add_argument("--opt-level", type=str, default="O1")
args = parser.parse_args()
net, optimizer = amp.initialize(net, optimizer, opt_level=args.opt_level)
with amp.scale_loss(loss_of(net), optimizer) as scaled:
    scaled.backward()
optimizer.step()
"""
BY_MACHINE = """
import torch

dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
kind = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", enabled=dtype == "float16")
with torch.autocast("cuda", dtype=kind):
    loss = net(torch.ones(2, 4).cuda()).sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""
BY_FUNCTION = BY_MACHINE.replace(
    BY_MACHINE.partition("net =")[0],
    """
import torch


def settings(device):
    if device.type != "cuda":
        return torch.float32, False
    if torch.cuda.is_bf16_supported():
        return torch.bfloat16, False
    return torch.float16, True


kind, scaled = settings(torch.device("cuda"))
""",
).replace('dtype == "float16"', "scaled")
LIGHTNING = """
import lightning
import torch

from nets import Net

device = "cuda" if torch.cuda.is_available() else "cpu"
trainer = lightning.Trainer(precision=16 if device == "cuda" else 32)
trainer.fit(Net())
"""
HANDED = """
import torch


def step(net, x, use_amp):
    with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
        loss = net(x).sum()
    loss.backward()


amp = False
net = torch.nn.Linear(4, 4).cuda()
step(net, torch.ones(2, 4).cuda(), use_amp=amp)
"""
PASSED = """
from accelerate import Accelerator
from nets import loss_of, net, optimizer


def train(options):
    accelerator = Accelerator(mixed_precision=options["mixed_precision"])
    accelerator.backward(loss_of(accelerator.prepare(net)))
    optimizer.step()


if __name__ == "__main__":
    train({"rate": 0.1, "mixed_precision": "bf16"})
"""
BY_WORD = SWITCHED.replace("enabled=self.options.amp", 'enabled=self.options.precision == "16-mixed"').replace(
    '"--amp", action="store_true"', '"--precision", default="32"'
)
IN_CLASSES = (
    SWITCHED.partition("import argparse")[0]
    + """
class Settings:
    def __init__(self):
        self.amp = False


class Fast(Settings):
    def __init__(self):
        super().__init__()
        self.amp = True


Loop(Settings()).run()
"""
)
BY_PARAMETER = """
from accelerate import Accelerator
from nets import loss_of, net, optimizer


class Loop:
    def __init__(self, amp=False, kind="fp16"):
        self.accelerator = Accelerator(mixed_precision=kind if amp else "no")

    def run(self):
        self.accelerator.backward(loss_of(self.accelerator.prepare(net)))
        optimizer.step()


if __name__ == "__main__":
    Loop().run()
"""


def read(root: Path, files: dict[str, str]) -> Ledger:
    return ledger_of(open_tree(root, files).with_frameworks(load_frameworks()))


def said(runs: tuple[RunReport, ...]) -> dict[str, str]:
    return {run.title: run.shown for run in runs}


@pytest.mark.parametrize(
    ("title", "files"),
    [
        ("python -m work --epochs 3", {"work/__main__.py": f"{CLI}main()\n", "run.sh": "python -m work --epochs 3\n"}),
        ("work/cli.py", {"work/cli.py": CLI, "pyproject.toml": '[project.scripts]\nwork-train = "work.cli:main"\n'}),
        (
            "work/cli.py",
            {
                "work/cli.py": CLI,
                "setup.py": "from setuptools import setup\n\n"
                'setup(entry_points={"console_scripts": ["work-train=work.cli:main"]})\n',
            },
        ),
        (
            "main.py",
            {
                "conf/train.yaml": "loop:\n  _target_: work.loop.Loop\n",
                "main.py": "import hydra\n\n\n"
                '@hydra.main(config_path="conf", config_name="train", version_base=None)\n'
                "def main(options):\n    hydra.utils.instantiate(options.loop).run()\n\n\n" + ASKED,
            },
        ),
        (
            "main.py",
            {
                "work/table.py": TABLE,
                "work/loop.py": LOOP.replace(
                    "class Loop", "from work.table import register\n\n\n@register\nclass Loop"
                ),
                "main.py": "import work.loop\nfrom work.table import TABLE\n\n\n"
                f'def main():\n    TABLE["Loop"](None).run()\n\n\n{ASKED}',
            },
        ),
        (
            "main.py",
            {
                "main.py": "import importlib\nimport sys\n\n\n"
                f'def main():\n    importlib.import_module("work." + sys.argv[1]).Loop(None).run()\n\n\n{ASKED}'
            },
        ),
        (
            "main.py",
            {
                "main.py": "from torch.multiprocessing import spawn\n\nfrom work.start import worker\n\n"
                f"\ndef main():\n    spawn(worker, nprocs=2)\n\n\n{ASKED}",
                "work/start.py": "from .loop import Loop\n\n\ndef worker(rank):\n    Loop(rank).run()\n",
            },
        ),
    ],
)
def test_what_starts_a_training_step_elsewhere_is_a_run(title: str, files: dict[str, str], tmp_path: Path) -> None:
    ledger = read(tmp_path, {"work/__init__.py": "", "work/loop.py": LOOP, **files})
    assert said(ledger.runs) == {title: "fp16-mixed"}


def test_a_module_that_only_offers_a_loop_is_no_run(tmp_path: Path) -> None:
    ledger = read(tmp_path, {"work/__init__.py": "", "work/loop.py": LOOP, "work/cli.py": CLI})
    assert (ledger.runs, [run.path for run in ledger.elsewhere]) == ((), ["work/loop.py"])


def test_code_that_a_launched_program_runs_is_no_program_of_its_own(tmp_path: Path) -> None:
    files = {"loop.py": f"{LOOP}\n\nif __name__ == '__main__':\n    Loop(None).run()\n"}
    files |= {"train.py": "from loop import Loop\n\nLoop(None).run()\n", "run.sh": "python train.py\n"}
    assert said(read(tmp_path, files).runs) == {"python train.py": "fp16-mixed"}


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (SWITCHED, "fp32; fp16-mixed with amp"),
        (IN_BRANCH, "fp32; fp16-mixed with amp"),
        (IN_A_HELPER, "fp32; fp16-mixed with amp"),
        (IN_A_HELPER.replace("        net(torch", "        loss_of(net)\n        net(torch"), "fp16-mixed"),
        (BY_A_CAST, "fp32"),
        (BY_A_CAST.replace("if use_bf16", "if not use_bf16"), "bf16-true"),
        (BY_A_CAST.replace('action="store_true"', "default=True"), "bf16-true"),
        (SWITCHED.replace('action="store_true"', "default=True"), "fp16-mixed"),
        (LOOP.replace("dtype=torch.float16", "enabled=False") + "\n\nLoop(None).run()\n", "fp32"),
        (IN_CODE, "fp32"),
        (IN_CODE.replace("=False", "=True"), "fp16-mixed"),
        (WITH_A_NAME, "fp32"),
        (HANDED, "fp32"),
        (HANDED + "step(net, torch.ones(2, 4).cuda(), use_amp=True)\n", "fp16-mixed"),
        (HANDED.replace("amp = False", "amp = torch.cuda.is_available()"), "fp16-mixed"),
        (
            WITH_A_NAME.replace("    if use", "    use_amp = use_amp or args.amp\n    if use"),
            "fp32; fp16-mixed with amp",
        ),
        (LEVELS, "fp16-mixed"),
        (LEVELS.replace('"O1"', '"O0"'), "fp32"),
        (BY_MACHINE, "bf16-mixed; fp16-mixed where the machine has no bfloat16"),
        (BY_MACHINE.replace("is_bf16_supported", "is_initialized"), "unknown"),
        (BY_FUNCTION, "bf16-mixed; fp16-mixed where the machine has no bfloat16"),
        (LIGHTNING, "fp16-mixed"),
        (BY_WORD, "fp32; fp16-mixed with precision"),
        (BY_WORD.replace('"32"', '"16-mixed"'), "fp16-mixed"),
        (BY_WORD.replace("==", "!="), "fp16-mixed"),
        (BY_WORD.replace("==", "!=").replace('"16-mixed"', '"32"'), "fp32; fp16-mixed with precision"),
        (BY_WORD.replace('== "16-mixed"', 'in ("16", "16-mixed")'), "fp32; fp16-mixed with precision"),
        (BY_WORD.replace('"16-mixed"', '"16-mixed" or self.options.fast'), "fp16-mixed"),
        (BY_WORD.replace('"16-mixed"', "self.options.wanted"), "fp16-mixed"),
        (IN_CLASSES, "fp16-mixed"),
        (IN_CLASSES.replace("= True", "= False"), "fp32; fp16-mixed with amp"),
        (IN_CLASSES.replace("= True", "= False") + "settings.amp = True\n", "fp16-mixed"),
        (BY_PARAMETER, "fp32"),
        (BY_PARAMETER.replace("Loop()", "Loop(amp=False)"), "fp32"),
        (BY_PARAMETER.replace("Loop()", "Loop(amp=True)"), "fp16-mixed"),
        (BY_PARAMETER.replace("Loop()", "Loop(*settings())"), "fp16-mixed"),
        (PASSED, "bf16-mixed"),
        (PASSED.replace("    train({", '    options["mixed_precision"] = "no"\n    train({'), "unknown"),
        *(
            (PASSED.replace("    accelerator =", f"    {change}\n    accelerator ="), shown)
            for change, shown in [
                ('options.update(mixed_precision="no")', "unknown"),
                ("options.update(**extra)", "unknown"),
                ('options |= {"mixed_precision": "no"}', "unknown"),
                ("options.update(rate=0.2)", "bf16-mixed"),
                ("scaler.update()", "bf16-mixed"),
            ]
        ),
    ],
)
def test_what_a_program_computes_in_by_itself(code: str, shown: str, tmp_path: Path) -> None:
    assert said(read(tmp_path, {"train.py": code}).runs) == {"train.py": shown}


@pytest.mark.parametrize(
    ("code", "flag", "without", "given"),
    [
        (SWITCHED, "--amp", "fp32", "fp16-mixed"),
        (IN_BRANCH, "--amp", "fp32", "fp16-mixed"),
        (IN_A_HELPER, "--amp", "fp32", "fp16-mixed"),
        (BY_A_CAST, "--use_bf16", "fp32", "bf16-true"),
        (LEVELS, "--opt-level O0", "fp16-mixed", "fp32"),
        (BY_WORD, "--precision 16-mixed", "fp32", "fp16-mixed"),
    ],
)
def test_a_launch_line_says_what_is_passed(code: str, flag: str, without: str, given: str, tmp_path: Path) -> None:
    files = {"train.py": code, "run.sh": f"python train.py\npython train.py {flag}\n"}
    assert said(read(tmp_path, files).runs) == {"python train.py": without, f"python train.py {flag}": given}


def test_a_constant_that_other_code_sets_says_nothing(tmp_path: Path) -> None:
    code = WITH_A_NAME.replace("use_amp = False\n    if use_amp:", "if config.use_amp:")
    files = {"config.py": "use_amp = False\n", "train.py": f"import config\n{code}"}
    assert said(read(tmp_path / "fixed", files).runs) == {"train.py": "fp32"}
    setting = "import sys\n\nimport config\n\nconfig.use_amp = len(sys.argv) > 1\n"
    assert said(read(tmp_path / "set", {**files, "cli.py": setting}).runs)["train.py"] == "fp16-mixed"


TRL = """
from trl import SFTConfig, SFTTrainer, TrlParser

(args,) = TrlParser((SFTConfig,)).parse_args_and_config()
SFTTrainer("m", args=args).train()
"""


@pytest.mark.parametrize(
    ("flags", "regime"),
    [("--bf16 False", "fp32"), ("--bf16 False --fp16 False", "fp32"), ("--fp16 False", "bf16-mixed")],
)
def test_a_default_that_is_switched_off_is_off(flags: str, regime: str, tmp_path: Path) -> None:
    files = {"train.py": TRL, "run.sh": f"python train.py --output_dir out {flags}\n", "requirements.txt": "trl>=1\n"}
    assert [run.regime for run in read(tmp_path, files).runs] == [regime]


def test_words_in_an_array_belong_to_the_lines_that_use_it(tmp_path: Path) -> None:
    script = 'ARGS=(--epochs 3)\nARGS+=(--amp)\npython train.py "${ARGS[@]}"\npython train.py --epochs 1\n'
    runs = read(tmp_path, {"train.py": SWITCHED, "run.sh": script}).runs
    assert [run.regime for run in runs] == ["fp16-mixed", "fp32"]
    assert [any(entry.declaration.path == "run.sh" for entry in run.entries) for run in runs] == [True, False]


def test_cells_are_no_code_of_what_a_notebook_starts(tmp_path: Path) -> None:
    cells = ["import torch\n\nmodel = make().half()\n", "!python score.py -a x\n"]
    kept = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": c} for c in cells]
    notebook = json.dumps({"cells": kept, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    ledger = read(tmp_path, {"tune.ipynb": notebook, "score.py": "print(1)\n"})
    assert [run.title for run in (*ledger.runs, *ledger.elsewhere)] == ["tune.ipynb"]


def test_a_cast_of_a_tensor_says_nothing_of_the_weights(tmp_path: Path) -> None:
    code = "import torch\n\ndata = torch.load('a.pt')\ntorch.save({'data': data.half()}, 'b.pt')\n"
    ledger = read(tmp_path, {"prepare.py": code})
    (run,) = ledger.elsewhere
    assert (ledger.runs, run.regime, [entry.declaration.role for entry in run.entries]) == ((), "unknown", ["cast"])


def test_a_cast_of_a_tensor_leaves_a_trainer_that_is_off_at_float32(tmp_path: Path) -> None:
    code = """
        from transformers import Trainer, TrainingArguments

        from nets import net

        kept = net.mask.half()
        Trainer(net, TrainingArguments("out", fp16=False)).train()
    """
    assert said(read(tmp_path, {"train.py": code}).runs) == {"train.py": "fp32"}


def test_a_switch_that_is_off_beside_one_that_a_trainer_fills_in_is_open(tmp_path: Path) -> None:
    text = '{"fp16": {"enabled": false}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}\n'
    ledger = read(tmp_path, {"zero.json": text})
    assert (ledger.runs, [run.regime for run in ledger.elsewhere]) == ((), ["unknown"])


PASSED_ON = """
import enum

import torch


class Kind(enum.Enum):
    FP16 = 1
    BF16 = 2


def layer(dtype=None, device=None):
    factory = {"dtype": dtype, "device": device}
    return torch.nn.Linear(4, 4, **factory)


def empty_like(x):
    options = {"dtype": x.dtype}
    return torch.empty(2, **options)


def load(args, vae, precision):
    weight_dtype = torch.float16 if args.mixed_precision == "fp16" else torch.float32
    torch.set_default_dtype(weight_dtype)
    vae.to("cuda", dtype=weight_dtype)
    options = {"torch_dtype": args.dtype}
    return make(**options)
"""


def test_what_only_passes_a_dtype_on_is_no_declaration_and_a_cast_decided_elsewhere_is_one(tmp_path: Path) -> None:
    ledger = read(tmp_path, {"train.py": PASSED_ON})
    entries = [entry.declaration for run in (*ledger.runs, *ledger.elsewhere) for entry in run.entries]
    told = {(item.role, item.key, item.value) for item in entries}
    assert {("cast", "vae.to()", "weight_dtype"), ("cast", "set_default_dtype()", "weight_dtype")} <= told
    assert ("entry", "torch_dtype", "args.dtype") in told
    assert not {item.key.lower() for item in entries} & {"dtype", "fp16", "bf16"}


def test_formats(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    open_tree(tmp_path, {"train.py": SWITCHED})
    assert "runs fp32; fp16-mixed with amp" in precfix(capfd, monkeypatch, "audit", tmp_path).out
    told = json.loads(precfix(capfd, monkeypatch, "audit", tmp_path, "--output-format", "json").out)
    (run,) = told["runs"]
    assert (run["regime"], run["otherwise"]) == ("fp32", "fp16-mixed with amp")
    assert run["effective"]["compute"] == "float32"


@pytest.mark.parametrize(
    ("name", "is_about"), [("use_half", True), ("half", True), ("half_precision", True), ("limit_left_half", False)]
)
def test_half_is_a_dtype_or_a_part(name: str, is_about: bool) -> None:
    assert speaks(name) is is_about
    assert is_switch(name) is (is_about and name != "half_precision")


APEX = """
import argparse

import torch
from apex import amp


def truth(word):
    return word.lower() in ("true", "1")


parser = argparse.ArgumentParser()
parser.add_argument("--mixed_precision", default=True, type=truth)
parser.add_argument("--amp", default=0, type=int)
args = parser.parse_args()
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
if args.NAME:
    net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
loss = net(torch.ones(2, 4).cuda()).sum()
loss.backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "line", "regime"),
    [
        ("mixed_precision", "", "fp16-mixed"),
        ("mixed_precision", "--mixed_precision False", "fp32"),
        ("mixed_precision", "--mixed_precision True", "fp16-mixed"),
        ("amp", "", "fp32"),
        ("amp", "--amp 1", "fp16-mixed"),
    ],
)
def test_apex_counts_where_its_switch_is_on(name: str, line: str, regime: str, tmp_path: Path) -> None:
    files = {"train.py": APEX.replace("NAME", name), "run.sh": f"python train.py {line}\n"}
    (run,) = read(tmp_path, files).runs
    assert run.regime == regime


METHOD = """
import torch


class Net(torch.nn.Module):
    def learn(self, batches, optimizer, autocast=False):
        for batch in batches:
            if autocast:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = self(batch).sum()
            else:
                loss = self(batch).sum()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(("given", "regime"), [(", autocast=True", "bf16-mixed"), ("", "fp32")])
def test_a_method_is_called_on_a_model_that_is_moved_and_compiled(given: str, regime: str, tmp_path: Path) -> None:
    start = f"""
        import torch
        from net import Net

        net = Net().cuda()
        net = torch.compile(net)
        net.learn([torch.ones(2, 4).cuda()], torch.optim.SGD(net.parameters(), 0.1){given})
    """
    (run,) = read(tmp_path, {"net.py": METHOD, "train.py": start}).runs
    assert (run.title, run.default or run.regime) == ("train.py", regime)


@pytest.mark.parametrize(
    ("called", "regime"),
    [("train(net, batches)", "fp32"), ("print(train)", "fp32"), ("train(net, batches, fp16=True)", "fp16-mixed")],
)
def test_a_parameter_that_is_off_by_default_picks_nothing(called: str, regime: str, tmp_path: Path) -> None:
    code = f"""
        import torch
        from accelerate import Accelerator


        def train(net, batches, fp16=False):
            accelerator = Accelerator(mixed_precision="fp16" if fp16 else "no")
            net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.1))
            for batch in batches:
                accelerator.backward(net(batch).sum())
                optimizer.step()


        net, batches = torch.nn.Linear(4, 4), [torch.ones(2, 4)]
        {called}
    """
    (run,) = read(tmp_path, {"train.py": code}).runs
    assert run.regime == regime
    assert "print" not in called or "fp16" in {entry.declaration.value for entry in run.entries}


# --- what belongs to a run --------------------------------------------------------------------------------------------

TRAINER = """
import lightning
import torch


class Net(lightning.LightningModule):
    def training_step(self, batch, index):
        return batch.sum()


def main():
    lightning.Trainer(precision="16-mixed").fit(Net())


if __name__ == "__main__":
    main()
"""


def test_a_program_that_another_one_uses_is_a_run_of_its_own(tmp_path: Path) -> None:
    files = {"train.py": TRAINER, "tune.py": f"from train import main\n\nfor _ in range(3):\n    main()\n\n\n{ASKED}"}
    assert said(read(tmp_path, files).runs) == {"train.py": "fp16-mixed", "tune.py": "fp16-mixed"}
    files |= {"go.sh": "python tune.py\n"}
    assert said(read(tmp_path / "launched", files).runs) == {"python tune.py": "fp16-mixed"}


def test_a_file_that_an_imported_module_names_is_read_where_the_name_is_used(tmp_path: Path) -> None:
    files = {
        "ds.json": '{"fp16": {"enabled": true}, "train_batch_size": 8, "zero_optimization": {"stage": 2}}\n',
        "shared.py": 'DEFAULT = "ds.json"\n\n\ndef seed():\n    return 3\n',
        "with_it.py": TRAINER.replace("import torch", "from shared import DEFAULT").replace(
            'precision="16-mixed"', 'precision="16-mixed", strategy=DEFAULT'
        ),
        "without.py": TRAINER.replace("import torch", "from shared import seed").replace(
            "main()\n\n\nif", "seed()\n\n\nif"
        ),
    }
    found = {
        run.title: {entry.declaration.path for entry in run.entries}
        for run in read(tmp_path, files).runs
        if run.title.endswith(".py")
    }
    assert "ds.json" in found["with_it.py"]
    assert "ds.json" not in found["without.py"]


def test_a_recipe_belongs_to_the_runs_whose_line_names_it(tmp_path: Path) -> None:
    load = """
        import sys

        import torch
        import yaml
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        from shared import dtype_of

        with open(sys.argv[1]) as stream:
            config = yaml.safe_load(stream)
        model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=dtype_of(config))
        Trainer(model, TrainingArguments("out", bf16=True)).train()
    """
    files = {
        "shared.py": 'import torch\n\n\ndef dtype_of(config):\n    return getattr(torch, config["torch_dtype"])\n',
        "first.py": load,
        "second.py": load,
        "a.yaml": "model: m\ntorch_dtype: bfloat16\n",
        "b.yaml": "model: m\ntorch_dtype: float32\n",
        "go.sh": "python first.py a.yaml\npython second.py b.yaml\n",
    }
    found = {
        run.title: {entry.declaration.path for entry in run.entries if entry.declaration.path.endswith("yaml")}
        for run in read(tmp_path, files).runs
    }
    assert found == {"python first.py a.yaml": {"a.yaml"}, "python second.py b.yaml": {"b.yaml"}}


BY_DICTIONARY = """
import argparse

import lightning
import torch


class Net(lightning.LightningModule):
    def training_step(self, batch, index):
        return batch.sum()


parser = argparse.ArgumentParser()
parser.add_argument("--mixed_precision", action="store_true")
parser.add_argument("--devices", type=int)
args = parser.parse_args()
precision = 32
if args.mixed_precision:
    precision = "16-mixed"
config = {"max_epochs": 3, "precision": precision}
if args.devices:
    config["devices"] = args.devices
    config.update(enable_progress_bar=False)
lightning.Trainer(**config).fit(Net())
"""


@pytest.mark.parametrize(
    ("change", "by_flag"),
    [
        (("", ""), "fp16-mixed"),
        (('config["devices"]', 'config["strategy"]'), "fp16-mixed"),
        (('config["devices"]', 'config["precision"]'), "unknown"),
        (("update(enable_progress_bar=False)", 'update({"benchmark": True})'), "fp16-mixed"),
        (("update(enable_progress_bar=False)", "update(vars(args))"), "unknown"),
    ],
)
def test_a_dictionary_passed_on_keeps_what_is_not_stored_again(
    change: tuple[str, str], by_flag: str, tmp_path: Path
) -> None:
    files = {"train.py": BY_DICTIONARY.replace(*change), "go.sh": "python train.py --mixed_precision\n"}
    assert said(read(tmp_path, files).runs).get("python train.py --mixed_precision", "unknown") == by_flag


def test_a_switch_that_is_left_out_picks_nothing(tmp_path: Path) -> None:
    files = {"train.py": BY_DICTIONARY, "go.sh": "python train.py --mixed_precision\npython train.py\n"}
    runs = said(read(tmp_path / "launched", files).runs)
    assert runs == {"python train.py --mixed_precision": "fp16-mixed", "python train.py": "fp32"}
    turned = BY_DICTIONARY.replace("mixed_precision", "plain").replace("= 32", "= None")
    turned = turned.replace('"16-mixed"', "32").replace("= None", '= "16-mixed"')
    files = {"train.py": turned, "go.sh": "python train.py\n"}
    assert said(read(tmp_path / "turned", files).runs) == {"python train.py": "fp16-mixed"}


def test_a_file_that_another_program_reads_is_no_guess_for_this_one(tmp_path: Path) -> None:
    files = {
        "chat/train.py": "from transformers import HfArgumentParser, TrainingArguments\n\n"
        'HfArgumentParser((TrainingArguments,)).parse_yaml_file("config.yaml")\n',
        "chat/config.yaml": "bf16: true\nlearning_rate: 1.0e-5\nbatch_size: 1\noutput_dir: out\n",
        "tune.py": """
            import argparse
            from transformers import Trainer, TrainingArguments

            parser = argparse.ArgumentParser()
            parser.add_argument("--bf16", type=bool)
            parser.add_argument("--learning_rate", type=float)
            parser.add_argument("--batch_size", type=int)
            parser.add_argument("--output_dir")
            args = parser.parse_args()
            made = TrainingArguments(args.output_dir, bf16=args.bf16, learning_rate=args.learning_rate,
                                     per_device_train_batch_size=args.batch_size)
            Trainer(None, made).train()
        """,
    }
    ledger = read(tmp_path, files)
    tuned = [entry for run in (*ledger.runs, *ledger.elsewhere) if run.path == "tune.py" for entry in run.entries]
    assert tuned
    assert all(entry.declaration.path == "tune.py" for entry in tuned)


READS_A_FILE = """
import torch
import yaml

options = yaml.safe_load(open("options.yaml"))
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=options["rate"])
net(torch.ones(2, 4).cuda()).sum().backward()
optimizer.step()
"""


def test_an_entry_belongs_to_the_programs_that_read_its_name(tmp_path: Path) -> None:
    reader = READS_A_FILE + 'net.cast(options["model_precision"])\n'
    files = {"plain.py": READS_A_FILE, "train.py": reader, "options.yaml": "rate: 0.1\nmodel_precision: bf16\n"}
    ledger = read(tmp_path, files)
    assert {run.path for run in (*ledger.runs, *ledger.elsewhere)} == {"train.py"}


def test_a_switch_belongs_to_the_programs_in_which_it_acts(tmp_path: Path) -> None:
    switched = READS_A_FILE.replace("net(torch.ones(2, 4).cuda())", "net(x)").replace(
        "net(x).sum()", 'with torch.autocast("cuda", enabled=options["use_amp"]):\n    loss = net(x).sum()\nloss'
    )
    assert 'enabled=options["use_amp"]' in switched
    files = {
        "head.py": READS_A_FILE,
        "train.py": switched,
        "options.yaml": "rate: 0.1\nuse_amp: true\n",
        "run.sh": "python train.py\npython head.py\n",
    }
    ledger = read(tmp_path, files)
    assert {run.title for run in (*ledger.runs, *ledger.elsewhere)} == {"python train.py"}


FALLEN_BACK = """
import json

import torch

options = json.load(open("options.json"))
kind = {"float16": torch.float16, "bfloat16": torch.bfloat16}[options.get("dtype", "float16")]
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", enabled=kind == torch.float16)
with torch.autocast("cuda", dtype=kind):
    loss = net(torch.ones(2, 4).cuda()).sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""


def test_a_fallback_that_is_followed_is_told_once(tmp_path: Path) -> None:
    (run,) = read(tmp_path, {"train.py": FALLEN_BACK}).runs
    told = [entry.declaration for entry in run.entries if entry.declaration.key == "dtype"]
    assert [(item.role, item.value.strip("'\""), bool(item.feeds)) for item in told] == [("option", "float16", True)]


READS_YAML = """
import argparse

import yaml
from transformers import Trainer, TrainingArguments

from shared import seed

parser = argparse.ArgumentParser()
parser.add_argument("--config", default="{name}.yaml")
with open(parser.parse_args().config) as file:
    config = yaml.safe_load(file)
seed()
made = TrainingArguments("out", bf16=config["training"]["bf16"], max_steps=config["training"]["max_steps"])
Trainer(None, made).train()
"""


def test_the_default_file_of_one_program_is_none_of_another_with_the_same_helpers(tmp_path: Path) -> None:
    stated = "training:\n  bf16: true\n  max_steps: 5\n"
    files = {f"{name}.py": READS_YAML.format(name=name) for name in ("first", "second")}
    files |= {"first.yaml": stated, "second.yaml": stated, "shared.py": "def seed():\n    return 3\n"}
    files["go.sh"] = "python first.py --config first.yaml\npython second.py --config second.yaml\npython look.py\n"
    files["look.py"] = """
        import torch
        from transformers import AutoModel

        from shared import seed

        seed()
        AutoModel.from_pretrained("base", torch_dtype=torch.bfloat16)
    """
    ledger = read(tmp_path, files)
    found = {
        run.title.split()[1].removesuffix(".py"): {entry.declaration.path for entry in run.entries} - {run.path}
        for run in (*ledger.runs, *ledger.elsewhere)
        if run.title.startswith("python ")
    }
    assert found["first"] == {"first.py", "first.yaml"}
    assert found["second"] == {"second.py", "second.yaml"}
    assert found.get("look", {"look.py"}) == {"look.py"}


COMPOSING = """
import hydra
from transformers import Trainer, TrainingArguments


@hydra.main(config_path="conf", config_name="{name}")
def main(cfg):
    made = TrainingArguments("out", bf16=cfg.training.bf16, max_steps=cfg.training.max_steps)
    Trainer(None, made).train()


main()
"""


def test_a_file_beside_the_one_that_hydra_is_told_is_not_composed(tmp_path: Path) -> None:
    files = {
        "train.py": COMPOSING.format(name="train"),
        "score.py": 'import hydra\n\n\n@hydra.main(config_path="conf", config_name="score")\ndef main(cfg):\n'
        "    print(cfg.training)\n\n\nmain()\n",
        "conf/train.yaml": "training:\n  bf16: true\n  max_steps: 5\n",
        "conf/score.yaml": "training: none\n",
        "show.py": 'import yaml\n\n\nwith open("conf/train.yaml") as file:\n    print(yaml.safe_load(file)["note"])\n',
        "go.sh": "python train.py\npython score.py\npython show.py\n",
    }
    ledger = read(tmp_path, files)
    assert {run.title: run.regime for run in ledger.runs} == {"python train.py": "bf16-mixed"}


CASCADE = """
import argparse

import torch
from transformers import AutoModel

parser = argparse.ArgumentParser()
{option}
args = parser.parse_args()
dtype = torch.float32
if args.mixed_precision == "bf16":
    dtype = torch.bfloat16
elif args.mixed_precision == "fp16":
    dtype = torch.float16
model = AutoModel.from_pretrained("base", torch_dtype=dtype)
"""


@pytest.mark.parametrize(
    ("option", "regime"),
    [
        ('parser.add_argument("--mixed_precision", default="bf16", choices=["no", "fp16", "bf16"])', "bf16-true"),
        ('parser.add_argument("--mixed_precision", required=True)', "unknown"),
    ],
)
def test_the_last_branch_of_several_is_not_what_a_program_computes_in(option: str, regime: str, tmp_path: Path) -> None:
    ledger = read(tmp_path, {"look.py": CASCADE.format(option=option)})
    (run,) = (*ledger.runs, *ledger.elsewhere)
    assert run.regime == regime


def test_a_file_that_a_shell_names_where_nobody_sets_another_one_is_read(tmp_path: Path) -> None:
    code = READS_YAML.replace('default="{name}.yaml"', "required=True").replace("from shared import seed", "")
    files = {
        "train.py": code.replace("\nseed()", ""),
        "conf/a.yaml": "training:\n  bf16: true\n  max_steps: 5\n",
        "conf/b.yaml": "training:\n  bf16: false\n  max_steps: 5\n",
        "go.sh": 'ROOT=.\nCONFIG="${CONFIG:-${ROOT}/conf/a.yaml}"\nrun() {\n  python train.py --config "$CONFIG"\n}\n',
        "set.sh": 'CONFIG=conf/b.yaml\npython train.py --config "${CONFIG:-conf/a.yaml}"\n',
    }
    runs = {run.path: run for run in read(tmp_path, files).runs}
    assert runs["go.sh"].regime == "bf16-mixed"
    assert {entry.declaration.path for entry in runs["go.sh"].entries} == {"train.py", "conf/a.yaml"}
    assert {entry.declaration.path for entry in runs["set.sh"].entries} == {"train.py", "conf/b.yaml"}


def test_a_program_in_the_folder_that_a_variable_names_is_started(tmp_path: Path) -> None:
    files = {
        "tools/train.py": TRAINER,
        "tools/go.sh": 'PYTHON="${PYTHON:-python3}"\nif ! $PYTHON "$HERE/train.py"; then\n  exit 1\nfi\n',
        "far/go.sh": 'ROOT="${ROOT:-$(cd "$(dirname "$0")/.." && pwd)}"\npython "$ROOT/tools/train.py"\n',
        "far/out.sh": 'python "$OUT/${NAME}/train.py"\n',
    }
    assert {run.path: run.regime for run in read(tmp_path, files).runs} == dict.fromkeys(
        ("tools/go.sh", "far/go.sh"), "fp16-mixed"
    )


SWITCHES = """
import argparse
import torch
from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
args = parser.parse_args()
Trainer(None, TrainingArguments("out", fp16=args.fp16, bf16=args.bf16)).train()
"""


@pytest.mark.parametrize(
    ("switches", "flags", "regime"),
    [
        ("fp16=args.fp16", "", "fp32"),
        ("fp16=args.fp16", " --fp16", "fp16-mixed"),
        ("bf16=args.bf16", " --no-bf16", "fp32"),
        ("bf16=args.bf16", "", "bf16-mixed"),
        ("fp16=False", "", "fp32"),
        ("learning_rate=1e-3", "", "unknown"),
        ("fp16=args.unknown", "", "unknown"),
        ("fp16=args.fp16, bf16=args.unknown", "", "unknown"),
        ("fp16=torch.cuda.is_available()", "", "fp16-mixed"),
        ("fp16=torch.cuda.get_device_capability()[0] < 8", "", "unknown"),
    ],
)
def test_trainer_with_switches_that_are_off_runs_in_float32(
    tmp_path: Path, switches: str, flags: str, regime: str
) -> None:
    code = SWITCHES.replace("fp16=args.fp16, bf16=args.bf16", switches)
    ledger = read(tmp_path, {"train.py": code, "run.sh": f"python train.py{flags}\n"})
    assert [run.regime for run in (*ledger.runs, *ledger.elsewhere) if run.path == "run.sh"] == [regime]


def test_flags_that_only_guard_a_cast_are_listed(tmp_path: Path) -> None:
    code = SWITCHES.rpartition("Trainer(")[0] + "if args.fp16:\n    model.half()\n"
    ledger = read(
        tmp_path, {"evaluate.py": code, "eval.sh": "python evaluate.py --fp16 --name x\npython evaluate.py\n"}
    )
    assert [
        run.row
        for run in (*ledger.runs, *ledger.elsewhere)
        if "flag" in {entry.declaration.role for entry in run.entries}
    ] == [1]
    flags = [item for item in ledger.declarations if item.path == "eval.sh"]
    assert [(item.key, item.value) for item in flags] == [("--fp16", "true")]


def test_evaluation_is_not_left_for_a_person(tmp_path: Path) -> None:
    lines = "accelerate launch --mixed_precision fp16 "
    ledger = read(
        tmp_path,
        {
            "train.py": "from accelerate import Accelerator\nAccelerator().backward(loss)\n",
            "evaluate.py": "from accelerate import Accelerator\nAccelerator().prepare(model).generate()\n",
            "run.sh": f"{lines}train.py\n",
            "eval.sh": f"{lines}evaluate.py\n",
        },
    )
    assert {run.path: run.trains for run in ledger.runs} == {"run.sh": True, "eval.sh": False}


def test_default_of_a_shell_variable_decides_its_run(tmp_path: Path) -> None:
    code = "from accelerate import Accelerator\nAccelerator().backward(loss)\n"
    line = "accelerate launch --mixed_precision $PRECISION train.py\n"
    ledger = read(tmp_path, {"train.py": code, "run.sh": f'PRECISION="${{PRECISION:-fp16}}"\n{line}'})
    assert [run.regime for run in ledger.runs] == ["fp16-mixed"]
    assert [(item.span.row, item.value) for item in ledger.declarations] == [(1, "fp16")]


@pytest.mark.parametrize(
    ("made", "regime"),
    [
        ('{"base": Settings(), "slow": Settings(amp=False)}', "fp16-mixed"),
        ('{"base": Settings(amp=False), "slow": Settings(amp=False)}', "fp32"),
        ('{"base": Settings(), "slow": Settings()}', "fp16-mixed"),
    ],
)
def test_one_of_several_settings_objects_does_not_switch_all_runs_off(tmp_path: Path, made: str, regime: str) -> None:
    code = SWITCHED.rpartition("parser.add_argument")[0] + (
        'parser.add_argument("--name", default="base")\nLoop(CHOICES[parser.parse_args().name]).run()\n'
    )
    settings = "from dataclasses import dataclass\n\n\n@dataclass\nclass Settings:\n    amp: bool = True\n\n\n"
    settings += f"CHOICES = {made}\n"
    files = {
        "train.py": f"from settings import CHOICES\n{code}",
        "settings.py": settings,
        "run.sh": "python train.py\n",
    }
    assert [run.regime for run in read(tmp_path, files).runs] == [regime]


def test_a_program_with_a_main_function_of_its_own_is_a_run_beside_one_that_takes_its_loop(tmp_path: Path) -> None:
    main = "\n\ndef main():\n    Loop(None).run()\n\n\nif __name__ == '__main__':\n    main()\n"
    files = {"loop.py": f"{LOOP}{main}", "other.py": "from loop import Loop\n\nLoop(None).run()\n"}
    files |= {"run.sh": "python other.py\n"}
    assert said(read(tmp_path, files).runs) == {"python other.py": "fp16-mixed", "loop.py": "fp16-mixed"}
    files["other.py"] = "from loop import main\n\nmain()\n"
    assert said(read(tmp_path / "main", files).runs) == {"python other.py": "fp16-mixed"}


MERGED = """
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import torch


def main():
    BEFORE
    trainer = Trainer(AutoModelForCausalLM.from_pretrained("net"), TrainingArguments("out"))
    trainer.train()
    AFTER


main()
"""


@pytest.mark.parametrize(
    ("before", "after", "regime"),
    [
        ("pass", 'AutoPeftModelForCausalLM.from_pretrained("out", torch_dtype=torch.float16).save("x")', "unknown"),
        ('net = AutoModelForCausalLM.from_pretrained("net", torch_dtype=torch.float16)', "pass", "fp16-true"),
    ],
)
def test_a_load_behind_the_training_says_nothing_of_it(before: str, after: str, regime: str, tmp_path: Path) -> None:
    ledger = read(tmp_path, {"train.py": MERGED.replace("BEFORE", before).replace("AFTER", after)})
    assert [run.regime for run in (*ledger.runs, *ledger.elsewhere)] == [regime]


def test_a_scaler_is_off_where_the_switch_of_its_region_is(tmp_path: Path) -> None:
    code = (
        IN_BRANCH.replace("if args.amp:", "if True:")
        .replace("dtype=torch.float16)", "dtype=torch.float16, enabled=args.amp)")
        .replace('GradScaler("cuda")', 'GradScaler("cuda", enabled=args.amp)')
    )
    ledger = read(tmp_path, {"train.py": code, "on.sh": "python train.py --amp\n", "off.sh": "python train.py\n"})
    told = {
        run.path: [e.declaration.value for e in run.entries if e.declaration.role == "scaler"] for run in ledger.runs
    }
    assert told == {"on.sh": ["on"], "off.sh": ["off"]}


@pytest.mark.parametrize(
    ("more", "regime"), [("", "fp32"), ("use_badam: false\n", "fp32"), ("use_badam: true\n", "unknown")]
)
def test_a_default_that_a_key_leaves_open_is_not_known(more: str, regime: str, tmp_path: Path) -> None:
    text = "# no bf16\nstage: sft\nfinetuning_type: full\nper_device_train_batch_size: 1\ntemplate: llama3\n" + more
    ledger = read(tmp_path, {"full.yaml": text})
    assert [run.regime for run in ledger.runs] == [regime]


CASTED = """
from contextlib import nullcontext
import sys

import torch
from torch import nn


class Loop:
    def __init__(self):
        self._was_casted = VALUE
        if len(sys.argv) > 5:
            self._was_casted = True

    def run(self, net, optimizer):
        context = torch.autocast("cuda") if self._was_casted else nullcontext()
        with context:
            loss = net(torch.ones(2, 4).cuda()).sum()
        loss.backward()
        optimizer.step()


net = nn.Linear(4, 4).cuda()
Loop().run(net, torch.optim.SGD(net.parameters(), 0.1))
"""


@pytest.mark.parametrize(("value", "regime"), [("False", "unknown"), ("True", "fp16-mixed")])
def test_a_region_that_the_code_itself_leaves_out_decides_nothing(value: str, regime: str, tmp_path: Path) -> None:
    ledger = read(tmp_path, {"train.py": CASTED.replace("VALUE", value)})
    assert [run.regime for run in (*ledger.runs, *ledger.elsewhere)] == [regime]


GIVEN_WORD = """
import argparse

import torch
from torch import nn

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="DEFAULT")
args = parser.parse_args()
model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=args.precision == "fp16")
with torch.autocast("cuda", dtype=DTYPES[args.precision], enabled=args.precision != "fp32"):
    loss = model(torch.randn(4, 8, device="cuda")).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""


@pytest.mark.parametrize("default", ["fp32", "fp16"])
@pytest.mark.parametrize(("word", "regime"), [("fp32", "fp32"), ("fp16", "fp16-mixed"), ("bf16", "bf16-mixed")])
def test_a_word_of_a_line_counts_over_the_default(default: str, word: str, regime: str, tmp_path: Path) -> None:
    files = {"train.py": GIVEN_WORD.replace("DEFAULT", default), "run.sh": f"python train.py --precision {word}\n"}
    assert {run.regime for run in read(tmp_path, files).runs} == {regime}


CAST_BY_OPTION = """
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
model = nn.Linear(8, 4).cuda()
if args.amp:
    model = model.to(torch.float16)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(4, 8, device="cuda").to(next(model.parameters()).dtype)).mean().backward()
optimizer.step()
"""


@pytest.mark.parametrize(("line", "regime"), [("python train.py", "fp32"), ("python train.py --amp", "fp16-true")])
def test_weights_that_an_option_of_the_line_casts_count(line: str, regime: str, tmp_path: Path) -> None:
    assert [run.regime for run in read(tmp_path, {"train.py": CAST_BY_OPTION, "run.sh": line}).runs] == [regime]


LISTED = "import subprocess\nimport sys\n\nsubprocess.run([sys.executable, 'train.py', *['--precision', 'fp16']])\n"
WORKFLOW = "on: push\njobs:\n  fit:\n    runs-on: gpu\n    steps:\n      - run: python train.py --precision fp16\n"
MAKEFILE = "PREC = fp16\n\nfit:\n\tpython train.py --precision $(PREC)\n"


@pytest.mark.parametrize(
    ("path", "text", "regime"),
    [
        ("launch.py", LISTED, "unknown"),
        (".github/workflows/ci.yml", WORKFLOW, "unknown"),
        ("Makefile", MAKEFILE, "fp16-mixed"),
    ],
)
def test_a_default_does_not_count_over_what_a_line_may_give(path: str, text: str, regime: str, tmp_path: Path) -> None:
    files = {"train.py": GIVEN_WORD.replace("DEFAULT", "fp32"), path: text}
    assert {run.regime for run in read(tmp_path, files).runs} == {regime}


def test_an_option_that_is_off_leaves_a_program_without_training_in_float32(tmp_path: Path) -> None:
    code = (
        OPTION.replace("Loop(parser.parse_args()).run()", "options = parser.parse_args()")
        + """
import torch

with torch.no_grad(), torch.autocast("cuda", enabled=options.amp):
    torch.nn.Linear(8, 3).cuda()(torch.randn(4, 8).cuda())
"""
    )
    (run,) = read(tmp_path, {"infer.py": code}).runs
    assert (run.shown, run.trains) == ("fp32; fp16-mixed with amp", False)
