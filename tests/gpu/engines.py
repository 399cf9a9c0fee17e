"""What rules and tables say of DeepSpeed, FSDP, DDP and trainers, as expectations, with one process and one rank.

``python -m tests.gpu.engines OUT.jsonl [DEVICE] [WORD...]``; DeepSpeed may be an install without its own kernels.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import Any

import torch
from torch import nn

from .expecting import Expectations

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
D = sys.argv[2] if __name__ == "__main__" and len(sys.argv) > 2 else "cuda"
RANKS = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
ON, OFF = {"enabled": True}, {"enabled": False}
STAGES = (0, 1, 2, 3)
expect = Expectations()


def randn(*size: int, dtype: Any = FP32) -> torch.Tensor:
    return torch.randn(*size, device=D, dtype=dtype)


def net_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 1))


def engine_of(stage: int = 0, lr: float = 1e-3, sgd: bool = False, net: nn.Module | None = None, **config: Any) -> Any:
    import deepspeed

    net = net or net_of()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr) if sgd else torch.optim.AdamW(net.parameters(), lr=lr)
    base = {
        "train_micro_batch_size_per_gpu": 4,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    zero = config.pop("zero_optimization", {"stage": stage})
    return deepspeed.initialize(model=net, optimizer=optimizer, config={**base, "zero_optimization": zero, **config})[0]


def loss_of(engine: Any, dtype: Any = None) -> torch.Tensor:
    torch.manual_seed(1)
    return engine(randn(4, 8, dtype=dtype or next(engine.parameters()).dtype)).float().pow(2).mean()


def trained(engine: Any, steps: int = 2, dtype: Any = None) -> str:
    for _ in range(steps):
        loss = loss_of(engine, dtype)
        engine.backward(loss)
        engine.step()
    weights = {str(p.dtype) for p in engine.parameters()}
    return f"weights {sorted(weights)} loss {loss.item():.4f}"


# --- DeepSpeed: the configuration

expect("PF502 ds-both", "fp16 and bf16 enabled", "bfloat16 and fp16 modes cannot be simultaneously enabled")(
    lambda: engine_of(fp16=ON, bf16=ON)
)
expect("deepspeed.yaml", "auto outside of a trainer is left out: float32", r"^weights \['torch.float32'\]")(
    lambda: trained(engine_of(bf16={"enabled": "auto"}))
)
for section in ({"enabled": True, "loss_scale": 0}, {"enabled": False, "loss_scale_window": 1000, "hysteresis": 2}):
    expect("PF502 ds-bf16-loss-scale", f"bf16: {section}", "ValidationError.*Extra inputs are not permitted")(
        lambda section=section: engine_of(bf16=section)
    )
for name, section in (
    ("fp16", {"enabled": False, "opt_level": "O1"}),
    ("bf16", {"enable": True}),
    ("fp16", {"enbale": True}),
):
    expect("PF502, PF406", f"{name}: {section}", "Extra inputs are not permitted")(
        lambda name=name, section=section: engine_of(**{name: section})
    )
for name in ("fp_16", "FP16", "bf_16"):
    expect("PF406", f"a section {name} is not read", r"^weights \['torch.float32'\]")(
        lambda name=name: trained(engine_of(**{name: ON}))
    )
expect("deepspeed.yaml", "a section bfloat16 is read", r"^weights \['torch.bfloat16'\]")(
    lambda: trained(engine_of(bfloat16=ON))
)
for name in ("bfloat16", "float16", "torch.bfloat16"):
    expect("PF502 ds-comm-dtype-name", f"communication_data_type {name}", "Invalid communication_data_type")(
        lambda name=name: engine_of(bf16=ON, communication_data_type=name)
    )
expect("PF502 ds-comm-dtype-name", "seq_parallel_communication_data_type bfloat16", "Invalid communication_data_type")(
    lambda: trained(engine_of(bf16=ON, seq_parallel_communication_data_type="bfloat16"))
)
for name in ("bf16", "fp16", "fp32"):
    expect("deepspeed.yaml", f"communication_data_type {name} beside bf16", r"^weights \['torch.bfloat16'\]")(
        lambda name=name: trained(engine_of(2, bf16=ON, communication_data_type=name))
    )
for beside in ({"fp16": ON}, {"bf16": ON}, {"zero_optimization": {"stage": 1}}):
    expect(
        "PF502 ds-amp-plus",
        f"amp beside {beside}",
        "NotImplementedError|AssertionError|Apex AMP integration has been removed",
    )(lambda beside=beside: engine_of(amp={"enabled": True, "opt_level": "O1"}, **beside))
for half, dtype in (("bf16", "fp32"), ("bf16", "fp16"), ("fp16", "bf16"), ("fp16", "fp32")):
    expect("PF502 ds-param-dtype", f"{half} with param_dtype {dtype}", "AssertionError")(
        lambda half=half, dtype=dtype: engine_of(**{half: ON}, data_types={"param_dtype": dtype})
    )
for half, dtype, pattern in (
    ("fp16", "fp32", "unsupported mix of model_dtype"),
    ("fp16", "bf16", "unsupported mix of model_dtype"),
    ("bf16", "fp16", "unsupported mix of model_dtype"),
    ("bf16", "bf16", "^weights"),
    ("fp16", "fp16", "^weights"),
    ("bf16", "fp32", "unsupported mix of model_dtype"),
):
    expect("PF502 ds-grad-accum-mix", f"stage 0: {half} with grad_accum_dtype {dtype}", pattern)(
        lambda half=half, dtype=dtype: trained(engine_of(**{half: ON}, data_types={"grad_accum_dtype": dtype}))
    )
for stage in (1, 2, 3):
    for half, dtype in (("fp16", "fp32"), ("bf16", "fp32"), ("bf16", "fp16")):
        expect("PF502 ds-grad-accum-mix", f"stage {stage}: {half} with grad_accum_dtype {dtype}: no error", "^weights")(
            lambda stage=stage, half=half, dtype=dtype: trained(
                engine_of(stage, **{half: ON}, data_types={"grad_accum_dtype": dtype})
            )
        )
expect("deepspeed.yaml", "buffer_dtype without param_dtype", r"^torch.float16$")(
    lambda: (
        engine_of(
            bf16=ON,
            data_types={"buffer_dtype": "fp16"},
            net=nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)),
        )
        .module[1]
        .running_mean
    )
)

# --- DeepSpeed: the run

for stage in STAGES:
    for half, dtype in (("bf16", BF16), ("fp16", FP16)):
        expect(
            "PF202, PF204", f"stage {stage}: float32 into an engine in {half}", "mat1 and mat2 must have the same dtype"
        )(lambda stage=stage, half=half: trained(engine_of(stage, **{half: ON}), dtype=FP32))
        expect("deepspeed.yaml", f"stage {stage}: {half} weights", rf"^weights \['{dtype}'\] loss \d")(
            lambda stage=stage, half=half: trained(engine_of(stage, **{half: ON}))
        )
    expect("deepspeed.yaml", f"stage {stage}: float32", r"^weights \['torch.float32'\]")(
        lambda stage=stage: trained(engine_of(stage))
    )
expect("deepspeed.yaml", "fp16.auto_cast: float32 into an engine in fp16", r"^weights \['torch.float16'\]")(
    lambda: trained(engine_of(fp16={"enabled": True, "auto_cast": True}), dtype=FP32)
)


def way(stage: int, half: str, plain: bool = False, **section: Any) -> float:
    """How far one step of SGD moves the weights."""
    engine = engine_of(stage, lr=1.0, sgd=True, **{half: {"enabled": True, **section}})
    before = [p.detach().float().clone() for p in engine.parameters()]
    loss = loss_of(engine) * 0.1
    loss.backward() if plain else engine.backward(loss)
    engine.step()
    return sum(float((p.detach().float() - b).norm()) for p, b in zip(engine.parameters(), before, strict=True))


for stage in (1, 2, 3):
    expect(
        "PF108", f"stage {stage}: loss.backward() of an fp16 engine", "Loss scaling is required for this configuration"
    )(lambda stage=stage: way(stage, "fp16", True, initial_scale_power=8))
for half in ("fp16", "bf16"):
    expect(
        "PF108",
        f"stage 0: loss.backward() of an engine in {half}",
        r"Direct calls to tensor.backward\(\) are not supported",
    )(lambda half=half: way(0, half, True))
for stage in (1, 2):
    expect("PF108", f"stage {stage}: loss.backward() of an engine in bf16 is its engine.backward(loss)", r"^1\.0")(
        lambda stage=stage: f"{way(stage, 'bf16', True) / way(stage, 'bf16'):.4f}"
    )
for power in (0, 4, 8):
    expect(
        "PF502 ds-fp16-without-zero",
        f"stage 0 in fp16 divides by a scale of 2^{power} that it never multiplied with",
        rf"^{2.0**-power:.2f}",
    )(
        lambda power=power: (
            f"{way(0, 'fp16', initial_scale_power=power) / way(1, 'fp16', initial_scale_power=power):.4f}"
        )
    )
expect("PF502 ds-fp16-without-zero", "stage 0 in fp16, a fixed scale of 128", r"^0\.007|0\.008")(
    lambda: f"{way(0, 'fp16', loss_scale=128) / way(1, 'fp16', loss_scale=128):.4f}"
)
expect("PF502 ds-fp16-without-zero", "stage 0 in bf16 does not", r"^1\.0|0\.99")(
    lambda: f"{way(0, 'bf16') / way(1, 'bf16'):.4f}"
)
expect("PF102", "stages 0 to 2 in fp16: gradients of 1e-9 are kept (stage 0: lost)", r"^\[True, False, False\]$")(
    lambda: [_tiny(stage) for stage in STAGES[:3]]
)


def _tiny(stage: int) -> bool:
    """Whether gradients of about 1e-9 are lost."""
    engine = engine_of(stage, lr=1e6, sgd=True, fp16={"enabled": True, "initial_scale_power": 16})
    before = [p.detach().float().clone() for p in engine.parameters()]
    engine.backward(loss_of(engine) * 1e-9)
    engine.step()
    return not any(bool((p.detach().float() != b).any()) for p, b in zip(engine.parameters(), before, strict=True))


def clipped(stage: int, half: str) -> str:
    """A norm of the engine's own parameters, behind its backward pass."""
    engine = engine_of(stage, **{half: ON})
    engine.backward(loss_of(engine))
    grads = {str(None if p.grad is None else p.grad.dtype) for p in engine.parameters()}
    if stage == 3:
        return f"grads {sorted(grads)}"
    norm = float(nn.utils.clip_grad_norm_(engine.parameters(), 1e-9))
    before = [p.detach().clone() for p in engine.parameters()]
    engine.step()
    moved = any(bool((p != b).any()) for p, b in zip(engine.parameters(), before, strict=True))
    return f"grads {sorted(grads)} norm {norm:.4g} moved {moved}"


