"""PF102: float16 autocast around a loss that nothing scales."""

from __future__ import annotations

from pathlib import Path

import pytest

from .scaler_snippets import findings, fixed, rule_named, run

RULE = rule_named("fp16_autocast_without_scaler")


def script(
    region: str = "torch.autocast('cuda')",
    loss: str = "model(x.cuda()).mean()",
    backward: str = "loss.backward()",
    between: str = "",
    setup: str = "",
) -> str:
    middle = f"        {between}\n" if between else ""
    return (
        "import torch\nmodel = torch.nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"{setup}def train(loader, use_amp=True):\n  for epoch in range(3):\n"
        f"    for x in loader:\n        optimizer.zero_grad()\n"
        f"        with {region}:\n            loss = {loss}\n        {backward}\n{middle}        optimizer.step()\n"
    )


WRONG = {
    "default dtype": script(),
    "old spelling": script("torch.cuda.amp.autocast()"),
    "float16": script("torch.autocast(device_type='cuda', dtype=torch.float16)"),
    "switch": script("torch.autocast('cuda', enabled=use_amp)"),
    "clip": script(between="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found_and_fixed(name: str, tmp_path: Path) -> None:
    assert len(findings(RULE, tmp_path, WRONG[name])) == 1
    after = fixed(RULE, tmp_path / "fixed", WRONG[name])
    assert "  for epoch in range(3):" in after.split("GradScaler(")[1]
    assert "scaler.scale(loss).backward()" in after
    assert "        scaler.step(optimizer)\n        scaler.update()\n" in after
    assert ("scaler.unscale_(optimizer)\n        torch.nn" in after) == (name == "clip")
    assert ('GradScaler("cuda", enabled=use_amp)' in after) == (name == "switch")


def test_old_torch_gets_the_old_spelling(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.13\n")
    assert "scaler = torch.cuda.amp.GradScaler()\n" in fixed(RULE, tmp_path, script())


RIGHT = {
    "bfloat16": script("torch.autocast('cuda', dtype=torch.bfloat16)"),
    "switched off": script("torch.autocast('cuda', enabled=False)"),
    "cpu": script("torch.autocast('cpu')"),
    "device nobody knows": script("torch.autocast(device)", "model(x).mean()"),
    "dtype nobody knows": script("torch.autocast('cuda', dtype=dtype)"),
    "switch by precision": script("torch.autocast('cuda', enabled=precision == 'bf16')"),
    "no grad": script("torch.no_grad(), torch.autocast('cuda')"),
    "scaled by hand": script(backward="(loss * 1024).backward()"),
    "scaled by name": script(backward="loss = loss * loss_scale; loss.backward()"),
    "scaled by a power": script(
        "torch.autocast('cuda')", "model(x.cuda()).mean()", "loss = loss * 2 ** 16; loss.backward()"
    ),
    "accelerate": script(backward="accelerator.backward(loss)"),
    "accelerate nearby": script(setup="from accelerate import Accelerator\n"),
    "a scaler": script(setup="def make(scaler):\n    return scaler\n"),
    "own optimizer": script()
    .replace("torch.optim.SGD", "Scaling")
    .replace("import torch", "import torch\nclass Scaling:\n    pass"),
    "another loss": script(backward="other.backward()"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, tmp_path, RIGHT[name]) == ()


REPORT_ONLY = {
    "one pass per call": script().replace(
        "  for epoch in range(3):\n    for x in loader:", "  for epoch in range(1):\n    if True:"
    ),
    "two backwards": script(backward="loss.backward()\n        model(x).mean().backward()"),
    "bfloat16 nearby": script(setup="WANTED = torch.bfloat16\n"),
    "closure": script().replace("optimizer.step()", "optimizer.step(lambda: loss)"),
    "gradients are read": script(between="print(model.weight.grad.norm())"),
}


@pytest.mark.parametrize("name", REPORT_ONLY)
def test_is_reported_only(name: str, tmp_path: Path) -> None:
    (finding,) = findings(RULE, tmp_path, REPORT_ONLY[name])
    assert finding.fixes == ()


SMALL = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
before = model.weight.detach().clone()
for epoch in range(1):
    for x in [torch.ones(1, 8)]:
        with torch.autocast("DEVICE", dtype=torch.float16):
            out = model(x)
            loss = out.float().sum() * 1e-9
        loss.backward()
        optimizer.step()
print("learns" if (model.weight - before).abs().max() > 0 else "underflow")
"""


def test_small_gradients_survive_only_after_the_fix(tmp_path: Path) -> None:
    """The fix is written for CUDA; the arithmetic of float16 is the same on a CPU."""
    pytest.importorskip("torch")
    assert run(SMALL.replace("DEVICE", "cpu")) == "underflow\n"
    after = fixed(RULE, tmp_path, SMALL.replace("DEVICE", "cuda"))
    assert "GradScaler" in after
    assert run(after.replace('"cuda"', '"cpu"')) == "learns\n"
