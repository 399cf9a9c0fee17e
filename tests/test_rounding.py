"""PF801 to PF809: what 16 bits round away, measured with torch before and after the repair."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from precfix.codemod.torch.dtypes import BF16, FP16
from precfix.transforms.rounding.grids import (
    is_average_lost,
    is_factor_lost,
    never_moves,
    share_moved,
    share_of_adapter_moved,
)
from precfix.transforms.rounding.optimizer_table import row_of_optimizer, rows, rows_of_trainer

from .fixture_cases import FIXTURES
from .rule_runs import migrated, rule_of, written

torch: Any = pytest.importorskip("torch")
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def text_of(case: str, name: str = "train.py") -> str:
    """A file of a fixture."""
    return (FIXTURES / "rules" / case / "input" / name).read_text("utf-8")


def repaired(module: str, case: str, folder: Path, name: str = "train.py") -> str:
    """A file of a fixture as the rule's fix leaves it."""
    project = written(folder, {name: text_of(case, name)})
    _, texts = migrated([rule_of(f"rounding.{module}")], project, unsafe=True)
    return texts[name]


def function_of(source: str, name: str = "train") -> Callable[..., Any]:
    """A function of a program."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program", "exec"), names)
    found: Callable[..., Any] = names[name]
    return found


# --- the arithmetic that messages rest on -----------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1.0, -4.0, 0.1, 3.0])
@pytest.mark.parametrize("kind", ["same", "noise", "growing"])
def test_a_constant_that_never_moves_stays_whatever_the_gradients_are(start: float, kind: str) -> None:
    rate = max(each * 1e-5 for each in range(1, 200) if never_moves(start, each * 1e-5, BF16))
    for step, moves in ((rate, False), (rate * 40, True)):
        parameter = torch.nn.Parameter(torch.full((64,), start, dtype=torch.bfloat16))
        before = parameter.detach().clone()
        optimizer = torch.optim.AdamW([parameter], lr=step)
        for index in range(200):
            size = {"same": 0.3, "noise": torch.randn(64), "growing": 1e-6 * 1.05**index}[kind]
            parameter.grad = (torch.ones(64) * size).bfloat16()
            optimizer.step()
        assert bool((parameter != before).any()) == moves


@pytest.mark.parametrize("dtype", [BF16, FP16])
@pytest.mark.parametrize("rate", [1e-3, 1e-4, 3e-5, 1e-5, 1e-6])
def test_the_share_of_moved_weights_is_what_adamw_moves(rate: float, dtype: Any) -> None:
    weights = (torch.randn(20_000) * 0.02).to(DTYPES[dtype.name])
    parameter = torch.nn.Parameter(weights.clone())
    parameter.grad = torch.randn(20_000).sign().to(weights.dtype)
    torch.optim.AdamW([parameter], lr=rate, weight_decay=0.0, eps=1e-4).step()
    moved = (parameter.detach() != weights).float().mean().item()
    assert moved == pytest.approx(share_moved(rate, dtype), abs=0.02)


def test_odd_rates_have_a_share() -> None:
    shares = [share_moved(rate, BF16) for rate in (-1.0, 0.0, 5e-324, 1.0, 1e308)]
    assert shares == pytest.approx([0.0, 0.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize("dtype", [BF16, FP16])
@pytest.mark.parametrize("rate", [1e-3, 1e-4, 5e-5, 1e-5, 1e-6])
def test_the_share_of_moved_adapters_is_what_adamw_moves(rate: float, dtype: Any) -> None:
    """LoRA's A as it starts, beside a layer of 1,024 inputs."""
    weights = torch.empty(16, 1024)
    torch.nn.init.kaiming_uniform_(weights, a=math.sqrt(5))
    parameter = torch.nn.Parameter(weights.to(DTYPES[dtype.name]))
    before = parameter.detach().clone()
    parameter.grad = torch.randn(16, 1024).sign().to(before.dtype)
    torch.optim.AdamW([parameter], lr=rate, weight_decay=0.0, eps=1e-4).step()
    moved = (parameter.detach() != before).float().mean().item()
    assert moved == pytest.approx(share_of_adapter_moved(rate, dtype), abs=0.03)


@pytest.mark.parametrize("rate", [1e-4, 1e-5])
def test_adapters_in_bfloat16_stay_behind_those_in_float32(rate: float) -> None:
    way = adapter_after(torch.float32, rate)
    share = float((adapter_after(torch.bfloat16, rate) * way).sum() / way.square().sum())
    assert share < 1 / 3


