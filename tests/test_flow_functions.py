"""Summaries of functions and classes: across files, through attributes; parameters, buffers, stated dtypes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .flow_runs import meetings, returns

HALF = "\nmodel = Net().half()\n"


def net(init: str, forward: str) -> str:
    """A module of those two bodies, cast to 16 bits."""
    lines = ["class Net(nn.Module):", "    def __init__(self, dtype=None):", "        super().__init__()"]
    lines += [f"        {line}" for line in init.splitlines()]
    lines += ["    def forward(self, x):", *(f"        {line}" for line in forward.splitlines())]
    return "\n".join(lines) + HALF


SUMMARIES = {
    "of the argument": ("def g(x):\n    return x.reshape(-1)\ndef f():\n    return g(torch.ones(2).half())", "float16"),
    "made inside": ("def g(n):\n    return torch.ones(n)\ndef f():\n    return g(2)", "float32"),
    "follows an argument": (
        "def g(x):\n    return torch.randn(x.shape, dtype=x.dtype)\ndef f():\n    return g(torch.ones(2).half())",
        "float16",
    ),
    "island": (
        "def g(x):\n    kept = x.dtype\n    y = x.float().exp()\n    return y.to(kept)\n"
        "def f():\n    return g(torch.ones(2).bfloat16())",
        "bfloat16",
    ),
    "keyword": (
        "def g(n, x):\n    return x.view(n)\ndef f():\n    return g(x=torch.ones(2).half(), n=2)",
        "float16",
    ),
    "several returns": (
        "def g(x, n):\n    if n:\n        return x.float()\n    return x.flatten()\n"
        "def f():\n    return g(torch.ones(2).half(), 1)",
        "float16|float32",
    ),
    "unknown argument": ("def g(x):\n    return x.flatten()\ndef f(a):\n    return g(a.b)", "unknown"),
    "two deep": (
        "def h(x):\n    return x.contiguous()\ndef g(x):\n    return h(x.detach())\n"
        "def f():\n    return g(torch.ones(2).half())",
        "float16",
    ),
    "tuple": (
        "def g(x):\n    return x.view(-1), x.float()\ndef f():\n    a, b = g(torch.ones(2).half())\n    return b",
        "float32",
    ),
    "first of several lengths": (
        "def g(x, n):\n    return (x.float(), x) if n else (x.float(),)\n"
        "def f():\n    kept = g(torch.ones(2).half(), 1)\n    return kept[0]",
        "float32",
    ),
    "behind an unknown length": (
        "def g(x, n):\n    return (x, x) if n else (x,)\n"
        "def f():\n    kept = g(torch.ones(2).half(), 1)\n    return kept[-1]",
        "unknown",
    ),
    "before what is not known": (
        "def f(others):\n    kept = (torch.ones(2).half(),) + others[1:]\n    return kept[0]",
        "float16",
    ),
    "rest of a tuple": (
        "def f():\n    kept = (torch.ones(2).half(), torch.ones(2), torch.ones(2))\n    return kept[1:][0]",
        "float32",
    ),
    "shadowed": ("def g(x):\n    return x\ndef f(g):\n    return g(torch.ones(2))", "unknown"),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_summary(name: str, tmp_path: Path) -> None:
    source, expected = SUMMARIES[name]
    assert returns(tmp_path, source) == expected


def test_summary_of_another_file(tmp_path: Path) -> None:
    source = "from noise import drawn\ndef f():\n    return drawn(torch.ones(2).half())\n"
    assert returns(tmp_path, source, noise="def drawn(x):\n    return torch.rand(x.shape)\n") == "float32"


def test_summary_through_a_package(tmp_path: Path) -> None:
    source = "import noise\ndef f():\n    return noise.drawn(torch.ones(2).half())\n"
    other = "from made import drawn\n"
    made = "def drawn(x):\n    return torch.rand(x.shape, dtype=x.dtype)\n"
    assert returns(tmp_path, source, noise=other, made=made) == "float16"


def test_method_of_an_object(tmp_path: Path) -> None:
    source = """
        class Maker:
            def __init__(self):
                self.table = torch.ones(4).half()

            def made(self):
                return self.table[None]

        def f():
            maker = Maker()
            return maker.made()
    """
    assert returns(tmp_path, source) == "float16"


def test_mixin_in_another_file(tmp_path: Path) -> None:
    source = """
        from noise import Noise

        class Setup(Noise):
            def f(self):
                return self.drawn(torch.ones(2).half())
    """
    other = "class Noise:\n    def drawn(self, x):\n        return torch.rand(x.shape, dtype=x.dtype)\n"
    assert returns(tmp_path, source, noise=other) == "float16"


ATTRIBUTES = {
    "layer": ("self.proj = nn.Linear(2, 2)", "return self.proj.weight", "weights"),
    "parameter": ("self.scale = nn.Parameter(torch.ones(2))", "return self.scale", "weights"),
    "buffer": ("self.register_buffer('table', torch.ones(2))", "return self.table", "weights"),
    "integer buffer": ("self.register_buffer('order', torch.arange(2))", "return self.order", "int64"),
    "bool buffer": ("self.register_buffer('keep', torch.ones(2) > 0)", "return self.keep", "bool"),
    "plain attribute": ("self.table = torch.ones(2)", "return self.table", "float32"),
    "half attribute": ("self.table = torch.ones(2).half()", "return self.table", "float16"),
    "stored elsewhere": ("self.table = torch.ones(2)", "self.table = x\nreturn self.other", "unknown"),
    "output of a layer": ("self.proj = nn.Linear(2, 2)", "return self.proj(self.unknown(x))", "weights"),
    "parameter and number": ("self.scale = nn.Parameter(torch.ones(2))", "return self.scale * 0.5", "weights"),
    "parameter and table": (
        "self.scale = nn.Parameter(torch.ones(2))\nself.table = torch.ones(2)",
        "return self.scale * self.table",
        "float32",
    ),
    "normalized": ("self.norm = nn.LayerNorm(2)", "return self.norm(torch.ones(2).half())", "float16"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute(name: str, tmp_path: Path) -> None:
    init, forward, expected = ATTRIBUTES[name]
    assert returns(tmp_path, net(init, forward), "forward") == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("torch.ones(2, 2)", 1),
        ("torch.ones(2, 2).to(x.device)", 1),
        ("torch.ones(2, 2, dtype=x.dtype)", 0),
        ("torch.ones_like(x)", 0),
        ("torch.ones(2, 2) > 0", 0),
        ("torch.arange(4).view(2, 2)", 0),
        ("x * torch.tensor(2.0)", 0),
        ("x + torch.randn(2, 2)", 1),
        ("x + self.table", 0),
        ("x + self.plain", 1),
        ("x + self.scale", 0),
        ("torch.ones(2, 2).to(self.proj.weight.dtype)", 0),
        ("torch.ones(2, 2).type_as(self.scale)", 0),
        ("self.unknown(x)", 0),
    ],
)
def test_weights_and_inputs(made: str, expected: int, tmp_path: Path) -> None:
    init = (
        "self.proj = nn.Linear(2, 2)\nself.scale = nn.Parameter(torch.ones(2))\n"
        "self.register_buffer('table', torch.ones(2))\nself.plain = torch.ones(2)"
    )
    found = meetings(tmp_path, net(init, f"x = x.view(2, 2)\nreturn self.proj({made})"))
    assert len([item for item in found if item.endswith("meets self.proj")]) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("nn.Linear(2, 2)", 1),
        ("nn.Linear(2, 2, dtype=torch.float32)", 0),
        ("nn.Linear(2, 2).float()", 0),
        ("nn.Linear(2, 2).to(torch.float32)", 0),
    ],
)
def test_a_layer_kept_in_float32(made: str, expected: int, tmp_path: Path) -> None:
    assert len(meetings(tmp_path, net(f"self.proj = {made}", "return self.proj(torch.ones(2, 2))"))) == expected


def test_an_input_is_followed_to_the_weights_of_another_class(tmp_path: Path) -> None:
    source = """
        from inner import Inner

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(torch.ones(2, 2))

        model = Outer().half()
    """
    inner = """
        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(2, 2)

            def forward(self, queries):
                return self.proj(queries)
    """
    assert meetings(tmp_path, source, inner=inner) == ["torch.ones(2, 2) meets self.inner"]


def test_an_input_that_is_cast_on_the_way(tmp_path: Path) -> None:
    source = """
        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(2, 2)

            def forward(self, queries):
                queries = queries.to(self.proj.weight.dtype)
                return self.proj(queries)

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(torch.ones(2, 2))

        model = Outer().half()
    """
    assert meetings(tmp_path, source) == []


MODEL = """
    def encoded(vae, images):
        return vae.encode(images)

    def deeper(vae, images):
        return encoded(vae, images)
