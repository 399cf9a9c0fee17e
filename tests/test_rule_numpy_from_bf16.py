"""PF208: bfloat16 tensors that are handed to NumPy."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from precfix.codemod.model import Applicability
from precfix.codemod.torch.tables.libraries import ARRAY_FUNCTIONS

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("dtype.numpy_from_bf16")
LOOP = """
import numpy as np
import torch

def evaluate(model, loader, head):
    model.eval()
    seen = []
    for batch in loader:
        with torch.autocast({region}):
            out = model(batch)
            first, attention, logits = model(batch)
{inside}
{after}
    return seen
"""
BF16 = '"cuda", dtype=torch.bfloat16'


def loop(after: str = "pass", inside: str = "pass", region: str = BF16) -> dict[str, str]:
    text = LOOP.format(region=region, inside=indent(inside, " " * 12), after=indent(after, " " * 8))
    return {"evaluate.py": text}


def found(tmp_path: Path, files: dict[str, str]) -> list[int]:
    return [finding.span.row for finding in findings(RULE, written(tmp_path, files))]


OUTPUTS = {
    "itself": "seen.append(out.cpu().numpy())",
    "asarray": "seen.append(np.asarray(out.detach().cpu()))",
    "array": "seen.append(np.array(out.cpu()))",
    "data": "seen.append(out.data.cpu().numpy())",
    "a part": "seen.append(out[:, 0].cpu().numpy())",
    "logits": "seen.append(out.logits[-1].cpu().numpy())",
    "sigmoid": "seen.append(torch.sigmoid(out).cpu().numpy())",
    "softmax after the region": "seen.append(out.softmax(-1).numpy())",
    "rescaled": "seen.append((out * 0.5 + 0.5).clamp(0, 1).numpy())",
    "another name": "image = out.permute(0, 2, 3, 1)\nseen.append(image.cpu().numpy())",
    "concatenated": "seen.append(torch.cat([out, out]).cpu().numpy())",
    "device only": 'seen.append(out.to("cpu", non_blocking=True).numpy())',
    "first of several": "seen.append(first.cpu().numpy())",
    "named among several": "seen.append(logits.cpu().numpy())",
    "forced": "seen.append(out.numpy(force=True))",
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_of_a_region(name: str, tmp_path: Path) -> None:
    assert len(found(tmp_path, loop(OUTPUTS[name]))) == 1


RIGHT = {
    "cast": "seen.append(out.float().cpu().numpy())",
    "cast by dtype": "seen.append(out.to(torch.float32).cpu().numpy())",
    "cast by another tensor": "seen.append(out.to(batch).cpu().numpy())",
    "cast to float16": "seen.append(out.half().cpu().numpy())",
    "cast behind the device": 'seen.append(out.to("cpu", torch.float32).numpy())',
    "softmax in float32": "seen.append(out.softmax(-1, dtype=torch.float32).numpy())",
    "argmax": "seen.append(out.argmax(-1).cpu().numpy())",
    "comparison": "seen.append((out > 0).cpu().numpy())",
    "long": "seen.append(out.long().cpu().numpy())",
    "topk": "values, indices = out.topk(3)\nseen.append(indices.cpu().numpy())",
    "max": "_, predicted = torch.max(out, 1)\nseen.append(predicted.numpy())",
    "ids": 'seen.append(out["token_ids"].numpy())',
    "bytes": "seen.append(out.view(torch.int16).numpy())",
    "list": "seen.append(out.tolist())",
    "generated": "seen.append(model.generate(batch).cpu().numpy())",
    "input": 'seen.append(batch["image"].numpy())',
    "unknown operation": "seen.append(head.decode_boxes(out).numpy())",
    "rebound": "out = out.float()\nseen.append(out.cpu().numpy())",
    "rebound under a test": "if out.dtype == torch.bfloat16:\n    out = out.float()\nseen.append(out.cpu().numpy())",
    "asked": "if out.dtype != torch.bfloat16:\n    seen.append(out.cpu().numpy())",
    "caught": "try:\n    seen.append(out.numpy())\nexcept TypeError:\n    pass",
    "on the way": "seen.append(attention.cpu().numpy())",
    "sum with something unknown": "seen.append((out + batch).cpu().numpy())",
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_bfloat16_reaches_numpy(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, loop(RIGHT[name])) == []


REGIONS = {
    "float16": '"cuda", dtype=torch.float16',
    "default on CUDA": '"cuda"',
    "off": '"cuda", dtype=torch.bfloat16, enabled=False',
    "float32": '"cuda", dtype=torch.float32',
}


@pytest.mark.parametrize("name", REGIONS)
def test_other_regions(name: str, tmp_path: Path) -> None:
    files = loop(OUTPUTS["itself"], region=REGIONS[name]) | {"other.py": "import torch\nDTYPE = torch.bfloat16\n"}
    assert found(tmp_path, files) == []


def test_default_on_the_cpu_is_bfloat16(tmp_path: Path) -> None:
    assert len(found(tmp_path, loop(OUTPUTS["itself"], region='"cpu"'))) == 1


def test_softmax_inside_the_region_is_float32_on_cuda_only(tmp_path: Path) -> None:
    inside = "seen.append(out.softmax(-1).cpu().numpy())"
    assert found(tmp_path / "cuda", loop(inside=inside)) == []
    assert len(found(tmp_path / "cpu", loop(inside=inside, region='"cpu", dtype=torch.bfloat16'))) == 1


def test_the_fix_says_what_need_not_be_floating(tmp_path: Path) -> None:
    project = written(tmp_path, loop("seen.append(out.cpu().numpy())\nseen.append(out.sigmoid().cpu().numpy())"))
    first, second = findings(RULE, project)
    assert ["integers" in item.fixes[0].message for item in (first, second)] == [True, False]


def test_fix_is_safe_only_for_what_is_certainly_bfloat16(tmp_path: Path) -> None:
    source = "import torch\n\ndef read(x, low):\n    a = x.to({}).cpu().numpy()\n    return a\n"
    certain = written(tmp_path / "certain", {"run.py": source.format("torch.bfloat16")})
    chosen = written(tmp_path / "chosen", {"run.py": source.format("torch.bfloat16 if low else torch.float32")})
    levels = [finding.fixes[0].applicability for each in (certain, chosen) for finding in findings(RULE, each)]
    assert levels == [Applicability.SAFE, Applicability.UNSAFE]


def test_region_held_by_a_name_and_by_a_decorator(tmp_path: Path) -> None:
    source = """
        import contextlib
        import torch

        def run(net, x, use_amp):
            amp = torch.autocast("cuda", dtype=torch.bfloat16) if use_amp else contextlib.nullcontext()
            with torch.no_grad(), amp:
                out = net(x)
            return out.cpu().numpy()

        @torch.autocast("cuda", dtype=torch.bfloat16)
        def decorated(net, x):
            return net(x).cpu().numpy()

        def outer(net, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                def later():
                    return net(x).cpu().numpy()
            return later
    """
    assert found(tmp_path, {"run.py": source}) == [8, 12]


@pytest.mark.parametrize(("precision", "expected"), [("bf16-mixed", [9, 11]), ("16-mixed", []), ("32-true", [])])
def test_step_of_lightning(precision: str, expected: list[int], tmp_path: Path) -> None:
    source = f"""
        import lightning as L
        import torch

        class Lit(L.LightningModule):
            def validation_step(self, batch, index):
                out = self(batch)
                self.classes += list(out.argmax(-1).cpu().numpy())
                probabilities = out.softmax(-1).cpu().numpy()
                self.out = out.cpu().numpy()
                logits = self.model(batch)
                return logits.cpu().numpy(), probabilities

            def export(self, batch):
                return self(batch).numpy()

        def main(loader):
            L.Trainer(precision="{precision}", accelerator="gpu").fit(Lit(), loader)
    """
    assert found(tmp_path, {"lit.py": source}) == expected


def test_list_of_outputs(tmp_path: Path) -> None:
    source = loop("seen.append(out.cpu())")["evaluate.py"].replace("return seen", "return torch.cat(seen).numpy()")
    assert len(found(tmp_path / "one", {"a.py": source})) == 1
    mixed = source.replace("seen.append(out.cpu())", "seen.append(out.cpu())\n        seen.append(batch)")
    assert found(tmp_path / "mixed", {"a.py": mixed}) == []


def test_two_branches_must_agree(tmp_path: Path) -> None:
    source = """
        import torch

        def run(model, other, x, flag):
            if flag:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    out = model(x)
            else:
                out = other.run(x)
            return out.cpu().numpy()
    """
    assert found(tmp_path, {"run.py": source}) == []


MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        {forward}

def run(x):
    net = Net(){cast}
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = net(x)
    return out.cpu().numpy()
"""


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return self.proj(x)", [17]),
        ("return self.proj(x).relu() * 2", [17]),
        ("return self.proj(x).float()", []),
        ("return self.norm(self.proj(x))", []),
        ("return self.proj(x).softmax(-1)", []),
        ("return self.proj(x).argmax(-1)", []),
        ("return self.proj(x) > 0", []),
    ],
)
def test_known_model(forward: str, expected: list[int], tmp_path: Path) -> None:
    assert found(tmp_path, {"run.py": MODEL.format(forward=forward, cast="")}) == expected