for stage in STAGES:
    expect(
        "PF103",
        f"stage {stage}: a clip beside the engine in bf16",
        r"^grads \['None'\]" if stage else r"^grads \['torch.bfloat16'\] norm [1-9]",
    )(lambda stage=stage: clipped(stage, "bf16"))
    expect(
        "PF103",
        f"stage {stage}: a clip beside the engine in fp16",
        r"^grads \['None'\]" if stage else r"^grads \['torch.float16'\] norm [1-9]",
    )(lambda stage=stage: clipped(stage, "fp16"))


def with_scaler(stage: int, half: str) -> str:
    engine, scaler = engine_of(stage, **{half: ON}), torch.amp.GradScaler(D)
    loss = scaler.scale(loss_of(engine) * 0.01)
    engine.backward(loss)
    scaler.step(engine.optimizer)
    scaler.update()
    return f"scale {scaler.get_scale()}"


for stage in (0, 1):
    for half in ("bf16", "fp16"):
        expect("PF101", f"stage {stage}: a GradScaler by hand around the optimizer of an engine in {half}", "Error")(
            lambda stage=stage, half=half: with_scaler(stage, half)
        )


def under(stage: int, dtype: Any, **config: Any) -> str:
    engine, seen = engine_of(stage, **config), []
    engine.module[0].register_forward_hook(lambda _, __, out: seen.append(f"{out.dtype}"))
    torch.manual_seed(1)
    with torch.autocast(D, dtype=dtype):
        loss = engine(randn(4, 8)).float().pow(2).mean()
    engine.backward(loss)
    engine.step()
    return f"computed {seen[0]} weights {next(engine.parameters()).dtype}"


