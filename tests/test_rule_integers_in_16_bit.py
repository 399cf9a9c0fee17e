"""PF214: integers in 16 bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("dtype.integers_in_16_bit")


def function(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"import torch\ndef f(batch, tokenizer, processor, model, x, seq_len, device, n):\n{lines}"


WRONG = {
    "batch": "b = {k: v.half() for k, v in batch.items()}\nreturn model(b['input_ids'])",
    "batch with a device": "b = {k: v.to(device, torch.float16) for k, v in batch.items()}\nreturn b['input_ids']",
    "tokenized": "e = tokenizer('a')\nreturn model(**{k: v.to(dtype=torch.bfloat16) for k, v in e.items()})",
    "loop over items": "for k, v in batch.items():\n    batch[k] = v.bfloat16()\nreturn batch['labels']",
    "timesteps": "t = torch.randint(0, model.num_train_timesteps, (4,)).long()\nreturn model(x, t.to(torch.bfloat16))",
    "ids": "return model(batch.input_ids.to(torch.bfloat16))",
    "positions": "return torch.arange(seq_len, dtype=torch.bfloat16, device=device)",
    "known number": "return torch.arange(0, 4096, dtype=torch.float16)",
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str, tmp_path: Path) -> None:
    assert len(findings(RULE, written(tmp_path, {"a.py": function(WRONG[name])}))) == 1


RIGHT = {
    "tested": "b = {k: v.half() if v.is_floating_point() else v for k, v in batch.items()}\nreturn b['input_ids']",
    "filtered": "b = {k: v.half() for k, v in batch.items() if v.dtype == torch.float32}\nreturn batch['input_ids']",
    "no integers known": "return {k: v.half() for k, v in batch.items()}",
    "processor": "return processor(x).to(device, torch.float16)",
    "float32": "b = {k: v.to(torch.float32) for k, v in batch.items()}\nreturn b['input_ids']",
    "unknown dtype": "b = {k: v.to(x.dtype) for k, v in batch.items()}\nreturn b['input_ids']",
    "another tensor": "b = {k: x.half() for k, v in batch.items()}\nreturn b['input_ids']",
    "continuous": "t = torch.rand(4) * 1000\nreturn model(t.to(torch.bfloat16))",
    "overwritten": "t = torch.randint(0, 1000, (4,))\nt = model.sigmas[t]\nreturn model(t.to(torch.bfloat16))",
    "few": "t = torch.randint(0, 100, (4,))\nreturn model(t.to(torch.bfloat16))",
    "exact in float16": "t = torch.randint(0, 1000, (4,))\nreturn model(t.half())",
    "scaled": "t = torch.randint(0, 1000, (4,))\nreturn model(t.to(torch.bfloat16) / 1000)",
    "mask": "return (batch['input_ids'] != 0).to(torch.bfloat16)",
    "frequencies": "return torch.arange(0, n, 2, dtype=torch.bfloat16)",
    "few positions": "return torch.arange(257, dtype=torch.bfloat16)",
    "unknown number in float16": "return torch.arange(seq_len, dtype=torch.float16)",
    "ratio": "return torch.arange(seq_len, dtype=torch.bfloat16) / seq_len",
    "dtype of another": "return torch.arange(seq_len, dtype=x.dtype)",
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"a.py": function(RIGHT[name])})) == ()


EDITS = {
    "batch": "{k: v.half() if v.is_floating_point() else v for k, v in batch.items()}",
    "batch with a device": "v.to(device, torch.float16) if v.is_floating_point() else v.to(device)",
    "tokenized": "v.to(dtype=torch.bfloat16) if v.is_floating_point() else v",
}


@pytest.mark.parametrize("name", EDITS)
def test_only_floating_tensors_are_cast(name: str, tmp_path: Path) -> None:
    report, after = migrated([RULE], written(tmp_path, {"a.py": function(WRONG[name])}))
    assert EDITS[name] in after["a.py"]
    assert report.remaining == ()


def test_ids_made_integers_again_are_no_certain_error(tmp_path: Path) -> None:
    body = "b = {k: v.half() for k, v in batch.items()}\nreturn model(b['input_ids'].long())"
    (finding,) = findings(RULE, written(tmp_path, {"a.py": function(body)}))
    assert [fix.applicability.value for fix in finding.fixes] == ["unsafe"]


def test_what_torch_does() -> None:
    torch = pytest.importorskip("torch")
    assert torch.arange(4096, dtype=torch.bfloat16).unique().numel() == 769
    assert int(torch.tensor(32001).to(torch.bfloat16)) == 32000
    assert int(torch.tensor(2049).half()) == 2048
    assert torch.arange(257, dtype=torch.bfloat16).unique().numel() == 257
    with pytest.raises(RuntimeError, match="Expected tensor for argument #1 'indices'"):
        torch.nn.Embedding(4, 2)(torch.tensor([1]).half())
