"""PF210: epsilons that float16 rounds to zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("dtype.epsilon_underflows_half")
HEAD = """
import torch
import torch.nn as nn

class Net(nn.Module):
    def __init__(self, width, eps=1e-8):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.eps = 1e-12

    def forward(self, x, scale):
        h = self.proj(x)
"""
TAIL = """
def train(loader):
    model = Net(3)
    for x in loader:
        with torch.autocast("cuda", dtype={dtype}):
            model(*x).sum().backward()
"""


def source(line: str, dtype: str = "torch.float16") -> str:
    return f"{HEAD}        {line}\n{TAIL.format(dtype=dtype)}"


WRONG = {
    "division": "return x / (h.abs() + 1e-8)",
    "logarithm": "return torch.log(1e-8 + torch.sigmoid(h))",
    "attribute": "return (h.var(-1) + self.eps).sqrt()",
    "clamp": "return 1 / h.clamp(min=1e-10)",
    "clamp function": "return torch.log(torch.clamp(h, 1e-8, 1.0))",
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str, tmp_path: Path) -> None:
    (finding,) = findings(RULE, written(tmp_path, {"train.py": source(WRONG[name])}))
    assert finding.fixes == ()


@pytest.mark.parametrize("name", WRONG)
def test_bfloat16_is_fine(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"train.py": source(WRONG[name], "torch.bfloat16")})) == ()


RIGHT = {
    "norm is float32": "return h / (h.norm() + 1e-8)",
    "softmax is float32": "return torch.log(torch.softmax(h, -1) + 1e-8)",
    "sum is float32": "return h / (h.sum() + 1e-8)",
    "power is float32": "return torch.rsqrt(h.pow(2).mean() + 1e-8)",
    "raised": "return torch.log(h.float() + 1e-8)",
    "unknown": "return x / (scale + 1e-8)",
    "large enough": "return torch.log(h + 1e-7)",
    "protects nothing": "return h + 1e-8",
    "numerator": "return (h + 1e-8) / scale",
    "parameter": "return torch.log(x + scale)",
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"train.py": source(RIGHT[name])})) == ()


def test_code_that_no_training_uses(tmp_path: Path) -> None:
    files = {
        "features.py": HEAD + "        return torch.log(h + 1e-8)\n",
        "train.py": "import torch\n" + TAIL.format(dtype="torch.float16"),
    }
    assert findings(RULE, written(tmp_path, files)) == ()
    files["train.py"] = "from features import Net\n" + files["train.py"]
    assert len(findings(RULE, written(tmp_path, files))) == 1


OPTIMIZER = """
import torch
def make(model):
    model.half()
    optimizer = torch.optim.{made}
    for _ in range(3):
        optimizer.step()
"""
BREAKING = ["Adam(model.parameters())", "AdamW(model.parameters(), lr=1e-3, eps=1e-8)", "RMSprop(model.parameters())"]
SOUND = [
    "Adam(model.parameters(), eps=1e-4)",
    "AdamW(model.parameters(), fused=True)",
    "SGD(model.parameters(), lr=0.1)",
    "Adadelta(model.parameters())",
    "Adam(model.head.parameters())",
]


@pytest.mark.parametrize("made", BREAKING)
def test_optimizer_is_found(made: str, tmp_path: Path) -> None:
    report, after = migrated([RULE], written(tmp_path, {"a.py": OPTIMIZER.format(made=made)}), unsafe=True)
    assert len(report.findings) == 1
    assert report.remaining == ()
    assert "eps=1e-4" in after["a.py"]


@pytest.mark.parametrize("made", SOUND)
def test_optimizer_that_survives(made: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"a.py": OPTIMIZER.format(made=made)})) == ()


def test_optimizer_of_a_scaler_belongs_to_another_rule(tmp_path: Path) -> None:
    text = OPTIMIZER.format(made=BREAKING[0]).replace("optimizer.step()", "scaler.step(optimizer)")
    assert findings(RULE, written(tmp_path, {"a.py": text})) == ()


def test_what_torch_does() -> None:
    torch = pytest.importorskip("torch")

    def after_step(**options: float | bool) -> list[float]:
        parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.float16))
        optimizer = torch.optim.Adam([parameter], lr=1e-3, **options)
        parameter.grad = torch.tensor([0.0, 1e-5], dtype=torch.float16)
        optimizer.step()
        return [float(value) for value in parameter.isfinite()]

    assert after_step() == [0.0, 0.0]
    assert after_step(eps=1e-4) == [1.0, 1.0]
    zero = torch.zeros(1, dtype=torch.float16)
    assert float(torch.log(zero + 2.0**-25)) == float("-inf")
    assert float(zero + 2.0**-24) > 0
