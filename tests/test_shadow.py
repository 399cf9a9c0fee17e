"""The shadow names what example programs lose, says nothing of their repaired versions, and follows every tensor."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from precfix.probes.rehearsal.inside.places import UserFrames
from precfix.probes.rehearsal.inside.shadow.mode import ShadowMode
from precfix.probes.rehearsal.inside.shadow.page import page
from precfix.probes.rehearsal.inside.shadow.places import Findings, Loss
from precfix.probes.rehearsal.inside.shadow.report import as_text
from precfix.probes.rehearsal.inside.shadow.shadow import Shadow
from precfix.probes.rehearsal.inside.shadow.storages import Storages
from torch import nn

from .fixture_cases import REPOSITORY
from .warm_torch import python

PROGRAMS = sorted(path for path in (REPOSITORY / "fixtures" / "shadow").iterdir() if path.is_dir())
LOSSES = {
    "batch-norm": Loss.RUNNING_STATISTICS,
    "converted-buffer": Loss.LINE,
    "counter": Loss.ACCUMULATION,
    "ema-in-place": Loss.ACCUMULATION,
    "ema-new-tensors": Loss.ACCUMULATION,
    "gradient-accumulation": Loss.ACCUMULATION,
    "gradient-underflow": Loss.VANISHED_GRADIENT,
    "loss-in-half": Loss.LINE,
    "region-around-loop": Loss.OLD_COPY,
    "rotary-positions": Loss.LINE,
    "running-loss": Loss.ACCUMULATION,
    "sum-and-positions": Loss.ACCUMULATION,
    "timesteps": Loss.LINE,
    "updates-and-ema": Loss.UPDATES,
    "updates-lost": Loss.UPDATES,
    "weight-decay": Loss.UPDATES,
}


def shadowed(program: Path) -> Findings:
    with Shadow(UserFrames(str(program.parent))) as shadow:
        runpy.run_path(str(program), run_name="__main__")
        return shadow.findings()


def planted(program: Path, word: str = "# planted") -> int | None:
    rows = [row for row, line in enumerate(program.read_text().splitlines(), 1) if line.endswith(word)]
    return rows[0] if rows else None


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_the_planted_place_comes_first(program: Path) -> None:
    findings = shadowed(program / "before.py")
    assert findings.worst, as_text(findings)
    first = findings.worst[0]
    assert first.loss is LOSSES[program.name]
    assert first.line == ("before.py", planted(program / "before.py")), as_text(findings)
    second = planted(program / "before.py", "# planted too")
    assert second is None or ("before.py", second) in {place.line for place in findings.worst}, as_text(findings)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_nothing_is_said_of_the_repaired_program(program: Path) -> None:
    findings = shadowed(program / "after.py")
    assert not findings.worst, as_text(findings)


class Tagger(nn.Module):
    """A small Transformer encoder with what such models have: embeddings, attention, dropout, norms."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.1)
        self.embedding = nn.Embedding(50, 32)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(tokens)))  # type: ignore[no-any-return]


def train(dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
    for _ in range(3):
        tokens = torch.randint(0, 50, (4, 8))
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            logits = model(tokens).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits.float(), torch.randint(0, 50, (32,)))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_healthy_training_is_within_the_noise(dtype: torch.dtype | None) -> None:
    with Shadow(UserFrames(str(REPOSITORY / "tests"))) as shadow:
        train(dtype)
        findings = shadow.findings()
    assert findings.steps == 3
    assert not findings.worst, as_text(findings)
    assert len(findings.losses) == 3
    assert all(abs(real - wide) <= 0.02 * abs(wide) for real, wide in findings.losses)


def test_the_program_computes_what_it_computes_alone() -> None:
    train(torch.bfloat16)
    alone = torch.rand(1)
    with Shadow(UserFrames(str(REPOSITORY / "tests"))):
        train(torch.bfloat16)
        beside = torch.rand(1)
    assert torch.equal(alone, beside)


def test_shadows_follow_views_and_in_place_operations() -> None:
    storages = Storages()
    with ShadowMode(storages, ()):
        sums = torch.zeros(4, dtype=torch.bfloat16)
        window = sums[1:3]
        for _ in range(300):
            window += 1.0
        whole = sums.view(2, 2).t().contiguous()
    assert sums.tolist() == [0.0, 256.0, 256.0, 0.0]
    assert storages.shadow(sums).tolist() == [0.0, 300.0, 300.0, 0.0]
    assert storages.shadow(whole).tolist() == [[0.0, 300.0], [300.0, 0.0]]