for stage in (0, 2):
    expect(
        "PF302",
        f"stage {stage}: autocast around an engine in bf16 is switched off inside: float32 input is refused",
        "mat1 and mat2 must have the same dtype",
    )(lambda stage=stage: under(stage, FP16, bf16=ON))
    expect(
        "deepspeed.yaml",
        f"stage {stage}: autocast around an engine in float32 is switched off inside",
        "^computed torch.float32",
    )(lambda stage=stage: under(stage, BF16))


def own_region(stage: int, dtype: str, **config: Any) -> str:
    engine, seen = engine_of(stage, torch_autocast={"enabled": True, "dtype": dtype}, **config), []
    engine.module[0].register_forward_hook(lambda _, __, out: seen.append(f"{out.dtype}"))
    for _ in range(2):
        loss = loss_of(engine, FP32)
        engine.backward(loss)
        engine.step()
    scaler = getattr(engine, "torch_autocast_z0_gradscaler", None) is not None
    return f"computed {seen[0]} weights {next(engine.parameters()).dtype} scaler {scaler}"


def states(stage: int, **section: Any) -> str:
    """Steps of 1e-6 that bfloat16 alone would lose: are they kept?"""
    engine = engine_of(stage, lr=1e-6, bf16={"enabled": True, **section})
    start = [p.detach().float().clone() for p in engine.parameters()]
    for _ in range(200):
        engine.backward(loss_of(engine))
        engine.step()
    moved = sum(float((p.detach().float() != b).float().sum()) for p, b in zip(engine.parameters(), start, strict=True))
    total = sum(p.numel() for p in engine.parameters())
    kept = {str(p.dtype) for g in engine.optimizer.optimizer.param_groups for p in g["params"]}
    return f"optimizer steps {sorted(kept)} moved {moved / max(total, 1):.2f}"


