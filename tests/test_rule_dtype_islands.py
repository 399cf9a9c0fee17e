"""What the dtype-flow rules must leave alone, each beside its firing counterpart."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULES = {
    "PF201": rule_of("dtype.mask_concat_dtype"),
    "PF202": rule_of("dtype.factory_without_dtype"),
    "PF203": rule_of("dtype.hard_float_cast"),
    "PF204": rule_of("dtype.submodule_dtype"),
    "PF206": rule_of("dtype.indexed_write_dtype"),
}
HEAD = "import torch\nfrom torch import nn\n\n\ndef build():\n    return Net().half()\n\n\n"
CLASS = (
    "class Net(nn.Module):\n    def __init__(self, width=8):\n        super().__init__()\n"
    "        self.proj = nn.Linear(width, width)\n        self.table = nn.Parameter(torch.ones(width, 8))\n\n"
)


def found(tmp_path: Path, text: str, name: str = "net.py") -> set[str]:
    """The codes of what the rules find in one file."""
    project = written(tmp_path, {name: text})
    return {item.code for rule in RULES.values() for item in findings(rule, project)}


def method(body: str, head: str = "def forward(self, x: torch.Tensor):") -> str:
    return HEAD + CLASS + f"    {head}\n" + indent(dedent(body).strip("\n"), " " * 8) + "\n"


def called(text: str) -> str:
    """The same where the program also runs the model, so that its weights are certainly 16-bit there."""
    return text.replace("def build():\n    return Net().half()\n", "def run(x):\n    return Net().half()(x)\n")


FIRING = {
    "computed in float32": ("y = x.float() * 2\nreturn self.proj(y)", "PF203"),
    "a sum over a shared index": ("y = x.float().exp()\nreturn torch.einsum('bd,dn->bn', y, self.table)", "PF203"),
    "a fresh tensor": ("return self.proj(torch.randn(2, 8, device=x.device))", "PF202"),
}


@pytest.mark.parametrize("name", FIRING)
def test_mistakes_are_found(name: str, tmp_path: Path) -> None:
    body, code = FIRING[name]
    assert found(tmp_path, called(method(body))) == {code}


SILENT = {
    "cast in one branch, which may not be taken": "if x.shape[0] > 1:\n    x = x.float()\nreturn self.proj(x)",
    "cast just before": "y = x.to(torch.float32)\nreturn self.proj(y)",
    "cast and made contiguous": "y = x.float().contiguous()\nreturn self.proj(y)",
    "a region that is switched off": (
        "with torch.autocast('cuda', enabled=False):\n    y = x.float() * 2\n    return self.proj(y)"
    ),
    "no shared index is summed": "y = x.float().exp()\nreturn torch.einsum('bd,dn->bdn', y, self.table)",
    "an outer product": "t = x[0].float().exp()\nreturn torch.einsum('i , j -> i j', t, self.table[0])",
    "only the shape": "return self.proj(torch.zeros(1, 8)).shape",
    "data as float32": "y = torch.tensor([[1.0] * 8], dtype=torch.float32)\nreturn self.proj(y)",
    "chosen by a test of precision": (
        "half = x.is_cuda\nself.proj.half() if half else self.proj.float()\n"
        "y = x.half() if half else x.float()\nreturn self.proj(y)"
    ),
    "a mask beside a border": (
        "mask = x\nreturn self.proj(x) + torch.cat([mask, torch.ones(2, 1, device=x.device)], dim=1).sum()"
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_is_known_about_stays(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, method(SILENT[name])) == set()


def test_a_helper_that_ends_with_the_cast_feeds_a_float32_head(tmp_path: Path) -> None:
    helper = "\n\ndef tokens(x):\n    y = torch.cat([x, x], dim=-1)\n    return y.float()\n"
    assert found(tmp_path, method("return self.proj(tokens(x))") + helper) == set()
    wide = "\n\ndef tokens(x):\n    y = x.float()\n    return torch.cat([y, y], dim=-1)\n"
    assert found(tmp_path / "two", called(method("return self.proj(tokens(x))") + wide)) == {"PF203"}


def test_exports_run_in_float32(tmp_path: Path) -> None:
    dummy = "return self.proj(torch.randn(2, 8))"
    assert found(tmp_path, method(dummy, "def export_onnx(self):")) == set()
    assert found(tmp_path / "two", method(dummy), "onnx_tools.py") == set()


LOOP = """
gathered = torch.zeros(1)
first = True
for row in rows:
    y = self.proj(row)
    if first:
        gathered = y
        first = False
    else:
        gathered = torch.cat([gathered, y], dim=0)
    self.proj(gathered)
