"""PF103: clipping while gradients are scaled."""

from __future__ import annotations

from pathlib import Path

import pytest

from .scaler_snippets import findings, fixed, rule_named, run

RULE = rule_named("clip_before_unscale")
SCALED = "scaler.scale(model(x)).backward()\n"
CLIP = "clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "scaler.step(opt)\nscaler.update()"
HEAD = """
import torch
from torch.nn.utils import clip_grad_norm_
"""


def loop(body: str, head: str = "", signature: str = "model, loader, opt, clip=1.0, amp=True") -> str:
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    made = "scaler = torch.amp.GradScaler('cuda')"
    return f"{HEAD}\n{head}\ndef train({signature}):\n    {made}\n    for x in loader:\n{lines}\n"


WRONG = {
    "direct": SCALED + CLIP + STEP,
    "in a condition": (
        "scaler.scale(model(x)).backward()\nif clip:\n    torch.nn.utils.clip_grad_value_(model.parameters(), clip)\n"
        "scaler.step(opt)\nscaler.update()"
    ),
    "fsdp": SCALED + "model.clip_grad_norm_(1.0)\n" + STEP,
    "by hand": (
        "scaler.scale(model(x)).backward()\nfor p in model.parameters():\n    p.grad.data.clamp_(-1, 1)\n"
        "scaler.step(opt)\nscaler.update()"
    ),
    "named loss": "loss = scaler.scale(model(x))\nloss.backward()\nclip_grad_norm_(model.parameters(), 1)\n" + STEP,
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found_and_fixed(name: str, tmp_path: Path) -> None:
    assert len(findings(RULE, tmp_path, loop(WRONG[name]))) == 1
    after = fixed(RULE, tmp_path / "fixed", loop(WRONG[name]))
    assert after.count("scaler.unscale_(opt)") == 1
    assert not findings(RULE, tmp_path / "after", after)


RIGHT = {
    "unscaled": SCALED + "scaler.unscale_(opt)\n" + CLIP + STEP,
    "unscaled in a condition": (
        "scaler.scale(model(x)).backward()\nif clip:\n    scaler.unscale_(opt)\n"
        "    clip_grad_norm_(model.parameters(), clip)\n"
        "scaler.step(opt)\nscaler.update()"
    ),
    "other branch": (
        "if amp:\n    scaler.scale(model(x)).backward()\n    scaler.step(opt)\n    scaler.update()\n"
        "else:\n    model(x).backward()\n    clip_grad_norm_(model.parameters(), 1.0)\n    opt.step()"
    ),
    "other branch by an early exit": (
        "if not amp:\n    model(x).backward()\n"
        "    clip_grad_norm_(model.parameters(), 1.0)\n    opt.step()\n    continue\n"
        "scaler.scale(model(x)).backward()\nscaler.step(opt)\nscaler.update()"
    ),
    "guarded by the negation": (
        "if amp:\n    scaler.scale(model(x)).backward()\nelse:\n    model(x).backward()\n"
        "if not amp:\n    clip_grad_norm_(model.parameters(), 1.0)\nif amp:\n    scaler.step(opt)\n    scaler.update()"
    ),
    "another, unscaled model": (
        "scaler.scale(model(x)).backward()\nmodel.aux(x).backward()\nclip_grad_norm_(model.aux.parameters(), 1.0)\n"
        "scaler.step(opt)\nscaler.update()"
    ),
    "after the step": SCALED + "scaler.step(opt)\n" + CLIP + "scaler.update()",
    "threshold in scaled units": (
        "scaler.scale(model(x)).backward()\nclip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())\n"
        "scaler.step(opt)\nscaler.update()"
    ),
    "scaler handed to unknown code": (
        "scaler.scale(model(x)).backward()\nsome.library.prepare(scaler, opt)\nclip_grad_norm_(model.parameters(), 1)\n"
        "scaler.step(opt)\nscaler.update()"
    ),
    "accelerate clips": SCALED + "accelerator.clip_grad_norm_(model.parameters(), 1)\n" + STEP,
    "two scalers": (
        "other.scale(model.d(x)).backward()\n" + SCALED + "other.unscale_(model.opt)\n"
        "clip_grad_norm_(model.d.parameters(), 1.0)\nscaler.unscale_(opt)\n" + CLIP + "other.step(model.opt)\n" + STEP
    ),
    "two optimizers stepped in the other order": (
        SCALED + "scaler.unscale_(model.opt)\nclip_grad_norm_(model.d.parameters(), 1.0)\nscaler.unscale_(opt)\n"
        "" + CLIP + "scaler.step(opt)\nscaler.step(model.opt)\nscaler.update()"
    ),
    "switches of several parts": (
        "if amp and clip:\n    scaler.scale(model(x)).backward()\nelse:\n    model(x).backward()\n"
        "if not amp or not clip:\n    clip_grad_norm_(model.parameters(), 1.0)\n    opt.step()\n"
        "else:\n    scaler.step(opt)\n    scaler.update()"
    ),
    "a switch by another name": (
        "if amp:\n    scaler.scale(model(x)).backward()\nelse:\n    model(x).backward()\n"
        "if model.plain_precision:\n    clip_grad_norm_(model.parameters(), 1.0)\n"
        "if amp:\n    scaler.step(opt)\n    scaler.update()"
    ),
    "plain training": "model(x).backward()\nclip_grad_norm_(model.parameters(), 1.0)\nopt.step()",
    "weights clipped": SCALED + "for p in model.parameters():\n    p.data.clamp_(-1, 1)\n" + STEP,
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, tmp_path, loop(RIGHT[name])) == ()


HELPERS = {
    "unscales itself": (
        "def clip_all(scaler, opt, model):\n    scaler.unscale_(opt)\n    clip_grad_norm_(model.parameters(), 1.0)\n"
    ),
    "trains by itself": (
        "def clip_all(scaler, opt, model):\n    model(1).backward()\n    clip_grad_norm_(model.parameters(), 1.0)\n"
    ),
}


@pytest.mark.parametrize("name", HELPERS)
def test_helper_that_is_right(name: str, tmp_path: Path) -> None:
    body = SCALED + "clip_all(scaler, opt, model)\n" + STEP
    assert findings(RULE, tmp_path, loop(body, HELPERS[name])) == ()


def test_helper_that_clips(tmp_path: Path) -> None:
    helper = "def clip_all(model):\n    clip_grad_norm_(model.parameters(), 1.0)\n"
    body = "scaler.scale(model(x)).backward()\nclip_all(model)\nscaler.step(opt)\nscaler.update()"
    after = fixed(RULE, tmp_path, loop(body, helper))
    assert "        scaler.unscale_(opt)\n        clip_all(model)\n" in after


def test_clip_on_every_micro_batch_is_reported_only(tmp_path: Path) -> None:
    body = (
        "scaler.scale(model(x)).backward()\nclip_grad_norm_(model.parameters(), 1.0)\n"
        "if x % 4 == 0:\n    scaler.step(opt)\n    scaler.update()"
    )
    (finding,) = findings(RULE, tmp_path, loop(body))
    assert finding.fixes == ()


def test_two_optimizers_are_reported_only(tmp_path: Path) -> None:
    body = (
        "scaler.scale(model(x)).backward()\nclip_grad_norm_(model.parameters(), 1.0)\n"
        "scaler.step(opt)\nscaler.step(model.other)\nscaler.update()"
    )
    (finding,) = findings(RULE, tmp_path, loop(body))
    assert finding.fixes == ()


def test_scaler_behind_a_switch_gets_the_switch(tmp_path: Path) -> None:
    body = (
        "if amp:\n    scaler.scale(model(x)).backward()\nelse:\n    model(x).backward()\n"
        "clip_grad_norm_(model.parameters(), 1.0)\n"
        "if amp:\n    scaler.step(opt)\n    scaler.update()\nelse:\n    opt.step()"
    )
    after = fixed(RULE, tmp_path, loop(body))
    assert "        if amp:\n            scaler.unscale_(opt)\n        clip_grad_norm_(" in after


def test_one_optimizer_of_two_is_not_unscaled(tmp_path: Path) -> None:
    body = """
scaler.scale(model.d(x)).backward()
scaler.unscale_(opt)
clip_grad_norm_(model.d.parameters(), 1.0)
scaler.step(opt)
scaler.scale(model.g(x)).backward()
clip_grad_norm_(model.g.parameters(), 1.0)
scaler.step(model.opt_g)
scaler.update()
"""
    (finding,) = findings(RULE, tmp_path, loop(body))
    assert (
        finding.span.row
        == loop(body).lstrip("\n").splitlines().index("        clip_grad_norm_(model.g.parameters(), 1.0)") + 1
    )


def test_always_bf16_belongs_to_another_rule(tmp_path: Path) -> None:
    body = (
        "with torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = model(x)\nscaler.scale(loss).backward()\n"
        "clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(opt)\nscaler.update()"
    )
    assert findings(RULE, tmp_path, loop(body)) == ()


def test_unscale_after_the_clip_is_found(tmp_path: Path) -> None:
    body = (
        "scaler.scale(model(x)).backward()\nclip_grad_norm_(model.parameters(), 1.0)\nscaler.unscale_(opt)\n"
        "scaler.step(opt)\nscaler.update()"
    )
    assert len(findings(RULE, tmp_path, loop(body))) == 1
    after = fixed(RULE, tmp_path / "fixed", loop(body))
    assert after.count("unscale_") == 1
    assert after.index("unscale_") < after.index("clip_grad_norm_(model")


TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
before = model.weight.detach().clone()
loss = (model(torch.ones(2, 4)) - 1).pow(2).mean() * 1e-3
scaler.scale(loss).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
norm = sum(p.grad.pow(2).sum() for p in model.parameters()).sqrt()
scaler.step(opt)
scaler.update()
print("moved" if (model.weight - before).abs().max() > 5e-5 else "stuck")
"""


def test_training_moves_only_after_the_fix(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert run(TRAINING) == "stuck\n"
    assert run(fixed(RULE, tmp_path, TRAINING)) == "moved\n"


def test_every_function_that_steps_with_the_scaler_is_looked_at(tmp_path: Path) -> None:
    step = "".join(f"    {line}\n" for line in (SCALED + CLIP + STEP).splitlines())
    functions = "".join(f"\n\ndef {name}(model, x, opt):\n{step}" for name in ("warm_up", "train"))
    found = findings(RULE, tmp_path, f"{HEAD}\nscaler = torch.amp.GradScaler('cuda')\n{functions}")
    assert len(found) == 2
