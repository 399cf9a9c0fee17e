"""What files are for, which of them train, and what runs a piece of code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from precfix.codemod.purpose.files import is_record, purpose_of
from precfix.codemod.purpose.imports import connected_modules, importers_of
from precfix.codemod.purpose.runs import HalfProgram, runs_around, runs_of, uses
from precfix.codemod.purpose.training import only_infers, only_launches_inference, reached_modules, training_modules
from precfix.codemod.purpose.words import Purpose
from precfix.codemod.python.names import ModuleNames, names_of
from precfix.codemod.source.project import Project
from precfix.codemod.torch.dtypes import BF16, FP16
from precfix.transforms.frameworks import load_frameworks

from .project_tree import open_tree


def module_of(project: Project, path: str) -> ModuleNames:
    document = project.document(path)
    assert document is not None
    return names_of(project, document)


# --- by path ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "purpose"),
    [
        ("tests/train.py", Purpose.TEST),
        ("pkg/testing/net.py", Purpose.TEST),
        ("examples_tests/run.py", Purpose.TEST),
        ("test_net.py", Purpose.TEST),
        ("net_test.py", Purpose.TEST),
        ("pkg/conftest.py", Purpose.TEST),
        ("third_party/tests/net.py", Purpose.TEST),
        ("docs/conf.py", Purpose.DOCUMENTATION),
        ("benchmarks/train.py", Purpose.BENCHMARK),
        ("bench_attention.py", Purpose.BENCHMARK),
        ("scripts/benchmark_models.sh", Purpose.UNSTATED),
        ("benchmarks/run.sh", Purpose.BENCHMARK),
        ("a/third_party/train.py", Purpose.VENDORED),
        ("net/annotator/mmcv/runner.py", Purpose.VENDORED),
        ("tools/test.py", Purpose.EVALUATION),
        ("evaluate.py", Purpose.EVALUATION),
        ("inference.py", Purpose.INFERENCE),
        ("serve/model.py", Purpose.INFERENCE),
        ("merge_lora.py", Purpose.EXPORT),
        ("tools/export.py", Purpose.EXPORT),
        ("old_train.py", Purpose.RETIRED),
        ("archive/train.py", Purpose.RETIRED),
        ("train.py", Purpose.TRAINING),
        ("tools/train_export.py", Purpose.TRAINING),
        ("demo/finetuning.py", Purpose.TRAINING),
        ("net.py", Purpose.UNSTATED),
    ],
)
def test_purpose_by_path(path: str, purpose: Purpose) -> None:
    assert purpose_of(path) is purpose


@pytest.mark.parametrize(
    "path",
    [
        "latest/net.py",
        "contest/net.py",
        "attestation.py",
        "latest.py",
        "test_time_adaptation/net.py",
        "mmcv/runner.py",
        "src/mmcv/runner.py",
        "gold/threshold.py",
        "constraints.py",
        "ops/token_merge.py",
        "documents/net.py",
        "happy.py",
    ],
)
def test_words_that_only_look_alike(path: str) -> None:
    assert purpose_of(path) is Purpose.UNSTATED


def test_a_split_of_data_is_no_test() -> None:
    assert purpose_of("train_test_split.py") is Purpose.TRAINING


@pytest.mark.parametrize(
    ("path", "script", "idle"),
    [
        ("run.sh", "predict.py", True),
        ("serve/run.sh", "-m pkg.cli", True),
        ("train.sh", "tools/generate.py", False),
        ("run.sh", "train.py", False),
        ("run.sh", "", False),
    ],
)
def test_launch_lines_that_only_infer(path: str, script: str, idle: bool) -> None:
    assert only_launches_inference(path, script) is idle


# --- by code ----------------------------------------------------------------------------------------------------------


def test_comments_and_strings_do_not_train(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {"a.py": "# loss.backward()\nx = 'Trainer()'\n", "b.py": "loss.backward()\n", "c.py": "def backward(): pass\n"},
    )
    assert [module.document.path for module in training_modules(project)] == ["b.py"]


def test_code_that_training_imports_is_reached(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "train.py": "from lib import net\nloss.backward()\n",
            "lib/__init__.py": "",
            "lib/net.py": "from .layers import Layer\n",
            "lib/layers.py": "class Layer: ...\n",
            "lib/unused.py": "x = 1\n",
            "lib/inference.py": "from .net import x\n",
        },
    )
    reached = {module.document.path for module in reached_modules(project)}
    assert reached == {"train.py", "lib/__init__.py", "lib/net.py", "lib/layers.py"}


def test_a_file_that_trains_and_evaluates_does_not_only_infer(tmp_path: Path) -> None:
    evaluation = "import torch\nwith torch.no_grad():\n    model(x)\n"
    project = open_tree(
        tmp_path,
        {
            "both.py": f"{evaluation}loss.backward()\n",
            "run.py": evaluation,
            "fit.py": f"{evaluation}model.train(data)\n",
            "mode.py": f"{evaluation}model.train(False)\n",
            "named.py": "# no_grad\nmodel(x)\n",
        },
    )
    assert [path for path in project.paths if only_infers(project, path)] == ["mode.py", "run.py"]


def test_importers_by_every_spelling(tmp_path: Path) -> None:
    spellings = {
        "a.py": "import lib.net\n",
        "b.py": "from lib import net\n",
        "c.py": "from lib import layers, net\n",
        "d.py": "from lib.net import Net\n",
        "lib/e.py": "from .net import Net\n",
        "lib/f.py": "from . import net\n",
    }
    others = {"g.py": "net = 1\n# import lib.net\n", "lib/__init__.py": "", "lib/net.py": "", "lib/layers.py": ""}
    project = open_tree(tmp_path, {**spellings, **others})
    net = module_of(project, "lib/net.py")
    assert {module.document.path for module in importers_of(project, net)} == set(spellings)
    assert "lib/layers.py" in {module.document.path for module in connected_modules(project, net)}


# --- runs -------------------------------------------------------------------------------------------------------------

STEP = "import torch\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = net(x)\nloss.backward()\n"


def class_named(project: Project, path: str, name: str) -> tuple[ModuleNames, ast.ClassDef]:
    module = module_of(project, path)
    found = next(node for node in module.nodes if isinstance(node, ast.ClassDef) and node.name == name)
    return module, found


def told(runs: tuple[HalfProgram, ...]) -> list[tuple[str, str, bool]]:
    return [(run.place.path, "/".join(sorted(dtype.name for dtype in run.dtypes)), run.trains) for run in runs]


def test_a_run_reaches_what_its_script_imports(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "train.py": f"from lib import Net\nnet = Net()\n{STEP}",
            "other.py": "from lib import Net\n",
            "lib/__init__.py": "from .net import Net\n",
            "lib/net.py": "class Net: ...\nclass Unused: ...\n",
            "lib/far.py": "class Far: ...\n",
            "tests/test_net.py": STEP,
        },
    )
    module, net = class_named(project, "lib/net.py", "Net")
    (run,) = runs_of(project, module, net)
    assert told((run,)) == [("train.py", "bfloat16", True)]
    assert uses(project, run, module, net)
    unused = class_named(project, "lib/net.py", "Unused")
    assert not runs_of(project, *unused)


def test_a_run_begins_in_the_script_that_imports_its_region(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "examples/main.py": "from lib.engine import step\nfrom models import Net\nstep(Net())\n",
            "examples/models.py": "class Net: ...\n",
            "lib/__init__.py": "",
            "lib/engine.py": f"def step(net):\n    {STEP.replace(chr(10), chr(10) + '    ').strip()}\n",
        },
    )
    module, net = class_named(project, "examples/models.py", "Net")
    runs = runs_of(project, module, net)
    assert told(runs) == [("lib/engine.py", "bfloat16", True)]
    assert uses(project, runs[0], module, net)


def test_an_evaluation_does_not_train(tmp_path: Path) -> None:
    evaluation = "with torch.no_grad(), torch.autocast('cuda', dtype=torch.float16):\n    net(x)\n"
    project = open_tree(tmp_path, {"train.py": f"{STEP}{evaluation}", "evaluate.py": f"import torch\n{evaluation}"})
    train, evaluate = (names_of(project, item) for item in project.python_documents_at(["train.py", "evaluate.py"]))
    assert told(runs_of(project, train, train.tree)) == [
        ("train.py", "bfloat16", True),
        ("train.py", "float16", False),
    ]
    assert told(runs_of(project, evaluate, evaluate.tree)) == [("evaluate.py", "float16", False)]


def test_a_launch_line_alone_states_the_precision(tmp_path: Path) -> None:
    files = {
        "run.sh": "accelerate launch --mixed_precision=fp16 train.py\n",
        "train.py": "from accelerate import Accelerator\nfrom net import Net\nAccelerator().prepare(Net())\n",
        "net.py": "class Net: ...\n",
        "alone.py": "class Alone: ...\n",
    }
    project = open_tree(tmp_path, files).with_frameworks(load_frameworks())
    module, net = class_named(project, "net.py", "Net")
    assert {(*run.dtypes, run.trains) for run in runs_of(project, module, net)} == {(FP16, True)}
    assert not runs_of(project, *class_named(project, "alone.py", "Alone"))


def test_a_librarys_own_kernels_run_in_what_the_project_trains_in(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "a/pyproject.toml": "[project]\nname = 'a'\n",
            "a/kernels.py": "class Kernel: ...\n",
            "a/train.py": STEP,
            "b/pyproject.toml": "[project]\nname = 'b'\n",
            "b/kernels.py": "class Kernel: ...\n",
        },
    )
    assert not runs_of(project, *class_named(project, "a/kernels.py", "Kernel"))
    assert [run.dtypes for run in runs_around(project, *class_named(project, "a/kernels.py", "Kernel"))] == [{BF16}]
    assert not runs_around(project, *class_named(project, "b/kernels.py", "Kernel"))


@pytest.mark.parametrize(
    ("importing", "found"), [("importlib.import_module(config.model)", True), ("print(config.model)", False)]
)
def test_a_program_that_imports_by_name_can_reach_the_whole_project(
    importing: str, found: bool, tmp_path: Path
) -> None:
    project = open_tree(tmp_path, {"train.py": f"{STEP}{importing}\n", "lib/net.py": "class Net: ...\n"})
    assert bool(runs_of(project, *class_named(project, "lib/net.py", "Net"))) is found


def test_what_a_package_imports_is_not_run_by_each_of_its_parts(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "lib/__init__.py": "from .step import step\nfrom .net import Net\nfrom .helpers import load\n",
            "lib/step.py": f"def step(net):\n    {STEP.replace(chr(10), chr(10) + '    ').strip()}\n",
            "lib/net.py": "class Net: ...\n",
            "lib/helpers.py": "from lib import Net\ndef load():\n    return Net()\n",
        },
    )
    assert not runs_of(project, *class_named(project, "lib/net.py", "Net"))


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("wandb/run-20240101_010101-abcd/files/config.yaml", True),
        ("logs/run/version_0/hparams.yaml", True),
        ("lightning_logs/version_3/config.yaml", True),
        ("outputs/2024-01-01/10-00-00/.hydra/config.yaml", True),
        ("multirun/2024-01-01/10-00-00/0/config.yaml", True),
        ("out/checkpoint-500/training_args.json", True),
        ("checkpoints/step_100/args.json", True),
        ("trainer_state.json", True),
        ("output_eval/neuron/config.json", True),
        ("results/round2/frozen/config.json", True),
        ("results/configs/small.json", False),
        ("outputs/config.yaml", False),
        ("wandb/sweep.yaml", False),
        ("hparams.yaml", False),
        ("experiments/2024-01-01/config.yaml", False),
        ("configs/version_2/train.yaml", False),
        ("configs/checkpointing.yaml", False),
        ("checkpoints/config.json", False),
        ("outputs/2024-01-01/train.sh", False),
    ],
)
def test_settings_that_runs_write_are_records(path: str, written: bool) -> None:
    assert is_record(path) == written
