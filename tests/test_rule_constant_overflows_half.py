"""PF209: constants that a 16-bit tensor cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("dtype.constant_overflows_half")
HEAD = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = width ** -0.5
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.table = nn.Parameter(torch.zeros(3))

    def forward(self, q, k, mask, bias):
        scores = q @ k.transpose(-2, -1)
"""
TAIL = """
def train(model, loader):
    for x in loader:
        with torch.autocast("cuda", dtype={dtype}):
            model(*x).sum().backward()
"""


def source(body: str, dtype: str = "torch.float16") -> str:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return HEAD + lines + TAIL.format(dtype=dtype)


WRONG = {
    "scaled by a division": "scores = scores / math.sqrt(q.size(-1))\nreturn scores.masked_fill(mask, -1e9)",
    "scaled by the module": "scores *= self.scale\nreturn (scores * self.scale).masked_fill(mask, -1e9)",
    "text": "return scores.masked_fill(mask, float('-1e20'))",
    "power": "return scores.masked_fill(mask, -(2**32) + 1)",
    "numpy's limit": "import numpy as np\nreturn scores.masked_fill(mask, np.finfo(np.float32).min)",
    "keyword": "return scores.masked_fill(mask=mask, value=-1e9)",
    "function": "return torch.masked_fill(scores, mask, -1e9)",
    "just above": "return scores.masked_fill(mask, 65505.0)",
    "chosen": "return torch.where(mask, scores, -1e9)",
    "chosen where the mask is not": "return torch.where(mask, -1e9, scores)",
    "chosen by a method": "return scores.where(mask, -1e9)",
    "scattered": "return scores.scatter_(0, mask, -1e9)",
    "padding": "return F.pad(scores, (0, 1), value=-1e9)",
    "like": "return torch.full_like(scores, -1e9)",
    "dtype of": "return torch.full((3,), -1e9, dtype=scores.dtype)",
    "through a layer": "return self.proj(q).squeeze(1).masked_fill_(mask, -1e9)",
    "one of several parts": "a, b = self.proj(q).chunk(2, -1)\nreturn a.masked_fill(mask, -1e9)",
    "sum of products": "return (scores + q @ k).masked_fill(mask, -1e9)",
    "over two lines": "scores = scores.masked_fill(\n    mask,\n    -1e9,\n)\nreturn scores",
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str, tmp_path: Path) -> None:
    (finding,) = findings(RULE, written(tmp_path, {"train.py": source(WRONG[name])}))
    assert "c10::Half" in finding.message
    assert [place.message for place in finding.evidence][-1] == "autocast can compute in float16 here"


@pytest.mark.parametrize("name", WRONG)
def test_bfloat16_holds_it_but_float32_limits(name: str, tmp_path: Path) -> None:
    found = findings(RULE, written(tmp_path, {"train.py": source(WRONG[name], "torch.bfloat16")}))
    assert len(found) == (1 if "limit" in name else 0)


RIGHT = {
    "bounds": "return scores.clamp(max=65505.0) + scores.clip(-1e9, 1e9)",
    "two numbers": "return torch.where(mask, 0.0, -1e9)",
    "a tensor is chosen": "return torch.where(mask, scores, scores.new_tensor(-1e9))",
    "infinity is chosen": "return torch.where(mask, scores, -float('inf'))",
    "float32 is chosen": "return torch.where(mask, scores.float(), -1e9)",
    "raised": "return scores.float().masked_fill(mask, -1e9)",
    "raised before": "scores = scores.to(torch.float32)\nreturn scores.masked_fill(mask, -1e9)",
    "raised operand": "q = q.float()\nreturn (q @ k).masked_fill(mask, -1e9)",
    "largest": "return scores.masked_fill(mask, -65504.0)",
    "infinity": "return scores.masked_fill(mask, float('-inf'))",
    "own limit": "return scores.masked_fill(mask, torch.finfo(scores.dtype).min)",
    "promoted": "return (scores + bias).masked_fill(mask, -1e9)",
    "promoted by a parameter": "return (scores * self.table).masked_fill(mask, -1e9)",
    "softmax": "return scores.softmax(-1).masked_fill(mask, -1e9)",
    "norm": "return self.norm(scores).masked_fill(mask, -1e9)",
    "one branch": "if bias is not None:\n    scores = scores.float()\nreturn scores.masked_fill(mask, -1e9)",
    "chosen": "value = -1e4 if scores.dtype == torch.float16 else -1e9\nreturn scores.masked_fill(mask, value)",
    "integers": "return torch.argmax(scores, -1).clamp(max=100000)",
    "given": "return bias.masked_fill(mask, -1e9)",
    "float32 island": "with torch.autocast('cuda', enabled=False):\n    return (q @ k).masked_fill(mask, -1e9)",
    "unknown number": "return scores.masked_fill(mask, bias)",
    "not a number": "return scores.masked_fill(mask, True)",
    "hidden arguments": "return scores.masked_fill(*bias)",
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"train.py": source(RIGHT[name])})) == ()


