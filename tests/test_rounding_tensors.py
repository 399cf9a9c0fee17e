"""PF803 to PF805: angles, running sums and losses in 16 bits, measured with torch before and after the repair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from precfix.transforms.rounding.angles_in_16_bits import MEASURED, ROUNDED

from .rule_runs import findings, rule_of, written
from .test_rounding import function_of, repaired, text_of

torch: Any = pytest.importorskip("torch")


def test_a_rotary_table_in_bfloat16_is_wrong_and_repaired_is_not(tmp_path: Path) -> None:
    case = "angles-in-16-bits/table"
    before = table_error(function_of(text_of(case, "rotary.py"), "table"))
    project = repaired("angles_in_16_bits", case, tmp_path, "rotary.py")
    after = table_error(function_of(project, "table"))
    assert before > 0.05
    assert after < 0.005


def table_error(table: Any) -> float:
    """The mean absolute error of the cosine for 1,024 positions, after it is rounded to bfloat16."""
    cosine, _ = table(1024, 64)
    inverse = 1.0 / 10000 ** (torch.arange(0, 64, 2).double() / 64)
    truth = torch.outer(torch.arange(1024).double(), inverse).cos()
    assert cosine.dtype == torch.bfloat16
    return float((cosine.double() - truth).abs().mean())


def test_a_buffer_that_follows_the_model_makes_wrong_angles() -> None:
    names: dict[str, Any] = {}
    exec(compile(text_of("angles-in-16-bits/buffer"), "program", "exec"), names)
    rotary = names["Rotary"](64)
    right = rotary(torch.zeros(1, 1024))[0].double()
    wrong = rotary.to(torch.bfloat16)(torch.zeros(1, 1024))[0].double()
    assert float((right - wrong).abs().mean()) > 0.05


@pytest.mark.parametrize("name", ROUNDED)
def test_the_errors_that_messages_state(name: str) -> None:
    """The mean absolute error of the cosine over 2,048 positions, and where only the frequencies are rounded."""
    dtype, positions = getattr(torch, name), torch.arange(2048).double()
    inverse = 1.0 / 10000 ** (torch.arange(0, 128, 2).double() / 128)
    truth = torch.outer(positions, inverse).cos()
    few = inverse.float().to(dtype)
    all_in_16_bits = torch.outer(positions.to(dtype), few).double().cos()
    rounded = torch.outer(positions.float(), few.float()).cos().double()
    assert float((all_in_16_bits - truth).abs().mean()) == pytest.approx(float(MEASURED[name]), rel=0.15)
    assert float((rounded - truth).abs().mean()) == pytest.approx(float(ROUNDED[name]), rel=0.05)


def test_fsdp_casts_buffers_that_have_no_float32_copy() -> None:
    fsdp, distributed = pytest.importorskip("torch.distributed.fsdp"), torch.distributed
    names: dict[str, Any] = {}
    exec(compile(text_of("angles-in-16-bits/sharded-buffers", "rotary.py"), "program", "exec"), names)
    policy = function_of(text_of("angles-in-16-bits/sharded-buffers", "policies.py"), "halves")
    right = names["Rotary"](128)(torch.zeros(1, 1024, 64))[0].double()
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = fsdp.FullyShardedDataParallel(names["Net"](), mixed_precision=policy, device_id=torch.device("cpu"))
        model(torch.zeros(1, 1024, 64))
        wrong = model.module.rotary.inv_freq
    finally:
        distributed.destroy_process_group()
    assert wrong.dtype == torch.bfloat16
    angles = torch.outer(torch.arange(1024).float(), wrong.float())
    assert float((right.detach() - angles.cos().double()).abs().mean()) > 0.03


def test_no_region_raises_a_buffer_that_was_cast_with_its_model() -> None:
    names: dict[str, Any] = {}
    exec(compile(text_of("angles-in-16-bits/cast-with-the-model", "model.py"), "program", "exec"), names)
    right = names["Rotary"](64)(torch.zeros(1, 1024))[0].double()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wrong = names["Net"](64).bfloat16().rotary(torch.zeros(1, 1024))[0].double()
        kept = names["Rotary"](64)(torch.zeros(1, 1024))[0].double()
    assert float((right - wrong).abs().mean()) > 0.05
    assert torch.equal(right, kept)


def test_a_complex_table_that_is_cast_with_its_model_turns_nothing() -> None:
    names: dict[str, Any] = {}
    exec(compile(text_of("angles-in-16-bits/complex-table"), "program", "exec"), names)
    numbers = torch.view_as_complex(torch.rand(1024, 32, 2))
    right = numbers * names["Net"]().turns
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        wrong = numbers * names["Net"]().to(torch.bfloat16).turns
    kept = numbers * names["Net"]().bfloat16().turns
    assert float((right - wrong).norm() / right.norm()) > 0.5
    assert torch.equal(right, kept)


def test_autocast_of_the_cpu_leaves_einsum_alone() -> None:
    t, f = torch.arange(1024).float(), torch.rand(32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.einsum("i,j->ij", t, f).dtype == torch.float32


@pytest.mark.parametrize("product", ["t[:, None] @ f[None]", "torch.matmul(t[:, None], f[None])"])
def test_autocast_lowers_a_product_of_positions(product: str) -> None:
    t, f = torch.arange(1024).float(), torch.rand(32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = eval(product, {"torch": torch, "t": t, "f": f})
        kept = torch.outer(t, f)
    assert lowered.dtype == torch.bfloat16
    assert kept.dtype == torch.float32
    assert float((lowered.double().cos() - kept.double().cos()).abs().mean()) > 0.05


def test_a_running_sum_stops_in_bfloat16(tmp_path: Path) -> None:
    case = "sums-that-stop-growing/loss"
    fixed = repaired("sums_that_stop_growing", case, tmp_path)
    loader = [torch.ones(1, 4, dtype=torch.bfloat16)] * 2000
    before, after = summed(text_of(case), loader), summed(fixed, loader)
    assert before < 0.5 * after


def summed(source: str, loader: Any) -> float:
    torch.manual_seed(0)
    return float(function_of(source)(loader))


def test_a_counter_in_float16_stops_at_2048(tmp_path: Path) -> None:
    case = "sums-that-stop-growing/tensor"
    batches = [[0]] * 3000
    fixed = repaired("sums_that_stop_growing", case, tmp_path, "evaluate.py")
    assert float(function_of(text_of(case, "evaluate.py"), "evaluate")(batches)) == 2048
    assert float(function_of(fixed, "evaluate")(batches)) == 3000


def test_cross_entropy_in_bfloat16_is_quantized_and_repaired_is_not(tmp_path: Path) -> None:
    case = "loss-in-16-bits/finds"
    fixed = repaired("loss_in_16_bits", case, tmp_path)
    loader = [(torch.randn(8, 16, dtype=torch.bfloat16), torch.randint(0, 1000, (8,)))]
    torch.manual_seed(3)
    model = torch.nn.Linear(16, 1000).to(torch.bfloat16)
    logits = torch.nn.functional.linear(loader[0][0], model.weight, model.bias).double()
    truth = float(torch.nn.functional.cross_entropy(logits.detach(), loader[0][1]))
    assert abs(loss_of(text_of(case), loader) - truth) > 1e-3
    assert abs(loss_of(fixed, loader) - truth) < 1e-5


def test_a_loss_behind_the_region_of_its_logits_is_quantized_and_repaired_is_not(tmp_path: Path) -> None:
    case = "loss-in-16-bits/behind-a-region"
    errors = []
    for source in (text_of(case), repaired("loss_in_16_bits", case, tmp_path)):
        torch.manual_seed(0)
        loader = [(4 * torch.randn(64, 16), torch.randint(50_000, (64,)))]
        logits, labels, loss = next(iter(function_of(source)(loader)))
        errors.append(
            abs(float(loss.detach()) - float(torch.nn.functional.cross_entropy(logits.detach().double(), labels)))
        )
    assert errors[0] > 0.004
    assert errors[1] < 0.0001


def loss_of(source: str, loader: Any) -> float:
    torch.manual_seed(3)
    return float(function_of(source)(loader)[0][0])


CLASS = """
    import torch
    from torch import nn


    class Rotary(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.register_buffer("inv_freq", 1.0 / 10000 ** (torch.arange(0, width, 2).float() / width))

        def forward(self, x, {parameter}):
            freqs = {product}
            return freqs.cos(), freqs.sin()


    def train(loader):
        model = Rotary(64)
        for batch, where in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                cos, sin = model(batch, where)
            (cos.sum() + sin.sum()).backward()
"""
LOWERED = {
    "matmul of positions": ("position_ids", "self.inv_freq[None, :, None] @ position_ids[:, None, :].float()"),
    "matmul of timesteps": ("timesteps", "torch.matmul(timesteps[:, None].float(), self.inv_freq[None])"),
}


@pytest.mark.parametrize("name", LOWERED)
def test_products_inside_a_region_are_found(name: str, tmp_path: Path) -> None:
    parameter, product = LOWERED[name]
    project = written(tmp_path, {"train.py": CLASS.format(parameter=parameter, product=product)})
    (found,) = findings(rule_of("rounding.angles_in_16_bits"), project)
    assert "bfloat16" in found.message


KEPT = {
    "product of elements": ("position_ids", "self.inv_freq[None, :, None] * position_ids[:, None, :].float()"),
    "no position": ("x2", "torch.matmul(x2, self.weight)"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_autocast_leaves_alone_is_not_found(name: str, tmp_path: Path) -> None:
    parameter, product = KEPT[name]
    project = written(tmp_path, {"train.py": CLASS.format(parameter=parameter, product=product)})
    assert findings(rule_of("rounding.angles_in_16_bits"), project) == ()


def test_timesteps_that_a_caller_casts_are_off() -> None:
    """The embedding of 1,000 timesteps, as fixture cast-by-the-caller computes it."""
    steps = torch.arange(0, 1000).double()
    frequencies = torch.exp(-torch.arange(32).double() * (9.21 / 32))
    truth = (steps[:, None] * frequencies).cos()
    rounded = (steps.to(torch.bfloat16).float()[:, None] * frequencies.float()).cos().double()
    assert float((rounded - truth).abs().mean()) > 0.04
    assert torch.equal(steps.half().double(), steps)