def adapter_after(dtype: Any, rate: float) -> Any:
    """What LoRA's A and B add to a layer after 1,000 steps along gradients that are half drift and half noise."""
    torch.manual_seed(0)
    first = ((torch.rand(8, 128) * 2 - 1) / 32).to(dtype).requires_grad_()
    second = torch.zeros(128, 8, dtype=dtype, requires_grad=True)
    drift = torch.randn(128, 128)
    optimizer = torch.optim.AdamW([first, second], lr=rate, weight_decay=0.0)
    for _ in range(1000):
        gradient = (drift + torch.randn(128, 128)) / 128
        first.grad = (second.detach().float().T @ gradient).to(dtype)
        second.grad = (gradient @ first.detach().float().T).to(dtype)
        optimizer.step()
    return second.detach().double() @ first.detach().double()


@pytest.mark.parametrize(("dtype", "lost"), [(BF16, 0.001), (FP16, 0.0002)])
def test_a_lost_factor_changes_no_weight(dtype: Any, lost: float) -> None:
    weights = (torch.randn(20_000) * 0.02).to(DTYPES[dtype.name])
    assert is_factor_lost(lost, dtype)
    assert torch.equal(weights * (1 - lost), weights)
    assert not is_factor_lost(0.01, dtype)
    assert not torch.equal(weights * 0.99, weights)


@pytest.mark.parametrize(("dtype", "decay"), [(BF16, 0.99), (BF16, 0.999), (FP16, 0.999), (FP16, 0.9999)])
def test_a_lost_average_never_moves(dtype: Any, decay: float) -> None:
    assert is_average_lost(decay, dtype)
    assert gap_closed(DTYPES[dtype.name], decay) < 0.1
    assert gap_closed(torch.float32, decay) > 0.98


@pytest.mark.parametrize(("dtype", "decay"), [(BF16, 0.9), (FP16, 0.9)])
def test_other_averages_move(dtype: Any, decay: float) -> None:
    assert not is_average_lost(decay, dtype)
    assert gap_closed(DTYPES[dtype.name], decay) > 0.5


def gap_closed(dtype: Any, decay: float) -> float:
    """The share of a gap of 10 % that an average closes in 5 / (1 - decay) steps."""
    goal = (torch.randn(500) * 0.02).to(dtype)
    start = (goal.float() * 1.1).to(dtype)
    average = start.clone()
    for _ in range(min(round(5 / (1 - decay)), 50_000)):
        average.mul_(decay).add_(goal, alpha=1 - decay)
    left = (average.double() - goal.double()).abs().sum() / (start.double() - goal.double()).abs().sum()
    return 1 - float(left)


# --- programs before and after ----------------------------------------------------------------------------------------


def test_updates_are_lost_in_16_bit_weights_and_not_under_autocast() -> None:
    source = text_of("updates-lost-in-16-bit-weights/own-loop")
    mixed = source.replace(".to(torch.bfloat16)", "").replace("dtype=torch.bfloat16", "").replace("8, 64, ", "8, 64")
    before, after = moved_by(source), moved_by(mixed)
    assert before < 0.7
    assert after > 0.99


def moved_by(source: str) -> float:
    names: dict[str, Any] = {}
    exec(compile(source, "program", "exec"), names)
    return float((names["model"].weight != names["before"]).float().mean())


