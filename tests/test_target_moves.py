"""Moving plain torch code to a target: which declarations are found, followed, respelled, and which are left."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from precfix.codemod.engine import Options, migrate
from precfix.codemod.model import EditRefused, ReplaceExpression, ReplaceText
from precfix.codemod.outcome import Report, Target
from precfix.codemod.python.names import ModuleNames, names_of
from precfix.codemod.source.project import Project
from precfix.codemod.torch.dtypes import BF16, FP16
from precfix.codemod.trainers.reading.links import sources
from precfix.codemod.trainers.reading.source import ValueSource
from precfix.transforms import load

from .project_tree import open_tree


def module_of(project: Project, path: str) -> ModuleNames:
    document = project.document(path)
    assert document is not None
    return names_of(project, document)


def sources_of(project: Project, path: str, text: str) -> tuple[ValueSource, ...]:
    """The sources of the first expression of a file that reads as ``text``."""
    module = module_of(project, path)
    found = [node for node in module.nodes if isinstance(node, ast.expr) and ast.unparse(node) == text]
    loaded = [node for node in found if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
    return sources(project, module, loaded[0])


def moved(project: Project, target: str, *codes: str, unsafe: bool = False) -> tuple[Report, dict[str, str]]:
    rules = [rule for rule in load() if rule.code in (codes or ("PF001",))]
    report = migrate(project.with_target(target), rules, Target(target, "a test"), Options(unsafe_fixes=unsafe))
    assert not report.failed_rules
    return report, {change.path: change.after.decode() for change in report.changes}


# --- links ------------------------------------------------------------------------------------------------------------


def test_option_leads_to_default_config_and_flag(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "options.py": """
                import argparse
                def parse():
                    parser = argparse.ArgumentParser()
                    parser.add_argument("--amp-dtype", default="fp16")
                    parser.add_argument("--lr", type=float)
                    parser.add_argument("--steps", type=int)
                    return parser.parse_args()
            """,
            "engine.py": "def step(args):\n    return args.amp_dtype, args.lr, args.steps\n",
            "main.py": "from options import parse\nfrom engine import step\nstep(parse())\n",
            "conf/a.yaml": "lr: 1\nsteps: 2\namp_dtype: bf16\n",
            "conf/unrelated.yaml": "amp_dtype: bf16\ncolor: red\nshape: round\n",
            "go.sh": "KIND=fp32\npython main.py --amp-dtype $KIND\npython elsewhere.py --amp-dtype fp16\n",
        },
    )
    found = {(item.path, item.kind, item.value) for item in sources_of(project, "engine.py", "args.amp_dtype")}
    assert found == {
        ("options.py", "option", "fp16"),
        ("conf/a.yaml", "entry", "bf16"),
        ("go.sh", "variable", "fp32"),
    }


def test_self_parameter_and_caller_are_followed(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "a.py": """
                class Runner:
                    def __init__(self, dtype="fp16"):
                        self.dtype = dtype
                    def run(self):
                        return self.dtype
                Runner("bf16").run()
            """
        },
    )
    found = {(item.kind, item.value) for item in sources_of(project, "a.py", "self.dtype")}
    assert found == {("parameter", "fp16"), ("argument", "bf16")}


def test_names_that_run_in_circles_end(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "def f(x):\n    y = x\n    x = y\n    f(x)\n    return x\n"})
    assert sources_of(project, "a.py", "x") == ()


def test_switch_is_known_but_not_respelled(tmp_path: Path) -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--amp", action="store_true", default=False)
        args = parser.parse_args()
        print(args.amp)
    """
    (only,) = sources_of(open_tree(tmp_path, {"a.py": text}), "a.py", "args.amp")
    assert (only.kind, only.value) == ("option", False)
    with pytest.raises(EditRefused):
        only.respelled(True)


@pytest.mark.parametrize(
    ("written", "value", "expected"),
    [
        ("'fp16'", "bf16", "'bf16'"),
        ('"fp16"', "bf16", '"bf16"'),
        ("torch.half", BF16, "torch.bfloat16"),
        ("True", False, "False"),
        ('"a" if torch.cuda.is_bf16_supported() else "b"', "c", '"c"'),
    ],
)
def test_respelling_python(tmp_path: Path, written: str, value: str, expected: str) -> None:
    project = open_tree(tmp_path, {"a.py": f"import torch\nx = {written}\nprint(x)\n"})
    (only,) = sources_of(project, "a.py", "x")
    operation = only.respelled(value).operation
    assert isinstance(operation, ReplaceExpression)
    assert operation.parts == (expected,)


@pytest.mark.parametrize(
    ("written", "value"), [("'fp16' 'x'", "bf16"), ("None", "bf16"), ("True", "bf16"), ("'a'", FP16)]
)
def test_respelling_refused(tmp_path: Path, written: str, value: str) -> None:
    project = open_tree(tmp_path, {"a.py": f"x = {written}\nprint(x)\n"})
    (only,) = sources_of(project, "a.py", "x")
    with pytest.raises(EditRefused):
        only.respelled(value)


def test_respelling_config_keeps_its_style(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "a.py": "def f(cfg):\n    return cfg.train.kind, cfg.train.lr\nf(load('c.yaml'))\n",
            "c.yaml": "train:\n  lr: 1\n  kind: 'fp16'\n",
        },
    )
    (only,) = sources_of(project, "a.py", "cfg.train.kind")
    operation = only.respelled("bf16").operation
    assert isinstance(operation, ReplaceText)
    assert operation.text == "'bf16'"