def test_without_any_16_bit_run(tmp_path: Path) -> None:
    assert (
        findings(RULE, written(tmp_path, {"model.py": HEAD + "        return scores.masked_fill(mask, -1e9)\n"})) == ()
    )


LEVELS = {
    "softmax next": ("scores = scores.masked_fill(mask, -1e9)\nreturn F.softmax(scores, -1)", "safe"),
    "method": ("return scores.masked_fill(mask, -1e9).softmax(-1)", "safe"),
    "cast in between": ("return torch.softmax(scores.masked_fill(mask, -1e9).float(), -1)", "safe"),
    "overwritten": (
        "scores.masked_fill_(mask, -1e9)\nscores = self.norm(F.softmax(scores, -1))\nreturn scores.log(), scores",
        "safe",
    ),
    "limit of float32": ("return scores.masked_fill(mask, torch.finfo(torch.float32).min)", "safe"),
    "returned": ("return scores.masked_fill(mask, -1e9)", "unsafe"),
    "logarithm": ("scores = scores.masked_fill(mask, -1e9)\nreturn F.log_softmax(scores, -1)", "unsafe"),
    "added to": ("scores = scores.masked_fill(mask, -1e9)\nreturn F.softmax(scores + bias, -1)", "unsafe"),
    "read twice": ("scores = scores.masked_fill(mask, -1e9)\nreturn F.softmax(scores, -1), scores", "unsafe"),
}


@pytest.mark.parametrize("name", LEVELS)
def test_applicability(name: str, tmp_path: Path) -> None:
    body, level = LEVELS[name]
    (finding,) = findings(RULE, written(tmp_path, {"train.py": source(body)}))
    assert [fix.applicability.value for fix in finding.fixes] == [level]


def test_constant_of_another_file(tmp_path: Path) -> None:
    files = {
        "constants.py": "NEGATIVE = -1e9\n",
        "train.py": "from constants import NEGATIVE\nLARGE = 1e9\n"
        + source("return scores.masked_fill(mask, NEGATIVE).softmax(-1)"),
    }
    _, after = migrated([RULE], written(tmp_path, files))
    assert "masked_fill(mask, torch.finfo(scores.dtype).min)" in after["train.py"]


def test_other_name_of_torch(tmp_path: Path) -> None:
    text = "import torch as th\nx = th.zeros(3, dtype=th.float16)\nx = x.masked_fill(x == 0, -1e9)\n"
    _, after = migrated([RULE], written(tmp_path, {"a.py": text}))
    assert "th.finfo(x.dtype).min" in after["a.py"]
    assert "import torch\n" not in after["a.py"]


def test_torchscript_gets_no_fix(tmp_path: Path) -> None:
    text = "import torch\n@torch.jit.script\ndef f(x):\n    x = x.half()\n    return x.masked_fill(x == 0, -1e9)\n"
    (finding,) = findings(RULE, written(tmp_path, {"a.py": text}))
    assert finding.fixes == ()


def test_trainer_in_a_folder_of_its_own(tmp_path: Path) -> None:
    files = {
        "pkg/models/net.py": HEAD + "        return scores.masked_fill(mask, -1e9)\n",
        "pkg/train/loop.py": "import torch\nfrom pkg.models.net import Attention\nmodel = Attention(8)\n"
        + TAIL.format(dtype="torch.float16"),
    }
    (finding,) = findings(RULE, written(tmp_path, files))
    assert finding.path == "pkg/models/net.py"


@pytest.mark.parametrize(
    ("setting", "library"),
    [("Accelerator(mixed_precision='fp16')", "accelerate"), ("Trainer(precision='16-mixed')", "lightning")],
)
def test_trainers_count(setting: str, library: str, tmp_path: Path) -> None:
    name = setting.partition("(")[0]
    text = source("return scores.masked_fill(mask, -1e9)").partition("def train")[0]
    text += f"from {library} import {name}\ntrainer = {setting}\n"
    assert len(findings(RULE, written(tmp_path, {"train.py": text}))) == 1


def test_the_error_is_what_torch_says() -> None:
    torch = pytest.importorskip("torch")
    mask = torch.tensor([True, False])
    for dtype, value in ((torch.float16, -1e9), (torch.float16, 65505.0), (torch.bfloat16, -3.4028234663852886e38)):
        with pytest.raises(RuntimeError, match=r"cannot be converted to type c10::.* without overflow"):
            torch.zeros(2, dtype=dtype).masked_fill(mask, value)
    assert torch.zeros(2, dtype=torch.bfloat16).masked_fill(mask, -1e9)[0] < -9e8