def test_weights_in_bfloat16(tmp_path: Path) -> None:
    source = """
        import torch
        from torch import nn
        from transformers import AutoModel

        def embed(tokens):
            model = AutoModel.from_pretrained("m", torch_dtype=torch.bfloat16)
            return model(**tokens).last_hidden_state.cpu().numpy()

        def exact(tokens):
            model = AutoModel.from_pretrained("m", torch_dtype=torch.float32)
            return model(**tokens).last_hidden_state.cpu().numpy()

        def project(x):
            layer = nn.Linear(4, 4).to(torch.bfloat16)
            return layer(x).detach().numpy()
    """
    assert found(tmp_path, {"embed.py": source}) == [7, 15]


def test_float64_on_another_path_makes_the_fix_unsafe(tmp_path: Path) -> None:
    source = """
        import torch

        def run(x, flag):
            if flag:
                y = x.bfloat16()
            else:
                y = x.double()
            return y.numpy()
    """
    (finding,) = findings(RULE, written(tmp_path, {"run.py": source}))
    assert finding.fixes[0].applicability is Applicability.UNSAFE


CASTS = {
    "y.numpy()": "y.float().numpy()",
    "y.cpu().numpy()": "y.float().cpu().numpy()",
    "y[0].detach().cpu().numpy()": "y[0].detach().float().cpu().numpy()",
    "(y + y).numpy()": "((y + y)).float().numpy()",
    "(y + y).cpu().numpy()": "(y + y).cpu().float().numpy()",
    "(-y).numpy()": "((-y)).float().numpy()",
    "np.asarray(y)": "np.asarray(y.float())",
    "np.asarray(y, dtype=np.float32)": "np.asarray(y.float(), dtype=np.float32)",
    "np.asarray(y + y)": "np.asarray((y + y).float())",
    "y.numpy(force=True)": "y.float().numpy(force=True)",
}