def test_shadows_follow_complex_numbers() -> None:
    storages = Storages()
    with ShadowMode(storages, ()):
        pairs = torch.full((2, 2), 0.1, dtype=torch.float32)
        turned = torch.view_as_complex(pairs) * torch.polar(torch.ones(2), torch.full((2,), 0.5))
        back = torch.view_as_real(turned)
    assert storages.shadow(back).dtype == torch.float64
    assert torch.allclose(storages.shadow(back).float(), back)


def test_steps_of_stochastic_rounding_are_not_lost() -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64).to(torch.bfloat16)

    class Rounding(torch.optim.SGD):
        """Adds the update in float32 and rounds up or down by chance."""

        def step(self, closure: object = None) -> None:  # type: ignore[override]
            with torch.no_grad():
                for weight in model.parameters():
                    exact = weight.float() - 2e-5 * torch.sign(weight.grad.float())  # type: ignore[union-attr]
                    noise = torch.randint(0, 1 << 16, weight.shape, dtype=torch.int32)
                    bits = (exact.view(torch.int32) + noise) & -65536
                    weight.copy_(bits.view(torch.float32))

    optimizer = Rounding(model.parameters(), lr=1.0)
    with Shadow(UserFrames(str(REPOSITORY / "tests"))) as shadow:
        for _ in range(8):
            model(torch.randn(8, 64, dtype=torch.bfloat16)).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        findings = shadow.findings()
    assert Loss.UPDATES not in {place.loss for place in findings.worst}, as_text(findings)


class Kahan(torch.optim.Optimizer):
    """Steps by the sign of the gradient; ``keeps`` what rounding loses and adds it to the next step."""

    def __init__(self, parameters: Iterator[nn.Parameter], keeps: bool) -> None:
        super().__init__(parameters, {"keeps": keeps})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                lost = self.state[weight].setdefault("lost", torch.zeros_like(weight))
                update = -2e-5 * weight.grad.sign() + (lost if group["keeps"] else 0.0)
                before = weight.clone()
                weight.add_(update)
                lost.copy_(update - (weight - before))


@pytest.mark.parametrize("keeps", [True, False])
def test_updates_that_kahan_summation_keeps_are_not_lost(keeps: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64).to(torch.bfloat16)
    optimizer = Kahan(model.parameters(), keeps)
    with Shadow(UserFrames(str(REPOSITORY / "tests"))) as shadow:
        for _ in range(8):
            model(torch.ones(8, 64, dtype=torch.bfloat16)).float().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        findings = shadow.findings()
    assert (Loss.UPDATES in {place.loss for place in findings.worst}) is not keeps, as_text(findings)


def test_losses_are_told_as_they_were_before_they_were_scaled() -> None:
    model = nn.Linear(4, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with Shadow(UserFrames(str(REPOSITORY / "tests"))) as shadow:
        loss = model(torch.ones(2, 4)).square().mean()
        scaler.scale(loss).backward()
        findings = shadow.findings()
    assert findings.losses == ((pytest.approx(loss.item()), pytest.approx(loss.item(), rel=1e-5)),)
    assert torch.amp.GradScaler.scale.__name__ == "scale"


def test_reports_say_the_same() -> None:
    findings = shadowed(REPOSITORY / "fixtures" / "shadow" / "updates-lost" / "before.py")
    told = findings.as_json()
    assert json.loads(json.dumps(told)) == told
    assert Findings.of_json(told).worst == findings.worst
    assert told["worst"][0]["loss"] == "updates rounded away"
    assert {layer["name"] for layer in told["modules"]} >= {"Sequential", "Sequential.0"}
    assert as_text(Findings.of_json(told)) == as_text(findings)
    html = page(findings, "a <title>")
    assert "a &lt;title&gt;" in html
    assert "Sequential.0" in html
    assert "http" not in html


def test_rehearse_shadow_tells_the_worst_places(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "fixtures" / "shadow" / "updates-and-ema" / "before.py", tmp_path / "train.py")
    command = [
        sys.executable,
        "-m",
        "precfix.codemod",
        "rehearse",
        "--shadow-page",
        "shadow.html",
        "--save",
        "seen.json",
    ]
    command += ["--steps", "4", "--", python(), "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert "updates rounded away: Linear.bias and 1 more, train.py:16 [bfloat16]" in done.stdout
    assert "Linear" in (tmp_path / "shadow.html").read_text("utf-8")
    saved = json.loads((tmp_path / "seen.json").read_text("utf-8"))
    assert [place["loss"] for place in saved["shadow"]["worst"]] == ["updates rounded away", "accumulation stalls"]
