"""PF104: unscale_, step and update that do not run equally often."""

from __future__ import annotations

from pathlib import Path

import pytest

from .scaler_snippets import findings, fixed, rule_named, run

RULE = rule_named("unscale_on_every_micro_batch")
SCALED = "scaler.scale(model(x).mean()).backward()\n"
UNSCALE = "scaler.unscale_(opt)\n"
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "scaler.step(opt)\nscaler.update()\n"


def indented(text: str, by: int = 4) -> str:
    return "".join(" " * by + line + "\n" for line in text.splitlines())


def script(body: str, setup: str = "", passes: int = 4, data: str = "torch.ones(2, 4)") -> str:
    """A program that trains on the CPU; ``body`` is one pass over ``x``."""
    return (
        "import torch\ntorch.manual_seed(0)\nmodel = torch.nn.Sequential(torch.nn.Linear(4, 1))\n"
        "opt = torch.optim.SGD(model.parameters(), lr=0.1)\nscaler = torch.amp.GradScaler('cpu')\n"
        f"use_amp, clip, accum = True, 1.0, 2\n{setup}"
        f"for i in range({passes}):\n    x = {data}\n{indented(body)}print('done')\n"
    )


TWICE = {
    "accumulation": SCALED + UNSCALE + CLIP + "if (i + 1) % accum == 0:\n" + indented(STEP),
    "accumulation behind a name": (
        "last = (i + 1) % accum == 0\n" + SCALED + UNSCALE + CLIP + "if last:\n" + indented(STEP)
    ),
    "clip in a condition": SCALED
    + "if clip:\n"
    + indented(UNSCALE + CLIP)
    + "if (i + 1) % accum == 0:\n"
    + indented(STEP),
    "early continue": SCALED + UNSCALE + "if (i + 1) % accum:\n    continue\n" + STEP,
    "inner loop": "for _ in range(accum):\n" + indented(SCALED + UNSCALE) + STEP,
    "no update after a bad gradient": (
        SCALED + UNSCALE + "norm = " + CLIP + "if torch.isfinite(norm):\n" + indented(STEP)
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_repeated_unscale_is_found_and_crashes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data = "torch.full((2, 4), float('inf'))" if "bad" in name else "torch.ones(2, 4)"
    source = script(TWICE[name], data=data)
    (finding,) = findings(RULE, tmp_path, source)
    assert "already been called" in finding.message
    assert "unscale_() has already been called" in run(source)


@pytest.mark.parametrize("name", ["accumulation", "accumulation behind a name", "clip in a condition"])
def test_the_move_ends_the_crash(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    after = fixed(RULE, tmp_path, script(TWICE[name]))
    assert run(after) == "done\n"
    assert after.count("unscale_") == after.count("clip_grad_norm_") == 1


def test_the_move_keeps_lines_and_comments(tmp_path: Path) -> None:
    body = (
        SCALED
        + "if clip:  # only then\n    # in true units\n"
        + indented(UNSCALE + CLIP)
        + "if (i + 1) % accum == 0:\n"
        + indented(STEP)
    )
    after = fixed(RULE, tmp_path, script(body))
    moved = indented("if clip:  # only then\n    # in true units\n" + indented(UNSCALE + CLIP), 8)
    assert f"    if (i + 1) % accum == 0:\n{moved}        scaler.step(opt)\n" in after


@pytest.mark.parametrize("name", ["early continue", "inner loop", "no update after a bad gradient"])
def test_others_are_reported_only(name: str, tmp_path: Path) -> None:
    (finding,) = findings(RULE, tmp_path, script(TWICE[name]))
    assert finding.fixes == ()


def test_a_norm_that_is_used_elsewhere_stays(tmp_path: Path) -> None:
    body = SCALED + UNSCALE + "norm = " + CLIP + "if (i + 1) % accum == 0:\n" + indented(STEP) + "print(norm)\n"
    (finding,) = findings(RULE, tmp_path, script(body))
    assert finding.fixes == ()


BARE = {
    "update on every micro-batch": SCALED + "if (i + 1) % accum == 0:\n    scaler.step(opt)\nscaler.update()\n",
    "step only when finite": (
        "loss = model(x).sum()\nscaler.scale(loss).backward()\n"
        "if torch.isfinite(loss):\n    scaler.step(opt)\nscaler.update()\n"
    ),
    "asked by a helper": (
        "loss = model(x).sum()\nscaler.scale(loss).backward()\n"
        "if usable(loss):\n    scaler.step(opt)\nscaler.update()\n"
    ),
}


@pytest.mark.parametrize("name", BARE)
def test_bare_update_is_found_and_crashes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data = "torch.full((2, 4), float('inf'))" if "every" not in name else "torch.ones(2, 4)"
    source = script(BARE[name], "def usable(loss):\n    return bool(torch.isfinite(loss))\n", data=data)
    (finding,) = findings(RULE, tmp_path, source)
    assert "No inf checks" in finding.message
    assert "No inf checks were recorded" in run(source)


LOSS = "opt.zero_grad()\nloss = model(x).mean()\n"
SCALE = "scaler.scale(loss).backward()\n"
ALONE = {
    "backward only when finite": LOSS + "if torch.isfinite(loss):\n" + indented(SCALE) + STEP,
    "backward only for some losses": LOSS + "if loss == loss:\n" + indented(SCALE) + STEP,
    "backward in each second pass": LOSS + "if i % 2 == 0:\n" + indented(SCALE) + STEP,
    "backward from some pass on": LOSS + "if i > 0:\n" + indented(SCALE) + UNSCALE + STEP,
    "backward for each second batch, gradients dropped behind the step": (
        "if i % 2 == 0:\n" + indented(SCALED) + STEP + "opt.zero_grad()\n"
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_step_without_a_backward_pass_is_found_and_crashes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data = "torch.full((2, 4), float('nan') if i else 1.0)" if " only " in name else "torch.ones(2, 4)"
    source = script(ALONE[name], data=data)
    (finding,) = findings(RULE, tmp_path, source)
    assert "No inf checks" in finding.message
    said = "_scale is None" if "from some" in name else "No inf checks were recorded for this optimizer"
    assert said in run(source)


RIGHT = {
    "gradients of zeros": SCALED + STEP + "opt.zero_grad(set_to_none=False)\nif i % 2 == 0:\n" + indented(SCALED),
    "gradients that stay": SCALED + STEP + "if i % 2 == 0:\n" + indented(SCALED),
    "backward in both arms": (
        LOSS + "if i % 2 == 0:\n" + indented(SCALE) + "else:\n" + indented("scaler.scale(loss * 2).backward()\n") + STEP
    ),
    "a second loss": LOSS + SCALE + "if i % 2 == 0:\n" + indented(SCALED) + STEP,
    "backward and step wait": LOSS + "if i % 2 == 0:\n" + indented(SCALE + STEP),
    "a pass left early": LOSS + "if i % 2:\n    continue\n" + SCALE + STEP,
    "a switch of the backward pass": LOSS + "if use_amp:\n" + indented(SCALE) + STEP,
    "the same test spelled twice": (
        "sync = (i + 1) % accum == 0\n"
        + SCALED
        + "if sync:\n"
        + indented(UNSCALE + CLIP)
        + "if not (i + 1) % accum:\n"
        + indented(STEP)
    ),
    "an optimizer of its own in each pass": (
        "for j in range(1):\n    o = [opt][j]\n"
        "" + indented(SCALED) + "    scaler.unscale_(o)\n    scaler.step(o)\nscaler.update()\n"
    ),
    "plain": SCALED + UNSCALE + CLIP + STEP,
    "all in the accumulation": SCALED + "if (i + 1) % accum == 0:\n" + indented(UNSCALE + CLIP + STEP),
    "a switch of the run": SCALED + "if clip > 0:\n" + indented(UNSCALE + CLIP) + "if use_amp:\n" + indented(STEP),
    "step skipped, update kept": (
        SCALED + UNSCALE + "norm = " + CLIP + "if torch.isfinite(norm):\n    scaler.step(opt)\nscaler.update()\n"
    ),
    "update in both arms": (
        SCALED
        + UNSCALE
        + "norm = "
        + CLIP
        + "if torch.isfinite(norm):\n"
        + indented(STEP)
        + "else:\n    scaler.update()\n"
    ),
    "update before the continue": (
        SCALED + UNSCALE + "norm = " + CLIP + "if torch.isnan(norm):\n    scaler.update()\n    continue\n" + STEP
    ),
    "early continue before unscale": SCALED + "if (i + 1) % accum:\n    continue\n" + UNSCALE + CLIP + STEP,
    "several optimizers": SCALED + "for o in [opt]:\n    scaler.unscale_(o)\n    scaler.step(o)\nscaler.update()\n",
    "given scale": SCALED + "if (i + 1) % accum == 0:\n    scaler.step(opt)\nscaler.update(1024.0)\n",
    "bad loss ends the run": SCALED + UNSCALE + "if torch.isnan(model(x)).any():\n    raise SystemExit\n" + STEP,
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert findings(RULE, tmp_path, script(RIGHT[name])) == ()
    assert run(script(RIGHT[name])) == "done\n"


WRAPPER = """
import torch

class Scaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, opt, clip=None, need_update=True):
        self._scaler.scale(loss).backward()
        if clip:
            self._scaler.unscale_(opt)
        if need_update:
            self._scaler.step(opt)
            self._scaler.update()
"""


def test_a_parameter_that_nobody_passes_is_no_switch(tmp_path: Path) -> None:
    assert findings(RULE, tmp_path, WRAPPER) == ()


def test_a_parameter_that_a_caller_passes_is_one(tmp_path: Path) -> None:
    caller = "from train import Scaler\n\ndef go(loss, opt, i):\n    Scaler()(loss, opt, need_update=i % 2 == 0)\n"
    assert len(findings(RULE, tmp_path, WRAPPER, other=caller)) == 1
