"""What the installed torch really raises where dtypes meet: the catalog knows each message, with the dtypes in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from precfix.codemod.diagnosis.catalog import load_catalog
from precfix.codemod.diagnosis.log import read_log
from precfix.codemod.diagnosis.matching import matches, telling

torch = pytest.importorskip("torch")
ENTRIES = load_catalog()
F = torch.nn.functional
BF16, FP32, FP16 = torch.bfloat16, torch.float32, torch.float16


def a(*shape: int) -> Any:
    return torch.ones(*shape, dtype=BF16)


def b(*shape: int) -> Any:
    return torch.ones(*shape, dtype=FP32)


def _setitem() -> None:
    target = b(4, 4)
    target[torch.tensor([0, 1])] = a(2, 4)


def _gradient() -> None:
    weight = torch.nn.Parameter(a(4))
    weight.grad = b(4)


def _huber() -> None:
    F.huber_loss(a(4).requires_grad_(), b(4)).backward()


def _scaler() -> None:
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(torch.ones(4, dtype=FP16))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)


def _twice() -> None:
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(b(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


RAISING: dict[str, tuple[str, Callable[[], object]]] = {
    "mm": ("matmul-operands", lambda: a(2, 3) @ b(3, 2)),
    "linear": ("matmul-operands", lambda: F.linear(b(2, 3), a(4, 3), a(4))),
    "addmm": ("matmul-operands", lambda: torch.addmm(a(2, 2), a(2, 3), b(3, 2))),
    "mv": ("matmul-operands", lambda: torch.mv(a(2, 3), b(3))),
    "dot": ("matmul-operands", lambda: torch.dot(a(3), b(3))),
    "bilinear": ("matmul-operands", lambda: F.bilinear(a(2, 3), b(2, 3), a(1, 3, 3))),
    "prelu": ("matmul-operands", lambda: F.prelu(b(2, 3), a(1))),
    "bmm": ("scalar-type", lambda: torch.bmm(a(1, 2, 3), b(1, 3, 2))),
    "conv": ("conv-operands", lambda: F.conv2d(b(1, 1, 4, 4), a(1, 1, 3, 3), a(1))),
    "batch_norm": ("norm-parameters", lambda: F.batch_norm(b(2, 3, 4), a(3), a(3), a(3), a(3))),
    "lstm": ("rnn-operands", lambda: torch.nn.LSTM(3, 4)(a(2, 1, 3))),
    "setitem": ("indexed-write", _setitem),
    "index_add": ("scatter-operands", lambda: b(4, 4).index_add_(0, torch.tensor([0]), a(1, 4))),
    "scatter": ("scatter-operands", lambda: b(4).scatter_(0, torch.tensor([0]), a(1))),
    "index_copy": ("scatter-operands", lambda: b(4).index_copy_(0, torch.tensor([0]), a(1))),
    "masked_scatter": ("scatter-operands", lambda: b(4).masked_scatter_(torch.ones(4) > 0, a(4))),
    "out": ("out-buffer", lambda: torch.matmul(a(2, 3), a(3, 2), out=b(2, 2))),
    "lerp": ("optimizer-lerp", lambda: b(4).lerp_(a(4), 0.1)),
    "embedding": ("integers-as-floats", lambda: F.embedding(a(2), b(4, 3))),
    "embedding_bag": ("embedding-bag-weights", lambda: F.embedding_bag(
        torch.tensor([[0, 1]]), a(4, 3), per_sample_weights=b(1, 2), mode="sum")),
    "sdpa": ("attention-operands", lambda: F.scaled_dot_product_attention(a(1, 2, 4), b(1, 2, 4), b(1, 2, 4))),
    "sdpa mask": ("attention-mask", lambda: F.scaled_dot_product_attention(
        b(1, 2, 4), b(1, 2, 4), b(1, 2, 4), attn_mask=a(2, 2))),
    "gradient": ("backward-dtype", _gradient),
    "huber": ("backward-dtype", _huber),
    "numpy": ("numpy-bfloat16", lambda: a(2).numpy()),
    "overflow": ("constant-overflow", lambda: torch.ones(4, dtype=FP16).masked_fill(torch.ones(4) > 0, -1e9)),
    "inverse": ("linear-algebra-kernel", lambda: torch.linalg.inv(a(2, 2))),
    "svd": ("linear-algebra-kernel", lambda: torch.linalg.svd(a(2, 2))),
    "qr": ("linear-algebra-kernel", lambda: torch.linalg.qr(torch.ones(2, 2, dtype=FP16))),
    "quantile": ("linear-algebra-kernel", lambda: torch.quantile(a(4), 0.5)),
    "fft": ("fourier-transform", lambda: torch.fft.rfft(a(8))),
    "complex": ("complex-kernel", lambda: torch.complex(a(2), a(2))),
    "view_as_complex": ("complex-kernel", lambda: torch.view_as_complex(a(2, 2))),
    "pool": ("operation-kernel", lambda: F.avg_pool3d(a(1, 1, 4, 4, 4), 2)),
    "antialias": ("upsample-kernel", lambda: F.interpolate(a(1, 1, 8, 8), (4, 4), mode="bilinear", antialias=True)),
    "scaler": ("unscale-fp16", _scaler),
    "unscale": ("unscale-twice", _twice),
    "string": ("string-as-dtype", lambda: torch.zeros(2, dtype="bfloat16")),
    "device object": ("autocast-arguments", lambda: torch.autocast(torch.device("cpu"))),
}  # fmt: skip


@pytest.mark.parametrize("name", RAISING)
def test_what_torch_raises_is_known(name: str) -> None:
    entry, operation = RAISING[name]
    with pytest.raises(Exception) as raised:  # noqa: PT011
        operation()
    log = read_log(f"{type(raised.value).__name__}: {raised.value}".encode(), telling(ENTRIES))
    found = matches(log, ENTRIES)
    assert [match.entry.id for match in found] == [entry], str(raised.value)
    if found[0].first:
        assert {found[0].first, found[0].second} <= {"bfloat16", "float32", "float16"}


def test_errors_that_are_no_matter_of_precision_are_not_known() -> None:
    for operation in (
        lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        lambda: torch.ones(2, dtype=torch.int64) @ torch.ones(2, 2),
        lambda: torch.ones(3) + torch.ones(4),
        lambda: torch.ones(2, 2, dtype=torch.complex64) @ torch.ones(2, 2),
        lambda: F.embedding(torch.tensor([9]), torch.ones(4, 3)),
        lambda: torch.ones(2, requires_grad=True).numpy(),
        lambda: torch.ones(2).view(3),
        lambda: torch.nn.Linear(2, 2).load_state_dict({}),
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            operation()
        log = read_log(f"{type(raised.value).__name__}: {raised.value}".encode(), telling(ENTRIES))
        assert matches(log, ENTRIES) == [], str(raised.value)
