"""Dictionaries, objects with fields, generators, loaders and arrays: what each of them holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from .flow_runs import meetings, returns

HALF = "x = torch.ones(2).half()\n"

HELD = {
    "key": ('d = {"a": x, "b": 1}\nreturn d["a"]', "float16"),
    "get": ('d = {"a": x}\nreturn d.get("a")', "float16"),
    "written later": ('d = {}\nd["a"] = x\nreturn d["a"]', "float16"),
    "replaced": ('d = {"a": x}\nd["a"] = x.float()\nreturn d["a"]', "float32"),
    "unpacked over it": ('d = {"a": x, **other}\nreturn d["a"]', "unknown"),
    "unpacked below it": ('d = {**other, "a": x}\nreturn d["a"]', "float16"),
    "a key that is not known": ('d = {"a": x}\nd[n] = x.float()\nreturn d["a"]', "unknown"),
    "passed to a function": ('d = {"a": x}\nchange(d)\nreturn d["a"]', "unknown"),
    "printed": ('d = {"a": x}\nprint(d)\nreturn d["a"]', "float16"),
    "updated": ('d = {"a": x}\nd.update({"a": x.float()})\nreturn d["a"]', "float32"),
    "updated with what is not known": ('d = {"a": x}\nd.update(other)\nreturn d["a"]', "unknown"),
    "updated by keywords": ('d = {"a": x}\nd.update(a=other)\nreturn d["a"]', "unknown"),
    "on one path": ('d = {"a": x} if n else {"b": x}\nreturn d["a"]', "unknown"),
    "on both paths": ('d = {"a": x} if n else {"a": x, "b": x}\nreturn d["a"]', "float16"),
    "moved one by one": ('d = {"a": x}\nd = {k: v.to(n) for k, v in d.items()}\nreturn d["a"].float()', "float32"),
    "cast one by one": ('d = {"a": x}\nd = {k: v.float() for k, v in d.items()}\nreturn d["a"]', "float32"),
    "some of them": ('d = {"a": x}\nd = {k: v for k, v in d.items() if n}\nreturn d["a"]', "unknown"),
    "call of dict": ('d = dict(a=x)\nreturn d["a"]', "float16"),
    "lists by key": (
        'd = defaultdict(list)\nfor i in range(3):\n    d["a"].append(x)\nreturn torch.cat(d["a"])',
        "float16",
    ),
    "library output": ("o = BaseModelOutput(last_hidden_state=x)\nreturn o.last_hidden_state", "float16"),
    "its first item": ("o = BaseModelOutput(last_hidden_state=x)\nreturn o[0]", "float16"),
    "output or tuple": (
        "o = BaseModelOutput(last_hidden_state=x)\nif n:\n    o = (x.float(),)\nreturn o.last_hidden_state",
        "float16",
    ),
    "output or tuple by place": (
        "o = BaseModelOutput(last_hidden_state=x)\nif n:\n    o = (x.float(),)\nreturn o[0]",
        "float16|float32",
    ),
    "dataclass": ("o = Kept(x, 2)\nreturn o.tensor", "float16"),
    "dataclass by keyword": ("o = Kept(count=2, tensor=x)\nreturn o.tensor", "float16"),
    "field that is not given": ("o = Kept(x)\nreturn o.count", "unknown"),
    "class with a constructor": ("o = Changed(x)\nreturn o.tensor", "unknown"),
    "typing": ("return typing.cast(torch.Tensor, x)", "float16"),
    "generator": ("for y in each(x):\n    pass\nreturn y", "float16"),
    "next": ("return next(iter([x]))", "float16"),
    "zip": ("for a, b in zip([x], [x.float()]):\n    pass\nreturn b", "float32"),
    "enumerate": ("for i, (a, b) in enumerate([(x, x.float())]):\n    pass\nreturn a", "float16"),
    "array": ("return torch.from_numpy(np.zeros(3, dtype=np.float32))", "float32"),
    "array that is cast": ('return torch.from_numpy(n.astype("float32"))', "float32"),
    "array of another dtype": ("return torch.from_numpy(np.zeros(3, dtype=n))", "unknown"),
}
IMPORTS = """
import typing
from collections import defaultdict
from dataclasses import dataclass
import numpy as np
from transformers.modeling_outputs import BaseModelOutput

@dataclass
class Kept:
    tensor: torch.Tensor
    count: int = 0

@dataclass
class Changed:
    tensor: torch.Tensor

    def __init__(self, tensor):
        self.tensor = tensor.float() if later else tensor

def each(z):
    yield z.reshape(-1)

def change(d):
    for k in list(d):
        d[k] = d[k].float()
"""


@pytest.mark.parametrize(("body", "expected"), HELD.values(), ids=HELD.keys())
def test_what_a_record_or_a_sequence_holds(tmp_path: Path, body: str, expected: str) -> None:
    lines = [f"    {line}" for line in (HALF + body).splitlines()]
    assert returns(tmp_path, "\n".join([IMPORTS, "def f(n, other):", *lines])) == expected


DATA = """
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(x)

class Wide:
    def __getitem__(self, i):
        return {"x": torch.rand(4)}

class Narrow:
    def __getitem__(self, i):
        return {"x": torch.rand(4).bfloat16()}

class Stream:
    def __iter__(self):
        yield torch.rand(4)

def collate(samples):
    return torch.stack([s["x"] for s in samples])

def narrow(samples):
    return torch.stack([s["x"] for s in samples]).bfloat16()

def epoch(model, loader):
    for batch in loader:
        model(batch["x"])

def main(other):
    model = Net().to(torch.bfloat16)
    BODY
"""
MET = {
    "dataset": ('for b in DataLoader(Wide()):\n        model(b["x"])', ["b['x'] meets model"]),
    "its sample": ('model(Wide()[0]["x"])', ["Wide()[0]['x'] meets model"]),
    "stream": ("for b in DataLoader(Stream()):\n        model(b)", ["b meets model"]),
    "collated": ("for b in DataLoader(Wide(), collate_fn=collate):\n        model(b)", ["b meets model"]),
    "tensors": (
        "for b, c in DataLoader(TensorDataset(torch.rand(4), torch.rand(4))):\n        model(b)",
        ["b meets model"],
    ),
    "unpacked": ("for b in DataLoader(Wide()):\n        model(**b)", ["b meets model"]),
    "passed on": ("epoch(model, DataLoader(Wide()))", ["batch['x'] meets model"]),
    "narrow dataset": ('for b in DataLoader(Narrow()):\n        model(b["x"])', []),
    "narrow collation": ("for b in DataLoader(Wide(), collate_fn=narrow):\n        model(b)", []),
    "collation that is not known": ("for b in DataLoader(Wide(), collate_fn=other):\n        model(b)", []),
    "dataset that is not known": ("for b in DataLoader(other):\n        model(b)", []),
    "narrow, passed on": ("epoch(model, DataLoader(Narrow()))", []),
    "wide model": ("epoch(Net(), DataLoader(Wide()))", []),
    "cast on the way": ('for b in DataLoader(Wide()):\n        model(b["x"].to(torch.bfloat16))', []),
    "under autocast": (
        'with torch.autocast("cuda"):\n        for b in DataLoader(Wide()):\n            model(b["x"])',
        [],
    ),
}


@pytest.mark.parametrize(("body", "expected"), MET.values(), ids=MET.keys())
def test_what_a_loader_gives_meets_the_weights(tmp_path: Path, body: str, expected: list[str]) -> None:
    assert meetings(tmp_path, DATA.replace("BODY", body)) == expected
