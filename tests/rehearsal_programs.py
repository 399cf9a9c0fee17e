"""Programs for test_rehearsal_programs.py: mistakes as they were made in real projects, and the same repaired."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """``{}`` in the source takes ``wrong`` or ``right``."""

    source: str
    wrong: str
    right: str
    error: str
    marked: str
    """Text of the line that raises."""
    profile: str = "a100"


_STEP = """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_TRAIN = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
"""

PAIRS = {
    "scaler-with-bf16-gradients": Pair(
        _TRAIN
        + """
scaler = torch.amp.GradScaler("cuda", enabled={})
for _ in range(2):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = net(torch.randn(4, 8, device="cuda")).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        "True",
        "False",
        "\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
        "scaler.step(optimizer)",
    ),
    "gradient-in-another-dtype": Pair(
        _TRAIN
        + """
for _ in range(2):
    net(torch.randn(4, 8, device="cuda", dtype=torch.bfloat16)).mean().backward()
    for weight in net.parameters():
        weight.grad.data = weight.grad.data{}
    optimizer.step()
    optimizer.zero_grad()
""",
        ".float()",
        "",
        "expected dtype",
        "optimizer.step()",
    ),
    "out-of-another-dtype": Pair(
        """
import torch
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.to(w.dtype) @ w
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        dx = torch.matmul(grad, w.t(), out={})
        return dx.to(x.dtype), x.to(w.dtype).t() @ grad
x = torch.randn(4, 8, device="cuda", requires_grad=True)
w = torch.randn(8, 8, device="cuda", dtype=torch.bfloat16, requires_grad=True)
Product.apply(x, w).float().sum().backward()
print(x.grad.dtype, w.grad.dtype)
""",
        "torch.empty_like(x)",
        "None",
        "Expected out tensor to have dtype",
        "torch.matmul(grad",
    ),
    "mask-in-float32": Pair(
        """
import torch
from torch import nn
conv = nn.Conv2d(5, 4, 3).to("cuda", torch.float16)
latents = torch.randn(2, 4, 8, 8, device="cuda", dtype=torch.float16)
mask = torch.ones(2, 1, 8, 8, device="cuda"{})
print(conv(torch.cat([latents, mask], 1)).shape)
""",
        "",
        ", dtype=latents.dtype",
        "should be the same",
        "print(conv(",
    ),
    "encoder-on-the-fast-path": Pair(
        """
import torch
from torch import nn
layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
encoder = nn.TransformerEncoder(layer, 1).eval()
torch.backends.mha.set_fastpath_enabled({})
padding = torch.tensor([[False, False, True]])
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
    print(encoder(torch.randn(1, 3, 16), src_key_padding_mask=padding).dtype)
""",
        "True",
        "False",
        "expected scalar type Float but found BFloat16",
        "print(encoder(",
        "cpu",
    ),
    "norm-with-float32-weights": Pair(
        """
import torch
from torch import nn
norm = nn.LayerNorm(8, device="cuda"{})
print(norm(torch.randn(2, 8, device="cuda", dtype=torch.bfloat16)).dtype)
""",
        "",
        ", dtype=torch.bfloat16",
        "expected scalar type BFloat16 but found Float",
        "print(norm(",
    ),
    "banned-loss": Pair(
        """
import torch
from torch.nn import functional as F
with torch.autocast("cuda", dtype=torch.bfloat16):
    x = torch.rand(4, device="cuda")
    print(F.{}(x, torch.ones(4, device="cuda")))
""",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "are unsafe to autocast",
        "print(F.",
    ),
    "overflow": Pair(
        """
import torch
net = torch.nn.Linear(4, 1).to("cuda", torch.float16)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for _ in range(2):
    big = torch.exp(net(torch.ones(2, 4, device="cuda", dtype=torch.float16)) * 0 + {})
    loss = (big - big).float().mean()
"""
        + _STEP,
        "12",
        "2",
        "the loss is not finite; the first such value came from exp, in float16",
        "big = torch.exp(",
    ),
}

CHECKPOINTS = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 3, 1)).cuda()
net = net.to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
scaler = torch.amp.GradScaler("cuda")
for reentrant in (False, True):
    x = torch.randn(2, 3, 8, 8, device="cuda", requires_grad=True).to(memory_format=torch.channels_last)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = checkpoint(net, x, use_reentrant=reentrant).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
PARALLEL = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(10, 16), nn.LSTM(16, 16, batch_first=True)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
    def forward(self, x):
        h, _ = self.cell(self.embedding(x))
        return self.attention(h, h, h)[0]