for stage in (0, 1, 2):
    expect(
        "PF801", f"stage {stage}: bf16 keeps float32 weights for its optimizer", r"^optimizer steps \['torch.float32'\]"
    )(lambda stage=stage: states(stage))
for stage in (1, 2):
    expect(
        "PF801",
        f"stage {stage}: bf16_master_weights_and_grads is for offload",
        "requires ZeRO-. Offload with DeepSpeedCPUAdam",
    )(lambda stage=stage: states(stage, bf16_master_weights_and_grads=True))


def overflow(stage: int) -> str:
    """What the log says of a skipped step; and what the catalog knows of it."""
    from deepspeed.utils import logger

    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    ear = Ear()
    logger.addHandler(ear)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        engine = engine_of(stage, fp16={"enabled": True, "initial_scale_power": 16, "hysteresis": 1})
        for _ in range(3):
            engine.backward(loss_of(engine) * 1e3)
            engine.step()
    finally:
        logger.removeHandler(ear)
        logger.setLevel(level)
    told = [each for each in heard if "verflow" in each.lower() or "scale" in each.lower()]
    return f"{told[-3:]} skipped {engine.skipped_steps}"


for stage in (1, 3):
    expect("explain", f"stage {stage}: the log of an overflow", "[Oo][Vv][Ee][Rr][Ff][Ll][Oo][Ww]")(
        lambda stage=stage: overflow(stage)
    )
for stage in (0, 1, 3):
    for dtype in ("bfloat16", "float16"):
        expect(
            "deepspeed.yaml",
            f"stage {stage}: torch_autocast {dtype} over float32 weights",
            rf"^computed torch.{dtype} weights torch.float32",
        )(lambda stage=stage, dtype=dtype: own_region(stage, dtype))
expect("deepspeed.yaml", "torch_autocast beside bf16", "Error|^computed")(lambda: own_region(1, "bfloat16", bf16=ON))