@pytest.mark.parametrize(("dtype", "least", "most"), [("bfloat16", 0.0, 0.5), ("float32", 0.95, 1.0)])
def test_a_trainer_of_transformers_steps_the_weights_as_they_are(
    tmp_path: Path, dtype: str, least: float, most: float
) -> None:
    """``bf16=True`` opens a region and casts no weight."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).to(DTYPES.get(dtype, torch.float32))
    before = model.transformer.wte.weight.detach().clone()
    settings = {"max_steps": 1, "report_to": [], "save_strategy": "no", "lr_scheduler_type": "constant"}
    arguments = transformers.TrainingArguments(str(tmp_path), learning_rate=1e-5, bf16=True, use_cpu=True, **settings)
    rows = [{"input_ids": torch.arange(64)[:16], "labels": torch.arange(64)[:16]}] * 8
    transformers.Trainer(model=model, args=arguments, train_dataset=rows).train()
    moved = float((model.transformer.wte.weight.detach() != before).float().mean())
    assert least <= moved <= most


CASTS = {
    "by_parameters": "part-by-part",
    "by_apply": "part-by-part",
    "like_another": "part-by-part",
    "by_default": "default-dtype",
    "by_a_table": "picked-optimizer",
    "by_name": "picked-optimizer",
}


@pytest.mark.parametrize("name", CASTS)
def test_a_step_moves_few_weights_however_they_became_bfloat16(name: str) -> None:
    made = function_of(text_of(f"updates-lost-in-16-bit-weights/{CASTS[name]}"), name)()
    optimizer = made[0] if isinstance(made, tuple) else made
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    before = torch.cat([weight.detach().flatten() for weight in weights])
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    after = torch.cat([weight.detach().flatten() for weight in weights])
    assert after.dtype == torch.bfloat16
    assert float((after != before).float().mean()) < 0.5


@pytest.mark.parametrize(
    ("case", "name", "least", "most"),
    [
        ("scheduled", "lowered", 0.0, 0.5),
        ("scheduled", "raised", 0.0, 0.5),
        ("silent-scheduled", "one_cycle", 0.9, 1.0),
    ],
)
def test_a_step_is_as_large_as_the_peak_of_a_schedule_allows(case: str, name: str, least: float, most: float) -> None:
    train = function_of(text_of(f"updates-lost-in-16-bit-weights/{case}"), name)
    assert least <= train(torch.randn(128, 128).split(16)) <= most


@pytest.mark.parametrize("name", ["by_state", "by_list", "by_target"])
def test_averages_of_states_lists_and_targets_stay(name: str) -> None:
    loader = [torch.randn(4, 8, dtype=torch.bfloat16)] * 20
    torch.manual_seed(1)
    start = torch.nn.Linear(8, 8).to(torch.bfloat16).weight.detach()
    torch.manual_seed(1)
    average, model = function_of(text_of("average-in-16-bits/states"), name)(loader)
    assert float((model.weight.detach() - start).abs().mean()) > 0.001
    assert float((average.detach() != start).float().mean()) < 0.3


def test_a_block_with_another_default_dtype_makes_16_bit_weights() -> None:
    loader, case = torch.randn(64, 64).split(16), "default-dtype"
    lost = function_of(text_of(f"updates-lost-in-16-bit-weights/{case}", "entered.py"), "by_a_function")(loader)
    kept = function_of(text_of(f"updates-lost-in-16-bit-weights/silent-{case}", "entered.py"), "only_a_table")(loader)
    assert lost < 0.5 < 0.9 < kept


def test_an_average_in_float16_stands_still_once_its_decay_has_risen() -> None:
    goal = torch.nn.Linear(64, 64).weight.detach() * 1.5
    stays, follows = (
        function_of(text_of(f"average-in-16-bits/{case}"))(goal.half(), 40_000).weight.detach().float()
        for case in ("ramp", "silent-ramp")
    )
    assert float((follows - goal).abs().mean()) < 0.2 * float((stays - goal).abs().mean())


def test_an_average_by_two_statements_stays() -> None:
    goal, average = function_of(text_of("average-in-16-bits/own-class", "in_place.py"), "in_place")()
    assert float((average.detach() * 1.1 - goal.detach()).abs().mean()) < 0.001
    assert float((average.detach() - goal.detach()).abs().mean()) > 0.003


def test_an_average_in_bfloat16_stays_and_in_float32_follows(tmp_path: Path) -> None:
    source = text_of("average-in-16-bits/copy").replace("0.9999", "0.999")
    fixed = repaired("average_in_16_bits", "average-in-16-bits/copy", tmp_path).replace("0.9999", "0.999")
    loader = [torch.randn(16, 64, dtype=torch.bfloat16) for _ in range(100)]
    assert share_that_followed(function_of(source), loader) < 0.15
    assert share_that_followed(function_of(fixed), loader) > 0.9


def share_that_followed(train: Callable[..., Any], loader: Any) -> float:
    """The share of weights whose average has left the place where it was made."""
    torch.manual_seed(1)
    start = torch.nn.Linear(64, 64).to(torch.bfloat16).weight.detach().double()
    torch.manual_seed(1)
    return float((train(loader).weight.detach().double() != start).double().mean())


def test_batch_norm_statistics_arrive_in_float32_only(tmp_path: Path) -> None:
    case = "batch-norm-statistics-in-16-bits/finds"
    assert statistics_error(function_of(text_of(case))) > 0.05
    assert statistics_error(function_of(repaired("batch_norm_statistics_in_16_bits", case, tmp_path))) < 0.02


def statistics_error(train: Callable[..., Any]) -> float:
    """How far the running variance of the first batch norm is from that of its batches, which are all the same."""
    torch.manual_seed(0)
    images = torch.randn(16, 8, 4, 4) * 2
    model = train([(images, torch.zeros(16, dtype=torch.int64))] * 500)
    with torch.no_grad():
        seen = model.blocks[0].conv(images.bfloat16()).float().var((0, 2, 3))
    return float((model.blocks[0].norm.running_var.float() / seen - 1).abs().mean())


def test_weight_decay_does_nothing_to_bfloat16_weights() -> None:
    assert decayed(torch.bfloat16) == 0.0
    assert decayed(torch.float32) == pytest.approx(0.01, rel=0.05)


def decayed(dtype: Any) -> float:
    weight = torch.nn.Parameter(torch.randn(1000).to(dtype))
    first = weight.detach().double().abs().sum()
    optimizer = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.1)
    for _ in range(100):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    return float(1 - weight.detach().double().abs().sum() / first)


@pytest.mark.parametrize(("count", "least"), [(64, 0.004), (512, 0.012)])
def test_accumulated_gradients_lose_more_the_longer_they_are_summed(count: int, least: float) -> None:
    assert accumulation_error(torch.bfloat16, count) > least
    assert accumulation_error(torch.float32, count) < 1e-5


def accumulation_error(dtype: Any, count: int) -> float:
    weight = torch.nn.Parameter(torch.zeros(2000, dtype=dtype))
    truth = torch.zeros(2000, dtype=torch.float64)
    for _ in range(count):
        gradient = torch.randn(2000).to(dtype)
        (weight * gradient).sum().backward()
        truth += gradient.double()
    assert weight.grad is not None
    return float((weight.grad.double() - truth).norm() / truth.norm())


WHOLE_LOOP = """
import torch


