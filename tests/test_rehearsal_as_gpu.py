"""What a real GPU was seen to do (docs/gpu.md), in rehearsals on a machine that has none."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from precfix.probes.rehearsal.inside import start
from precfix.probes.rehearsal.inside.places import UserFrames
from precfix.probes.rehearsal.inside.shadow.following import repeated
from precfix.probes.rehearsal.inside.shadow.lines import Lines
from precfix.probes.rehearsal.inside.shadow.shadow import Shadow
from precfix.probes.rehearsal.inside.shadow.storages import Storages
from precfix.probes.rehearsal.inside.wording import on_cuda

from .rehearsal_runs import records
from .warm_torch import python

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\nD = 'cuda'\n"
RIGHT = {
    "recurrent layers are cast to float16, whatever the region's dtype": """
for kind in (nn.LSTM, nn.GRU, nn.RNN):
    with torch.autocast(D, dtype=torch.bfloat16):
        assert kind(4, 4, device=D)(torch.randn(2, 3, 4, device=D))[0].dtype == torch.float16
        assert nn.LSTMCell(4, 4, device=D)(torch.randn(3, 4, device=D))[0].dtype == torch.bfloat16
""",
    "norms with a dimension get their dtype": """
x, y = torch.randn(4, 4, device=D), torch.randn(4, 4, device=D).half()
with torch.autocast(D, dtype=torch.float16):
    assert F.pairwise_distance(x, y).dtype == F.triplet_margin_loss(x, y, y).dtype == torch.float32
    assert y.norm(dim=-1).dtype == y.norm().dtype == torch.norm(y, 1).dtype == torch.float32
""",
    "beside float32 the other half is promoted": """
x = torch.ones(4, device=D)
with torch.autocast(D, dtype=torch.bfloat16):
    assert torch.addcmul(x, x.half(), x.half()).dtype == torch.dot(x, x.half()).dtype == torch.float32
""",
    "autocast reaches into what an operation is made of": """
x = torch.rand(4, 4, device=D)
with torch.autocast(D, dtype=torch.bfloat16):
    assert torch.linalg.pinv(x).dtype == torch.bfloat16
    assert torch.ldexp(x.bfloat16(), x.bfloat16()).dtype == torch.float32
    assert torch.cdist(x, x).dtype == torch.float32
""",
    "tensors on the CPU are left alone": """
net, x = nn.Linear(4, 4), torch.rand(2, 4)
with torch.autocast(D, dtype=torch.bfloat16):
    assert net(x).dtype == F.binary_cross_entropy(x, x).dtype == torch.float32
    assert x.half().sum().dtype == torch.float16
    assert net.to(D)(x.to(D)).dtype == torch.bfloat16
    assert x.to(D).half().sum().dtype == torch.float32
try:
    torch.set_autocast_enabled(D, torch.float16)
except TypeError as error:
    assert "must be bool, not torch.dtype" in str(error)
else:
    raise AssertionError
""",
    "bounds that float16 does not hold": """
x = torch.ones(2, device=D, dtype=torch.float16, requires_grad=True)
y = x.clamp(min=-1e9) + F.hardtanh(x, -1e9, 1e9) + x.detach().clone().clamp_(max=1e9)
y.sum().backward()
assert y.dtype == x.grad.dtype == torch.float16 and y.sum() == 6 and x.grad.sum() == 4
assert x.clamp(min=1e9).isinf().all()
""",
    "choices that the dtype holds": """
mask = torch.tensor([True, False], device=D)
half = torch.float16
for dtype, number in ((torch.float32, -1e9), (torch.bfloat16, -1e9), (half, -65504.0), (half, -float("inf"))):
    assert torch.where(mask, torch.ones(2, device=D, dtype=dtype), number).dtype == dtype
assert torch.where(mask, torch.ones(2, device=D).half(), torch.tensor(-1e9)).isinf().any()
""",
    "powers of two": "assert torch.fft.rfft(torch.ones(8, device=D).half()).dtype == torch.complex32\n",
    "a product is written to out": """
