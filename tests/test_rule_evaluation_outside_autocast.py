"""PF304: an evaluation outside autocast that needs it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("autocast.evaluation_outside_autocast")

TRAIN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

def train(model, loader, optimizer):
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()

def main(loader):
    model = Net().to("cuda")
    model = nn.DataParallel(model)
    train(model, loader, torch.optim.SGD(model.parameters()))
    return evaluate(model, loader)

"""


def trained(rest: str) -> str:
    """A file that trains, and more code."""
    return dedent(TRAIN) + dedent(rest)


HALF_INPUT = """
@torch.no_grad()
def evaluate(model, loader):
    for x in loader:
        x = x.half()
        y = model(x)
    return y
"""

FOUND = {
    "half input": HALF_INPUT,
    "cast in place": HALF_INPUT.replace("        x = x.half()\n", "").replace("model(x)", "model(x.cuda().half())"),
    "cast with the device": HALF_INPUT.replace("x.half()", 'x.to("cuda", dtype=torch.float16)'),
    "generate": HALF_INPUT.replace("model(x)", "model.generate(x)"),
    "no_grad block": """
        def evaluate(model, loader):
            with torch.inference_mode():
                for x in loader:
                    y = model(x.half())
            return y
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_a_certain_crash(name: str, tmp_path: Path) -> None:
    text = trained(FOUND[name])
    (finding,) = findings(RULE, written(tmp_path, {"train.py": text}))
    assert "float32 weights" in finding.message
    _, changed = migrated([RULE], written(tmp_path, {"train.py": text}))
    assert changed["train.py"].count('with torch.autocast("cuda", dtype=torch.float16):') == 2
    assert not findings(RULE, written(tmp_path, {"train.py": changed["train.py"]}))


SILENT = {
    "float32 input": HALF_INPUT.replace(".half()", '.to("cuda")'),
    "with gradients": HALF_INPUT.replace("@torch.no_grad()\n", ""),
    "model is cast": HALF_INPUT.replace("    for", "    model.half()\n    for"),
    "inside": HALF_INPUT.replace("        y = model(x)", "        with maybe_autocast():\n            y = model(x)"),
    "input cast only sometimes": HALF_INPUT.replace(
        "        x = x.half()", "        if loader.fp16:\n            x = x.half()"
    ),
    "another model": HALF_INPUT.replace("model(x)", "loader.teacher(x)"),
    "the caller wraps": HALF_INPUT
    + '\ndef final(model, loader):\n    with torch.autocast("cuda"):\n        return evaluate(model, loader)\n',
    "a benchmark": HALF_INPUT.replace("def evaluate", "def benchmark_half").replace(
        "return y", "return y\nevaluate = None"
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_no_certain_crash(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"train.py": trained(SILENT[name])})) == ()


MODELS = {
    "of unknown origin": ("Net().to", "build().to"),
    "loaded": ("Net().to", "Net.from_pretrained('x').to"),
    "made in half": ('Net().to("cuda")', "Net().to(torch.float16)"),
    "cast by its maker": ('Net().to("cuda")', 'Net().to("cuda")\n    model.half()'),
    "casts its input": ("self.layer(x)\n", "self.layer(x.float())\n"),
    "has no strict layer": ("nn.Linear(8, 8)", "nn.Softmax(1)"),
    "wrapped by a library": ("import torch\n", "import torch\nimport deepspeed\n"),
    "made of another": ("nn.DataParallel(model)", "nn.DataParallel(wrap(model))"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_may_fit(name: str, tmp_path: Path) -> None:
    before, after = MODELS[name]
    text = trained(HALF_INPUT)
    assert before in text
    assert findings(RULE, written(tmp_path, {"train.py": text.replace(before, after, 1)})) == ()


def test_a_model_from_another_file(tmp_path: Path) -> None:
    files = {
        "net.py": dedent(TRAIN).partition("def train")[0],
        "train.py": "from net import Net\n" + trained(HALF_INPUT).replace("class Net", "class Unused"),
    }
    (finding,) = findings(RULE, written(tmp_path, files))
    assert finding.path == "train.py"
    assert [fix.name for fix in finding.fixes] == ["wrap"]


def test_a_compound_statement_is_reported_only(tmp_path: Path) -> None:
    text = trained(HALF_INPUT.replace("y = model(x)", "for y in model(x):\n            print(y)"))
    (finding,) = findings(RULE, written(tmp_path, {"train.py": text}))
    assert finding.fixes == ()


def test_bfloat16_that_becomes_an_array_is_reported_only(tmp_path: Path) -> None:
    text = trained(HALF_INPUT.replace("half()", "bfloat16()").replace("return y", "return y.cpu().numpy()"))
    text = text.replace("torch.float16", "torch.bfloat16")
    (finding,) = findings(RULE, written(tmp_path, {"train.py": text}))
    assert finding.fixes == ()
