"""PF205: products that write into a tensor of another dtype."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from .rule_runs import findings, migrated, rule_of, written
from .scaler_snippets import run

RULE = rule_of("dtype.out_buffer_dtype")
HEAD = "import torch\nimport torch.nn as nn\nfrom torch.amp import custom_bwd, custom_fwd\n"


def function(backward: str, *, forward: str = "ctx.save_for_backward(x, w)\nreturn x @ w", fwd: str = "") -> str:
    fwd = fwd or 'custom_fwd(device_type="cpu")'
    return (
        f"{HEAD}\n\nclass Product(torch.autograd.Function):\n    @staticmethod\n    @{fwd}\n"
        "    def forward(ctx, x, w, inplace=True):\n        ctx.inplace = inplace\n"
        f"{indent(dedent(forward), ' ' * 8)}\n\n"
        f'    @staticmethod\n    @custom_bwd(device_type="cpu")\n    def backward(ctx, grad):\n'
        f"{indent(dedent(backward), ' ' * 8)}\n"
    )


SAVED = "x, w = ctx.saved_tensors\ngrad_w = x.t() @ grad\n"
WRONG = {
    "conditional": (
        SAVED + "return torch.matmul(grad, w.t(), out=x if ctx.inplace else None), grad_w, None",
        "out=x if ctx.inplace and x.dtype == grad.dtype else None",
    ),
    "or": (
        SAVED + "return torch.mm(grad, w.t(), out=x if ctx.inplace or w is None else None), grad_w, None",
        "out=x if (ctx.inplace or w is None) and x.dtype == grad.dtype else None",
    ),
    "always": (
        SAVED + "grad_x = torch.mm(grad, w.t(), out=x)\nreturn grad_x, grad_w, None",
        "out=x if x.dtype == grad.dtype else None",
    ),
    "chosen before": (
        SAVED
        + "buffer = x if ctx.inplace else None\ngrad_x = torch.mm(grad, w.t(), out=buffer)\n"
        + "return grad_x, grad_w, None",
        "buffer = x if ctx.inplace and x.dtype == grad.dtype else None",
    ),
    "a view": (
        SAVED + "x = x.view(-1, x.shape[-1])\ngrad_x = torch.mm(grad, w.t(), out=x)\nreturn grad_x, grad_w, None",
        "out=x if x.dtype == grad.dtype else None",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_reused_input_is_found_and_guarded(name: str, tmp_path: Path) -> None:
    backward, expected = WRONG[name]
    project = written(tmp_path, {"kernels.py": function(backward)})
    (finding,) = findings(RULE, project)
    assert finding.fixes[0].name == "guard"
    after = migrated([RULE], project)[1]["kernels.py"]
    assert expected in after
    assert not findings(RULE, written(tmp_path / "after", {"kernels.py": after}))


RIGHT = {
    "guarded": function(SAVED + "return torch.mm(grad, w.t(), out=x if x.dtype == grad.dtype else None), grad_w, None"),
    "behind a test": function(
        SAVED
        + "if x.dtype == grad.dtype:\n    grad_x = torch.mm(grad, w.t(), out=x)\nelse:\n    grad_x = grad @ w.t()\n"
        "return grad_x, grad_w, None"
    ),
    "cast in backward": function(
        "x, w = ctx.saved_tensors\nx = x.to(grad.dtype)\nreturn torch.mm(grad, w.t(), out=x), None, None"
    ),
    "operands cast to it": function(
        SAVED + "return torch.mm(grad.to(x.dtype), w.t().to(x.dtype), out=x), grad_w, None"
    ),
    "cast_inputs": function(
        SAVED + "return torch.mm(grad, w.t(), out=x), grad_w, None",
        fwd='custom_fwd(device_type="cpu", cast_inputs=torch.float32)',
    ),
    "a new buffer": function(SAVED + "b = torch.empty_like(grad)\nreturn torch.mm(grad, w.t(), out=b), grad_w, None"),
    "output saved": function(
        "(y,) = ctx.saved_tensors\nreturn torch.mm(grad, y, out=y), None, None",
        forward="y = x @ w\nctx.save_for_backward(y)\nreturn y",
    ),
    "handed through": HEAD + "def product(x, w, out=None):\n    return torch.matmul(x, w, out=out)\n",
    "a variable named out": HEAD + "def f(x, w):\n    out = torch.matmul(x, w)\n    return out\n",
    "like an operand": HEAD
    + "def f(x, w):\n    buffer = torch.empty(4, 4, dtype=x.dtype)\n    return torch.mm(x, w, out=buffer)\n",
    "converting operations": HEAD
    + "def f(x, y):\n    with torch.autocast('cuda'):\n        out = torch.zeros(4, 4)\n"
    + "        torch.add(x @ y, y, out=out)\n        out += x @ y\n",
    "cast before the sum": HEAD
    + "def f(x, w, a, b):\n    with torch.autocast('cuda'):\n        y = x @ w\n"
    + "        y.addmm_(x @ a, b.to(y.dtype))\n",
    "default dtype changed": HEAD
    + "torch.set_default_dtype(torch.bfloat16)\ndef f(x):\n    with torch.autocast('cuda'):\n"
    + "        b = torch.zeros(4, 4)\n        torch.mm(x @ x, x @ x, out=b)\n",
    "no autocast": HEAD + "def f(x, w):\n    buffer = torch.empty(4, 4)\n    return torch.mm(x, w, out=buffer)\n",
    "numpy": "import numpy as np\ndef f(x, w, b):\n    np.matmul(x, w, out=b)\n",
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"kernels.py": RIGHT[name]})) == ()


def test_result_that_is_read_from_the_buffer_is_reported_only(tmp_path: Path) -> None:
    text = function(SAVED + "torch.mm(grad, w.t(), out=x)\nreturn x, grad_w, None")
    (finding,) = findings(RULE, written(tmp_path, {"kernels.py": text}))
    assert finding.fixes == ()


def test_operand_that_comes_later_is_reported_only(tmp_path: Path) -> None:
    text = function(
        "x, w = ctx.saved_tensors\nbuffer = x if ctx.inplace else None\ngrad = grad * 2\n"
        "return torch.mm(grad, w.t(), out=buffer), None, None"
    )
    (finding,) = findings(RULE, written(tmp_path, {"kernels.py": text}))
    assert finding.fixes == ()


def test_dequantized_weight_is_cast_to_the_gradient(tmp_path: Path) -> None:
    text = """
    import torch
    from torch.amp import custom_bwd, custom_fwd
    from bits import dequantize_weight

    class Chain(torch.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cuda")
        def forward(ctx, x, first, second, states):
            ctx.states = states
            ctx.save_for_backward(first, second)
            return x @ dequantize_weight(first, states[0]), x @ dequantize_weight(second, states[1])

        @staticmethod
        @custom_bwd(device_type="cuda")
        def backward(ctx, grad_first, grad_second):
            first, second = ctx.saved_tensors
            weight = dequantize_weight(first, ctx.states[0])
            total = torch.mm(grad_first, weight.t())
            weight = dequantize_weight(second, ctx.states[1])
            total.addmm_(grad_second, weight.t())
            return total, None, None, None
    """
    project = written(tmp_path, {"chain.py": text})
    (finding,) = findings(RULE, project)
    assert finding.span.row == 19
    after = migrated([RULE], project)[1]["chain.py"]
    assert "weight = dequantize_weight(second, ctx.states[1]).to(grad_second.dtype)" in after
    assert not findings(RULE, written(tmp_path / "after", {"chain.py": after}))
    told = text.replace("ctx.states[1])", "ctx.states[1], dtype=grad_second.dtype)")
    assert not findings(RULE, written(tmp_path / "told", {"chain.py": told}))


def test_sums_of_saved_inputs_and_products_are_one_finding(tmp_path: Path) -> None:
    text = function(
        "x, w = ctx.saved_tensors\ngrad_w = torch.empty_like(w)\nhalf = grad @ w.t()\n"
        "grad_w.addmm_(x.t(), half @ w, beta=0)\ngrad_w.addmm_(x.t(), half @ w)\nreturn None, grad_w, None"
    )
    project = written(tmp_path, {"kernels.py": text})
    (finding,) = findings(RULE, project)
    assert sum("the same here" in place.message for place in finding.evidence) == 1
    after = migrated([RULE], project)[1]["kernels.py"]
    assert after.count("(half @ w).to(grad_w.dtype)") == 2
    assert not findings(RULE, written(tmp_path / "after", {"kernels.py": after}))


LOCAL = {
    "plain buffer": (
        "with torch.autocast('cpu'):\n    q = self.q(x)\n    buffer = torch.empty(4, 4, device=x.device)\n"
        "    return torch.mm(q, q, out=buffer)",
        "torch.empty(4, 4, device=x.device, dtype=q.dtype)",
    ),
    "cast operand": (
        "h = x.bfloat16()\nbuffer = torch.zeros(4, 4)\nreturn torch.mm(h, h, out=buffer)",
        "torch.zeros(4, 4, dtype=h.dtype)",
    ),
    "sum in place": (
        "with torch.autocast('cpu'):\n    y = self.q(x)\n    y.addmm_(self.q(x), self.w)\n    return y",
        "y.addmm_(self.q(x), self.w.to(y.dtype))",
    ),
    "buffer summed into": (
        "with torch.autocast('cpu'):\n    total = torch.zeros(4, 4)\n    total.addmm_(self.q(x), self.q(x))\n"
        "    return total",
        "total.addmm_(self.q(x).to(total.dtype), self.q(x).to(total.dtype))",
    ),
}
MODULE = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(4, 4)
        self.w = nn.Parameter(torch.ones(4, 4))

    @torch.no_grad()
    def compute(self, x):
{}

print(Layer().compute(torch.ones(4, 4)).shape)
"""


@pytest.mark.parametrize("name", LOCAL)
def test_local_buffer_runs_after_the_fix(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    body, expected = LOCAL[name]
    text = HEAD + MODULE.format(indent(body, " " * 8))
    assert run(text).startswith("RuntimeError: ")
    project = written(tmp_path, {"layer.py": text})
    (finding,) = findings(RULE, project)
    assert finding.fixes[0].applicability.value == "safe"
    after = migrated([RULE], project)[1]["layer.py"]
    assert expected in after
    assert run(after) == "torch.Size([4, 4])\n"
    assert not findings(RULE, written(tmp_path / "after", {"layer.py": after}))


TRAINING = """
torch.manual_seed(0)
x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = Product.apply(x * 1, w)
y.float().sum().backward()
print(x.grad.dtype, w.grad.dtype, x.grad.shape)
"""


@pytest.mark.parametrize("name", WRONG)
def test_training_runs_after_the_fix(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = function(WRONG[name][0]) + TRAINING
    assert "Expected out tensor to have dtype c10::BFloat16, but got float instead" in run(text)
    after = migrated([RULE], written(tmp_path, {"kernels.py": text}))[1]["kernels.py"]
    assert run(after) == "torch.float32 torch.float32 torch.Size([4, 4])\n"
