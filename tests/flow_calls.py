"""How the tests of the operation tables call each operation: the function and the shapes of its floating operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from precfix.codemod.torch.tables.operations import OPERATIONS

from .fixture_cases import REPOSITORY

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """``call`` takes the tensors of ``shapes``, which stand for the table's operands in their order."""

    call: Callable[..., Any]
    shapes: tuple[Shape, ...]


def explained(table: str, heading: str) -> set[str]:
    """The words that the comments of a table explain below ``# Heading:``."""
    text = (REPOSITORY / "codemod" / "torch" / "tables" / table).read_text("utf-8")
    below = text.partition(f"# {heading}:")[2].partition("\n#\n")[0].partition("\n\n")[0]
    return {line.split()[1] for line in below.splitlines() if line.startswith("#   ")}


def _ids(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64, device=device())


_DEVICE = ["cpu"]


def device() -> str:
    """Where operands and helper tensors are made."""
    return _DEVICE[-1]


@contextmanager
def on_device(name: str) -> Iterator[None]:
    _DEVICE.append(name)
    try:
        yield
    finally:
        _DEVICE.pop()


def _mask() -> torch.Tensor:
    return torch.ones(4, 4, dtype=torch.bool, device=device())


SQ: Shape = (4, 4)
IMAGE: Shape = (2, 4, 8, 8)
VOLUME: Shape = (2, 4, 4, 8, 8)
LINE: Shape = (2, 4, 8)


def case(call: Callable[..., Any], *shapes: Shape) -> Case:
    return Case(call, shapes)


def _conv(dims: int, transposed: bool = False) -> Case:
    call = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    return case(call, (2, 4, *[8] * dims), (4, 4, *[3] * dims), (4,))


