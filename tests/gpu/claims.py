"""What rules, manuals and the facts say of CUDA, each tried on the device: ``python -m tests.gpu.claims OUT.json``."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
D = "cuda"
CLAIMS: dict[str, Callable[[], Any]] = {}


def claim(function: Callable[[], Any]) -> Callable[[], Any]:
    CLAIMS[function.__name__] = function
    return function


def said(call: Callable[[], Any]) -> str:
    """What a call gives, or its error; with its warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            value = call()
            text = f"{value.dtype}" if isinstance(value, torch.Tensor) else str(value)
        except Exception as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    told = {str(each.message)[:150] for each in heard}
    return text + "".join(f" [warns: {each}]" for each in sorted(told))


@claim
def device() -> Any:
    cuda = torch.cuda
    return {
        "name": cuda.get_device_name(),
        "capability": cuda.get_device_capability(),
        "is_bf16_supported": cuda.is_bf16_supported(),
        "without emulation": said(lambda: cuda.is_bf16_supported(including_emulation=False)),
        "is_tf32_supported": said(lambda: cuda.is_tf32_supported()),
        "tf32 of products, of cudnn": [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32],
        "reduced precision sums, fp16 and bf16": [
            str(torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction),
            str(torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction),
        ],
        "versions": [torch.__version__, torch.version.cuda, str(torch.backends.cudnn.version())],
    }


@claim
def autocast_forms() -> Any:
    x, layer = torch.randn(4, 8, device=D), nn.Linear(8, 8).to(D)

    def under(device_type: str = D, **options: Any) -> Any:
        with torch.autocast(device_type, **options):
            return layer(x)

    def half_under_float32() -> Any:
        with torch.autocast(D, dtype=FP32):
            return nn.Linear(8, 8, device=D, dtype=BF16)(x.bfloat16())

    return {
        "without a dtype": said(under),
        "dtype=float32": said(lambda: under(dtype=FP32)),
        "dtype=float32 and bf16 weights": said(half_under_float32),
        "cuda:0": said(lambda: under("cuda:0")),
        "cpu region, tensors of the device": said(lambda: under("cpu", dtype=BF16)),
        "dtype=float64": said(lambda: under(dtype=torch.float64)),
    }


@claim
def scaler_with_bf16_autocast_and_float32_weights() -> Any:
    net, scaler = nn.Linear(8, 1).to(D), torch.amp.GradScaler(D)
    optimizer = torch.optim.AdamW(net.parameters())

    def step() -> Any:
        with torch.autocast(D, dtype=BF16):
            loss = net(torch.randn(4, 8, device=D)).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        return f"scale {scaler.get_scale()}"

    return said(step)


@claim
def scaler_with_16_bit_gradients() -> Any:
    found = {}
    for dtype in (BF16, FP16):
        for kind, options in ((torch.optim.SGD, {}), (torch.optim.AdamW, {"fused": True}), (torch.optim.AdamW, {})):
            net = nn.Linear(8, 1).to(D, dtype)
            optimizer, scaler = kind(net.parameters(), lr=1e-3, **options), torch.amp.GradScaler(D)
            scaler.scale(net(torch.randn(4, 8, device=D, dtype=dtype)).mean()).backward()
            name = f"{dtype} {kind.__name__} {options}"
            found[f"{name} step"] = said(lambda optimizer=optimizer, scaler=scaler: scaler.step(optimizer))
            scaler = torch.amp.GradScaler(D)
            scaler.scale(torch.ones((), device=D))
            found[f"{name} unscale_"] = said(lambda optimizer=optimizer, scaler=scaler: scaler.unscale_(optimizer))
    return found


@claim
def norms_with_weights_of_another_dtype() -> Any:
    found = {}
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "layer_norm": lambda x, w: F.layer_norm(x, (8,), w, w),
        "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
        "rms_norm": lambda x, w: F.rms_norm(x, (8,), w),
        "batch_norm": lambda x, w: F.batch_norm(x, w.detach().clone(), w.detach().clone(), w, w, True),
        "batch_norm, float32 statistics": lambda x, w: F.batch_norm(
            x, torch.zeros(8, device=D), torch.ones(8, device=D), w, w, True
        ),
        "instance_norm": lambda x, w: F.instance_norm(x, weight=w, bias=w),
    }
    for name, call in calls.items():
        for one, other in ((BF16, FP32), (FP16, FP32), (FP32, BF16), (FP32, FP16), (BF16, FP16)):
            x = torch.randn(4, 8, 4, device=D, dtype=one) if "norm" in name else None
            if name in ("layer_norm", "rms_norm"):
                x = torch.randn(4, 8, device=D, dtype=one)
            assert x is not None
            x.requires_grad_()
            w = torch.ones(8, device=D, dtype=other, requires_grad=True)

            def run(x: Any = x, w: Any = w, call: Any = call) -> str:
                result = call(x, w)
                forward = said(lambda: result)
                back = said(lambda: (result.float().sum().backward(), x.grad.dtype, w.grad.dtype)[1:])
                return f"{forward} backward {back}"

            found[f"{name}: {one} input, {other} weights"] = said(run)
    return found


@claim
def encoder_fast_path() -> Any:
    padding = torch.tensor([[False, False, True], [False, False, False]], device=D)
    found = {}
    for dtype, autocast in ((FP32, BF16), (FP32, FP16), (BF16, None), (BF16, BF16), (FP32, None)):
        for nested in (True, False):
            for masked in (True, False):
                layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, device=D, dtype=dtype)
                encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested).eval()

                def run(
                    encoder: Any = encoder, dtype: Any = dtype, autocast: Any = autocast, masked: bool = masked
                ) -> Any:
                    region: Any = torch.autocast(D, dtype=autocast) if autocast else contextlib.nullcontext()
                    x = torch.randn(2, 3, 16, device=D, dtype=dtype)
                    with torch.inference_mode(), region:
                        return encoder(x, src_key_padding_mask=padding if masked else None)

                found[f"{dtype} weights, autocast {autocast}, nested {nested}, padding {masked}"] = said(run)
    return found