def by_accelerate(precision: str, config: dict[str, Any]) -> str:
    from accelerate import Accelerator, DeepSpeedPlugin
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)
    plugin = DeepSpeedPlugin(
        hf_ds_config={"train_micro_batch_size_per_gpu": 4, "zero_allow_untested_optimizer": True, **config}
    )
    accelerator = Accelerator(mixed_precision=precision, deepspeed_plugin=plugin)
    net = net_of()
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-3))
    loss = net(randn(4, 8)).float().pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    return f"weights {next(net.parameters()).dtype}"


ZERO1 = {"zero_optimization": {"stage": 1}}
for precision, config, pattern in (
    ("bf16", {"bf16": {"enabled": "auto"}, **ZERO1}, "weights torch.bfloat16|same dtype"),
    ("fp16", {"fp16": {"enabled": "auto"}, **ZERO1}, "weights torch.float16|same dtype"),
    ("bf16", {"fp16": ON, **ZERO1}, "mixed_precision.*arg cannot be set to"),
    ("fp16", {"bf16": ON, **ZERO1}, "mixed_precision.*arg cannot be set to"),
):
    expect("accelerate.yaml", f"Accelerator {precision} with DeepSpeed {config}", pattern)(
        lambda precision=precision, config=config: by_accelerate(precision, config)
    )


def by_trainer(config: dict[str, Any], **options: Any) -> str:
    from accelerate.state import AcceleratorState
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    AcceleratorState._reset_state(True)
    shape = {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    rows = [{"input_ids": torch.randint(3, 60, (8,)), "labels": torch.tensor(n % 2)} for n in range(16)]
    base = {"train_micro_batch_size_per_gpu": "auto", "zero_allow_untested_optimizer": True, **config}
    arguments = TrainingArguments(
        "/tmp/precfix-trainer",
        max_steps=2,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        **({"deepspeed": base} if config else {}),
        **options,
    )
    load = options.pop("load", None)
    model = BertForSequenceClassification(BertConfig(**shape))
    trainer = Trainer(model.to(load) if load else model, arguments, train_dataset=rows)
    trainer.train()
    return f"weights {next(trainer.model.parameters()).dtype}"


AUTO = {"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, **ZERO1}
for options, config, pattern in (
    ({"bf16": True}, AUTO, "weights torch.bfloat16"),
    ({"fp16": True}, AUTO, "weights torch.float16"),
    ({}, AUTO, "weights torch.float32"),
    (
        {"bf16": True},
        {"fp16": ON, **ZERO1},
        "arg cannot be set to `bf16` when `fp16` is set in the DeepSpeed config file",
    ),
    ({}, {"fp16": ON, **ZERO1}, "Please correct the following DeepSpeed config values that mismatch TrainingArguments"),
):
    expect("PF502 hf-deepspeed-mismatch", f"Trainer {options} with DeepSpeed {config}", pattern)(
        lambda options=options, config=config: by_trainer(config, **options)
    )


def by_trainer_with(dtype: Any, **options: Any) -> str:
    from accelerate.state import AcceleratorState
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    for name in [key for key in os.environ if key.startswith("ACCELERATE_")]:
        del os.environ[name]
    AcceleratorState._reset_state(True)
    shape = {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    rows = [{"input_ids": torch.randint(3, 60, (8,)), "labels": torch.tensor(n % 2)} for n in range(16)]
    arguments = TrainingArguments(
        "/tmp/precfix-trainer",
        max_steps=2,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        **options,
    )
    trainer = Trainer(BertForSequenceClassification(BertConfig(**shape)).to(dtype), arguments, train_dataset=rows)
    trainer.train()
    return f"weights {next(trainer.model.parameters()).dtype}"


for dtype, options, pattern in (
    (FP16, {"bf16": True}, "weights torch.float16"),
    (BF16, {"fp16": True}, "_amp_foreach_non_finite_check_and_unscale_cuda.* not implemented for 'BFloat16'"),
    (FP16, {"fp16": True}, "Attempting to unscale FP16 gradients"),
    (BF16, {"bf16": True}, "weights torch.bfloat16"),
):
    expect("PF403", f"{dtype} weights under TrainingArguments({options})", pattern)(
        lambda dtype=dtype, options=options: by_trainer_with(dtype, **options)
    )


@expect(
    "PF108",
    "a scaler by hand that steps what accelerate prepared in float16",
    "AssertionError: Attempted step but _scale is None",
)
def _() -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)
    accelerator, net = Accelerator(mixed_precision="fp16"), net_of()
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters()))
    scaler = torch.amp.GradScaler(D)
    scaler.scale(net(randn(4, 8)).float().mean()).backward()
    scaler.step(optimizer)