"""
TURNED = """
gathered = torch.zeros(1)
for index, row in enumerate(rows):
    y = self.proj(row)
    if index > 0:
        gathered = torch.cat([gathered, y], dim=0)
    else:
        gathered = y
    self.proj(gathered)
"""
CONTINUED = """
gathered = torch.zeros(1, 8)
for row in rows:
    y = self.proj(row)
    gathered = torch.cat([gathered, y], dim=0)
return self.proj(gathered)
"""


@pytest.mark.parametrize(("body", "silent"), [(LOOP, True), (TURNED, True), (CONTINUED, False)])
def test_the_first_round_of_a_loop_replaces_the_placeholder(body: str, silent: bool, tmp_path: Path) -> None:
    assert (found(tmp_path, called(method(body, "def forward(self, rows):"))) == set()) is silent


def test_lists_whose_items_are_replaced_are_not_known(tmp_path: Path) -> None:
    stored = HEAD + CLASS.replace("self.table", "self.grids = [torch.zeros(1, 8)] * 2\n        self.table")
    use = "    def forward(self, x: torch.Tensor):\n        x.float()\n        return self.proj(self.grids[0])\n"
    change = "\n    def start(self, x, k):\n        self.grids[k] = torch.zeros(1, 8).type_as(x)\n"
    assert found(tmp_path, called(stored + use)) == {"PF202"}
    assert found(tmp_path / "two", stored + use + change) == set()
    local = "parts = [torch.zeros(1, 8)]\nfor k in range(1):\n    parts[k] = x\nreturn self.proj(parts[0])"
    assert found(tmp_path / "three", method(local)) == set()


def test_chained_casts_leave_the_module_in_the_last_dtype(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\ndef train(model, loader):\n    {}\n    for batch in loader:\n"
        "        images = batch['images'].to('cuda').float() / 255\n        yield model(images)\n"
    )
    assert found(tmp_path, text.format("model.half().float()")) == set()
    assert found(tmp_path / "two", text.format("model.float().half()")) == {"PF203"}


def test_weights_taken_from_another_module(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\ndef cell(gru, x: torch.Tensor, kind=torch.bfloat16):\n"
        "    one = nn.Linear(8, 8)\n    {}\n    y = x.to(torch.bfloat16)\n    return one(y)\n"
    )
    assert found(tmp_path, text.format("one.weight.data = gru.weight.data")) == set()
    assert found(tmp_path / "two", text.format("one.weight.data = torch.ones(8, 8)")) == {"PF204"}


def test_a_plain_module_is_not_asked_for_its_dtype(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\ndef check(model):\n    model = model.half()\n    x = torch.ones(1, 8)\n    return model(x)\n"
    )
    project = written(tmp_path, {"check.py": text})
    assert not migrated([RULES["PF202"]], project)[1], "the model may own no parameter"
    changed = migrated([RULES["PF202"]], project, unsafe=True)[1]
    assert "torch.ones(1, 8, dtype=next(model.parameters()).dtype)" in changed["check.py"]


JOINED = "def joined({}: torch.Tensor):\n    return torch.cat([{}, torch.zeros(1, 8)], dim=0)\n"


def test_functions_outside_of_models_join_anything(tmp_path: Path) -> None:
    assert found(tmp_path, HEAD + CLASS + "\n\n" + JOINED.format("points", "points")) == set()


def test_an_indexed_write_needs_only_an_open_region(tmp_path: Path) -> None:
    body = "out = torch.zeros(x.shape, device=x.device)\nout[x > 0] = self.proj(x)[x > 0]\nreturn out"
    plain = method(body).replace(".half()", "")
    region = "\n\ndef run(net, x):\n    with torch.autocast('cuda'{}):\n        return net(x)\n"
    assert found(tmp_path, plain) == set()
    assert found(tmp_path / "on", plain + region.format("")) == {"PF206"}
    assert found(tmp_path / "off", plain + region.format(", enabled=False")) == set()
    looked_up = plain.replace("nn.Linear(width, width)", "nn.Embedding(width, width)")
    assert found(tmp_path / "embedding", looked_up + region.format("")) == set()


@pytest.mark.parametrize("call", ["self.blocks[0](x)", "self.mlp(x)", "[block(x) for block in self.blocks][0]"])
def test_containers_give_what_their_modules_give(call: str, tmp_path: Path) -> None:
    text = method(f"out = torch.zeros(2, 8)\nout[x > 0] = {call}\nreturn out").replace(
        "self.table =",
        "self.blocks = nn.ModuleList()\n        for _ in range(2):\n            self.blocks.append(nn.Linear(8, 8))\n"
        "        self.mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU())\n        self.table =",
    )
    assert found(tmp_path, called(text)) == {"PF206"}


def test_a_method_is_not_asked_for_its_parameters(tmp_path: Path) -> None:
    text = called(method("cache = torch.zeros(1, 8)\nreturn self.step(cache)")) + (
        "\n    def step(self, cache: torch.Tensor):\n        return self.proj(cache)\n"
    )
    _, changed = migrated([RULES["PF202"]], written(tmp_path, {"net.py": text}))
    assert "return self.proj(cache.to(self.proj.weight.dtype))" in changed["net.py"]


TWO_OBJECTS = """
def timed(width):
    x = torch.randn(2, width, device='cuda')
    net = Net(width).cuda()
    return net(x)


