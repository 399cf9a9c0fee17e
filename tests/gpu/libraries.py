"""bitsandbytes, peft, torchao and liger-kernel in loops of their own: what raises, what trains silently.

``python -m tests.gpu.libraries OUT.jsonl [DEVICE] [WORD...]``; what a missing library is asked is not met.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from .expecting import Expectations

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
D = sys.argv[2] if __name__ == "__main__" and len(sys.argv) > 2 else "cuda"
expect = Expectations()


def llama(dtype: Any = FP32, width: int = 64) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {
        "vocab_size": 128,
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 2 * width,
    }
    return LlamaForCausalLM(LlamaConfig(**shape)).to(D, dtype)


def loaded(**options: Any) -> Any:
    """Loaded from a checkpoint, as quantization wants it."""
    from transformers import AutoModelForCausalLM

    place = "/tmp/precfix-llama"
    llama().save_pretrained(place)
    return AutoModelForCausalLM.from_pretrained(place, device_map={"": 0}, **options)


def adapted(base: Any, **options: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    return get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"]), **options)


def steps(
    net: Any, region: Any = None, scaled: bool = False, lr: float = 1e-3, count: int = 3, optimizer: Any = None
) -> str:
    weights = [p for p in net.parameters() if p.requires_grad]
    optimizer = optimizer or torch.optim.AdamW(weights, lr=lr)
    scaler = torch.amp.GradScaler(D, enabled=scaled)
    torch.manual_seed(1)
    ids = torch.randint(0, 120, (2, 16), device=D)
    losses = []
    before = [p.detach().clone() for p in weights]
    for _ in range(count):
        with torch.autocast(D, dtype=region or BF16, enabled=region is not None):
            loss = net(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(round(loss.item(), 3))
    dtypes = sorted({str(p.dtype)[6:] for p in weights})
    moved = sum(bool((p != b).any()) for p, b in zip(weights, before, strict=True))
    finite = all(bool(p.isfinite().all()) for p in weights)
    return f"trains {dtypes} moved {moved} of {len(weights)} finite {finite} losses {losses}"


# --- peft

expect(
    "PF801",
    "LoRA over a bfloat16 base: adapters are float32, no region: trains",
    r"^trains \['float32'\] moved 12 of 12 finite True",
)(lambda: steps(adapted(llama(BF16))))
expect(
    "PF107", "LoRA over a float16 base, region, scaler: trains", r"^trains \['float32'\] moved 12 of 12 finite True"
)(lambda: steps(adapted(llama(FP16)), FP16, True))
expect(
    "PF403",
    "LoRA over a float16 base, bfloat16 region, no scaler: nothing raises",
    r"^trains \['float32'\].*finite True",
)(lambda: steps(adapted(llama(FP16)), BF16))
expect("PF801", "adapters left in bfloat16", r"^trains \['bfloat16'\]")(
    lambda: steps(adapted(llama(BF16), autocast_adapter_dtype=False))
)
expect("PF107", "adapters left in float16, region, scaler", "Attempting to unscale FP16 gradients")(
    lambda: steps(adapted(llama(FP16), autocast_adapter_dtype=False), FP16, True)
)
expect("PF210", "adapters in float16 without a scaler: NaN in the first step", "finite False")(
    lambda: steps(adapted(llama(FP16), autocast_adapter_dtype=False))
)
expect("PF210", "get_peft_model(...).half(): the same", "finite False")(lambda: steps(adapted(llama()).half()))
expect("PF701", "inject_adapter_in_model gives adapters the dtype of the weights", r"\['bfloat16'\]")(
    lambda: _injected()
)


def _injected() -> str:
    from peft import LoraConfig, inject_adapter_in_model

    net = inject_adapter_in_model(LoraConfig(r=4, target_modules=["q_proj"]), llama(BF16))
    return str(sorted({str(p.dtype)[6:] for n, p in net.named_parameters() if "lora" in n}))


# --- bitsandbytes


def four_bit(**options: Any) -> Any:
    from transformers import BitsAndBytesConfig

    dtype = options.pop("dtype", BF16)
    return loaded(quantization_config=BitsAndBytesConfig(load_in_4bit=True, **options), dtype=dtype)


expect("PF410", "bnb_4bit_compute_type is ignored: the compute dtype stays float32", "^torch.float32")(
    lambda: four_bit(bnb_4bit_compute_type=BF16).model.layers[0].self_attn.q_proj.compute_dtype
)
for dtype, compute in ((BF16, BF16), (FP16, FP16), (BF16, FP32), (FP32, BF16), (FP16, BF16)):
    expect(
        "PF410",
        f"4 bit, loaded in {dtype}, computed in {compute}: LoRA trains",
        r"^trains \['float32'\] moved 12 of 12 finite True",
    )(lambda dtype=dtype, compute=compute: steps(adapted(four_bit(dtype=dtype, bnb_4bit_compute_dtype=compute))))
    expect("PF410", f"4 bit, loaded in {dtype}, computed in {compute}: what the layer gives", f"^{dtype}$")(
        lambda dtype=dtype, compute=compute: (
            four_bit(dtype=dtype, bnb_4bit_compute_dtype=compute)
            .model.layers[0]
            .self_attn.q_proj(torch.randn(2, 64, device=D, dtype=dtype))
        )
    )
expect("PF107", "4 bit, float16, region, scaler: LoRA trains", r"^trains \['float32'\] moved 12 of 12 finite True")(
    lambda: steps(adapted(four_bit(dtype=FP16, bnb_4bit_compute_dtype=FP16)), FP16, True)
)
expect("PF701", "4-bit weights are stored in uint8 unless told", "torch.uint8.*torch.bfloat16")(
    lambda: (
        four_bit(bnb_4bit_compute_dtype=BF16).model.layers[0].self_attn.q_proj.weight.dtype,
        four_bit(bnb_4bit_compute_dtype=BF16, bnb_4bit_quant_storage=BF16)
        .model.layers[0]
        .self_attn.q_proj.weight.dtype,
    )
)
expect(
    "PF701",
    "FSDP1 over 4-bit weights in uint8",
    "Cannot flatten integer dtype tensors|Must flatten tensors with uniform dtype",
)(lambda: _sharded(torch.uint8))
expect(
    "PF701",
    "FSDP2 over 4-bit weights in uint8, and adapters in float32",
    "uniform original parameter dtype|Only Tensors of floating point|Error",
)(lambda: _sharded2(torch.uint8))


def _sharded(storage: Any) -> Any:
    from torch.distributed.fsdp import FullyShardedDataParallel

    _ranks()
    net = adapted(four_bit(bnb_4bit_compute_dtype=BF16, bnb_4bit_quant_storage=storage))
    return type(FullyShardedDataParallel(net, device_id=0, use_orig_params=True)).__name__


def _sharded2(storage: Any) -> Any:
    from torch.distributed.fsdp import fully_shard

    _ranks()
    return steps(fully_shard(adapted(four_bit(bnb_4bit_compute_dtype=BF16, bnb_4bit_quant_storage=storage))))


def _ranks() -> None:
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:29533", rank=0, world_size=1)


for name in ("AdamW8bit", "PagedAdamW8bit", "Lion8bit", "AdamW"):
    for dtype in (FP32, BF16, FP16):

        @expect("PF210, PF801", f"bitsandbytes {name} over {dtype} weights", rf"^trains \['{str(dtype)[6:]}'\]")
        def _(name: str = name, dtype: Any = dtype) -> str:
            import bitsandbytes as bnb

            net = llama(dtype, 128)
            return steps(net, optimizer=getattr(bnb.optim, name)(net.parameters(), lr=1e-3))


@expect(
    "PF101",
    "bitsandbytes AdamW8bit over bfloat16 weights with a scaler",
    "_amp_foreach_non_finite_check_and_unscale_cuda",
)
def _() -> str:
    import bitsandbytes as bnb

    net = llama(BF16, 128)
    return steps(net, scaled=True, optimizer=bnb.optim.AdamW8bit(net.parameters(), lr=1e-3))


@expect(
    "PF801",
    "bitsandbytes AdamW8bit at lr 1e-6 over bfloat16 weights: share of weights that a step moves is below 5 %",
    r"^0\.0[0-4]",
)
def _() -> str:
    import bitsandbytes as bnb

    return moved(lambda weights: bnb.optim.AdamW8bit(weights, lr=1e-6))


@expect("PF801", "the same with torch's AdamW", r"^0\.0[0-4]")
def _() -> str:
    return moved(lambda weights: torch.optim.AdamW(weights, lr=1e-6))


def moved(make: Any) -> str:
    torch.manual_seed(0)
    weight = nn.Parameter((torch.randn(200, 200, device=D) * 0.02).bfloat16())
    before = weight.detach().clone()
    optimizer = make([weight])
    for _ in range(1):
        weight.grad = torch.randn_like(weight) * 0.01
        optimizer.step()
    return f"{float((weight != before).float().mean()):.3f}"


# --- torchao

for name in ("AdamW8bit", "AdamW4bit", "AdamWFp8", "_AdamW"):
    for rounding in (False, True):

        @expect(
            "PF801",
            f"torchao {name}, bf16_stochastic_round {rounding}, lr 1e-6: weights that a step moves",
            r"^0\.0[0-9]",
        )
        def _(name: str = name, rounding: bool = rounding) -> str:
            from torchao import optim

            return moved(lambda weights: getattr(optim, name)(weights, lr=1e-6, bf16_stochastic_round=rounding))


@expect(
    "PF801",
    "torchao: 500 steps of 1e-6 in one direction: way with stochastic rounding, without (float32 = 1)",
    r"^way (0\.9|1\.).* 0\.[0-3]",
)
def _() -> str:
    from torchao import optim

    found = []
    for rounding in (True, False):
        torch.manual_seed(0)
        weight = nn.Parameter((torch.randn(256, 256, device=D) * 0.02).bfloat16())
        before = weight.detach().float().clone()
        optimizer = optim._AdamW([weight], lr=1e-6, weight_decay=0.0, bf16_stochastic_round=rounding)
        for _ in range(500):
            weight.grad = torch.ones_like(weight) * 0.01
            optimizer.step()
        found.append(float((before - weight.detach().float()).mean()) / 500e-6)
    return "way " + " ".join(f"{each:.3f}" for each in found)


for dtype in (BF16, FP32):

    @expect(
        "quality.md",
        f"torchao float8 training of {dtype} weights: a loop of its own",
        rf"^trains \['{str(dtype)[6:]}'\].*finite True",
    )
    def _(dtype: Any = dtype) -> str:
        from torchao.float8 import convert_to_float8_training

        net = llama(dtype, 128)
        convert_to_float8_training(net.model)
        return steps(net, None if dtype == BF16 else BF16)


# --- liger-kernel


def liger(dtype: Any, region: Any = None, scaled: bool = False) -> str:
    from liger_kernel.transformers import apply_liger_kernel_to_llama

    apply_liger_kernel_to_llama()
    return steps(llama(dtype), region, scaled)


expect("liger", "bfloat16 weights", r"^trains \['bfloat16'\].*finite True")(lambda: liger(BF16))
expect("liger", "float32 weights", r"^trains \['float32'\].*finite True")(lambda: liger(FP32))
expect("liger", "bfloat16 region", r"^trains \['float32'\].*finite True")(lambda: liger(FP32, BF16))
expect("liger", "float16 region, scaler", r"^trains \['float32'\].*finite True")(lambda: liger(FP32, FP16, True))


@expect("liger", "its RMSNorm: bfloat16 input, float32 weight, in a region", "^torch.(bfloat16|float32)")
def _() -> Any:
    from liger_kernel.transformers import LigerRMSNorm

    with torch.autocast(D, dtype=BF16):
        return LigerRMSNorm(64).to(D)(torch.randn(2, 64, device=D, dtype=BF16)).dtype


@expect("liger", "its cross entropy of bfloat16 logits is rounded to bfloat16", "^torch.bfloat16 0.0[01]")
def _() -> str:
    from liger_kernel.transformers import LigerCrossEntropyLoss

    torch.manual_seed(0)
    logits, labels = torch.randn(64, 50000, device=D), torch.randint(0, 50000, (64,), device=D)
    right = nn.functional.cross_entropy(logits.bfloat16().double(), labels)
    loss = LigerCrossEntropyLoss()(logits.bfloat16(), labels)
    return f"{loss.dtype} {abs(float(loss) - float(right)):.4f}"


if __name__ == "__main__":
    expect.ask(sys.argv[1], sys.argv[3:])
