"""PF207: autograd Functions that lose autocast between their passes."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from .rule_runs import findings, migrated, rule_of, written
from .scaler_snippets import run

RULE = rule_of("dtype.autograd_function_without_custom_fwd")
HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch.amp import custom_bwd, custom_fwd\n"
FWD, BWD = 'custom_fwd(device_type="cpu")', 'custom_bwd(device_type="cpu")'
PRODUCT = ("ctx.save_for_backward(x, w)\nreturn x @ w", "x, w = ctx.saved_tensors\nreturn grad @ w.t(), x.t() @ grad")
TRAINING = """
torch.manual_seed(0)
x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = Product.apply(x, w)
y.float().sum().backward()
print(x.grad.dtype, w.grad.dtype)
"""


def function(forward: str, backward: str, *, fwd: str = "", bwd: str = "", training: str = TRAINING) -> str:
    def method(name: str, decorator: str, arguments: str, body: str) -> str:
        line = f"    @{decorator}\n" if decorator else ""
        return f"    @staticmethod\n{line}    def {name}(ctx, {arguments}):\n{indent(dedent(body), ' ' * 8)}\n"

    passes = method("forward", fwd, "x, w", forward) + "\n" + method("backward", bwd, "grad", backward)
    return f"{HEAD}\n\nclass Product(torch.autograd.Function):\n{passes}\n{training}"


MISMATCH = "expected m1 and m2 to have the same dtype, but got: c10::BFloat16 != float"
WRONG = {
    "neither": (
        function(*PRODUCT),
        MISMATCH,
        ['@torch.amp.custom_fwd(device_type="cpu")', '@torch.amp.custom_bwd(device_type="cpu")'],
    ),
    "forward alone": (function(*PRODUCT, fwd=FWD), MISMATCH, [f"@{BWD}"]),
    "backward alone": (function(*PRODUCT, bwd=BWD), "object has no attribute '_fwd_used_autocast'", [f"@{FWD}"]),
    "forward's on both": (function(*PRODUCT, fwd=FWD, bwd=FWD), MISMATCH, [f"@{BWD}"]),
    "linear": (
        function(
            "ctx.save_for_backward(x, w)\nreturn F.linear(x, w)",
            "x, w = ctx.saved_tensors\nreturn grad @ w, grad.t() @ x",
        ),
        MISMATCH,
        ["custom_fwd", "custom_bwd"],
    ),
    "kept in the context": (
        function(
            "ctx.x, ctx.w = x, w\nh = x.mm(w)\nreturn h.relu()", "g = grad * 2\nreturn g.mm(ctx.w.t()), ctx.x.t().mm(g)"
        ),
        MISMATCH,
        ["custom_fwd", "custom_bwd"],
    ),
    "through a helper": (
        function("ctx.save_for_backward(x, w)\nreturn product(x, w)", PRODUCT[1]).replace(
            "\n\nclass", "\n\ndef product(a, b):\n    out = a @ b\n    return out.contiguous()\n\n\nclass"
        ),
        MISMATCH,
        ["custom_fwd", "custom_bwd"],
    ),
}


def outcome(text: str) -> str:
    try:
        return run(text)
    except AttributeError as error:
        return str(error)


@pytest.mark.parametrize("name", WRONG)
def test_training_runs_only_after_the_fix(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text, error, expected = WRONG[name]
    assert error in outcome(text)
    project = written(tmp_path, {"requirements.txt": "torch>=2.4\n", "ops.py": text})
    (finding,) = findings(RULE, project)
    assert [(fix.name, fix.applicability.value) for fix in finding.fixes] == [("decorate", "safe")]
    after = migrated([RULE], project)[1]["ops.py"]
    assert all(line in after for line in expected)
    assert outcome(after) == "torch.float32 torch.float32\n"
    assert not findings(RULE, written(tmp_path / "after", {"ops.py": after}))


RIGHT = {
    "both": (function(*PRODUCT, fwd=FWD, bwd=BWD), True),
    "cast_inputs": (function(*PRODUCT, fwd='custom_fwd(device_type="cpu", cast_inputs=torch.float32)'), True),
    "straight through": (function("return (x + w).round()", "return grad, grad"), True),
    "reversal": (function("return x.view_as(x)", "return grad.neg() * 0.1, None"), False),
    "elementwise backward": (
        function(
            "ctx.save_for_backward(x, w)\nreturn (x @ w) * 1", "x, w = ctx.saved_tensors\nreturn grad * x, grad * w"
        ),
        True,
    ),
    "output of the input's dtype": (
        function("ctx.save_for_backward(x, w)\nreturn (x @ w).to(x.dtype)", PRODUCT[1]),
        True,
    ),
    "output widened by a sum": (function("ctx.save_for_backward(x, w)\nreturn x @ w + x", PRODUCT[1]), True),
    "cast in backward": (
        function(PRODUCT[0], "x, w = ctx.saved_tensors\ngrad = grad.to(w.dtype)\nreturn grad @ w.t(), x.t() @ grad"),
        True,
    ),
    "saved after a cast": (
        function(
            "x, w = x.bfloat16(), w.bfloat16()\nctx.save_for_backward(x, w)\nreturn x @ w",
            PRODUCT[1],
        ),
        True,
    ),
    "asks for autocast": (
        function(
            "if torch.is_autocast_enabled('cpu'):\n    x, w = x.bfloat16(), w.bfloat16()\n" + PRODUCT[0], PRODUCT[1]
        ),
        True,
    ),
    "compares dtypes": (
        function(
            PRODUCT[0],
            "x, w = ctx.saved_tensors\nif grad.dtype != w.dtype:\n    grad = grad.to(w.dtype)\n"
            "return grad @ w.t(), x.t() @ grad",
        ),
        True,
    ),
    "promoted before the product": (
        function(
            "ctx.save_for_backward(x, w)\nreturn (x @ w)",
            "x, w = ctx.saved_tensors\ngrad = grad * w.abs()\nreturn grad @ w.t(), None",
        ),
        False,
    ),
    "never applied": (function(*PRODUCT, training='with torch.autocast("cpu"):\n    pass\n'), False),
    "applied in an island": (
        function(
            *PRODUCT,
            training='with torch.autocast("cpu"):\n    with torch.autocast("cpu", enabled=False):\n'
            "        y = Product.apply(torch.ones(2, 2), torch.ones(2, 2))\n",
        ),
        False,
    ),
    "cast by the caller": (
        function(*PRODUCT, training=TRAINING.replace("(x, w)", "(x.bfloat16(), w.bfloat16())")),
        True,
    ),
    "no autocast in the project": (
        function(*PRODUCT, training="y = Product.apply(torch.ones(2, 2), torch.ones(2, 2))\n"),
        False,
    ),
    "a class of the same name": (
        function(*PRODUCT)
        .replace("torch.autograd.Function", "Function")
        .replace("\n\nclass Product", "\n\nclass Function:\n    pass\n\n\nclass Product"),
        False,
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    text, runs = RIGHT[name]
    assert findings(RULE, written(tmp_path, {"ops.py": text})) == ()
    if runs:
        pytest.importorskip("torch")
        assert outcome(text) == "torch.float32 torch.float32\n"


ALIAS = {
    "compat.py": """
    import torch

    if hasattr(torch.amp, "custom_fwd"):
        amp_custom_fwd = torch.amp.custom_fwd(device_type="cuda")
        amp_custom_bwd = torch.amp.custom_bwd(device_type="cuda")
    else:
        amp_custom_fwd = torch.cuda.amp.custom_fwd
        amp_custom_bwd = torch.cuda.amp.custom_bwd
    """,
    "ops.py": """
    import torch
    from compat import amp_custom_fwd

    class Product(torch.autograd.Function):
        @staticmethod
        @amp_custom_fwd
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.t(), x.t() @ grad

    product = Product.apply
    """,
}


def test_the_projects_own_name_for_the_decorator_is_used(tmp_path: Path) -> None:
    project = written(tmp_path, ALIAS)
    assert len(findings(RULE, project)) == 1
    after = migrated([RULE], project)[1]["ops.py"]
    assert (
        "from compat import amp_custom_bwd, amp_custom_fwd\n" in after
        or "import amp_custom_fwd, amp_custom_bwd" in after
    )
    assert "    @staticmethod\n    @amp_custom_bwd\n    def backward(" in after


def test_old_releases_get_the_old_spelling(tmp_path: Path) -> None:
    text = function(*PRODUCT).replace('autocast("cpu"', 'autocast("cuda"')
    project = written(tmp_path, {"ops.py": text, "requirements.txt": "torch>=1.13,<2.4\n"})
    after = migrated([RULE], project)[1]["ops.py"]
    assert "@torch.cuda.amp.custom_fwd\n" in after
    assert "@torch.cuda.amp.custom_bwd\n" in after


def test_a_spelling_that_warns_in_some_of_the_releases_is_not_safe(tmp_path: Path) -> None:
    text = function(*PRODUCT).replace('autocast("cpu"', 'autocast("cuda"')
    (finding,) = findings(RULE, written(tmp_path, {"ops.py": text, "requirements.txt": "torch>=1.13\n"}))
    assert [(fix.name, fix.applicability.value) for fix in finding.fixes] == [("decorate", "unsafe")]


SETUP = """
import torch