net = nn.DataParallel(Net()).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
for _ in range(2):
    x = torch.randint(0, 10, (4, 6)).cuda()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
net.eval()
with torch.no_grad():
    net(x).argmax(-1).cpu().numpy()
"""
DEVICES = """
import copy, io, torch
from torch import nn
cpu, gpu = torch.randn(2, 2), torch.randn(2, 2, device="cuda")
assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (8, 0)
assert (cpu.device.type, str(gpu.device), gpu.is_cuda, gpu.get_device()) == ("cpu", "cuda:0", True, 0)
assert str((gpu @ cpu.to(gpu.device)).device) == "cuda:0" and gpu.T.is_cuda and gpu.cpu().device.type == "cpu"
kept = gpu.cpu()
gpu += 1
assert not torch.equal(kept, gpu.cpu()), "a copy on the host is a copy"
assert gpu.to("cuda") is gpu
net = nn.Linear(2, 2).to(torch.device("cuda"), torch.float16)
assert {(p.device.type, p.dtype) for p in net.parameters()} == {("cuda", torch.float16)}
assert copy.deepcopy(net).weight.is_cuda
with torch.device("cuda"):
    assert torch.ones(2).is_cuda
assert not torch.ones(2).is_cuda
generator = torch.Generator("cuda").manual_seed(0)
assert generator.device.type == "cuda" and isinstance(torch.default_generator, torch.Generator)
torch.randn(2, device="cuda", generator=generator)
with torch.cuda.stream(torch.cuda.Stream()):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record(); end.record(); torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0
file = io.BytesIO()
torch.save(net.state_dict(), file)
file.seek(0)
net.load_state_dict(torch.load(file, map_location="cuda"))
with torch.autocast("cpu", dtype=torch.bfloat16):
    assert net.float()(gpu).dtype == torch.float32, "autocast for the CPU leaves the device alone"
with torch.autocast("cuda"):
    assert net(gpu).dtype == torch.float16 and torch.is_autocast_enabled()
    assert net(gpu).softmax(-1).dtype == torch.float32
    assert nn.LSTM(2, 2, device="cuda")(gpu)[0].dtype == torch.float16
half = torch.randn(8, device="cuda", dtype=torch.float16)
assert nn.functional.avg_pool3d(half.reshape(1, 2, 2, 2), 2).dtype == torch.float16, "a kernel that only the CPU lacks"
assert torch.compile(net)._orig_mod is net and torch.compile(len) is len
assert torch.utils.checkpoint.checkpoint(net, gpu, use_reentrant=False).is_cuda
loss = net(gpu).sum()
loss.backward()
assert net.weight.grad.is_cuda
torch.optim.AdamW(net.parameters(), fused=True).step()
"""
OLDER_WAYS = """
import io, torch
from torch import nn
torch.cuda.set_device(1)
assert torch.cuda.current_device() == 1 and str(torch.ones(2, device="cuda").device) == "cuda:1"
assert str(torch.device(0)) == "cuda:0" and torch.ones(2, device=0).is_cuda
net = nn.Linear(2, 2).to(1)
assert net.weight.is_cuda
Tensor = torch.cuda.HalfTensor if torch.cuda.is_available() else torch.HalfTensor
made, moved = Tensor([1.0, 2.0]), torch.ones(2).type(torch.cuda.FloatTensor)
assert made.is_cuda and made.dtype == torch.float16 and isinstance(made, Tensor)
assert moved.is_cuda and not isinstance(torch.ones(2), torch.cuda.FloatTensor)
moved.record_stream(torch.cuda.current_stream())
assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 0
torch.cuda.nvtx.range_push("step"); torch.cuda.nvtx.range_pop()
file = io.BytesIO()
torch.save({"net": net.state_dict()}, file)
file.seek(0)
assert torch.load(file, map_location="cuda:1")["net"]["weight"].is_cuda
graph: torch.cuda.CUDAGraph | None = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    net(moved)
graph.replay()
torch.compiler.cudagraph_mark_step_begin()
torch.set_default_tensor_type("torch.cuda.FloatTensor")
assert torch.zeros(2).is_cuda
"""
GRADIENTS = """
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils.rnn import pack_padded_sequence
net, cell = nn.Linear(8, 1).cuda(), nn.GRU(8, 8, batch_first=True).cuda()
optimizer, scaler = torch.optim.Adam([*net.parameters(), *cell.parameters()]), torch.amp.GradScaler("cuda")
def loss_of(weights, x):
    return functional_call(net, weights, (x,)).sum()