"""


@pytest.mark.parametrize("helper", ["encoded", "deeper"])
@pytest.mark.parametrize(
    ("cast", "given", "expected"),
    [
        ("vae.to(dtype=weight_dtype)", "batch['x']", 1),
        ("vae.to(dtype=weight_dtype)", "batch['x'].to('cuda')", 1),
        ("vae.to(dtype=weight_dtype)", "batch['x'].to(weight_dtype)", 0),
        ("vae.to(dtype=torch.float32)", "batch['x']", 0),
        ("vae.to('cuda')", "batch['x']", 0),
        ("vae = accelerator.prepare(vae.to(dtype=weight_dtype))", "batch['x']", 0),
    ],
)
def test_a_model_is_handed_to_a_helper(helper: str, cast: str, given: str, expected: int, tmp_path: Path) -> None:
    source = (
        f"from helpers import {helper}\ndef train(vae, accelerator, loader, weight_dtype):\n    {cast}\n"
        f"    for batch in loader:\n        {helper}(vae, {given})\n"
    )
    assert len(meetings(tmp_path, source, helpers=MODEL)) == expected


STATED = {
    "name": ("def f():\n    return torch.ones(2, dtype=torch.half)", "float16"),
    "imported": ("from torch import bfloat16 as kind\ndef f():\n    return torch.ones(2, dtype=kind)", "bfloat16"),
    "getattr": ("def f():\n    return torch.ones(2, dtype=getattr(torch, 'float16'))", "float16"),
    "variable": ("def f():\n    kind = torch.bfloat16\n    return torch.ones(2).to(kind)", "bfloat16"),
    "module constant": ("KIND = torch.float16\ndef f():\n    return torch.ones(2).to(dtype=KIND)", "float16"),
    "table": (
        "DTYPES = {'a': torch.float16}\ndef f():\n    return torch.ones(2).to(DTYPES['a'])",
        "float16|DTYPES['a']",
    ),
    "option": (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--dtype', default='float16')\nargs = parser.parse_args()\n"
        "def f():\n    return torch.ones(2).to(getattr(torch, args.dtype))",
        "getattr(torch, args.dtype)|float16",
    ),
    "parameter": ("def f(weight_dtype):\n    return torch.ones(2).to(weight_dtype)", "weight_dtype"),
    "of a module": ("def f(unet):\n    return torch.ones(2).to(unet.dtype)", "unet.dtype"),
    "none": ("def f():\n    return torch.ones(2, dtype=None)", "float32"),
    "complex": ("def f():\n    return torch.ones(2, dtype=torch.complex64)", "unknown"),
    "float64": ("def f():\n    return torch.ones(2).double()", "float64"),
    "builtin": ("def f():\n    return torch.ones(2, dtype=int)", "int64"),
    "conditional": (
        "def f(half):\n    kind = torch.float16 if half else torch.float32\n    return torch.ones(2).to(kind)",
        "torch.float16 if half else torch.float32|kind",
    ),
}


@pytest.mark.parametrize("name", STATED)
def test_stated_dtype(name: str, tmp_path: Path) -> None:
    source, expected = STATED[name]
    assert set(returns(tmp_path, source).split("|")) <= set(expected.split("|"))


def test_a_chosen_dtype_is_one_symbol(tmp_path: Path) -> None:
    source = """
        def f(args):
            weight_dtype = torch.float32
            if args.a == "fp16":
                weight_dtype = torch.float16
            elif args.a == "bf16":
                weight_dtype = torch.bfloat16
            return torch.ones(2).to(weight_dtype)
    """
    assert returns(tmp_path, source) == "weight_dtype"


def test_a_dtype_of_the_constructor_is_said_by_its_attribute(tmp_path: Path) -> None:
    source = """
        class Eraser:
            def __init__(self, train_dtype):
                self.train_dtype = train_dtype

            def f(self, mask):
                return mask.to(dtype=self.train_dtype)
    """
    assert returns(tmp_path, source) == "self.train_dtype"


def test_the_default_dtype_may_be_changed(tmp_path: Path) -> None:
    made = "def f():\n    return torch.ones(2)\n"
    assert returns(tmp_path / "plain", made) == "float32"
    assert returns(tmp_path / "changed", made + "torch.set_default_dtype(torch.float16)\n") == "unknown"


@pytest.mark.parametrize(
    ("dtype", "expected"), [(".half()", "float16"), (".to('cuda')", "float32"), (".to(torch.bfloat16)", "bfloat16")]
)
def test_a_module_of_this_function(dtype: str, expected: str, tmp_path: Path) -> None:
    source = f"def f():\n    conv = nn.Conv2d(1, 1, 3)\n    conv{dtype}\n    conv.to('cuda')\n    return conv.weight\n"
    assert returns(tmp_path, source) == expected


def test_device_only_moves_keep_the_dtype_of_a_model(tmp_path: Path) -> None:
    source = """
        def train(vae, loader, weight_dtype):
            vae.to("cuda", dtype=weight_dtype)
            vae.to("cpu")
            vae.eval().requires_grad_(False)
            for batch in loader:
                vae.encode(batch["x"])
    """
    assert meetings(tmp_path, source) == ["batch['x'] meets vae.encode"]


def test_tests_are_not_followed(tmp_path: Path) -> None:
    source = "def f(x, weight_dtype):\n    return torch.cat([x.to(weight_dtype), torch.ones(2, 2)])\n"
    assert len(meetings(tmp_path / "one", source)) == 1
    assert len(meetings(tmp_path / "two", "", test_net=source)) == 0


def test_a_module_behind_an_alias(tmp_path: Path) -> None:
    source = """
        MyModule = nn.Module

        class Inner(MyModule):
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(2, 2)

            def forward(self, x):
                return self.out(x)

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
                self.norm = nn.LayerNorm(2)

            def forward(self, x):
                x = self.norm(x)
                return self.norm(x + self.inner(x))

        model = Outer().half()
    """
    assert meetings(tmp_path, source) == []
