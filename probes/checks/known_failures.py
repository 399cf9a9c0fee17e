"""Known failures of mixed precision, tried out: does *this* PyTorch fail on *this* device?

Each is a fact and not a failure of the check: ``fails`` says whether the failure is there, ``error`` what was raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ...codemod.profiles.profile import Fact, Status
from ..failures import classify
from ..step import Judgment, Numbers, ProbeStep, StepResult, Task
from .train50 import scaler_for

if TYPE_CHECKING:
    import torch

MEANING = {
    "scaler-with-bf16-gradients": "GradScaler raises on bfloat16 gradients: no GradScaler under bf16 (PF101)",
    "encoder-fast-path": "nn.TransformerEncoder fails in eval() under autocast with a padding mask: build it with "
    "enable_nested_tensor=False, or torch.backends.mha.set_fastpath_enabled(False)",
    "encoder-output-dtype": "nn.TransformerEncoder returns another dtype in eval() than in training under autocast: "
    "cast its output",
    "custom-function": "the backward of an autograd.Function meets two dtypes under autocast: decorate it with "
    "torch.amp.custom_fwd and custom_bwd",
    "out-buffer": "autocast does not cast for out=: give the buffer the dtype of the inputs",
    "index-put": "tensor[index] = value raises when dtypes differ, also under autocast: value.to(tensor.dtype)",
    "numpy-from-bf16": "a bfloat16 tensor has no .numpy(): x.float().numpy()",
}
"""What each fact means for code, where it holds."""


def steps(task: Task) -> Iterator[ProbeStep]:
    """One step for each known failure."""
    tries: dict[str, Try] = {
        "scaler-with-bf16-gradients": _scaler,
        "encoder-fast-path": _encoder_fast_path,
        "encoder-output-dtype": _encoder_output,
        "custom-function": _custom_function,
        "out-buffer": _out_buffer,
        "index-put": _index_put,
        "numpy-from-bf16": _numpy,
    }
    for name, attempt in tries.items():
        yield name, lambda attempt=attempt: _outcome(task.device, attempt)  # type: ignore[misc]


Try: TypeAlias = Callable[[str], "bool | None"]
"""True when the failure is there without an exception, None when it cannot be tried."""


def facts(results: Mapping[str, StepResult]) -> tuple[Fact, ...]:
    """The facts, as a profile holds them."""
    return tuple(
        Fact(name, each.flag("fails"), MEANING[name], each.failure.message if each.failure else each.text("error"))
        for name, each in results.items()
    )


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """It holds unless trying one out ended the process."""
    for name, result in results.items():
        if result.failure is not None and result.status in (Status.CRASHED, Status.TIMEOUT):
            return Judgment(False, f"{name}: {result.failure.sentence}", result.failure.kind)
    found = [name for name, result in results.items() if result.flag("fails")]
    return Judgment(True, f"{len(found)} of {len(results)} known failures are in this PyTorch: {', '.join(found)}")


def _outcome(device: str, attempt: Try) -> Numbers:
    try:
        fails = attempt(device)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        failure = classify(type(error).__name__, str(error))
        if failure.kind in ("out-of-memory", "device-busy") or failure.sticky:
            raise
        return {"fails": True, "error": failure.message}
    return {"fails": fails, "error": ""}


def _autocast(device: str) -> torch.autocast:
    import torch

    return torch.autocast(device.partition(":")[0], dtype=torch.bfloat16)


def _scaler(device: str) -> bool:
    import torch

    class Optimizer(torch.optim.Optimizer):
        """What a scaler needs of one. A real one makes its first step import torch's compiler, over a second."""

        def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
            self.param_groups = [{"params": parameters}]

        def step(self, closure: object = None) -> None:  # type: ignore[override]
            return None

    parameter = torch.nn.Parameter(torch.ones(4, device=device, dtype=torch.bfloat16))
    scaler = scaler_for(device.partition(":")[0], enabled=True)
    torch.autograd.backward(scaler.scale(parameter.float().sum()))
    scaler.step(Optimizer([parameter]))
    scaler.update()
    return False


def _encoder(device: str) -> torch.nn.TransformerEncoder:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2).to(device)


def _encoder_fast_path(device: str) -> bool:
    import torch

    encoder = _encoder(device).eval()
    inputs = torch.randn(2, 5, 16, device=device)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2], device=device)
    with torch.no_grad(), _autocast(device):
        encoder(inputs, src_key_padding_mask=mask)
    return False


def _encoder_output(device: str) -> bool:
    import torch

    encoder, inputs = _encoder(device), torch.randn(2, 5, 16, device=device)
    with _autocast(device):
        trained = encoder.train()(inputs).dtype
        with torch.no_grad():
            return bool(encoder.eval()(inputs).dtype != trained)


def _custom_function(device: str) -> bool:
    import torch

    class ProductWithoutFwd(torch.autograd.Function):
        """A matrix product without custom_fwd."""

        @staticmethod
        def forward(ctx, left, right):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(left, right)
            return left @ right

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            left, right = ctx.saved_tensors
            return gradient @ right.T, left.T @ gradient

    left, right = (torch.randn(4, 4, device=device, requires_grad=True) for _ in range(2))
    with _autocast(device):
        product = ProductWithoutFwd.apply(left, right)  # type: ignore[no-untyped-call]
    torch.autograd.backward(product.sum())
    return False


def _out_buffer(device: str) -> bool:
    import torch

    with _autocast(device):
        halves = torch.randn(4, 4, device=device, dtype=torch.bfloat16)
        torch.matmul(halves, halves, out=torch.empty(4, 4, device=device))
    return False


def _index_put(device: str) -> bool:
    import torch

    with _autocast(device):
        target = torch.zeros(4, device=device)
        target[torch.tensor([0, 2], device=device)] = torch.ones(2, device=device, dtype=torch.bfloat16)
    return False


def _numpy(device: str) -> bool | None:
    import torch

    try:
        torch.ones(2).numpy()
    except RuntimeError:  # there is no NumPy, or none that fits this torch
        return None
    torch.ones(2, dtype=torch.bfloat16, device=device).cpu().numpy()
    return False