def halved(width):
    net = Net(width).cuda(){}
    x = torch.randn(2, width, device='cuda', dtype=torch.float16)

    def again():
        return net(x)

    return again(), net(x)
"""
HELD = """
class Slow:
    def __init__(self):
        self.net = Net()

    def run(self):
        return self.net(torch.randn(2, 8))


class Fast:
    def __init__(self):
        self.net = Net().half()

    def run(self):
        return self.net({})
"""


def test_objects_of_one_name_are_told_apart(tmp_path: Path) -> None:
    net = method("return self.proj(x)").replace("    return Net().half()", "    return Net()")
    assert found(tmp_path, net + TWO_OBJECTS.format(".half()")) == set()
    wide = TWO_OBJECTS.format(".half()").replace(", dtype=torch.float16", "")
    assert found(tmp_path / "wide", net + wide) == {"PF202"}
    assert found(tmp_path / "held", net + HELD.format("torch.randn(2, 8).half()")) == set()
    assert found(tmp_path / "held wide", net + HELD.format("torch.randn(2, 8)")) == {"PF202"}


def test_a_model_is_called_before_it_is_cast(tmp_path: Path) -> None:
    net = method("return self.proj(x)").replace("    return Net().half()", "    return Net()")
    text = "\n\ndef run(x):\n    net = Net()\n    {}net(torch.randn(2, 8))\n    net = net.half()\n    return net({})\n"
    assert found(tmp_path, net + text.format("", "x.half()")) == set()
    assert found(tmp_path / "after", net + text.format("", "torch.randn(2, 8)")) == {"PF202"}


QUANTIZERS = {
    "loads.py": "def load(kind, path):\n    return kind.from_pretrained(path, load_in_8bit=True)\n",
    "swap.py": "import bitsandbytes as bnb\n\nLAYER = bnb.nn.Linear4bit\n",
    "requirements.txt": "torch\nauto-gptq==0.7\n",
}


@pytest.mark.parametrize("name", QUANTIZERS)
def test_quantized_weights_have_no_dtype_to_cast_to(name: str, tmp_path: Path) -> None:
    files = {"net.py": called(method("rows = torch.zeros(1, 8)\nreturn self.proj(rows)"))}
    assert migrated([RULES["PF202"]], written(tmp_path / "plain", files))[1]
    project = written(tmp_path, files | {name: QUANTIZERS[name]})
    fixes = [fix for item in findings(RULES["PF202"], project) for fix in item.fixes]
    assert fixes
    assert all("weights may be quantized" in fix.message for fix in fixes)
    assert not migrated([RULES["PF202"]], project)[1]


def test_losses_take_their_class_weights_as_they_are(tmp_path: Path) -> None:
    body = "scores = F.log_softmax(x, 1, dtype=torch.float32)\nreturn F.nll_loss(scores, target, weight=self.table)"
    text = "import torch.nn.functional as F\n" + method(body, "def forward(self, x: torch.Tensor, target):")
    assert found(tmp_path, text) == set()


def test_indices_are_integers(tmp_path: Path) -> None:
    body = "index = torch.zeros(3, 8, dtype=x.dtype)\nboth = torch.cat((index, torch.ones(3, 8)), 0)\n"
    body += "return self.proj(both)"
    head = "def forward(self, x):"
    assert "PF201" not in found(tmp_path, method(body, head))
    assert {"PF202"} == found(tmp_path / "two", called(method(body.replace("index", "rows"), head)))