a, out = torch.ones(2, 2, device=D).half(), torch.zeros(2, 2, device=D).half()
assert torch.mm(a, a, out=out) is out and out.sum() == 8
""",
}
WRONG = {
    "a choice beyond float16": (
        "torch.where(torch.ones(2, device=D) > 0, torch.ones(2, device=D).half(), -1e9)\n",
        "value cannot be converted to type c10::Half without overflow",
    ),
    "a threshold beyond float16": (
        "F.threshold(torch.ones(2, device=D).half(), 1e9, 0.0)\n",
        "value cannot be converted to type c10::Half without overflow",
    ),
    "other sizes": ("torch.fft.rfft(torch.ones(6, device=D).half())\n", "powers of two"),
    "other sizes on the way back": (
        "torch.fft.irfft(torch.fft.rfft(torch.ones(8, device=D).half()), n=6)\n",
        "but got a signal size of[6]",
    ),
    "out of another dtype": (
        "a = torch.ones(2, 2, device=D).half()\ntorch.mm(a, a, out=torch.zeros(2, 2, device=D))\n",
        "Expected out tensor to have dtype",
    ),
    "a histogram": ("torch.histc(torch.ones(4, device=D).bfloat16())\n", "\"histc\" not implemented for 'BFloat16'"),
    "an inverse": (
        "assert torch.linalg.inv(torch.eye(2, device=D).half()).shape == (2, 2)\n",
        "Low precision dtypes not supported",
    ),
    "an angle": ("torch.angle(torch.ones(4, device=D).half())\n", "\"angle_cuda\" not implemented for 'Half'"),
    "a product without bias": (
        "torch.ones(2, 2, device=D) @ torch.ones(2, 2, device=D).half()\n",
        "expected mat1 and mat2 to have the same dtype",
    ),
}
LIBRARY = """
import warnings
import torch
library = torch.library.Library("demo", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", torch.library.fallthrough_kernel, "AutocastCPU")
from precfix.probes.rehearsal.inside.autocast import DevicePolicy
print(DevicePolicy(torch, "cuda").install())
"""
ALONE = """
import torch
from torch import nn
def overridable(function):
    def called(*args):
        if torch._C._is_torch_function_mode_enabled():
            return torch.overrides.handle_torch_function(called, args, *args)
        return function(*args)
    called.__name__ = function.__name__
    return called
@overridable
def halve_(x):
    if x.dtype == torch.bfloat16:
        raise NotImplementedError("\\"halve_cuda\\" not implemented for 'BFloat16'")
    return x.mul_(0.5)
@overridable
def fill(a, b):
    if a.dtype != b.dtype:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    return a
x = torch.ones(2, dtype=torch.bfloat16)
assert halve_(x) is x and x.tolist() == [0.5, 0.5]
try:
    fill(torch.ones(2), x)
except torch.OutOfMemoryError:
    x = None
assert x is None, "no cast makes room"
net = torch.compile(nn.Linear(2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("programs")
    sources = {**RIGHT, **{name: source for name, (source, _) in WRONG.items()}}
    jobs = []
    for number, (name, source) in enumerate(sources.items()):
        place = folder / str(number)
        place.mkdir()
        (place / "train.py").write_text(HEAD + source, "utf-8")
        jobs.append((name, str(place), "train.py", "h100", 0))
    (folder / "alone.py").write_text(ALONE, "utf-8")
    return records([*jobs, ("alone", str(folder), "alone.py", "cpu", 0)])


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_computed_as_on_the_gpu(name: str, seen: Mapping[str, dict[str, Any]]) -> None:
    assert seen[name]["error"] == ""
    assert seen[name]["record"]["failures"] == []


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused_as_on_the_gpu(name: str, seen: Mapping[str, dict[str, Any]]) -> None:
    (failure,) = seen[name]["record"]["failures"]
    assert WRONG[name][1] in failure["error"]
    assert seen[name]["error"] == "", "the run goes on"


def test_a_recording_passes_over_kernels_that_change_in_place(seen: Mapping[str, dict[str, Any]]) -> None:
    answer = seen["alone"]
    assert answer["error"] == ""
    assert [each["kind"] for each in answer["record"]["failures"]] == ["kernel_missing"]


def test_a_recording_does_not_compile_either(seen: Mapping[str, dict[str, Any]]) -> None:
    assert any("eagerly" in note for note in seen["alone"]["record"]["notes"])


def test_operations_of_other_libraries_keep_their_autocast() -> None:
    done = subprocess.run([python(), "-c", LIBRARY], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True", done.stderr


def test_the_driver_is_asked_for_a_gpu_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    for before in (None, "0"):
        monkeypatch.delenv(name, raising=False)
        if before is not None:
            monkeypatch.setenv(name, before)
        asked: list[str | None] = []
        cuda = SimpleNamespace(is_available=lambda asked=asked: asked.append(os.environ.get(name)) or True)
        assert start._finds_gpu(SimpleNamespace(cuda=cuda))
        assert (asked, os.environ.get(name)) == (["1"], before)


def test_a_gpu_is_hidden_from_cuda_and_not_from_what_reads_the_variable() -> None:
    """DeepSpeed makes numbers of it, and an empty text is none."""
    code = "import os, subprocess\nfrom precfix.probes.rehearsal.inside import start\nstart._hide_gpus()\n"
    code += "print(os.environ['CUDA_VISIBLE_DEVICES'], subprocess.run(['printenv', 'CUDA_VISIBLE_DEVICES']).returncode)"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run([python(), "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout.split() == ["0", "0"], done.stderr


@pytest.mark.parametrize(
    ("said", "on_the_gpu"),
    [
        (
            "Input type (CPUBFloat16Type) and weight type (torch.FloatTensor) should be the same or input should be a "
            "MKLDNN tensor and weight is a dense tensor",
            "Input type (CUDABFloat16Type) and weight type (torch.cuda.FloatTensor) should be the same",
        ),
        (
            "masked_scatter: expected self and source to have same dtypes but gotFloat and Half",
            "masked_scatter_: expected self and source to have same dtypes but got Float and Half",
        ),
        ("MKL FFT doesn't support tensors of type: BFloat16", "cuFFT doesn't support tensor of type: BFloat16"),
    ],
)
def test_words_of_the_gpu(said: str, on_the_gpu: str) -> None:
    assert on_cuda(said) == on_the_gpu


def test_a_shadow_lives_where_its_storage_does() -> None:
    storages = Storages()
    tensor = torch.ones(4, device="meta", dtype=torch.bfloat16)
    assert storages.shadow(tensor).device.type == "meta"
    assert storages.put(tensor, torch.ones(4, device="meta", dtype=torch.float64)).flat.device.type == "meta"


def test_a_thread_without_frames_of_the_user_is_in_the_backward_pass(tmp_path: Path) -> None:
    lines = Lines(UserFrames(str(tmp_path)))
    assert lines.here() is None
    lines.backward = ("train.py", 3, 8)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(lines.here()))
    thread.start()
    thread.join()
    assert found == [("train.py", 3, 8)]


class Halves(torch.autograd.Function):
    """Two results, as cuDNN's layers have several; what is not used has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return x * 0.5, x * 2.0

    @staticmethod
    def backward(ctx: Any, one: Any, other: Any) -> Any:
        return one * 0.5


class Cell(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return Halves.apply(x)


def test_a_result_that_nothing_uses_has_no_gradient_to_compare(tmp_path: Path) -> None:
    x = torch.ones(3, requires_grad=True)
    with Shadow(UserFrames(str(tmp_path))) as shadow:
        Cell()(x)[0].sum().backward()
        assert not shadow.findings().worst
    assert x.grad is not None


class Careless:
    """A kernel that takes float64 and gives nonsense, as cuDNN's does."""

    def __init__(self, kernel: Any) -> None:
        self._schema, self.tags = kernel._schema, kernel.tags

    def __call__(self, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return (torch.full_like(query, torch.nan),)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_of_a_gpu_is_shadowed(causal: bool) -> None:
    """Its kernels have no float64: forward and backward are worked out instead."""
    q, k, v = (torch.randn(2, 2, 5, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    gradient = torch.randn_like(out)
    right = torch.autograd.grad(out, (q, k, v), gradient)
    q, k, v = (each.detach() for each in (q, k, v))
    for kernel, given in (
        (torch.ops.aten._scaled_dot_product_flash_attention.default, (0.0, causal)),
        (torch.ops.aten._scaled_dot_product_cudnn_attention.default, (None, True, 0.0, causal)),
    ):
        careless: Any = Careless(kernel)
        found: Any = repeated(careless, ((q, k, v, *given), {}), False, (out,))
        torch.testing.assert_close(found[0], out.detach())
    nothing = (out, None, None, None, 5, 5, 0.0, causal, None, None)
    backward = torch.ops.aten._scaled_dot_product_flash_attention_backward.default
    torch.testing.assert_close(repeated(backward, ((gradient, q, k, v, *nothing), {}), False, right), right)
    dropped = (out, None, None, None, 5, 5, 0.1, causal, None, None)
    assert repeated(backward, ((gradient, q, k, v, *dropped), {}), False, right) is None