@claim
def adam_epsilon_in_float16() -> Any:
    found = {}
    for name, options in (
        ("foreach", {"foreach": True}),
        ("one by one", {"foreach": False}),
        ("fused", {"fused": True}),
    ):
        for gradient in (0.0, 1e-5):
            for eps in (1e-8, 1e-7, 1e-6, 1e-4):
                weight = nn.Parameter(torch.full((4,), 0.5, device=D, dtype=FP16))
                weight.grad = torch.full_like(weight, gradient)
                torch.optim.Adam([weight], lr=1e-3, eps=eps, **options).step()  # type: ignore[arg-type]
                found[f"{name}, gradient {gradient}, eps {eps}"] = weight.tolist()[0]
    return found


@claim
def weight_cache_and_no_grad() -> Any:
    """pytorch#112583: weights that were cast without gradients must not be taken for those with."""
    layer = nn.Linear(4, 4).to(D)
    with torch.autocast(D, dtype=BF16):
        with torch.no_grad():
            layer(torch.randn(2, 4, device=D))
        loss = layer(torch.randn(2, 4, device=D)).sum()
    return said(lambda: (loss.backward(), layer.weight.grad is not None)[1])


@claim
def numbers_that_float16_and_bfloat16_lose() -> Any:
    def runs(dtype: Any) -> dict[str, Any]:
        total = torch.zeros((), device=D, dtype=dtype)
        for _ in range(5000):
            total += 0.7
        counter = torch.zeros((), device=D, dtype=dtype)
        for _ in range(3000):
            counter += 1
        return {
            "5,000 x 0.7": float(total),
            "3,000 x 1": float(counter),
            "sum of 70,000 ones": float(torch.ones(70000, device=D, dtype=dtype).sum()),
            "cumsum of 10,000 x 0.7, last": float(torch.full((10000,), 0.7, device=D, dtype=dtype).cumsum(0)[-1]),
            "masked_fill(-1e9)": said(
                lambda: torch.zeros(2, device=D, dtype=dtype).masked_fill(
                    torch.ones(2, device=D, dtype=torch.bool), -1e9
                )
            ),
            "t[mask] = -1e9": said(lambda: _set(dtype)),
            "numpy": said(lambda: torch.zeros(2, device=D, dtype=dtype).cpu().numpy().dtype),
        }

    def _set(dtype: Any) -> Any:
        t = torch.zeros(2, device=D, dtype=dtype)
        t[t == 0] = -1e9
        return t.tolist()

    return {str(dtype): runs(dtype) for dtype in (BF16, FP16)}


@claim
def cross_entropy_over_many_classes() -> Any:
    torch.manual_seed(0)
    logits, labels = torch.randn(64, 50000, device=D), torch.randint(0, 50000, (64,), device=D)
    right = F.cross_entropy(logits.double(), labels)
    return {
        str(dtype): {
            "in 16 bits": float((F.cross_entropy(logits.to(dtype), labels).double() - right).abs()),
            "of float32 over 16-bit logits": float(
                (F.cross_entropy(logits.to(dtype).float(), labels).double() - right).abs()
            ),
        }
        for dtype in (BF16, FP16)
    }


@claim
def flash_attention_kernels() -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        for dtype in (FP32, BF16, FP16):
            q = torch.randn(1, 2, 8, 64, device=D, dtype=dtype)

            def run(q: Any = q, backend: Any = backend) -> Any:
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, q, q)

            found[f"{backend} {dtype}"] = said(run)
    return found


@claim
def tensors_of_two_devices() -> Any:
    one, other = torch.ones(2, 2, device=D), torch.ones(2, 2)
    return {
        "add": said(lambda: one + other),
        "mm": said(lambda: one @ other),
        "linear": said(lambda: nn.Linear(2, 2)(one)),
        "index": said(lambda: other[torch.zeros(1, dtype=torch.long, device=D)]),
        "numpy": said(lambda: one.numpy()),
        "generator": said(lambda: torch.randn(2, device=D, generator=torch.Generator())),
        "add of a number without dimensions": said(lambda: one + torch.tensor(1.0)),
        "cat": said(lambda: torch.cat([one, other])),
        "embedding": said(lambda: nn.Embedding(4, 2)(torch.zeros(1, dtype=torch.long, device=D))),
        "cross_entropy": said(lambda: F.cross_entropy(one, torch.zeros(2, dtype=torch.long))),
        "where": said(lambda: torch.where(torch.ones(2, 2, dtype=torch.bool), one, one)),
        "copy_": said(lambda: one.clone().copy_(other)),
        "t[0] = other": said(lambda: one.clone().__setitem__(0, torch.ones(2))),
        "load_state_dict": said(lambda: nn.Linear(2, 2).to(D).load_state_dict(nn.Linear(2, 2).state_dict())),
    }


def main(out: str) -> None:
    found = {}
    for name, function in CLAIMS.items():
        try:
            found[name] = function()
        except Exception as error:
            found[name] = f"failed: {type(error).__name__}: {error}"
        with open(out, "w", encoding="utf-8") as stream:
            json.dump(found, stream, indent=1, default=str)


if __name__ == "__main__":
    D = sys.argv[2] if len(sys.argv) > 2 else D
    main(sys.argv[1])