SPECIAL: dict[str, Case] = {
    "where": case(lambda a, b: torch.where(_mask(), a, b), SQ, SQ),
    "threshold": case(lambda x: F.threshold(x, 0.1, 0.2), SQ),
    "threshold_": case(lambda x: F.threshold_(x, 0.1, 0.2), SQ),
    "renorm": case(lambda x: x.renorm(2, 0, 1.0), SQ),
    "renorm_": case(lambda x: x.renorm_(2, 0, 1.0), SQ),
    "local_response_norm": case(lambda x: F.local_response_norm(x, 2), IMAGE),
    "alpha_dropout": case(lambda x: F.alpha_dropout(x, 0.5, True), SQ),
    "feature_dropout": case(lambda x: torch.feature_dropout(x, 0.5, True), IMAGE),
    "feature_alpha_dropout": case(lambda x: F.feature_alpha_dropout(x, 0.5, True), IMAGE),
    "dropout": case(lambda x: F.dropout(x, 0.5), SQ),
    "dropout_": case(lambda x: torch.dropout_(x, 0.5, True), SQ),
    "dropout1d": case(F.dropout1d, LINE),
    "dropout2d": case(F.dropout2d, IMAGE),
    "dropout3d": case(F.dropout3d, VOLUME),
    "cross": case(lambda a, b: torch.cross(a, b, dim=1), (4, 3), (4, 3)),
    "linalg.cross": case(torch.linalg.cross, (4, 3), (4, 3)),
    "ldexp": case(torch.ldexp, SQ, SQ),
    "outer": case(torch.outer, (4,), (4,)),
    "ger": case(torch.ger, (4,), (4,)),
    "quantile": case(lambda x: torch.quantile(x, 0.5), SQ),
    "nanquantile": case(lambda x: torch.nanquantile(x, 0.5), SQ),
    "softmax": case(lambda x: torch.softmax(x, -1), SQ),
    "log_softmax": case(lambda x: torch.log_softmax(x, -1), SQ),
    "softmin": case(lambda x: F.softmin(x, -1), SQ),
    "logsumexp": case(lambda x: torch.logsumexp(x, -1), SQ),
    "cumsum": case(lambda x: x.cumsum(0), SQ),
    "cumsum_": case(lambda x: x.cumsum_(0), SQ),
    "cumprod": case(lambda x: x.cumprod(0), SQ),
    "cumprod_": case(lambda x: x.cumprod_(0), SQ),
    "logcumsumexp": case(lambda x: x.logcumsumexp(0), SQ),
    "cummax": case(lambda x: x.cummax(0), SQ),
    "cummin": case(lambda x: x.cummin(0), SQ),
    "kthvalue": case(lambda x: x.kthvalue(2), SQ),
    "topk": case(lambda x: x.topk(2), SQ),
    "trace": case(torch.trace, SQ),
    "std_mean": case(torch.std_mean, SQ),
    "max": case(lambda a, b: torch.max(a, b), SQ, SQ),
    "min": case(lambda a, b: torch.min(a, b), SQ, SQ),
    "median": case(torch.median, SQ),
    "nanmedian": case(torch.nanmedian, SQ),
    "bucketize": case(torch.bucketize, SQ, (4,)),
    "searchsorted": case(torch.searchsorted, (4,), (4,)),
    "isin": case(torch.isin, SQ, SQ),
    "erfinv": case(torch.erfinv, SQ),
    "mv": case(torch.mv, SQ, (4,)),
    "dot": case(torch.dot, (4,), (4,)),
    "vdot": case(torch.vdot, (4,), (4,)),
    "inner": case(torch.inner, SQ, SQ),
    "bmm": case(torch.bmm, (2, 4, 4), (2, 4, 4)),
    "einsum": case(lambda a, b: torch.einsum("ij,jk->ik", a, b), SQ, SQ),
    "chain_matmul": case(torch.chain_matmul, SQ, SQ),
    "linalg.multi_dot": case(lambda a, b: torch.linalg.multi_dot([a, b]), SQ, SQ),
    "addmv": case(torch.addmv, (4,), SQ, (4,)),
    "addmv_": case(torch.Tensor.addmv_, (4,), SQ, (4,)),
    "addbmm": case(torch.addbmm, SQ, (2, 4, 4), (2, 4, 4)),
    "addbmm_": case(torch.Tensor.addbmm_, SQ, (2, 4, 4), (2, 4, 4)),
    "baddbmm": case(torch.baddbmm, (2, 4, 4), (2, 4, 4), (2, 4, 4)),
    "baddbmm_": case(torch.Tensor.baddbmm_, (2, 4, 4), (2, 4, 4), (2, 4, 4)),
    "addr": case(torch.addr, SQ, (4,), (4,)),
    "addr_": case(torch.Tensor.addr_, SQ, (4,), (4,)),
    "matrix_power": case(lambda x: torch.matrix_power(x, 2), SQ),
    "linalg.matrix_power": case(lambda x: torch.linalg.matrix_power(x, 2), SQ),
    "linear": case(F.linear, SQ, SQ, (4,)),
    "bilinear": case(F.bilinear, SQ, SQ, (4, 4, 4)),
    "conv1d": _conv(1),
    "conv2d": _conv(2),
    "conv3d": _conv(3),
    "conv_transpose1d": _conv(1, True),
    "conv_transpose2d": _conv(2, True),
    "conv_transpose3d": _conv(3, True),
    "conv_tbc": case(lambda x, w: torch.conv_tbc(x, w, torch.zeros_like(w[0, 0])), (8, 2, 4), (3, 4, 4)),
    "prelu": case(F.prelu, SQ, (4,)),
    "scaled_dot_product_attention": case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (1, 2, 4, 8),
        (1, 2, 4, 8),
        (1, 2, 4, 8),
        SQ,
    ),
    "multi_head_attention_forward": case(
        lambda q, k, v, w: F.multi_head_attention_forward(
            q, k, v, 4, 2, w, None, None, None, False, 0.0, torch.ones_like(w[:4]), None, need_weights=False
        ),
        (4, 1, 4),
        (4, 1, 4),
        (4, 1, 4),
        (12, 4),
    ),
    "layer_norm": case(lambda x, w, b: F.layer_norm(x, (4,), w, b), SQ, (4,), (4,)),
    "rms_norm": case(lambda x, w: F.rms_norm(x, (4,), w), SQ, (4,)),
    "group_norm": case(lambda x, w, b: F.group_norm(x, 2, w, b), IMAGE, (4,), (4,)),
    "batch_norm": case(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), IMAGE, (4,), (4,), (4,), (4,)),
    "instance_norm": case(lambda x, m, v, w, b: F.instance_norm(x, m, v, w, b), IMAGE, (4,), (4,), (4,), (4,)),
    "poisson_nll_loss": case(F.poisson_nll_loss, SQ, SQ),
    "gaussian_nll_loss": case(F.gaussian_nll_loss, SQ, SQ, SQ),
    "cross_entropy": case(lambda x, w: F.cross_entropy(x, _ids(4), w), SQ, (4,)),
    "nll_loss": case(lambda x, w: F.nll_loss(x, _ids(4), w), SQ, (4,)),
    "multilabel_margin_loss": case(lambda x: F.multilabel_margin_loss(x, _ids(4, 4)), SQ),
    "multi_margin_loss": case(lambda x, w: F.multi_margin_loss(x, _ids(4), weight=w), SQ, (4,)),
    "margin_ranking_loss": case(F.margin_ranking_loss, (4,), (4,), (4,)),
    "cosine_embedding_loss": case(lambda a, b: F.cosine_embedding_loss(a, b, _ids(4) + 1), SQ, SQ),
    "ctc_loss": case(lambda x: F.ctc_loss(x, _ids(2, 3) + 1, (8, 8), (3, 3)), (8, 2, 5)),
    "binary_cross_entropy_with_logits": case(F.binary_cross_entropy_with_logits, SQ, SQ, SQ),
    "multilabel_soft_margin_loss": case(F.multilabel_soft_margin_loss, SQ, SQ, (4,)),
    "soft_margin_loss": case(F.soft_margin_loss, SQ, SQ),
    "stft": case(lambda x: torch.stft(x, 8, return_complex=True), (64,)),
    "istft": case(lambda x: torch.istft(torch.complex(x, x), 8), (5, 9)),
    "view_as_real": case(lambda x: torch.view_as_real(torch.complex(x, x)), SQ),
    "imag": case(lambda x: torch.complex(x, x).imag, SQ),
    "fft.irfft": case(torch.fft.irfft, SQ),
    "view_as_complex": case(torch.view_as_complex, (4, 2)),
    "tile": case(lambda x: x.tile(2), SQ),
    "view": case(lambda x: x.view(16), SQ),
    "reshape": case(lambda x: x.reshape(16), SQ),
    "view_as": case(lambda x: x.view_as(_mask()), SQ),
    "reshape_as": case(lambda x: x.reshape_as(_mask()), SQ),
    "expand_as": case(lambda x: x.expand_as(_mask()), SQ),
    "expand": case(lambda x: x.expand(4, 4), SQ),
    "broadcast_to": case(lambda x: x.broadcast_to(4, 4), SQ),
    "permute": case(lambda x: x.permute(1, 0), SQ),
    "transpose": case(lambda x: x.transpose(0, 1), SQ),
    "transpose_": case(lambda x: x.transpose_(0, 1), SQ),
    "movedim": case(lambda x: x.movedim(0, 1), SQ),
    "moveaxis": case(lambda x: x.moveaxis(0, 1), SQ),
    "swapaxes": case(lambda x: x.swapaxes(0, 1), SQ),
    "swapaxes_": case(lambda x: x.swapaxes_(0, 1), SQ),
    "swapdims": case(lambda x: x.swapdims(0, 1), SQ),
    "unflatten": case(lambda x: x.unflatten(0, (2, 2)), SQ),
    "unsqueeze": case(lambda x: x.unsqueeze(0), SQ),
    "unsqueeze_": case(lambda x: x.unsqueeze_(0), SQ),
    "narrow": case(lambda x: x.narrow(0, 0, 2), SQ),
    "narrow_copy": case(lambda x: x.narrow_copy(0, 0, 2), SQ),
    "select": case(lambda x: x.select(0, 0), SQ),
    "select_copy": case(lambda x: torch.select_copy(x, 0, 0), SQ),
    "index_select": case(lambda x: x.index_select(0, _ids(2)), SQ),
    "gather": case(lambda x: x.gather(0, _ids(4, 4)), SQ),
    "take": case(lambda x: x.take(_ids(2)), SQ),
    "take_along_dim": case(lambda x: x.take_along_dim(_ids(4, 4), 0), SQ),
    "masked_select": case(lambda x: x.masked_select(_mask()), SQ),
    "unfold": case(lambda x: x.unfold(0, 2, 1), SQ),
    "fold": case(lambda x: F.fold(x, (4, 4), (2, 2)), (1, 16, 9)),
    "as_strided": case(lambda x: x.as_strided((2,), (1,)), SQ),
    "roll": case(lambda x: x.roll(1), SQ),
    "flip": case(lambda x: x.flip(0), SQ),
    "repeat": case(lambda x: x.repeat(2, 1), SQ),
    "repeat_interleave": case(lambda x: x.repeat_interleave(2), SQ),
    "clone": case(torch.clone, SQ),
    "__getitem__": case(lambda x: x[0], SQ),
    "pad": case(lambda x: F.pad(x, (1, 1)), SQ),
    "constant_pad_nd": case(lambda x: torch.constant_pad_nd(x, (1, 1)), SQ),
    "pixel_shuffle": case(lambda x: F.pixel_shuffle(x, 2), IMAGE),
    "pixel_unshuffle": case(lambda x: F.pixel_unshuffle(x, 2), IMAGE),
    "channel_shuffle": case(lambda x: F.channel_shuffle(x, 2), IMAGE),
    "native_channel_shuffle": case(lambda x: torch.native_channel_shuffle(x, 2), IMAGE),
    "interpolate": case(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "upsample": case(lambda x: F.upsample(x, scale_factor=2, mode="bilinear"), IMAGE),
    "affine_grid": case(lambda x: F.affine_grid(x, [2, 4, 8, 8], align_corners=False), (2, 2, 3)),
    "coalesce": case(lambda x: x.to_sparse().coalesce(), SQ),
    "to_dense": case(lambda x: x.to_sparse().to_dense(), SQ),
    "avg_pool1d": case(lambda x: F.avg_pool1d(x, 2), LINE),
    "max_pool1d": case(lambda x: F.max_pool1d(x, 2), LINE),
    "lp_pool1d": case(lambda x: F.lp_pool1d(x, 2, 2), LINE),
    "adaptive_avg_pool1d": case(lambda x: F.adaptive_avg_pool1d(x, 2), LINE),
    "adaptive_max_pool1d": case(lambda x: F.adaptive_max_pool1d(x, 2), LINE),
    "avg_pool2d": case(lambda x: F.avg_pool2d(x, 2), IMAGE),
    "max_pool2d": case(lambda x: F.max_pool2d(x, 2), IMAGE),
    "lp_pool2d": case(lambda x: F.lp_pool2d(x, 2, 2), IMAGE),
    "adaptive_avg_pool2d": case(lambda x: F.adaptive_avg_pool2d(x, 2), IMAGE),
    "adaptive_max_pool2d": case(lambda x: F.adaptive_max_pool2d(x, 2), IMAGE),
    "avg_pool3d": case(lambda x: F.avg_pool3d(x, 2), VOLUME),
    "max_pool3d": case(lambda x: F.max_pool3d(x, 2), VOLUME),
    "lp_pool3d": case(lambda x: F.lp_pool3d(x, 2, 2), VOLUME),
    "adaptive_avg_pool3d": case(lambda x: F.adaptive_avg_pool3d(x, 2), VOLUME),
    "adaptive_max_pool3d": case(lambda x: F.adaptive_max_pool3d(x, 2), VOLUME),
    "T": case(lambda x: x.T, SQ),
    "mT": case(lambda x: x.mT, SQ),
    "H": case(lambda x: x.H, SQ),
    "mH": case(lambda x: x.mH, SQ),
    "data": case(lambda x: x.data, SQ),
    "real": case(lambda x: x.real, SQ),
    "one_hot": case(lambda x: F.one_hot(x.long() * 0, 3), SQ),
    "multinomial": case(lambda x: torch.multinomial(x, 1), SQ),
    "embedding": case(lambda w: F.embedding(_ids(2), w), SQ),
    "embedding_bag": case(lambda w, s: F.embedding_bag(_ids(2, 2), w, per_sample_weights=s, mode="sum"), SQ, (2, 2)),
    "grid_sample": case(lambda x, g: F.grid_sample(x, g, align_corners=False), IMAGE, (2, 4, 4, 2)),
    "chunk": case(lambda x: x.chunk(2), SQ),
    "unsafe_chunk": case(lambda x: x.unsafe_chunk(2), SQ),
    "split": case(lambda x: x.split(2), SQ),
    "split_with_sizes": case(lambda x: x.split_with_sizes([2, 2]), SQ),
    "tensor_split": case(lambda x: x.tensor_split(2), SQ),
    "hsplit": case(lambda x: x.hsplit(2), SQ),
    "vsplit": case(lambda x: x.vsplit(2), SQ),
    "dsplit": case(lambda x: x.dsplit(2), (2, 2, 2)),
    "cat": case(lambda *t: torch.cat(t), SQ, SQ),
    "concat": case(lambda *t: torch.concat(t), SQ, SQ),
    "concatenate": case(lambda *t: torch.concatenate(t), SQ, SQ),
    "stack": case(lambda *t: torch.stack(t), SQ, SQ),
    "hstack": case(lambda *t: torch.hstack(t), SQ, SQ),
    "vstack": case(lambda *t: torch.vstack(t), SQ, SQ),
    "dstack": case(lambda *t: torch.dstack(t), SQ, SQ),
    "row_stack": case(lambda *t: torch.row_stack(t), SQ, SQ),
    "column_stack": case(lambda *t: torch.column_stack(t), SQ, SQ),
    "cartesian_prod": case(torch.cartesian_prod, (4,), (4,)),
    "meshgrid": case(lambda *t: torch.meshgrid(*t, indexing="ij"), (4,), (4,)),
    "masked_fill": case(lambda x, v: x.masked_fill(_mask(), v), SQ, ()),
    "masked_fill_": case(lambda x, v: x.masked_fill_(_mask(), v), SQ, ()),
    "index_fill": case(lambda x, v: x.index_fill(0, _ids(2), v), SQ, ()),
    "index_fill_": case(lambda x, v: x.index_fill_(0, _ids(2), v), SQ, ()),
    "fill_": case(lambda x, v: x.fill_(v), SQ, ()),
    "__setitem__": case(lambda x, v: x.__setitem__(slice(0, 4), v), SQ, SQ),
    "index_put": case(lambda x, v: x.index_put((_ids(2),), v), SQ, (2, 4)),
    "index_put_": case(lambda x, v: x.index_put_((_ids(2),), v), SQ, (2, 4)),
    "index_reduce": case(lambda x, v: x.index_reduce(0, _ids(2), v, "prod"), SQ, (2, 4)),
    "index_reduce_": case(lambda x, v: x.index_reduce_(0, _ids(2), v, "prod"), SQ, (2, 4)),
    "scatter_reduce": case(lambda x, v: x.scatter_reduce(0, _ids(4, 4), v, "sum"), SQ, SQ),
    "scatter_reduce_": case(lambda x, v: x.scatter_reduce_(0, _ids(4, 4), v, "sum"), SQ, SQ),
    "masked_scatter": case(lambda x, v: x.masked_scatter(_mask(), v), SQ, SQ),
    "masked_scatter_": case(lambda x, v: x.masked_scatter_(_mask(), v), SQ, SQ),
    "put_": case(lambda x, v: x.put_(_ids(2), v), SQ, (2,)),
    "slice_scatter": case(torch.slice_scatter, SQ, SQ),
    "select_scatter": case(lambda x, v: torch.select_scatter(x, v, 0, 0), SQ, (4,)),
    "diagonal_scatter": case(torch.diagonal_scatter, SQ, (4,)),
    "fill_diagonal_": case(lambda x: x.fill_diagonal_(1.0), SQ),
    "geometric_": case(lambda x: x.geometric_(0.5), SQ),
    "resize_": case(lambda x: x.resize_(2, 2), SQ),
    "init.constant_": case(lambda x: torch.nn.init.constant_(x, 1.0), SQ),
    "init.sparse_": case(lambda x: torch.nn.init.sparse_(x, 0.5), SQ),
    "init.dirac_": case(torch.nn.init.dirac_, (4, 4, 3)),
    "full_like": case(lambda x: torch.full_like(x, 1), SQ),
    "randint_like": case(lambda x: torch.randint_like(x, 3), SQ),
    "new_zeros": case(lambda x: x.new_zeros(2), SQ),
    "new_ones": case(lambda x: x.new_ones(2), SQ),
    "new_full": case(lambda x: x.new_full((2,), 1), SQ),
    "new_empty": case(lambda x: x.new_empty(2), SQ),
    "grad": case(lambda x: torch.autograd.grad(x.requires_grad_().sum(), x)[0], SQ),
    "new_tensor": case(lambda x: x.new_tensor([1, 2]), SQ),
    "to": case(lambda x: x.to(device()), SQ),
    "type": case(lambda x: x.type(x.dtype), SQ),
    "type_as": case(lambda x: x.type_as(_ids(2).bfloat16()), SQ),
    **{
        name: case(lambda x, v, name=name: getattr(x, name)(0, _ids(4), v), SQ, SQ)
        for name in ("index_add", "index_add_", "index_copy", "index_copy_")
    },
    **{
        name: case(lambda x, v, name=name: getattr(x, name)(0, _ids(4, 4), v), SQ, SQ)
        for name in ("scatter", "scatter_", "scatter_add", "scatter_add_")
    },
}


def found(name: str) -> Callable[..., Any]:
    """The function or method of torch that bears a name of the table."""
    space, _, last = name.rpartition(".")
    if space == "init":
        return getattr(torch.nn.init, last)
    if space:
        return getattr(getattr(torch, space), last)
    for owner in (
        (F, torch, torch.Tensor) if name.endswith(("_loss", "_with_logits", "kl_div")) else (torch, torch.Tensor, F)
    ):
        value = getattr(owner, name, None)
        if callable(value) and not isinstance(value, type):
            return value
    raise LookupError(name)


def case_of(name: str) -> Case:
    """The case of an operation: a special one, or its function called with one square matrix for each operand."""
    if name in SPECIAL:
        return SPECIAL[name]
    operands = OPERATIONS[name].operands
    return Case(found(name), tuple(SQ for _ in operands) * (2 if operands[0].spread else 1))