def train(inputs, targets, steps):
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs).float(), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
"""


def test_a_region_goes_on_with_the_weights_of_before_the_step(tmp_path: Path) -> None:
    project = written(tmp_path, {"train.py": WHOLE_LOOP})
    _, texts = migrated([rule_of("rounding.step_inside_autocast")], project, unsafe=True)
    inputs = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    targets = inputs.sum(1, keepdim=True)
    before = function_of(WHOLE_LOOP)(inputs, targets, 20)
    after = function_of(texts["train.py"])(inputs, targets, 20)
    assert before[-1] == before[0]
    assert after[-1] < 0.9 * after[0]


# --- the table of optimizers ------------------------------------------------------------------------------------------


def test_every_row_says_what_is_kept_and_where_that_is_written() -> None:
    assert len(rows()) >= 20
    for row in rows():
        assert row.keeps in ("nothing", "master", "stochastic", "kahan")
        assert row.source.startswith(("pypi:", "github:"))
        assert row.names


def test_optimizers_of_torch_in_the_table_exist_and_round_as_it_says() -> None:
    for row in rows():
        for name in row.names:
            if name.startswith("torch.optim.") and name.count(".") == 2:
                assert hasattr(torch.optim, name.rpartition(".")[2]), name
    adam = row_of_optimizer("torch.optim.AdamW")
    assert adam is not None
    assert adam.by_lr


def test_an_optimizer_is_known_by_the_package_it_comes_from() -> None:
    known = row_of_optimizer("bitsandbytes.optim.adamw.AdamW8bit")
    assert known is not None
    assert known.keeps == "nothing"
    assert row_of_optimizer("mine.AdamW") is None
    assert row_of_optimizer("torch.nn.AdamW") is None


def test_what_transformers_rounds_away_is_a_row_of_its_own() -> None:
    kept = {name: row.keeps for row in rows_of_trainer("hf_trainer", "optim") for name in row.names}
    assert kept["adamw_torch"] == "nothing"
    assert kept["adamw_anyprecision"] == "kahan"
    assert kept["stable_adamw"] == "kahan"


def test_optimizers_of_other_packages_are_known() -> None:
    kept = {name: row_of_optimizer(name) for name in ("lion_pytorch.Lion", "pytorch_optimizer.StableAdamW")}
    assert [row.keeps for row in kept.values() if row is not None] == ["nothing", "kahan"]
