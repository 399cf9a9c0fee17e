"""What the manuals of the rules say of CUDA, as expectations.

``python -m tests.gpu.rules OUT.jsonl [DEVICE] [WORD...]``

Rules whose claim :mod:`tests.gpu.claims` asks (PF101, PF107, PF212, PF306) are here only for what it leaves out.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .expecting import Expectations

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
D = sys.argv[2] if __name__ == "__main__" and len(sys.argv) > 2 else "cuda"
expect = Expectations()


def randn(*size: int, dtype: Any = FP32, grad: bool = False) -> torch.Tensor:
    return torch.randn(*size, device=D, dtype=dtype, requires_grad=grad)


def net_of(dtype: Any = FP32) -> tuple[nn.Module, Any, Any]:
    torch.manual_seed(0)
    net = nn.Linear(8, 1).to(D, dtype)
    return net, torch.optim.SGD(net.parameters(), lr=1.0), torch.amp.GradScaler(D)


def loss_of(net: nn.Module, dtype: Any = FP16) -> torch.Tensor:
    torch.manual_seed(1)
    with torch.autocast(D, dtype=dtype):
        return net(randn(4, 8)).float().pow(2).mean()


def way(net: nn.Module, before: torch.Tensor) -> float:
    return float((net.weight.detach() - before).norm())  # type: ignore[operator,union-attr]


# --- gradient scalers


@expect("PF101", "a scaler makes each step wait for the GPU", "synchroniz")
def _() -> Any:
    net, opt, scaler = net_of()
    scaler.scale(loss_of(net, BF16)).backward()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        scaler.step(opt)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@expect("PF103", "a norm before unscale_ is 65536 times too large", r"^65536\.0$")
def _() -> Any:
    norms = []
    for unscaled in (False, True):
        net, opt, scaler = net_of()
        scaler.scale(loss_of(net) * 0.01).backward()
        if unscaled:
            scaler.unscale_(opt)
        norms.append(float(nn.utils.clip_grad_norm_(net.parameters(), 1e9)))
    return round(norms[0] / norms[1], 1)


@expect("PF102", "gradients below 6e-8 are zero under float16 autocast, and not with a scaler", r"^\(0\.0, True\)$")
def _() -> Any:
    net, _, scaler = net_of()
    (loss_of(net) * 1e-9).backward()
    plain = float(net.weight.grad.abs().max())  # type: ignore[operator,union-attr]
    net, _, scaler = net_of()
    scaler.scale(loss_of(net) * 1e-9).backward()
    return plain, float(net.weight.grad.abs().max()) > 0  # type: ignore[operator,union-attr]


def steps(*calls: str) -> Callable[[], Any]:
    def run() -> Any:
        net, opt, scaler = net_of()
        for _ in range(2):
            scaler.scale(loss_of(net)).backward()
            for call in calls:
                getattr(scaler, call)(*(() if call == "update" else (opt,)))
        return "no error"

    return run


expect("PF104", "unscale_ in each pass", r"unscale_\(\) has already been called on this optimizer since")(
    steps("unscale_")
)
expect("PF105", "step twice without update", r"step\(\) has already been called since the last update")(steps("step"))
expect("PF105", "update without a step", "AssertionError: No inf checks were recorded prior to update")(steps("update"))
expect("PF105", "update twice", "No inf checks were recorded")(steps("step", "update", "update"))
expect("PF108", "unscale_ of a model", "AttributeError: .*has no attribute 'param_groups'")(lambda: _unscaled())


def _unscaled() -> None:
    net, _, scaler = net_of()
    scaler.scale(loss_of(net)).backward()
    scaler.unscale_(net)  # type: ignore[arg-type]


def stepped(scaled: bool, by_scaler: bool, times: int = 1) -> float:
    net, opt, scaler = net_of()
    before = net.weight.detach().clone()  # type: ignore[operator,union-attr]
    scaler.scale(torch.ones((), device=D))
    loss = loss_of(net) * 0.01
    (scaler.scale(loss) if scaled else loss).backward()
    if by_scaler:
        scaler.step(opt)
    if not by_scaler or times > 1:
        opt.step()
    return way(net, before)


@expect("PF108", "plain step on scaled gradients; the scaler's on plain ones; a second step", r"^\(65536, 6\d{4}, 2\)$")
def _() -> Any:
    right = stepped(True, True)
    return (
        round(stepped(True, False) / right),
        round(right / stepped(False, True)),
        round(stepped(True, True, 2) / right),
    )


@expect("PF110", "a new scaler begins at 65536", r"^65536\.0$")
def _() -> Any:
    scaler = torch.amp.GradScaler(D)
    scaler.scale(torch.ones((), device=D))
    return scaler.get_scale()


@expect("PF110", "a scaler of each step never adapts: each is skipped", r"^\[True, True, True\]$")
def _() -> Any:
    net, opt, _ = net_of()
    skipped = []
    for _ in range(3):
        before, scaler = net.weight.detach().clone(), torch.amp.GradScaler(D)  # type: ignore[operator,union-attr]
        scaler.scale(loss_of(net) * 1e4).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        skipped.append(bool((net.weight == before).all()))
    return skipped


# --- dtypes that meet

for half, name in ((BF16, "BFloat16"), (FP16, "Half")):
    expect(
        "PF202",
        f"float32 into a {name} linear layer",
        f"mat1 and mat2 must have the same dtype, but got Float and {name}",
    )(lambda half=half: nn.Linear(8, 8).to(D, half)(randn(2, 8)))
    expect(
        "PF204",
        f"float32 into a {name} convolution",
        rf"Input type \(float\) and bias type \(c10::{name}\) should be the same",
    )(lambda half=half: nn.Conv2d(3, 3, 3).to(D, half)(randn(1, 3, 8, 8)))
    expect("PF203", f"layer_norm of float32 with {name} weights", f"expected scalar type Float but found {name}")(
        lambda half=half: F.layer_norm(randn(2, 8), (8,), torch.ones(8, device=D, dtype=half))
    )
    expect("PF213", f"LSTM: float32 into {name}", r"RNN input dtype \(torch.float32\) does not match weight dtype")(
        lambda half=half: nn.LSTM(8, 8).to(D, half)(randn(2, 1, 8))
    )
    expect("PF213", f"GRU: float32 into {name}", r"RNN input dtype \(torch.float32\) does not match weight dtype")(
        lambda half=half: nn.GRU(8, 8).to(D, half)(randn(2, 1, 8))
    )
    expect("PF202", f"LSTM of {name}, float32 state", r"hidden\[0\]|same dtype|not the same dtype|does not match")(
        lambda half=half: nn.LSTM(8, 8).to(D, half)(randn(2, 1, 8, dtype=half), (randn(1, 1, 8), randn(1, 1, 8)))
    )
    expect("PF213", f"attention of {name} query, float32 key", "Expected query, key, and value to have the same dtype")(
        lambda half=half: F.scaled_dot_product_attention(
            randn(1, 2, 4, 8, dtype=half), randn(1, 2, 4, 8), randn(1, 2, 4, 8)
        )
    )
    expect("PF213", f"attention of {name}, float32 mask: taken", f"^torch.{str(half)[6:]}$")(
        lambda half=half: F.scaled_dot_product_attention(
            *[randn(1, 2, 8, 64, dtype=half)] * 3, attn_mask=torch.zeros(8, 8, device=D)
        )
    )
    expect("PF201", f"cat of float32 and {name} is float32", "^torch.float32$")(
        lambda half=half: torch.cat([randn(2, 2), randn(2, 2, dtype=half)])
    )
    expect(
        "PF206",
        f"t[mask] = {name}",
        f"Index put requires the source and destination dtypes match, got Float .* and {name}",
    )(
        lambda half=half: torch.zeros(4, device=D).__setitem__(
            torch.ones(4, device=D, dtype=torch.bool), randn(4, dtype=half)
        )
    )
    expect(
        "PF206",
        f"index_add_ of {name}",
        rf"index_add_\(\): self \(Float\) and source \({name}\) must have the same scalar type",
    )(lambda half=half: torch.zeros(4, device=D).index_add_(0, torch.arange(4, device=D), randn(4, dtype=half)))
    expect("PF206", f"scatter_ of {name}", r"scatter\(\): Expected self.dtype to be equal to src.dtype")(
        lambda half=half: torch.zeros(4, device=D).scatter_(0, torch.arange(4, device=D), randn(4, dtype=half))
    )
    expect("PF206", f"index_copy_ of {name}", r"RuntimeError: index_copy_\(\)")(
        lambda half=half: torch.zeros(4, device=D).index_copy_(0, torch.arange(4, device=D), randn(4, dtype=half))
    )
    expect("PF206", f"masked_scatter_ of {name}", "RuntimeError: masked_scatter")(
        lambda half=half: torch.zeros(4, device=D).masked_scatter_(
            torch.ones(4, device=D, dtype=torch.bool), randn(4, dtype=half)
        )
    )
    expect("PF206", f"slices copy {name}", "^torch.float32$")(lambda half=half: _slices(half))
    expect(
        "PF205", f"out= of float32 for {name}", f"Expected out tensor to have dtype c10::{name}, but got float instead"
    )(lambda half=half: torch.matmul(randn(2, 2, dtype=half), randn(2, 2, dtype=half), out=torch.empty(2, 2, device=D)))
    expect("PF205", f"addmm_ of {name} into float32", "RuntimeError: .*(same dtype|scalar type|dtype)")(
        lambda half=half: randn(2, 2).addmm_(randn(2, 2, dtype=half), randn(2, 2, dtype=half))
    )
    expect("PF205", f"addmm_ under {name} autocast is not cast", "RuntimeError: .*(same dtype|scalar type|dtype)")(
        lambda half=half: _under(half, lambda: randn(2, 2).addmm_(nn.Linear(2, 2).to(D)(randn(2, 2)), randn(2, 2)))
    )


def _slices(half: Any) -> torch.Tensor:
    t = torch.zeros(4, device=D)
    t[1:] = randn(3, dtype=half)
    t[0] = randn(1, dtype=half)[0]
    return t


def _under(dtype: Any, call: Callable[[], Any]) -> Any:
    with torch.autocast(D, dtype=dtype):
        return call()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, w = ctx.saved_tensors
        return grads[0] @ w.t(), x.t() @ grads[0]


class Half(Product):
    backward = staticmethod(torch.amp.custom_bwd(Product.backward, device_type=D))  # type: ignore[assignment]


class Both(Half):
    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type=D))  # type: ignore[assignment]


for cls, pattern in (
    (Product, "expected (m1|mat1) and (m2|mat2) to have the same dtype"),
    (Half, "has no attribute '_fwd_used_autocast'"),
    (Both, r"^torch\.float32$"),
):

    @expect("PF207", f"backward of a Function: {cls.__name__}", pattern)
    def _(cls: Any = cls) -> Any:
        x, w = randn(4, 8), randn(8, 8, grad=True)
        with torch.autocast(D, dtype=BF16):
            y = cls.apply(x, w)
        y.float().sum().backward()
        return w.grad


expect("PF208", "numpy of bfloat16", "TypeError: Got unsupported ScalarType BFloat16")(
    lambda: randn(2, dtype=BF16).cpu().numpy()
)
expect("PF302", "float16 and bfloat16 meet in a cat under autocast: float32", r"^torch.float32$")(
    lambda: _under(FP16, lambda: torch.cat([randn(2, dtype=FP16), randn(2, dtype=BF16)]))
)
expect(
    "PF302",
    "float16 and bfloat16 meet in an addcmul under autocast",
    "Unexpected floating ScalarType in at::autocast::prioritize",
)(lambda: _under(FP16, lambda: torch.addcmul(randn(2, dtype=FP16), randn(2, dtype=BF16), randn(2, dtype=BF16))))

# --- numbers

OVERFLOWS: dict[str, Callable[[Any, float], Any]] = {
    "masked_fill": lambda d, v: randn(4, dtype=d).masked_fill(torch.ones(4, device=D, dtype=torch.bool), v),
    "masked_fill_": lambda d, v: randn(4, dtype=d).masked_fill_(torch.ones(4, device=D, dtype=torch.bool), v),
    "fill_": lambda d, v: randn(4, dtype=d).fill_(v),
    "index_fill": lambda d, v: randn(4, dtype=d).index_fill(0, torch.arange(2, device=D), v),
    "full": lambda d, v: torch.full((4,), v, device=D, dtype=d),
    "pad": lambda d, v: F.pad(randn(4, dtype=d), (1, 1), value=v),
}
for name, call in OVERFLOWS.items():
    expect("PF209", f"{name} of -1e9 in float16", "value cannot be converted to type (c10|at)::Half without overflow")(
        lambda call=call: call(FP16, -1e9)
    )
    expect(
        "PF209",
        f"{name} of float32's least in bfloat16",
        "value cannot be converted to type (c10|at)::BFloat16 without overflow",
    )(lambda call=call: call(BF16, torch.finfo(FP32).min))
expect("PF209", "scores under float16 autocast", "without overflow")(
    lambda: _under(
        FP16, lambda: (randn(4, 4) @ randn(4, 4)).masked_fill(torch.ones(4, 4, device=D, dtype=torch.bool), -1e9)
    )
)

TAKEN: dict[str, Callable[[Any, float], Any]] = {
    "clamp": lambda d, v: randn(4, dtype=d).clamp(min=v),
    "clamp, max": lambda d, v: randn(4, dtype=d).clamp(max=-v),
    "clamp_": lambda d, v: randn(4, dtype=d).clamp_(min=v),
    "clamp_min": lambda d, v: randn(4, dtype=d).clamp_min(v),
    "clamp_max": lambda d, v: randn(4, dtype=d).clamp_max(-v),
    "clip": lambda d, v: randn(4, dtype=d).clip(v, -v),
    "hardtanh": lambda d, v: F.hardtanh(randn(4, dtype=d), v, -v),
    "threshold": lambda d, v: F.threshold(randn(4, dtype=d), v, 0.0),
    "where": lambda d, v: torch.where(torch.ones(4, device=D, dtype=torch.bool), randn(4, dtype=d), v),
    "add": lambda d, v: randn(4, dtype=d) + v,
    "mul": lambda d, v: randn(4, dtype=d) * v,
    "gt": lambda d, v: randn(4, dtype=d) > v,
    "nan_to_num": lambda d, v: randn(4, dtype=d).nan_to_num(posinf=-v),
    "full_like": lambda d, v: torch.full_like(randn(4, dtype=d), v),
    "new_full": lambda d, v: randn(4, dtype=d).new_full((2,), v),
    "t[mask] = v": lambda d, v: _written(d, v),
    "t[0] = v": lambda d, v: randn(4, dtype=d).__setitem__(0, v),
    "tensor": lambda d, v: torch.tensor(v, device=D, dtype=d),
    "index_put_": lambda d, v: randn(4, dtype=d).index_put_(
        (torch.arange(2, device=D),), torch.tensor(v, device=D).to(d)
    ),
    "fill_diagonal_": lambda d, v: randn(4, 4, dtype=d).fill_diagonal_(v),
    "scatter_": lambda d, v: randn(4, dtype=d).scatter_(0, torch.arange(2, device=D), v),
    "scatter": lambda d, v: randn(4, dtype=d).scatter(0, torch.arange(2, device=D), v),
    "lerp": lambda d, v: torch.lerp(randn(4, dtype=d), randn(4, dtype=d), v),
    "addcmul": lambda d, v: torch.addcmul(randn(4, dtype=d), randn(4, dtype=d), randn(4, dtype=d), value=v),
    "masked_fill of a tensor": lambda d, v: randn(4, dtype=d).masked_fill(randn(4) > 0, torch.tensor(v, device=D)),
}
"""Numbers beyond float16 that are asked for what they give; a CPU refuses some."""


def _written(dtype: Any, value: float) -> torch.Tensor:
    t = randn(4, dtype=dtype)
    t[torch.ones(4, device=D, dtype=torch.bool)] = value
    return t


for name, call in TAKEN.items():
    expect("PF209 asked", name, "")(lambda call=call: [str(call(d, v)) for d, v in ((FP16, -1e9),)])

ZERO = torch.zeros(1, device=D, dtype=FP16)
expect("PF210", "x / (y + 1e-8)", r"\[inf\]")(lambda: (torch.ones_like(ZERO) / (ZERO + 1e-8)).tolist())
expect("PF210", "log(p + 1e-8)", r"\[-inf\]")(lambda: torch.log(ZERO + 1e-8).tolist())
expect("PF210", "log(p + 1e-8) under autocast", r"\[-inf\]")(
    lambda: _under(FP16, lambda: torch.log(ZERO + 1e-8)).tolist()
)
expect("PF210", "log(p.clamp(min=1e-8))", r"\[-inf\]")(lambda: torch.log(ZERO.clamp(min=1e-8)).tolist())
expect("PF210", "1 - 1e-4 in float16, 1 - 1e-3 in bfloat16 are one", r"^\(1\.0, 1\.0\)$")(
    lambda: (float(ZERO + (1 - 1e-4)), float(ZERO.bfloat16() + (1 - 1e-3)))
)
expect("PF210", "p.clamp(1e-7, 1 - 1e-7), then log(1 - p), log1p(-p), logit(p)", r"^\[-inf, -inf, inf\]$")(
    lambda: [
        float(each)
        for p in ((ZERO + 1).clamp(1e-7, 1 - 1e-7),)
        for each in (torch.log(1 - p), torch.log1p(-p), torch.logit(p))
    ]
)


@expect("PF210", "the gradient of sqrt(v + 1e-8) and of acos(p)", r"^\['(inf|nan)', '-inf'\]$")
def _() -> Any:
    found = []
    for start, call in (
        (0.0, lambda v: torch.sqrt(v + 1e-8)),
        (1.0, lambda v: torch.acos(v.clamp(-1 + 1e-7, 1 - 1e-7))),
    ):
        v = torch.full((1,), start, device=D, dtype=FP16, requires_grad=True)
        call(v).sum().backward()
        found.append(str(float(v.grad)))  # type: ignore[arg-type]
    return found


@expect("PF210", "adapters: Adam's first step with gradient 0 in float16", "nan")
def _() -> Any:
    a, b = nn.Parameter(randn(4, 2, dtype=FP16)), nn.Parameter(torch.zeros(2, 4, device=D, dtype=FP16))
    optimizer = torch.optim.AdamW([a, b], lr=1e-3)
    (randn(4, 4, dtype=FP16) @ a @ b).sum().backward()
    optimizer.step()
    return a.flatten().tolist()[0]


for name, call in {
    "rfft2": lambda: torch.fft.rfft2(randn(8, 8, dtype=BF16)),
    "svd": lambda: torch.linalg.svd(randn(4, 4, dtype=FP16)),
    "quantile": lambda: torch.quantile(randn(8, dtype=BF16), 0.9),
    "cholesky": lambda: torch.linalg.cholesky(torch.eye(4, device=D, dtype=BF16)),
    "inv": lambda: torch.linalg.inv(torch.eye(4, device=D, dtype=FP16)),
    "complex of bfloat16": lambda: torch.complex(randn(2, dtype=BF16), randn(2, dtype=BF16)),
    "cdist": lambda: torch.cdist(randn(4, 4, dtype=BF16), randn(4, 4, dtype=BF16)),
}.items():
    expect(
        "PF211",
        name,
        "Error: .*(Unsupported dtype|not implemented for|must be either float or double|Half|BFloat16|Low precision)",
    )(call)
expect("PF211", "cdist under autocast", "^torch.float32$")(
    lambda: _under(BF16, lambda: torch.cdist(randn(4, 4, dtype=BF16), randn(4, 4, dtype=BF16)))
)
expect(
    "PF214",
    "an embedding of bfloat16 ids",
    "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int",
)(lambda: nn.Embedding(4, 2).to(D)(torch.ones(2, device=D, dtype=BF16)))
expect(
    "PF214",
    "cross entropy with bfloat16 labels",
    "[Ee]xpected (scalar type|target dtype).*(Long|Byte)|not implemented for",
)(lambda: F.cross_entropy(randn(2, 3), torch.ones(2, device=D, dtype=BF16)))
expect("PF214", "token 32001, timestep 999, values of 4096 positions", r"^\(32000, 1000, 769\)$")(
    lambda: (
        int(torch.tensor(32001, device=D).bfloat16()),
        int(torch.tensor(999, device=D).bfloat16()),
        len(torch.arange(4096, device=D, dtype=BF16).unique()),
    )
)


@expect("PF215", "a scaler over a float16 default dtype", "ValueError: Attempting to unscale FP16 gradients")
def _() -> Any:
    torch.set_default_dtype(FP16)
    try:
        net, scaler = nn.Linear(8, 1).to(D), torch.amp.GradScaler(D)
        scaler.scale(net(torch.randn(4, 8, device=D)).mean()).backward()
        scaler.step(torch.optim.AdamW(net.parameters()))
    finally:
        torch.set_default_dtype(FP32)


# --- regions


def product() -> Any:
    return (randn(2, 2) @ randn(2, 2)).dtype


@expect("PF305", "one object entered inside itself: autocast stays on behind it", r"^\(torch.float16, True\)$")
def _() -> Any:
    context = torch.autocast(D, dtype=FP16)
    try:
        with context, context:
            product()
        return product(), torch.is_autocast_enabled(D)
    finally:
        torch.set_autocast_enabled(D, False)
        torch.clear_autocast_cache()


@expect("PF305", "the same by a decorator of a function that the region calls", r"^\(torch.float16, True\)$")
def _() -> Any:
    context = torch.autocast(D, dtype=FP16)
    called = context(product)
    try:
        with context:
            called()
        return product(), torch.is_autocast_enabled(D)
    finally:
        torch.set_autocast_enabled(D, False)
        torch.clear_autocast_cache()


@expect("PF305", "behind it weights are cast once: a step there changes nothing", r"^\[True, False\]$")
def _() -> Any:
    context, net = torch.autocast(D, dtype=BF16), nn.Linear(8, 1).to(D)
    x, found = randn(4, 8), []
    for nested in (True, False):
        try:
            with context, context if nested else contextlib.nullcontext():
                net(x)
            first = net(x)
            with torch.no_grad():
                net.weight += 1
            found.append(bool((net(x) == first).all()))
        finally:
            torch.set_autocast_enabled(D, False)
            torch.clear_autocast_cache()
    return found


@expect("PF305", "one object for regions that follow each other", r"^\(torch.float32, False\)$")
def _() -> Any:
    context = torch.autocast(D, dtype=FP16)
    for _ in range(2):
        with context:
            product()
    return product(), torch.is_autocast_enabled(D)


@expect("PF305", "as a statement; `with autocast and no_grad`", r"^\(torch.float32, torch.float32\)$")
def _() -> Any:
    torch.autocast(D)
    first = product()
    with torch.autocast(D) and torch.no_grad():
        return first, product()


@expect("PF303", "a device in the place of its type", "ValueError: Expected `device_type` of type `str`")
def _() -> Any:
    with torch.autocast(torch.device(D)):  # type: ignore[arg-type]
        return product()


@expect("PF303", "a dtype as a string", "TypeError: .*must be torch.dtype, not str")
def _() -> Any:
    try:
        with torch.autocast(D, dtype="bfloat16"):  # type: ignore[arg-type]
            return product()
    finally:  # it stays on
        torch.set_autocast_enabled(D, False)


def last_loss(around: bool, off: bool = False) -> float:
    """Of 20 steps, over the first: with a region for each step, or around all of them; or in one that is off."""
    torch.manual_seed(0)
    net, x = nn.Linear(8, 1).to(D), randn(64, 8)
    goal, optimizer = x.sum(1, keepdim=True), torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    with torch.autocast(D, dtype=BF16, enabled=not off) if around or off else contextlib.nullcontext():
        for _ in range(20):
            with contextlib.nullcontext() if around else torch.autocast(D, dtype=BF16):
                loss = F.mse_loss(net(x), goal)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses[-1] / losses[0]


expect("PF806", "a region for each step: the loss falls", r"^0\.0")(lambda: last_loss(False))
expect("PF806", "a region around the loop: the loss stays", r"^1\.0")(lambda: last_loss(True))
expect("PF806", "a region for each step within one that is off: it stays as well", r"^1\.0")(
    lambda: last_loss(False, True)
)


@expect("PF806", "a first pass under no_grad: gradients all the same (since 2.10)", r"^True$")
def _() -> Any:
    net = nn.Linear(4, 4).to(D)
    with torch.autocast(D, dtype=FP16):
        with torch.no_grad():
            net(randn(2, 4))
        net(randn(2, 4)).float().sum().backward()
    return net.weight.grad is not None


for training in (True, False):

    @expect("PF306", f"nn.TransformerEncoder under autocast, training {training}, with padding", "bfloat16|float32")
    def _(training: bool = training) -> Any:
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, device=D)
        encoder = nn.TransformerEncoder(layer, 2).train(training)
        padding = torch.tensor([[False, False, True], [False, False, False]], device=D)
        with torch.set_grad_enabled(training), torch.autocast(D, dtype=BF16):
            return encoder(randn(2, 3, 16), src_key_padding_mask=padding)


# --- rounding


@expect(
    "PF802",
    "an average with decay 0.999 closes nothing in bfloat16, nor in float16; with lerp_ neither",
    r"^\[0\.0, 0\.0, 0\.0, 0\.0\]$",
)
def _() -> Any:
    found = []
    for dtype in (BF16, FP16):
        for lerp in (False, True):
            start = torch.full((100,), 1.0, device=D, dtype=dtype)
            goal, shadow = start * 1.1, start.clone()
            for _ in range(2000):
                shadow.lerp_(goal, 0.001) if lerp else shadow.mul_(0.999).add_(goal, alpha=0.001)
            found.append(round(float((shadow - start).float().mean() / (goal - start).float().mean()), 2))
    return found


@expect(
    "PF803",
    "products of positions and frequencies under autocast are 16-bit; outer and * are not",
    r"^\[torch.bfloat16, torch.bfloat16, torch.float32, torch.float32\]$",
)
def _() -> Any:
    p, f = torch.arange(8, device=D).float(), randn(4)
    with torch.autocast(D, dtype=BF16):
        made = (p[:, None] @ f[None], torch.einsum("i,j->ij", p, f), torch.outer(p, f), p[:, None] * f[None])
    return [each.dtype for each in made]


@expect(
    "PF803", "a complex buffer: .to(bfloat16) takes the imaginary part, .bfloat16() leaves it", r"^\(False, True\)$"
)
def _() -> Any:
    found = []
    for cast in (lambda net: net.to(BF16), lambda net: net.bfloat16()):
        net = nn.Module().to(D)
        net.register_buffer("turns", torch.polar(torch.ones(4, device=D), torch.ones(4, device=D)))
        found.append(cast(net).turns.is_complex())
    return tuple(found)


@expect(
    "PF805",
    "cross entropy of 50,000 classes, mean error of 20: in bf16, fp16, in float32 of bf16",
    r"^\[0\.0[1-9]\d*, 0\.00[1-9]\d*, 0\.000\d*\]$",
)
def _() -> Any:
    sums = [0.0] * 3
    for seed in range(20):
        torch.manual_seed(seed)
        logits, labels = randn(64, 50000), torch.randint(0, 50000, (64,), device=D)
        right = F.cross_entropy(logits.double(), labels)
        made = [F.cross_entropy(logits.to(dtype), labels) for dtype in (BF16, FP16)]
        made.append(F.cross_entropy(logits.to(BF16).float(), labels))
        sums = [total + float((each.double() - right).abs()) / 20 for total, each in zip(sums, made, strict=True)]
    return [round(each, 4) for each in sums]


expect("PF805", "cross entropy of bfloat16 logits inside a region is float32", r"^torch.float32$")(
    lambda: _under(BF16, lambda: F.cross_entropy(randn(4, 8, dtype=BF16), torch.zeros(4, dtype=torch.long, device=D)))
)


@expect("PF807", "relative error of the sum of 512 gradients in bf16, fp16", r"^\[0\.0[234]\d*, 0\.00[2345]\d*\]$")
def _() -> Any:
    found = []
    for dtype in (BF16, FP16):
        torch.manual_seed(0)
        parts = randn(512, 1000) * 0.01 + 0.01
        weight = nn.Parameter(torch.zeros(1000, device=D, dtype=dtype))
        for part in parts:
            (weight * part.to(dtype)).sum().backward()
        right = parts.double().sum(0)
        found.append(round(float((weight.grad.double() - right).norm() / right.norm()), 4))  # type: ignore[union-attr]
    return found


@expect(
    "PF808",
    "statistics with momentum 0.1 and 0.01 in bf16, fp16, fp32: only bf16 with 0.01 stops, mean under 2.7",
    r"0\.01 bfloat16: 2\.[0-6]",
)
def _() -> Any:
    found = []
    for momentum in (0.1, 0.01):
        for dtype in (BF16, FP16, FP32):
            torch.manual_seed(0)
            norm = nn.BatchNorm1d(64, momentum=momentum).to(D, dtype).train()
            for _ in range(2000):
                norm((torch.randn(256, 64, device=D) * 2 + 3).to(dtype))
            both = [round(float(each.float().mean()), 2) for each in (norm.running_mean, norm.running_var)]  # type: ignore[union-attr]
            found.append(f"{momentum} {str(dtype)[6:]}: {both[0]} {both[1]}")
    return "; ".join(found)


@expect("PF808", "float32 statistics beside bfloat16 input and weights in float32 (region): right", r"^\[3\.0|2\.99")
def _() -> Any:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(64, momentum=0.01).to(D).train()
    with torch.autocast(D, dtype=BF16):
        for _ in range(2000):
            norm((torch.randn(256, 64, device=D) * 2 + 3).bfloat16())
    return [round(float(norm.running_mean.mean()), 2)]  # type: ignore[union-attr]


@expect(
    "PF809",
    "weight decay 0.01 at lr 1e-4, 1,000 steps: float32, bf16, fp16, and fused",
    r"^\[0\.00(1|09)\d*, 0\.0, 0\.0, 0\.0, 0\.0\]$",
)
def _() -> Any:
    found = []
    for dtype, fused in ((FP32, False), (BF16, False), (FP16, False), (BF16, True), (FP16, True)):
        weight = nn.Parameter(torch.ones(100, device=D, dtype=dtype))
        weight.grad = torch.zeros_like(weight)
        optimizer = torch.optim.AdamW([weight], lr=1e-4, weight_decay=0.01, eps=1e-4, fused=fused)
        for _ in range(1000):
            optimizer.step()
        found.append(round(float(1 - weight.detach().double().mean()), 5))
    return found


@expect("PF602", "is_bf16_supported with and without emulation, on a GPU that has it", r"^\(True, True\)$")
def _() -> Any:
    return torch.cuda.is_bf16_supported(), torch.cuda.is_bf16_supported(including_emulation=False)


@expect(
    "PF607",
    "a capability compared with a number",
    "TypeError: '>=' not supported between instances of 'tuple' and 'int'",
)
def _() -> Any:
    return torch.cuda.get_device_capability() >= 8  # type: ignore[operator]


if __name__ == "__main__":
    expect.ask(sys.argv[1], sys.argv[3:])