for _ in range(2):
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    vmap(grad(loss_of), in_dims=(None, 0))(dict(net.named_parameters()), x)
    with torch.autocast("cuda", dtype=torch.float16):
        packed, _ = cell(pack_padded_sequence(x[:, None], torch.ones(4), batch_first=True))
        out = net(packed.data) + net(x)
    (slope,) = torch.autograd.grad(scaler.scale(out.sum()) * 1e30, x, create_graph=True)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = out.mean() + (slope / scaler.get_scale()).norm()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
SPECTRA = """
import torch
from torch import nn
net = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)
window = torch.hann_window(16, device="cuda").half()
for _ in range(2):
    with torch.autocast("cuda", dtype=torch.float16):
        y = net(torch.randn(2, 64, device="cuda"))
    lines = torch.fft.rfft(y)
    back, size = torch.fft.irfft(lines), torch.fft.fft(y).abs()
    short = torch.view_as_real(torch.stft(y, 16, 4, window=window, return_complex=True))
    assert (lines.dtype, back.dtype, size.dtype, short.dtype) == (torch.complex32, *[torch.float16] * 3)
    pooled = nn.functional.avg_pool3d(y.reshape(1, 2, 4, 4, 4), 2)
    (back.float().mean() + size.float().mean() + short.float().mean() + pooled.float().mean()).backward()
    optimizer.step()
"""
BETWEEN = """
import io, threading, torch
from torch import nn
from torch.func import functional_call, grad, vmap
method, move = torch.Tensor.__add__, torch.Tensor.cuda
torch.Tensor.__add__ = lambda one, other: method(one, other)
torch.Tensor.cuda = lambda own, *given, **named: move(own, *given, **named)

@torch.library.custom_op("between::doubled", mutates_args=(), device_types="cuda")
def doubled(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda and torch.zeros(1, device="cuda").is_cuda
    return x * 2

library = torch.library.Library("between_too", "FRAGMENT")
library.define("halved(Tensor x) -> Tensor")
library.impl("halved", lambda x: x / 2, "CUDA")
torch.library.register_autocast("between_too::halved", "cuda", torch.float16)

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.ones(1, device="cuda")
    @staticmethod
    def backward(ctx, grad):
        assert grad.is_cuda and ctx.saved_tensors[0].is_cuda
        return grad

def on_device(tensor):
    assert tensor.is_cuda, tensor.device
def packed(tensor):
    assert tensor.is_cuda
    return tensor.cpu()

net = nn.Linear(8, 4).cuda()
assert (net.weight + net.weight).is_cuda
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for weight in net.parameters():
    weight.register_hook(on_device)
for _ in range(2):
    x = torch.randn(4, 8, device="cuda")
    with torch.autograd.graph.saved_tensors_hooks(packed, lambda kept: kept.cuda()):
        with torch.autocast("cuda", dtype=torch.float16):
            y = Times.apply(net(x))
            assert torch.ops.between_too.halved(x).dtype == torch.float16
    (y.float().mean() + doubled(net(x).detach()).mean()).backward()
    optimizer.step()
assert all(each["momentum_buffer"].is_cuda for each in optimizer.state.values())
slopes = vmap(grad(lambda w, x: functional_call(net, w, (x,)).sum()), (None, 0))(dict(net.named_parameters()), x)
assert slopes["weight"].is_cuda

class Thread(threading.Thread):
    def run(self):
        with torch.autocast("cuda"):
            self.dtype = (x @ x.T).dtype

thread = Thread()
thread.start(); thread.join()
assert thread.dtype == torch.float16
places = ("cuda", None, {"cuda:0": "cuda:0"}, lambda storage, place: storage.cuda(), lambda storage, place: storage)
for place in places:
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "host": torch.ones(2)}, file)
    file.seek(0)
    assert torch.load(file, map_location=place)["net"]["weight"].is_cuda == (place != places[-1])
torch.backends.cuda.preferred_linalg_library("cusolver")
torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], device="cuda").to_padded_tensor(0.0)
"""
COMPILED = """
import torch
net = torch.nn.Linear(2, 2).to("mps")
compiled, optimizer = torch.compile(net, mode="max-autotune"), torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    compiled(torch.ones(2, 2, device="mps")).sum().backward()
    optimizer.step()
torch.mps.set_rng_state(torch.mps.get_rng_state())
"""