@expect("PF302", "torch.autocast('cuda') under Accelerator(bf16) is float16", "^torch.float16$")
def _() -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)
    accelerator, net = Accelerator(mixed_precision="bf16"), nn.Linear(8, 8)
    net = accelerator.prepare(net)
    with torch.autocast(D):
        return randn(2, 2) @ randn(2, 2)


@expect(
    "PF305",
    "a method beside forward of what Accelerator(bf16) prepared is float32",
    r"^\(torch.float32, torch.float32\)$",
)
def _() -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = nn.Linear(8, 8), FP16

        def extract(self, x: Any) -> Any:
            return self.layer(x)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    AcceleratorState._reset_state(True)
    net = Accelerator(mixed_precision="bf16").prepare(Net())
    return net.extract(randn(2, 8)).dtype, net(randn(2, 8)).dtype


# --- FSDP and DDP


def fsdp1(net: nn.Module | None = None, **policy: Any) -> Any:
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

    options = {"mixed_precision": MixedPrecision(**policy)} if policy else {}
    return FullyShardedDataParallel((net or net_of()).to(D), device_id=0 if D == "cuda" else None, **options)  # type: ignore[arg-type]


def fsdp2(net: nn.Module | None = None, policy: Any = None, **options: Any) -> Any:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    net = (net or net_of()).to(D)
    return fully_shard(net, mp_policy=policy or MixedPrecisionPolicy(**options))


def grown(net: Any, factor: float = 1.0, scaler: Any = None) -> str:
    seen: list[str] = []
    layer = next(each for each in net.modules() if isinstance(each, nn.Linear))
    layer.register_forward_hook(lambda _, __, out: seen.append(str(out.dtype)))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    loss = net(randn(4, 8)).float().pow(2).mean() * factor
    (scaler.scale(loss) if scaler else loss).backward()
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    grads = [p.grad for p in net.parameters() if p.grad is not None]
    largest = max(float(getattr(g, "_local_tensor", g).abs().max()) for g in grads)
    return f"computed {seen[0]} weights {next(net.parameters()).dtype} grads {grads[0].dtype} zero {largest == 0}"


def two_dtypes() -> nn.Module:
    net = net_of()
    net[2].bfloat16()  # type: ignore[index,operator]
    return net


class Integers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.packed = nn.Parameter(torch.zeros(8, dtype=torch.uint8), requires_grad=False)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


expect("PF701", "FSDP1: bfloat16 and float32 in one unit", "Must flatten tensors with uniform dtype but got")(
    lambda: fsdp1(two_dtypes())
)
expect("PF701", "FSDP1: integers", "Cannot flatten integer dtype tensors|Must flatten tensors with uniform dtype")(
    lambda: fsdp1(Integers())
)
expect("PF701", "FSDP2: bfloat16 and float32 in one unit", "FSDP expects uniform original parameter dtype")(
    lambda: grown(fsdp2(two_dtypes()))
)
expect("PF701", "FSDP2 with the policy of FSDP1", "Error")(
    lambda: grown(fsdp2(policy=__import__("torch.distributed.fsdp", fromlist=["x"]).MixedPrecision(param_dtype=BF16)))
)
expect("PF701", "MixedPrecisionPolicy(buffer_dtype=)", "TypeError: .*unexpected keyword argument 'buffer_dtype'")(
    lambda: fsdp2(buffer_dtype=BF16)
)
for name, wrap in (("FSDP1", fsdp1), ("FSDP2", fsdp2)):
    for half in (BF16, FP16):
        expect(
            "fsdp.yaml",
            f"{name}: a policy in {half}",
            rf"^computed {half} weights torch.float32 grads torch.float32 zero False",
        )(lambda wrap=wrap, half=half: grown(wrap(param_dtype=half, reduce_dtype=half)))
    expect("PF701", f"{name}: a policy in float16 and no scaler: small gradients are zero", "zero True$")(
        lambda wrap=wrap: grown(wrap(param_dtype=FP16, reduce_dtype=FP32), 1e-9)
    )
    expect("PF701", f"{name}: the same with a scaler", "zero False$")(
        lambda wrap=wrap: grown(wrap(param_dtype=FP16, reduce_dtype=FP32), 1e-9, torch.amp.GradScaler(D))
    )
    expect("PF701", f"{name}: no policy: float32", "^computed torch.float32")(lambda wrap=wrap: grown(wrap()))