def test_a_file_that_only_looks_alike_is_not_respelled(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path,
        {
            "a.py": "def f(cfg):\n    return cfg.train.kind, cfg.train.lr\n",
            "c.yaml": "train:\n  lr: 1\n  kind: 'fp16'\n",
        },
    )
    (only,) = sources_of(project, "a.py", "cfg.train.kind")
    with pytest.raises(EditRefused, match=r"nothing is seen to read c\.yaml"):
        only.respelled("bf16")


# --- moves ------------------------------------------------------------------------------------------------------------


def test_nothing_without_a_target(tmp_path: Path) -> None:
    project = open_tree(
        tmp_path, {"a.py": 'import torch\nwith torch.autocast("cuda"):\n    loss = f()\nloss.backward()\n'}
    )
    rules = [rule for rule in load() if rule.code == "PF001"]
    assert not migrate(project, rules, Target("unknown", "a test")).findings


def test_there_and_back_again(tmp_path: Path) -> None:
    text = """
        import torch


        def train(model, loader, optimizer):
            for epoch in range(3):
                for batch in loader:
                    with torch.autocast("cuda", dtype=torch.bfloat16):
                        loss = model(batch)
                    loss.backward()
                    optimizer.step()
    """
    project = open_tree(tmp_path, {"train.py": text})
    _, half = moved(project, "fp16-mixed", "PF001", "PF102")
    assert "scaler.scale(loss).backward()" in half["train.py"]
    assert "dtype=torch.float16" in half["train.py"]
    there = project.with_texts(half)
    _, back = moved(there, "bf16-mixed", "PF001", "PF101")
    before = project.document("train.py")
    assert before is not None
    assert back["train.py"] == before.text


def test_alternatives_are_not_edited(tmp_path: Path) -> None:
    text = """
        import torch


        def step(args, model, batch, optimizer):
            if args.precision == "fp16":
                context = torch.autocast("cuda")
            elif args.precision == "bf16":
                context = torch.autocast("cuda", dtype=torch.bfloat16)
            with context:
                loss = model(batch)
            loss.backward()
            optimizer.step()
    """
    parser = """
        import argparse
        from train import step

        parser = argparse.ArgumentParser()
        parser.add_argument("--precision", default="fp16")
        step(parser.parse_args(), None, None, None)
    """
    _, texts = moved(open_tree(tmp_path, {"train.py": text, "main.py": parser}), "bf16-mixed")
    assert list(texts) == ["main.py"]
    assert 'default="bf16"' in texts["main.py"]


def test_values_that_the_code_does_not_know_are_not_written(tmp_path: Path) -> None:
    text = """
        import torch


        def step(cfg, model, batch, optimizer):
            dtype = {"half": torch.float16, "full": torch.float32}[cfg.kind]
            print(cfg.lr, cfg.steps)
            with torch.autocast("cuda", dtype=dtype):
                loss = model(batch)
            loss.backward()
            optimizer.step()
    """
    _, texts = moved(open_tree(tmp_path, {"train.py": text, "c.yaml": "kind: half\nlr: 1\nsteps: 2\n"}), "bf16-mixed")
    assert texts == {}


def test_device_tests_are_no_settings(tmp_path: Path) -> None:
    text = """
        import torch


        def step(device, model, batch, optimizer):
            dtype = torch.bfloat16 if device.type == "cuda" else torch.float16
            with torch.autocast(device.type, dtype=dtype):
                loss = model(batch)
            loss.backward()
            optimizer.step()
    """
    report, texts = moved(open_tree(tmp_path, {"train.py": text}), "bf16-mixed")
    assert not report.findings
    assert not texts


def test_notebook_beside_scripts_is_reported(tmp_path: Path) -> None:
    source = ["import torch\n", 'with torch.autocast("cuda"):\n', "    loss = f()\n", "loss.backward()\n"]
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    script = 'import torch\nwith torch.autocast("cuda"):\n    loss = f()\nloss.backward()\n'
    (tmp_path / "copy.ipynb").write_text(notebook)
    (tmp_path / "train.py").write_text(script)
    report, texts = moved(Project.open([tmp_path]), "bf16-mixed")
    assert {finding.path for finding in report.findings} == {"copy.ipynb", "train.py"}
    assert list(texts) == ["train.py"]


def test_compiled_kernels_of_the_project(tmp_path: Path) -> None:
    files = {
        "train.py": """
            import torch
            from net import f
            with torch.autocast("cuda"):
                loss = f()
            loss.backward()
        """,
        "net.py": "import mykernels\nimport torch\n\n\ndef f():\n    return mykernels.go(torch.ones(1).half())\n",
        "csrc/setup.py": """
            from setuptools import setup
            from torch.utils.cpp_extension import CUDAExtension
            setup(ext_modules=[CUDAExtension("mykernels", ["a.cu"])])
        """,
    }
    report, texts = moved(open_tree(tmp_path, files), "bf16-mixed")
    assert [len(finding.fixes) for finding in report.findings] == [0]
    assert not texts
    files["csrc/check.py"] = "import torch\nprint(torch.bfloat16)\n"
    _, texts = moved(open_tree(tmp_path, files), "bf16-mixed", unsafe=True)
    assert list(texts) == ["net.py", "train.py"]


def test_trained_half_weights_are_reported(tmp_path: Path) -> None:
    text = """
        import torch


        def train(model, loader):
            model = model.half()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                model(batch).backward()
                optimizer.step()
    """
    report, texts = moved(open_tree(tmp_path, {"train.py": text}), "bf16-mixed")
    assert ["float16 weights" in finding.message for finding in report.findings] == [True]
    assert not texts