class Product(torch.autograd.Function):
    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad
"""


def test_setup_context_is_left_alone(tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"ops.py": SETUP})) == ()


HALF = """
import torch
from torch.amp import custom_bwd, custom_fwd

class {name}(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda", cast_inputs={dtype})
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return {product}

    @staticmethod
    @custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad

def train(model, loader, optimizer):
    for x, w in loader:
        with torch.autocast("cuda", dtype={run}):
            loss = {name}.apply(x, w).sum()
        loss.backward()
        optimizer.step()
"""


def half(name: str = "Product", dtype: str = "torch.half", product: str = "x @ w", run: str = "torch.bfloat16") -> str:
    return HALF.format(name=name, dtype=dtype, product=product, run=run)


def test_half_inputs_in_a_bfloat16_project(tmp_path: Path) -> None:
    project = written(tmp_path, {"ops.py": half()})
    (finding,) = findings(RULE, project)
    assert [(fix.name, fix.applicability.value) for fix in finding.fixes] == [("bfloat16", "unsafe")]
    after = migrated([RULE], project, unsafe=True)[1]["ops.py"]
    assert "cast_inputs=torch.bfloat16)" in after
    assert not findings(RULE, written(tmp_path / "after", {"ops.py": after}))


def test_half_inputs_of_a_compiled_kernel_are_reported_only(tmp_path: Path) -> None:
    text = "import _fused_backend as fused\n" + half(product="fused.forward(x, w)")
    (finding,) = findings(RULE, written(tmp_path, {"ops.py": text}))
    assert finding.fixes == ()


@pytest.mark.parametrize(
    "text",
    [
        half(run="torch.float16"),
        half(run="torch.float16 if torch.cuda.is_available() else torch.bfloat16"),
        half(dtype="torch.float32"),
        half(dtype="torch.bfloat16"),
        half(name="ProductFp16"),
    ],
)
def test_half_inputs_that_are_right(text: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"ops.py": text})) == ()


def test_a_context_that_is_handed_on_is_left_alone(tmp_path: Path) -> None:
    text = function("return Other.forward(ctx, x, w)", PRODUCT[1], bwd=BWD)
    assert findings(RULE, written(tmp_path, {"ops.py": text})) == ()


KERNEL = {
    "ops.py": """
    import torch
    import deformable_cuda

    class Sampling(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value, shapes, weights):
            ctx.save_for_backward(value, shapes, weights)
            return deformable_cuda.forward(value, shapes, weights.contiguous())

        @staticmethod
        def backward(ctx, grad):
            return (*deformable_cuda.backward(*ctx.saved_tensors, grad), None)
    """,
    "layer.py": """
    import torch
    from torch import nn
    from ops import Sampling

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = nn.Linear(8, 8)
            self.weight = nn.Linear(8, 4)

        def forward(self, x, shapes):
            value = self.value(x).view(2, -1, 8)
            weights = torch.softmax(self.weight(x), -1)
            return Sampling.apply(value, shapes, weights)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention()

        def forward(self, x):
            return self.attention(x, x.shape)
    """,
    "train.py": """
    import torch
    from layer import Net

    def main(loader, optimizer):
        model = Net().cuda()
        for x in loader:
            with torch.autocast("cuda"):
                loss = model(x).mean()
            loss.backward()
            optimizer.step()
    """,
}


def test_kernel_that_is_given_two_dtypes(tmp_path: Path) -> None:
    project = written(tmp_path, KERNEL)
    (finding,) = findings(RULE, project)
    assert [(fix.name, fix.applicability.value) for fix in finding.fixes] == [("float32", "unsafe")]
    assert {place.path for place in finding.evidence} == {"ops.py", "layer.py", "train.py"}
    after = migrated([RULE], project, unsafe=True)[1]
    assert '@torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n' in dedent(after["ops.py"])
    assert not findings(RULE, written(tmp_path / "after", {**KERNEL, **after}))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("layer.py", "Sampling.apply(value, shapes, weights)", "Sampling.apply(value.float(), shapes, weights)"),
        ("layer.py", "torch.softmax(self.weight(x), -1)", "torch.relu(self.weight(x))"),
        ("layer.py", "return Sampling", "assert value.dtype == weights.dtype\n            return Sampling"),
        ("ops.py", "deformable_cuda.forward(value,", "deformable_cuda.forward(value.float(),"),
        ("ops.py", "deformable_cuda.forward(value, shapes,", "deformable_cuda[(1,)](value, shapes,"),
        ("train.py", 'torch.autocast("cuda")', 'torch.autocast("cuda", enabled=False)'),
    ],
)
def test_kernel_that_is_given_one_dtype(name: str, old: str, new: str, tmp_path: Path) -> None:
    assert old in KERNEL[name]
    files = {**KERNEL, name: KERNEL[name].replace(old, new)}
    assert findings(RULE, written(tmp_path, files)) == ()