@expect("PF701", "autocast in float16 over a policy in bfloat16 computes in float16", "computed torch.float16")
def _() -> Any:
    net = fsdp1(param_dtype=BF16)
    with torch.autocast(D, dtype=FP16):
        return grown(net)


def reduced(cast_each: bool, views: bool) -> str:
    from torch.nn.parallel import DistributedDataParallel

    net = DistributedDataParallel(nn.Linear(8, 8).to(D, BF16), gradient_as_bucket_view=views)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(2):
        for last in (False, True):
            with contextlib.nullcontext() if last else net.no_sync():
                net(randn(4, 8, dtype=BF16)).float().pow(2).mean().backward()
            for weight in net.parameters():
                if cast_each and weight.grad is not None:
                    weight.grad.data = weight.grad.data.float()
        optimizer.step()
        optimizer.zero_grad()
    return "no error"


expect("PF702", "DDP: gradients cast between micro-batches", "Expected BFloat16, got Float|expected.*dtype")(
    lambda: reduced(True, False)
)
expect("PF702", "an assignment of float32 to a bfloat16 parameter's grad", "assign a gradient|grad_dtype")(
    lambda: setattr(nn.Linear(8, 8).to(D, BF16).weight, "grad", randn(8, 8))
)


def lightning(precision: str, encoder: bool = False, strategy: str = "auto") -> str:
    import lightning as L

    class Task(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.net = nn.TransformerEncoder(layer, 2) if encoder else nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
            self.head, self.seen = nn.Linear(8, 1), []

        def both(self, batch: Any) -> Any:
            x = batch[0]
            out = (
                self.net(x, src_key_padding_mask=torch.arange(4, device=x.device)[None].expand(len(x), -1) > 2)
                if encoder
                else self.net(x)
            )
            self.seen.append(str(out.dtype))
            return self.head(out).float().pow(2).mean()

        def training_step(self, batch: Any, _: int) -> Any:
            return self.both(batch)

        def validation_step(self, batch: Any, _: int) -> Any:
            return self.both(batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    task, data = Task(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4, 8)), batch_size=4)
    quiet: dict[str, Any] = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = L.Trainer(
        max_epochs=1, precision=precision, accelerator="gpu" if D == "cuda" else "cpu", devices=1, **quiet
    )  # type: ignore[arg-type]
    trainer.fit(task, data, data)
    return f"computed {sorted(set(task.seen))} weights {next(task.parameters()).dtype}, precision {trainer.precision}"


for precision, weights in (
    ("bf16-mixed", "float32"),
    ("16-mixed", "float32"),
    ("bf16-true", "bfloat16"),
    ("16-true", "float16"),
    ("32-true", "float32"),
):
    for encoder in (False, True):
        expect(
            "lightning.yaml",
            f"{precision}, encoder {encoder}, training and validation",
            rf"weights torch.{weights}, precision {precision}",
        )(lambda precision=precision, encoder=encoder: lightning(precision, encoder))
expect("PF401", "precision 'fp16'", "Precision 'fp16' is invalid")(lambda: lightning("fp16"))
expect("PF401", "precision 16 is 16-mixed", "precision 16-mixed")(lambda: lightning(16))  # type: ignore[arg-type]


def main() -> None:
    os.environ.update(RANKS)
    for name in ("transformers", "accelerate", "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if D == "cuda":
        torch.cuda.set_device(0)
    with contextlib.suppress(ImportError):
        import deepspeed

        deepspeed.init_distributed("nccl" if D == "cuda" else "gloo")
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if D == "cuda" else "gloo")
    expect.ask(sys.argv[1], sys.argv[3:])


if __name__ == "__main__":
    main()
