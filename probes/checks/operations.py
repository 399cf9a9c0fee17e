"""The operations of the matrix, grouped by what they do. Each takes fresh inputs and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..tensors import dtype_named

if TYPE_CHECKING:
    from torch import Tensor

    Operation: TypeAlias = "Callable[[Inputs], Tensor | Sequence[Tensor]]"
else:
    Operation = object
OperationTable: TypeAlias = "dict[str, Operation]"


class Inputs:
    """Makes the inputs of one operation in one dtype on one device."""

    def __init__(self, device: str, dtype: str) -> None:
        self.device = device
        self.dtype = dtype_named(dtype)

    def x(self, *shape: int) -> Tensor:
        """Normal numbers that want a gradient."""
        import torch

        return torch.randn(*shape, device=self.device).to(self.dtype).requires_grad_()

    def positive(self, *shape: int) -> Tensor:
        """Numbers between 0.2 and 0.8 that want a gradient."""
        import torch

        return (torch.rand(*shape, device=self.device) * 0.6 + 0.2).to(self.dtype).requires_grad_()

    def data(self, *shape: int) -> Tensor:
        """Normal numbers without gradient, such as targets and destinations."""
        return self.x(*shape).detach()

    def index(self, *values: int) -> Tensor:
        """Whole numbers."""
        import torch

        return torch.tensor(values, device=self.device)

    def square(self, size: int) -> Tensor:
        """A positive definite matrix that wants a gradient."""
        import torch

        root = torch.randn(size, size, device=self.device)
        return (root @ root.T + size * torch.eye(size, device=self.device)).to(self.dtype).requires_grad_()


def operations() -> OperationTable:
    groups = (_products, _convolutions, _norms, _activations, _losses, _indexing, _reductions, _shapes, _linear_algebra)
    return {name: operation for group in groups for name, operation in group().items()}


def _products() -> OperationTable:
    import torch
    from torch.nn import functional as F

    return {
        "matmul": lambda m: m.x(8, 16) @ m.x(16, 8),
        "bmm": lambda m: torch.bmm(m.x(2, 4, 8), m.x(2, 8, 4)),
        "addmm": lambda m: torch.addmm(m.x(4, 4), m.x(4, 8), m.x(8, 4)),
        "baddbmm": lambda m: torch.baddbmm(m.x(2, 4, 4), m.x(2, 4, 8), m.x(2, 8, 4)),
        "mv": lambda m: torch.mv(m.x(4, 8), m.x(8)),
        "dot": lambda m: torch.dot(m.x(8), m.x(8)),
        "einsum": lambda m: torch.einsum("bij,bjk->bik", m.x(2, 4, 8), m.x(2, 8, 4)),
        "linear": lambda m: F.linear(m.x(4, 8), m.x(6, 8), m.x(6)),
        "bilinear": lambda m: F.bilinear(m.x(4, 3), m.x(4, 5), m.x(6, 3, 5), m.x(6)),
        "attention": lambda m: F.scaled_dot_product_attention(m.x(1, 2, 4, 8), m.x(1, 2, 4, 8), m.x(1, 2, 4, 8)),
        "attention_causal": lambda m: F.scaled_dot_product_attention(
            m.x(1, 2, 4, 8), m.x(1, 2, 4, 8), m.x(1, 2, 4, 8), is_causal=True
        ),
        "lstm": lambda m: torch.nn.LSTM(4, 6).to(m.device, m.dtype)(m.x(3, 2, 4)),
        "gru": lambda m: torch.nn.GRU(4, 6).to(m.device, m.dtype)(m.x(3, 2, 4)),
    }


def _convolutions() -> OperationTable:
    from torch.nn import functional as F

    return {
        "conv1d": lambda m: F.conv1d(m.x(1, 4, 9), m.x(6, 4, 3), m.x(6)),
        "conv2d": lambda m: F.conv2d(m.x(1, 4, 9, 9), m.x(6, 4, 3, 3), m.x(6)),
        "conv2d_depthwise": lambda m: F.conv2d(m.x(1, 4, 9, 9), m.x(4, 1, 3, 3), groups=4),
        "conv3d": lambda m: F.conv3d(m.x(1, 2, 5, 5, 5), m.x(3, 2, 3, 3, 3)),
        "conv_transpose2d": lambda m: F.conv_transpose2d(m.x(1, 4, 5, 5), m.x(4, 3, 3, 3)),
        "unfold": lambda m: F.unfold(m.x(1, 2, 5, 5), 3),
        "fold": lambda m: F.fold(m.x(1, 18, 9), (5, 5), 3),
        "max_pool2d": lambda m: F.max_pool2d(m.x(1, 2, 6, 6), 2),
        "avg_pool2d": lambda m: F.avg_pool2d(m.x(1, 2, 6, 6), 2),
        "avg_pool3d": lambda m: F.avg_pool3d(m.x(1, 2, 4, 4, 4), 2),
        "adaptive_avg_pool2d": lambda m: F.adaptive_avg_pool2d(m.x(1, 2, 6, 6), 3),
        "interpolate_nearest": lambda m: F.interpolate(m.x(1, 2, 4, 4), scale_factor=2),
        "interpolate_bilinear": lambda m: F.interpolate(m.x(1, 2, 4, 4), scale_factor=2, mode="bilinear"),
        "interpolate_bicubic": lambda m: F.interpolate(m.x(1, 2, 4, 4), scale_factor=2, mode="bicubic"),
        "interpolate_antialias": lambda m: F.interpolate(m.x(1, 2, 8, 8), size=(4, 4), mode="bilinear", antialias=True),
        "grid_sample": lambda m: F.grid_sample(m.x(1, 2, 4, 4), m.x(1, 3, 3, 2), align_corners=False),
        "pixel_shuffle": lambda m: F.pixel_shuffle(m.x(1, 8, 3, 3), 2),
        "pad_reflect": lambda m: F.pad(m.x(1, 2, 4, 4), (1, 1, 1, 1), mode="reflect"),
    }


def _norms() -> OperationTable:
    import torch
    from torch.nn import functional as F

    table: OperationTable = {
        "layer_norm": lambda m: F.layer_norm(m.x(4, 8), (8,), m.x(8), m.x(8)),
        "group_norm": lambda m: F.group_norm(m.x(2, 8, 4), 2, m.x(8), m.x(8)),
        "batch_norm": lambda m: F.batch_norm(m.x(4, 3, 5), m.data(3), m.positive(3).detach(), m.x(3), m.x(3), True),
        "instance_norm": lambda m: F.instance_norm(m.x(2, 3, 8)),
        "normalize": lambda m: F.normalize(m.x(4, 8)),
        "cosine_similarity": lambda m: F.cosine_similarity(m.x(4, 8), m.x(4, 8)),
        "cdist": lambda m: torch.cdist(m.x(3, 4), m.x(5, 4)),
    }
    if hasattr(F, "rms_norm"):
        table["rms_norm"] = lambda m: F.rms_norm(m.x(4, 8), (8,), m.x(8))
    return table


def _activations() -> OperationTable:
    import torch
    from torch.nn import functional as F

    return {
        "softmax": lambda m: F.softmax(m.x(4, 8), -1),
        "log_softmax": lambda m: F.log_softmax(m.x(4, 8), -1),
        "gelu": lambda m: F.gelu(m.x(4, 8)),
        "silu": lambda m: F.silu(m.x(4, 8)),
        "prelu": lambda m: F.prelu(m.x(4, 8), m.x(8)),
        "softplus": lambda m: F.softplus(m.x(4, 8)),
        "dropout": lambda m: F.dropout(m.x(4, 8), 0.5, True),
        "exp": lambda m: torch.exp(m.x(4, 8)),
        "log": lambda m: torch.log(m.positive(4, 8)),
        "erfinv": lambda m: torch.erfinv(m.positive(4, 8)),
        "pow": lambda m: m.positive(4, 8) ** 2.5,
        "addcdiv": lambda m: torch.addcdiv(m.x(8), m.x(8), m.positive(8)),
        "lerp": lambda m: torch.lerp(m.x(8), m.x(8), 0.3),
    }


def _losses() -> OperationTable:
    from torch.nn import functional as F

    return {
        "cross_entropy": lambda m: F.cross_entropy(m.x(4, 5), m.index(0, 1, 2, 3)),
        "nll_loss": lambda m: F.nll_loss(m.x(4, 5), m.index(0, 1, 2, 3)),
        "mse_loss": lambda m: F.mse_loss(m.x(8), m.data(8)),
        "l1_loss": lambda m: F.l1_loss(m.x(8), m.data(8)),
        "huber_loss": lambda m: F.huber_loss(m.x(8), m.data(8)),
        "kl_div": lambda m: F.kl_div(m.x(4, 5), m.positive(4, 5).detach(), reduction="batchmean"),
        "binary_cross_entropy": lambda m: F.binary_cross_entropy(m.positive(8), m.positive(8).detach()),
        "bce_with_logits": lambda m: F.binary_cross_entropy_with_logits(m.x(8), m.positive(8).detach()),
        "multi_margin_loss": lambda m: F.multi_margin_loss(m.x(3, 4), m.index(0, 1, 2)),
        "ctc_loss": lambda m: F.ctc_loss(
            F.log_softmax(m.x(6, 1, 4), -1), m.index(1, 2).view(1, 2), m.index(6), m.index(2)
        ),
    }


def _indexing() -> OperationTable:
    import torch
    from torch.nn import functional as F

    return {
        "embedding": lambda m: F.embedding(m.index(0, 2), m.x(4, 8)),
        "embedding_bag": lambda m: F.embedding_bag(m.index(0, 2).view(1, 2), m.x(4, 8)),
        "gather": lambda m: torch.gather(m.x(2, 3), 1, m.index(0, 2).view(2, 1)),
        "scatter_add": lambda m: m.data(4).scatter_add(0, m.index(0, 2), m.x(2)),
        "index_add": lambda m: m.data(4, 3).index_add(0, m.index(0, 2), m.x(2, 3)),
        "index_put": lambda m: m.data(4).index_put((m.index(0, 2),), m.x(2), accumulate=True),
        "index_select": lambda m: torch.index_select(m.x(4, 3), 0, m.index(0, 2)),
        "masked_fill": lambda m: m.x(4).masked_fill(m.data(4) > 0, float("-inf")),
        "where": lambda m: torch.where(m.data(4) > 0, m.x(4), m.x(4)),
        "bucketize": lambda m: torch.bucketize(m.data(4), m.data(3).sort().values),
    }


def _reductions() -> OperationTable:
    import torch

    return {
        "sum": lambda m: m.x(4, 8).sum(-1),
        "mean": lambda m: m.x(4, 8).mean(-1),
        "var": lambda m: m.x(4, 8).var(-1),
        "logsumexp": lambda m: torch.logsumexp(m.x(4, 8), -1),
        "norm": lambda m: torch.linalg.vector_norm(m.x(4, 8)),
        "cumsum": lambda m: m.x(4, 8).cumsum(-1),
        "topk": lambda m: m.x(4, 8).topk(3),
        "sort": lambda m: m.x(4, 8).sort(),
        "median": lambda m: m.x(4, 8).median(-1),
        "quantile": lambda m: torch.quantile(m.x(8), 0.5),
        "histc": lambda m: torch.histc(m.data(8), 4),
        "multinomial": lambda m: torch.multinomial(m.positive(4).detach(), 2),
    }


def _shapes() -> OperationTable:
    import torch

    return {
        "cat": lambda m: torch.cat([m.x(2, 3), m.x(2, 3)]),
        "arange": lambda m: torch.arange(0, 8, device=m.device, dtype=m.dtype),
        "linspace": lambda m: torch.linspace(0, 1, 8, device=m.device, dtype=m.dtype),
        "bernoulli": lambda m: torch.bernoulli(m.positive(4).detach()),
        "polar": lambda m: torch.polar(m.positive(4), m.x(4)),
        "view_as_complex": lambda m: torch.view_as_complex(m.x(4, 2)),
        "rfft": lambda m: torch.fft.rfft(m.x(8)),
        "stft": lambda m: torch.stft(m.x(64), 16, return_complex=True, window=torch.ones(16, device=m.device)),
    }


def _linear_algebra() -> OperationTable:
    import torch

    return {
        "cholesky": lambda m: torch.linalg.cholesky(m.square(4)),
        "inv": lambda m: torch.linalg.inv(m.square(4)),
        "solve": lambda m: torch.linalg.solve(m.square(4), m.x(4, 2)),
        "svd": lambda m: torch.linalg.svdvals(m.square(4)),
        "qr": lambda m: torch.linalg.qr(m.square(4)),
        "eigh": lambda m: torch.linalg.eigvalsh(m.square(4)),
        "det": lambda m: torch.linalg.det(m.square(4)),
        "orthogonal_init": lambda m: torch.nn.init.orthogonal_(m.data(4, 4)),
    }