@pytest.mark.parametrize("text", CASTS)
def test_cast_is_written_where_it_belongs(text: str, tmp_path: Path) -> None:
    source = f"import numpy as np\nimport torch\n\ndef run(x):\n    y = x.bfloat16()\n    return {text}\n"
    report, changed = migrated([RULE], written(tmp_path, {"run.py": source}))
    assert eval_of(changed["run.py"]) == eval_of(f"    return {CASTS[text]}\n")
    assert not report.remaining


def eval_of(text: str) -> str:
    """The returned expression, without redundant parentheses."""
    import ast

    return ast.unparse(ast.parse(text.rpartition("return ")[2].strip(), mode="eval"))


def test_tests_are_left_alone(tmp_path: Path) -> None:
    assert found(tmp_path, {"tests/test_run.py": loop(OUTPUTS["itself"])["evaluate.py"]}) == []


HOSTILE = {
    "loop of names": "a = b\nb = a\nseen.append(a.numpy())",
    "starred": "seen.append(np.asarray(*batch))",
    "no arguments": "seen.append(np.array())",
    "keyword": "seen.append(np.asarray(a=out))",
    "itself": "out = out.numpy()\nseen.append(out)",
    "chain": "seen.append(out" + ".squeeze()" * 200 + ".numpy())",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_odd_sources_do_not_fail(name: str, tmp_path: Path) -> None:
    findings(RULE, written(tmp_path, loop(HOSTILE[name])))


WITH_MORE = {
    "append": (0,), "argpartition": (1,), "clip": (0, 1), "dot": ([1.0, 1.0, 1.0],), "expand_dims": (0,),
    "maximum": (0,), "minimum": (0,), "percentile": (50,), "quantile": (0.5,), "repeat": (2,), "reshape": (-1,),
    "take": (0,), "tile": (2,),
}  # fmt: skip
BEHIND = {"save": BytesIO, "savetxt": BytesIO, "where": lambda: [True]}


@pytest.mark.parametrize("qualified", [name for name in ARRAY_FUNCTIONS if name.startswith("numpy.")])
def test_functions_of_numpy_refuse_bfloat16(qualified: str) -> None:
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    name = qualified.removeprefix("numpy.")
    if not hasattr(numpy, name):
        pytest.skip("of another release of NumPy")

    def read(dtype: Any) -> None:
        tensor = torch.tensor([0.1, 0.2, 0.3], dtype=dtype)
        given = tensor if ARRAY_FUNCTIONS[qualified] else [tensor, tensor]
        before = (BEHIND[name](),) if name in BEHIND else ()
        after = (0,) if name == "where" else WITH_MORE.get(name, ())
        getattr(numpy, name)(*before, given, *after)

    read(torch.float32)
    with pytest.raises(TypeError, match="BFloat16"):
        read(torch.bfloat16)
