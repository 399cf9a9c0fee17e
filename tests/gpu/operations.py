"""Operations whose result a GPU and a rehearsal are asked for, with the shapes of their operands.

``"x 2,4; w 4"``: operands named alike share a dtype; ``dtype`` in place of a shape hands over the dtype itself.
Constants of the device (indices, labels) are attributes of ``K``, which :func:`prepare` fills.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

K = SimpleNamespace()


@dataclass(frozen=True)
class Operation:
    """One function of the table."""

    family: str
    name: str
    operands: tuple[tuple[str, str], ...]
    run: Callable[..., Any]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group for group, _ in self.operands))


def prepare(device: str) -> None:
    K.device = device
    K.two, K.ones4 = torch.tensor([0, 2], device=device), torch.ones(4, dtype=torch.long, device=device)
    K.index = torch.tensor([[0, 1, 2, 0]], device=device)
    K.mask = torch.tensor([True, False, True, False], device=device)
    K.half_true = torch.tensor([[True, False], [False, True]], device=device)
    K.labels = torch.tensor([0, 1, 3, 2], device=device)
    K.multi = torch.tensor([[0, 2, -1, -1]] * 4, device=device)
    K.lengths = torch.tensor([4, 4], device=device)
    K.targets = torch.tensor([[1, 2], [3, 1]], device=device)
    K.bag = torch.tensor([[0, 1], [2, 3]], device=device)
    K.padding = torch.tensor([[False, False, True], [False, False, False]], device=device)
    K.whole = torch.arange(1, 17, device=device).reshape(4, 4)


_ALL: list[Operation] = []


def _add(family: str, entries: dict[str, tuple[str, Callable[..., Any]]]) -> None:
    for name, (text, run) in entries.items():
        operands = tuple((part.split()[0], part.split()[1]) for part in text.split(";"))
        _ALL.append(Operation(family, name, operands, run))


def _changed(change: Callable[..., Any]) -> Callable[..., Any]:
    """The first operand changed in place: a copy, since the operand itself is a leaf."""

    def run(first: Any, *others: Any) -> Any:
        first = first.clone()
        change(first, *others)
        return first

    return run


def _set(index: Any) -> Callable[..., Any]:
    def change(target: Any, value: Any) -> None:
        target[index()] = value

    return _changed(change)


def _out(operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        *given, out = (each.detach() for each in operands)
        return operation(*given, out=out.clone())

    return run


SQUARE, PAIR = "x 4,4", "a 4,4; b 4,4"
_add(
    "products",
    {
        "mm": (PAIR, torch.mm),
        "matmul": (PAIR, torch.matmul),
        "@ of 3 and 2 dimensions": ("a 2,4,4; b 4,4", lambda a, b: a @ b),
        "bmm": ("a 2,4,4; b 2,4,4", torch.bmm),
        "mv": ("a 4,4; b 4", torch.mv),
        "matmul with a vector": ("a 4,4; b 4", torch.matmul),
        "dot": ("a 4; b 4", torch.dot),
        "vdot": ("a 4; b 4", torch.vdot),
        "inner": (PAIR, torch.inner),
        "outer": ("a 4; b 4", torch.outer),
        "kron": ("a 2,2; b 2,2", torch.kron),
        "tensordot": (PAIR, lambda a, b: torch.tensordot(a, b, 1)),
        "multi_dot": (PAIR, lambda a, b: torch.linalg.multi_dot([a, b, a])),
        "chain_matmul": (PAIR, lambda a, b: torch.chain_matmul(a, b)),
        "vecdot": (PAIR, torch.linalg.vecdot),
        "einsum ij,jk": (PAIR, lambda a, b: torch.einsum("ij,jk->ik", a, b)),
        "einsum i,j": ("a 4; b 4", lambda a, b: torch.einsum("i,j->ij", a, b)),
        "einsum bij,bjk": ("a 2,4,4; b 2,4,4", lambda a, b: torch.einsum("bij,bjk->bik", a, b)),
        "einsum ij,ij": (PAIR, lambda a, b: torch.einsum("ij,ij->", a, b)),
        "addmm": ("c 4,4; a 4,4; b 4,4", torch.addmm),
        "addmm of a vector": ("c 4; a 4,4; b 4,4", torch.addmm),
        "addmv": ("c 4; a 4,4; b 4", torch.addmv),
        "addr": ("c 4,4; a 4; b 4", torch.addr),
        "baddbmm": ("c 2,4,4; a 2,4,4; b 2,4,4", torch.baddbmm),
        "addbmm": ("c 4,4; a 2,4,4; b 2,4,4", torch.addbmm),
        "linear": ("x 4,4; w 4,4", F.linear),
        "linear of 3 dimensions": ("x 2,4,4; w 4,4", F.linear),
        "linear with bias": ("x 4,4; w 4,4; b 4", F.linear),
        "linear of 3 dimensions with bias": ("x 2,4,4; w 4,4; b 4", F.linear),
        "Linear module": ("x 4,4; w dtype", lambda x, w: nn.Linear(4, 4, device=K.device, dtype=w)(x)),
        "bilinear": ("x 4,4; y 4,4; w 4,4,4", F.bilinear),
        "matmul(out=)": ("a 4,4; a 4,4; o 4,4", _out(torch.matmul)),
        "mm(out=)": ("a 4,4; a 4,4; o 4,4", _out(torch.mm)),
        "bmm(out=)": ("a 2,4,4; a 2,4,4; o 2,4,4", _out(torch.bmm)),
        "addmm_": ("c 4,4; a 4,4; a 4,4", _changed(lambda c, a, b: c.addmm_(a, b))),
        "baddbmm_": ("c 2,4,4; a 2,4,4; a 2,4,4", _changed(lambda c, a, b: c.baddbmm_(a, b))),
        "addr_": ("c 4,4; a 4; a 4", _changed(lambda c, a, b: c.addr_(a, b))),
        "addmv_": ("c 4; a 4,4; a 4", _changed(lambda c, a, b: c.addmv_(a, b))),
        "sparse.mm": (PAIR, lambda a, b: torch.sparse.mm(a.to_sparse(), b)),
    },
)
_add(
    "convolutions",
    {
        "conv1d": ("x 2,4,8; w 4,4,3", F.conv1d),
        "conv1d with bias": ("x 2,4,8; w 4,4,3; b 4", F.conv1d),
        "conv2d": ("x 2,4,8,8; w 4,4,3,3", F.conv2d),
        "conv2d with bias": ("x 2,4,8,8; w 4,4,3,3; b 4", F.conv2d),
        "conv3d": ("x 2,4,4,4,4; w 4,4,3,3,3", F.conv3d),
        "conv3d with bias": ("x 2,4,4,4,4; w 4,4,3,3,3; b 4", F.conv3d),
        "conv2d depthwise": ("x 2,4,8,8; w 4,1,3,3", lambda x, w: F.conv2d(x, w, groups=4)),
        "conv2d channels_last": (
            "x 2,4,8,8; w 4,4,3,3",
            lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w),
        ),
        "conv_transpose1d": ("x 2,4,8; w 4,4,3", F.conv_transpose1d),
        "conv_transpose2d": ("x 2,4,8,8; w 4,4,3,3", F.conv_transpose2d),
        "conv_transpose2d with bias": ("x 2,4,8,8; w 4,4,3,3; b 4", F.conv_transpose2d),
        "conv_transpose3d": ("x 2,4,4,4,4; w 4,4,3,3,3", F.conv_transpose3d),
        "conv_tbc": ("x 8,2,4; w 3,4,4; b 4", torch.conv_tbc),
        "Conv2d module": ("x 2,4,8,8; w dtype", lambda x, w: nn.Conv2d(4, 4, 3, device=K.device, dtype=w)(x)),
        "unfold and matmul": ("x 2,4,8,8; w 4,36", lambda x, w: w @ F.unfold(x, 3)),
    },
)
IMAGE = "x 2,4,8,8"


def _normed(x: Any, mean: Any, weight: Any, training: bool) -> Any:
    running = [mean.detach().clone(), mean.detach().clone()]
    return F.batch_norm(x, *running, weight, weight, training)


_add(
    "norms",
    {
        "layer_norm": ("x 2,8; w 8; w 8", lambda x, w, b: F.layer_norm(x, (8,), w, b)),
        "layer_norm with weight alone": ("x 2,8; w 8", lambda x, w: F.layer_norm(x, (8,), w)),
        "layer_norm, weight and bias": ("x 2,8; w 8; b 8", lambda x, w, b: F.layer_norm(x, (8,), w, b)),
        "layer_norm without weights": ("x 2,8", lambda x: F.layer_norm(x, (8,))),
        "layer_norm wide": ("x 8,1024; w 1024; w 1024", lambda x, w, b: F.layer_norm(x, (1024,), w, b)),
        "group_norm": ("x 2,4,8,8; w 4; w 4", lambda x, w, b: F.group_norm(x, 2, w, b)),
        "group_norm without weights": (IMAGE, lambda x: F.group_norm(x, 2)),
        "rms_norm": ("x 2,8; w 8", lambda x, w: F.rms_norm(x, (8,), w)),
        "rms_norm without weights": ("x 2,8", lambda x: F.rms_norm(x, (8,))),
        "batch_norm, training": ("x 2,4,8,8; r 4; w 4", lambda x, r, w: _normed(x, r, w, True)),
        "batch_norm, evaluating": ("x 2,4,8,8; r 4; w 4", lambda x, r, w: _normed(x, r, w, False)),
        "batch_norm of 2 dimensions": ("x 8,4; w 4; w 4", lambda x, r, w: _normed(x, r, w, True)),
        "batch_norm without statistics": ("x 2,4,8,8; w 4", lambda x, w: F.batch_norm(x, None, None, w, w, True)),
        "batch_norm without weights": ("x 2,4,8,8", lambda x: F.batch_norm(x, None, None, None, None, True)),
        "instance_norm": ("x 2,4,8,8; w 4", lambda x, w: F.instance_norm(x, weight=w, bias=w)),
        "local_response_norm": (IMAGE, lambda x: F.local_response_norm(x, 2)),
        "normalize": (SQUARE, F.normalize),
        "weight_norm": ("a 4,4; b 4,1", lambda a, b: torch._weight_norm(a, b, 0)),
        "LayerNorm module": ("x 2,8; w dtype", lambda x, w: nn.LayerNorm(8, device=K.device, dtype=w)(x)),
        "GroupNorm module": (
            "x 2,4,8,8; w dtype",
            lambda x, w: nn.GroupNorm(2, 4, device=K.device, dtype=w)(x),
        ),
        "RMSNorm module": ("x 2,8; w dtype", lambda x, w: nn.RMSNorm(8, device=K.device, dtype=w)(x)),
        "BatchNorm2d module": ("x 2,4,8,8; w dtype", lambda x, w: nn.BatchNorm2d(4, device=K.device, dtype=w)(x)),
        "BatchNorm2d, eval": (
            "x 2,4,8,8; w dtype",
            lambda x, w: nn.BatchNorm2d(4, device=K.device, dtype=w).eval()(x),
        ),
        "BatchNorm1d module": ("x 8,4; w dtype", lambda x, w: nn.BatchNorm1d(4, device=K.device, dtype=w)(x)),
        "InstanceNorm2d module": (
            "x 2,4,8,8; w dtype",
            lambda x, w: nn.InstanceNorm2d(4, affine=True, device=K.device, dtype=w)(x),
        ),
    },
)
_add(
    "activations",
    {
        name: (SQUARE, getattr(F, name))
        for name in [
            "relu",
            "gelu",
            "silu",
            "mish",
            "softplus",
            "elu",
            "selu",
            "celu",
            "hardtanh",
            "hardswish",
            "hardsigmoid",
            "hardshrink",
            "softshrink",
            "tanhshrink",
            "softsign",
            "logsigmoid",
            "glu",
            "relu6",
            "leaky_relu",
        ]
    }
    | {
        "softmax": (SQUARE, lambda x: x.softmax(-1)),
        "softmax(dtype=float32)": (SQUARE, lambda x: F.softmax(x, -1, dtype=torch.float32)),
        "log_softmax": (SQUARE, lambda x: F.log_softmax(x, -1)),
        "softmin": (SQUARE, lambda x: F.softmin(x, -1)),
        "gumbel_softmax": (SQUARE, lambda x: F.gumbel_softmax(x)),
        "prelu": ("x 4,4; w 1", F.prelu),
        "rrelu": (SQUARE, lambda x: F.rrelu(x, training=True)),
        "threshold": (SQUARE, lambda x: F.threshold(x, 0.5, 0.0)),
        "dropout": (SQUARE, F.dropout),
        "alpha_dropout": (SQUARE, F.alpha_dropout),
    },
)
_add(
    "losses",
    {
        name: (PAIR, getattr(F, name))
        for name in [
            "mse_loss",
            "l1_loss",
            "smooth_l1_loss",
            "huber_loss",
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
            "poisson_nll_loss",
            "hinge_embedding_loss",
            "kl_div",
            "multilabel_soft_margin_loss",
        ]
    }
    | {
        "cross_entropy": (SQUARE, lambda x: F.cross_entropy(x, K.labels)),
        "cross_entropy with weights": ("x 4,4; w 4", lambda x, w: F.cross_entropy(x, K.labels, w.detach())),
        "cross_entropy with smoothing": (SQUARE, lambda x: F.cross_entropy(x, K.labels, label_smoothing=0.1)),
        "cross_entropy of probabilities": (PAIR, lambda a, b: F.cross_entropy(a, b.detach())),
        "cross_entropy of 4 dimensions": (
            IMAGE,
            lambda x: F.cross_entropy(x, torch.zeros(2, 8, 8, dtype=torch.long, device=K.device)),
        ),
        "soft_margin_loss": (PAIR, lambda a, b: F.soft_margin_loss(a, b.detach())),
        "nll_loss": (SQUARE, lambda x: F.nll_loss(x, K.labels)),
        "nll_loss with weights": ("x 4,4; w 4", lambda x, w: F.nll_loss(x, K.labels, w.detach())),
        "BCE with pos_weight": (
            "x 4,4; y 4,4; w 4",
            lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w.detach()),
        ),
        "gaussian_nll_loss": ("a 4,4; b 4,4; b 4,4", F.gaussian_nll_loss),
        "cosine_embedding_loss": (PAIR, lambda a, b: F.cosine_embedding_loss(a, b, K.ones4)),
        "margin_ranking_loss": ("a 4; b 4", lambda a, b: F.margin_ranking_loss(a, b, K.ones4)),
        "triplet_margin_loss": ("a 4,4; b 4,4; b 4,4", F.triplet_margin_loss),
        "multi_margin_loss": (SQUARE, lambda x: F.multi_margin_loss(x, K.labels)),
        "multilabel_margin_loss": (SQUARE, lambda x: F.multilabel_margin_loss(x, K.multi)),
        "ctc_loss": ("x 4,2,5", lambda x: F.ctc_loss(x.log_softmax(-1), K.targets, K.lengths, K.ones4[:2])),
        "ctc_loss of logits": ("x 4,2,5", lambda x: F.ctc_loss(x, K.targets, K.lengths, K.ones4[:2])),
    },
)
QKV = "q 2,2,4,8; k 2,2,4,8; v 2,2,4,8"


def _encoder(x: Any, dtype: Any, padding: Any, **options: Any) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, device=K.device, dtype=dtype)
    encoder = nn.TransformerEncoder(layer, 1, **options).eval()
    with torch.inference_mode():
        return encoder(x, src_key_padding_mask=padding)


_add(
    "attention",
    {
        "sdpa": (QKV, F.scaled_dot_product_attention),
        "sdpa causal": (QKV, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        "sdpa with a mask": (
            "q 2,2,4,8; q 2,2,4,8; q 2,2,4,8; m 4,4",
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m.detach()),
        ),
        "sdpa of 3 dimensions": ("q 2,4,8; k 2,4,8; k 2,4,8", F.scaled_dot_product_attention),
        "sdpa with dropout": (
            "q 2,2,4,8; k 2,2,4,8; k 2,2,4,8",
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, None, 0.1),
        ),
        "MultiheadAttention": (
            "x 2,3,8; w dtype",
            lambda x, w: nn.MultiheadAttention(8, 2, batch_first=True, device=K.device, dtype=w)(x, x, x)[0],
        ),
        "MultiheadAttention with a float mask": (
            "x 2,3,8; m 3,3; w dtype",
            lambda x, m, w: nn.MultiheadAttention(8, 2, batch_first=True, device=K.device, dtype=w)(
                x, x, x, attn_mask=m.detach(), need_weights=False
            )[0],
        ),
        "TransformerEncoderLayer": (
            "x 2,3,8; w dtype",
            lambda x, w: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, device=K.device, dtype=w)(x),
        ),
        "TransformerDecoderLayer": (
            "x 2,3,8; y 2,3,8; w dtype",
            lambda x, y, w: nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True, device=K.device, dtype=w)(x, y),
        ),
        "TransformerEncoder, eval": ("x 2,3,8; w dtype", lambda x, w: _encoder(x.detach(), w, None)),
        "TransformerEncoder, eval, padding": ("x 2,3,8; w dtype", lambda x, w: _encoder(x.detach(), w, K.padding)),
        "TransformerEncoder, eval, padding, not nested": (
            "x 2,3,8; w dtype",
            lambda x, w: _encoder(x.detach(), w, K.padding, enable_nested_tensor=False),
        ),
    },
)


def _cell(kind: Any, **options: Any) -> Callable[..., Any]:
    def run(x: Any, dtype: Any, *state: Any) -> Any:
        result = kind(8, 8, device=K.device, dtype=dtype, **options)(x, *state)
        return result[0] if isinstance(result, tuple) else result

    return run


_add(
    "recurrent",
    {
        "LSTM": ("x 2,3,8; w dtype", _cell(nn.LSTM, batch_first=True)),
        "LSTM of 2 layers, both ways": ("x 2,3,8; w dtype", _cell(nn.LSTM, num_layers=2, bidirectional=True)),
        "LSTM with a state": ("x 2,3,8; w dtype; h 1,3,8", lambda x, w, h: _cell(nn.LSTM)(x, w, (h, h))),
        "GRU": ("x 2,3,8; w dtype", _cell(nn.GRU)),
        "GRU with a state": ("x 2,3,8; w dtype; h 1,3,8", _cell(nn.GRU)),
        "RNN": ("x 2,3,8; w dtype", _cell(nn.RNN)),
        "RNN with relu": ("x 2,3,8; w dtype", _cell(nn.RNN, nonlinearity="relu")),
        "LSTMCell": ("x 3,8; w dtype", _cell(nn.LSTMCell)),
        "LSTMCell with a state": ("x 3,8; w dtype; h 3,8", lambda x, w, h: _cell(nn.LSTMCell)(x, w, (h, h))),
        "GRUCell": ("x 3,8; w dtype", _cell(nn.GRUCell)),
        "GRUCell with a state": ("x 3,8; w dtype; h 3,8", _cell(nn.GRUCell)),
        "RNNCell": ("x 3,8; w dtype", _cell(nn.RNNCell)),
    },
)
_add(
    "two tensors",
    {
        "cat": (PAIR, lambda a, b: torch.cat([a, b])),
        "cat of three": ("a 2,4; b 2,4; c 2,4", lambda a, b, c: torch.cat([a, b, c])),
        "stack": (PAIR, lambda a, b: torch.stack([a, b])),
        "hstack": (PAIR, lambda a, b: torch.hstack([a, b])),
        "where": (PAIR, lambda a, b: torch.where(K.mask, a, b)),
        "where with a number": (SQUARE, lambda x: torch.where(K.mask, x, 0.0)),
        "addcmul": ("c 4,4; a 4,4; b 4,4", torch.addcmul),
        "addcdiv": ("c 4,4; a 4,4; b 4,4", torch.addcdiv),
        "lerp": (PAIR, lambda a, b: torch.lerp(a, b, 0.5)),
        "lerp by a tensor": ("a 4,4; b 4,4; c 4,4", torch.lerp),
        "cross": ("a 4,3; b 4,3", lambda a, b: torch.cross(a, b, dim=-1)),
        "linalg.cross": ("a 4,3; b 4,3", torch.linalg.cross),
        "complex": (PAIR, torch.complex),
        "polar": (PAIR, torch.polar),
        "cosine_similarity": (PAIR, F.cosine_similarity),
        "pairwise_distance": (PAIR, F.pairwise_distance),
        "cdist": (PAIR, torch.cdist),
        "grid_sample": ("x 1,1,4,4; g 1,4,4,2", lambda x, g: F.grid_sample(x, g, align_corners=False)),
        "dist": (PAIR, torch.dist),
        "equal": (PAIR, torch.equal),
        "isclose": (PAIR, torch.isclose),
        "clamp by tensors": ("x 4,4; b 4,4", lambda x, b: x.clamp(min=b)),
        "bucketize": ("x 4,4; b 4", lambda x, b: torch.bucketize(x.detach(), b.detach())),
        "searchsorted": ("b 4; x 4", lambda b, x: torch.searchsorted(b.detach(), x.detach())),
        "gt": (PAIR, torch.gt),
        "heaviside": (PAIR, lambda a, b: torch.heaviside(a.detach(), b.detach())),
        "floor_divide": (PAIR, lambda a, b: a.detach() // b.detach()),
        "normal": (PAIR, lambda a, b: torch.normal(a.detach(), b.detach())),
        "bincount with weights": ("x 4", lambda x: torch.bincount(K.labels, x.detach())),
        "trapezoid": (PAIR, lambda a, b: torch.trapezoid(a, b)),
        "embedding_bag with weights": (
            "w 4,4; p 2,2",
            lambda w, p: F.embedding_bag(K.bag, w, per_sample_weights=p, mode="sum"),
        ),
        "number of 0 dimensions": ("a 4,4; b 1", lambda a, b: a * b.squeeze()),
    }
    | {
        name: (PAIR, getattr(torch, name))
        for name in [
            "add",
            "sub",
            "mul",
            "div",
            "pow",
            "maximum",
            "minimum",
            "fmod",
            "remainder",
            "atan2",
            "hypot",
            "copysign",
            "logaddexp",
            "logaddexp2",
            "xlogy",
            "fmax",
            "nextafter",
            "ldexp",
            "true_divide",
        ]
    },
)
_add(
    "in place",
    {
        name: (PAIR, _changed(lambda a, b, name=name: getattr(a, name)(b)))
        for name in ["add_", "sub_", "mul_", "div_", "copy_", "pow_", "fmod_", "atan2_", "clamp_"]
    }
    | {
        "+=": (PAIR, _changed(lambda a, b: a.__iadd__(b))),
        "t[:2] = v": ("a 4,4; b 2,4", _set(lambda: slice(0, 2))),
        "t[index] = v": ("a 4,4; b 2,4", _set(lambda: K.two)),
        "t[index] = one element": ("a 4,4; b 1", _set(lambda: K.two)),
        "t[mask] = v": ("a 4,4; b 2,4", _set(lambda: K.mask)),
        "t[0] = v": ("a 4,4; b 4", _set(lambda: 0)),
        "masked_fill_": ("a 4,4; b 1", _changed(lambda a, b: a.masked_fill_(K.mask, b.detach().squeeze()))),
        "index_fill_": ("a 4,4; b 1", _changed(lambda a, b: a.index_fill_(0, K.two, b.detach().squeeze()))),
        "fill_": ("a 4,4; b 1", _changed(lambda a, b: a.fill_(b.detach().squeeze()))),
        "lerp_": (PAIR, _changed(lambda a, b: a.lerp_(b, 0.1))),
        "lerp_ by a tensor": ("a 4,4; b 4,4; c 4,4", _changed(lambda a, b, c: a.lerp_(b, c))),
        "addcmul_": ("a 4,4; b 4,4; c 4,4", _changed(lambda a, b, c: a.addcmul_(b, c))),
        "addcdiv_": ("a 4,4; b 4,4; c 4,4", _changed(lambda a, b, c: a.addcdiv_(b, c))),
        "masked_scatter_": (PAIR, _changed(lambda a, b: a.masked_scatter_(K.mask, b))),
        "index_add_": ("a 4,4; b 2,4", _changed(lambda a, b: a.index_add_(0, K.two, b))),
        "index_copy_": ("a 4,4; b 2,4", _changed(lambda a, b: a.index_copy_(0, K.two, b))),
        "index_put_": ("a 4,4; b 2,4", _changed(lambda a, b: a.index_put_((K.two,), b))),
        "index_put_ accumulating": ("a 4,4; b 2,4", _changed(lambda a, b: a.index_put_((K.two,), b, accumulate=True))),
        "scatter_": ("a 4,4; b 1,4", _changed(lambda a, b: a.scatter_(0, K.index, b))),
        "scatter_add_": ("a 4,4; b 1,4", _changed(lambda a, b: a.scatter_add_(0, K.index, b))),
        "scatter_reduce_": ("a 4,4; b 1,4", _changed(lambda a, b: a.scatter_reduce_(0, K.index, b, "amax"))),
        "put_": ("a 4,4; b 2", _changed(lambda a, b: a.put_(K.two, b))),
        "add(out=)": ("a 4,4; b 4,4; o 4,4", _out(torch.add)),
        "mul(out=)": ("a 4,4; b 4,4; o 4,4", _out(torch.mul)),
        "cat(out=)": (
            "a 2,4; b 2,4; o 4,4",
            lambda a, b, o: torch.cat([a.detach(), b.detach()], out=o.detach().clone()),
        ),
        "exp(out=)": ("a 4,4; o 4,4", _out(torch.exp)),
        "sum(out=)": ("a 4,4; o 4", lambda a, o: torch.sum(a.detach(), 0, out=o.detach().clone())),
    },
)
_add(
    "indexing",
    {
        "scatter": ("a 4,4; b 1,4", lambda a, b: a.scatter(0, K.index, b)),
        "scatter_add": ("a 4,4; b 1,4", lambda a, b: a.scatter_add(0, K.index, b)),
        "scatter_reduce": ("a 4,4; b 1,4", lambda a, b: a.scatter_reduce(0, K.index, b, "sum")),
        "index_add": ("a 4,4; b 2,4", lambda a, b: a.index_add(0, K.two, b)),
        "index_copy": ("a 4,4; b 2,4", lambda a, b: a.index_copy(0, K.two, b)),
        "index_reduce": ("a 4,4; b 2,4", lambda a, b: a.detach().index_reduce(0, K.two, b.detach(), "prod")),
        "index_put": ("a 4,4; b 2,4", lambda a, b: a.index_put((K.two,), b)),
        "index_put accumulating": ("a 4,4; b 2,4", lambda a, b: a.index_put((K.two,), b, accumulate=True)),
        "masked_scatter": (PAIR, lambda a, b: a.masked_scatter(K.mask, b)),
        "masked_fill": ("a 4,4; b 1", lambda a, b: a.masked_fill(K.mask, b.detach().squeeze())),
        "select_scatter": ("a 4,4; b 4", lambda a, b: a.select_scatter(b, 0, 0)),
        "slice_scatter": ("a 4,4; b 2,4", lambda a, b: a.slice_scatter(b, 0, 0, 2)),
        "diagonal_scatter": ("a 4,4; b 4", lambda a, b: a.diagonal_scatter(b)),
        "gather": (SQUARE, lambda x: x.gather(0, K.index)),
        "index_select": (SQUARE, lambda x: x.index_select(0, K.two)),
        "t[index]": (SQUARE, lambda x: x[K.two]),
        "t[mask]": (SQUARE, lambda x: x[K.mask]),
        "take_along_dim": (SQUARE, lambda x: x.take_along_dim(K.index, 0)),
        "embedding": (SQUARE, lambda x: F.embedding(K.labels, x)),
        "embedding_bag": (SQUARE, lambda x: F.embedding_bag(K.bag, x)),
        "one_hot and matmul": (SQUARE, lambda x: F.one_hot(K.labels, 4).to(x.dtype) @ x),
    },
)
_REDUCTIONS = """
    sum mean prod var std median max min amax amin argmax logsumexp cumsum cumprod norm nansum nanmean aminmax cummax
    logcumsumexp sort topk kthvalue mode quantile nanquantile histc count_nonzero var_mean std_mean renorm
    trace all any cov corrcoef diff
"""
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["logsumexp", "cumsum", "cumprod", "cummax", "logcumsumexp"], (0,)),
    **{"topk": (2,), "kthvalue": (2,), "quantile": (0.5,), "nanquantile": (0.5,), "renorm": (2, 0, 1.0)},
}
_ADDED = {
    name: (SQUARE, lambda x, name=name: getattr(torch, name)(x, *_ARGUMENTS.get(name, ())))
    for name in _REDUCTIONS.split()
}
_add(
    "reductions",
    _ADDED
    | {
        "vector_norm": (SQUARE, torch.linalg.vector_norm),
        "matrix_norm": (SQUARE, torch.linalg.matrix_norm),
        "matrix_norm nuc": (SQUARE, lambda x: torch.linalg.matrix_norm(x, "nuc")),
        "norm(dtype=float32)": (SQUARE, lambda x: torch.norm(x, dtype=torch.float32)),
        "norm 1": (SQUARE, lambda x: torch.norm(x, 1)),
        "norm of a dimension": (SQUARE, lambda x: x.norm(dim=-1)),
        "sum(dtype=float32)": (SQUARE, lambda x: x.sum(dtype=torch.float32)),
        "mean of a dimension": (SQUARE, lambda x: x.mean(-1)),
        "clip_grad_norm_": ("x 4", lambda x: _clipped(x)),
        "unique": (SQUARE, lambda x: torch.unique(x.detach())),
        "multinomial": (SQUARE, lambda x: torch.multinomial(x.detach(), 1)),
        "bernoulli": (SQUARE, lambda x: torch.bernoulli(x.detach())),
        "poisson": (SQUARE, lambda x: torch.poisson(x.detach())),
    },
)


def _clipped(x: Any) -> Any:
    weight = x.detach().clone().requires_grad_()
    weight.grad = torch.ones_like(weight)
    return nn.utils.clip_grad_norm_([weight], 1.0)


_POINTWISE = """
    exp expm1 exp2 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh atanh sigmoid
    erf erfc erfinv lgamma digamma reciprocal abs neg sign sgn frac round floor ceil trunc nan_to_num square sinc i0
    logit angle deg2rad signbit isfinite isnan positive
"""
_add(
    "pointwise",
    {name: (SQUARE, lambda x, name=name: getattr(torch, name)(x)) for name in _POINTWISE.split()}
    | {
        "pow 2": (SQUARE, lambda x: x**2),
        "pow 0.5": (SQUARE, lambda x: x.pow(0.5)),
        "2 ** x": (SQUARE, lambda x: 2.0**x),
        "x + 1.0": (SQUARE, lambda x: x + 1.0),
        "x / 3": (SQUARE, lambda x: x / 3),
        "clamp": (SQUARE, lambda x: x.clamp(0.2, 0.8)),
        "masked_fill with a number": (SQUARE, lambda x: x.masked_fill(K.mask, -1e4)),
        "masked_fill with -1e9": (SQUARE, lambda x: x.masked_fill(K.mask, -1e9)),
        "masked_fill with finfo(float32).min": (
            SQUARE,
            lambda x: x.masked_fill(K.mask, torch.finfo(torch.float32).min),
        ),
        "x + -1e9": (SQUARE, lambda x: x + -1e9),
        "x + whole numbers": (SQUARE, lambda x: x + K.whole),
        "x * whole number of 0 dimensions": (SQUARE, lambda x: x * K.whole[0, 0]),
        "polygamma": (SQUARE, lambda x: torch.polygamma(1, x)),
        "special.log_ndtr": (SQUARE, torch.special.log_ndtr),
        "special.ndtri": (SQUARE, torch.special.ndtri),
        "special.i1": (SQUARE, torch.special.i1),
        "triu": (SQUARE, torch.triu),
        "tril": (SQUARE, torch.tril),
        "roll": (SQUARE, lambda x: x.roll(1)),
        "flip": (SQUARE, lambda x: x.flip(0)),
        "numpy": (SQUARE, lambda x: torch.as_tensor(x.detach().cpu().numpy())),
        "item": (SQUARE, lambda x: torch.tensor(x.detach().sum().item())),
        "view_as_complex": ("x 4,2", torch.view_as_complex),
        "to_sparse": (SQUARE, lambda x: x.detach().to_sparse().to_dense()),
    },
)
_add(
    "images",
    {
        "avg_pool1d": ("x 2,4,8", lambda x: F.avg_pool1d(x, 2)),
        "avg_pool2d": (IMAGE, lambda x: F.avg_pool2d(x, 2)),
        "avg_pool3d": ("x 2,4,4,4,4", lambda x: F.avg_pool3d(x, 2)),
        "max_pool1d": ("x 2,4,8", lambda x: F.max_pool1d(x, 2)),
        "max_pool2d": (IMAGE, lambda x: F.max_pool2d(x, 2)),
        "max_pool3d": ("x 2,4,4,4,4", lambda x: F.max_pool3d(x, 2)),
        "max_pool2d with indices": (IMAGE, lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
        "lp_pool2d": (IMAGE, lambda x: F.lp_pool2d(x, 2, 2)),
        "adaptive_avg_pool2d": (IMAGE, lambda x: F.adaptive_avg_pool2d(x, 3)),
        "adaptive_avg_pool3d": ("x 2,4,4,4,4", lambda x: F.adaptive_avg_pool3d(x, 3)),
        "adaptive_max_pool2d": (IMAGE, lambda x: F.adaptive_max_pool2d(x, 3)),
        "fractional_max_pool2d": (IMAGE, lambda x: F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5))),
        "interpolate nearest": (IMAGE, lambda x: F.interpolate(x, scale_factor=2)),
        "interpolate linear": ("x 2,4,8", lambda x: F.interpolate(x, scale_factor=2, mode="linear")),
        "interpolate bilinear": (IMAGE, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        "interpolate bicubic": (IMAGE, lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
        "interpolate area": (IMAGE, lambda x: F.interpolate(x, size=4, mode="area")),
        "interpolate trilinear": ("x 2,4,4,4,4", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear")),
        "interpolate antialias": (
            IMAGE,
            lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
        ),
        "affine_grid": ("x 1,2,3", lambda x: F.affine_grid(x, [1, 1, 4, 4], align_corners=False)),
        "pixel_shuffle": (IMAGE, lambda x: F.pixel_shuffle(x, 2)),
        "unfold": (IMAGE, lambda x: F.unfold(x, 3)),
        "fold": ("x 2,16,4", lambda x: F.fold(x, (4, 4), 2, stride=2)),
        "pad reflect": (IMAGE, lambda x: F.pad(x, (1, 1, 1, 1), "reflect")),
        "pad replicate": (IMAGE, lambda x: F.pad(x, (1, 1, 1, 1), "replicate")),
        "pad circular": (IMAGE, lambda x: F.pad(x, (1, 1, 1, 1), "circular")),
        "channel_shuffle": (IMAGE, lambda x: torch.channel_shuffle(x, 2)),
    },
)
_add(
    "spectra",
    {
        "fft": ("x 4,8", torch.fft.fft),
        "ifft": ("x 4,8", torch.fft.ifft),
        "rfft": ("x 4,8", torch.fft.rfft),
        "rfft of 6": ("x 4,6", torch.fft.rfft),
        "fft of 6": ("x 4,6", torch.fft.fft),
        "fft2": ("x 8,8", torch.fft.fft2),
        "fft2 of 6 by 8": ("x 6,8", torch.fft.fft2),
        "rfft2": ("x 8,8", torch.fft.rfft2),
        "fftn": ("x 4,4,4", torch.fft.fftn),
        "rfftn": ("x 4,4,4", torch.fft.rfftn),
        "hfft": ("x 4,5", torch.fft.hfft),
        "ihfft": ("x 4,8", torch.fft.ihfft),
        "irfft": ("x 4,8", lambda x: torch.fft.irfft(torch.fft.rfft(x))),
        "irfft of 6": ("x 4,6", lambda x: torch.fft.irfft(torch.fft.rfft(x), n=6)),
        **{
            name: ("x 4,8", lambda x, name=name: getattr(torch.fft, name)(torch.fft.fft2(x)))
            for name in ("ifft2", "irfft2", "ifftn", "irfftn")
        },
        "istft": (
            "x 2,64; w 16",
            lambda x, w: torch.istft(
                torch.stft(x, 16, 4, window=w.detach(), return_complex=True), 16, 4, window=w.detach()
            ),
        ),
        "fftshift": ("x 4,8", torch.fft.fftshift),
        "stft": (
            "x 2,64; w 16",
            lambda x, w: torch.view_as_real(torch.stft(x, 16, 4, window=w.detach(), return_complex=True)),
        ),
        "stft of 12": (
            "x 2,64; w 12",
            lambda x, w: torch.view_as_real(torch.stft(x, 12, 4, window=w.detach(), return_complex=True)),
        ),
        "complex product": (
            "x 4,2; y 4,2",
            lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
        ),
    },
)


def _definite(x: Any) -> Any:
    return torch.eye(4, device=K.device, dtype=x.dtype) * 4 + x / 8 + x.transpose(0, 1) / 8


_ONE_MATRIX = """
    inv det slogdet svd svdvals qr cholesky cholesky_ex eigh eigvalsh eig eigvals matrix_exp matrix_rank lu lu_factor
    pinv cond inv_ex
"""
_add(
    "linear algebra",
    {
        f"linalg.{name}": (
            SQUARE,
            lambda x, name=name: getattr(torch.linalg, name)(_definite(x.detach() if name == "eig" else x)),
        )
        for name in _ONE_MATRIX.split()
    }
    | {
        **{
            name: (SQUARE, lambda x, name=name: getattr(torch, name)(_definite(x)))
            for name in ["svd", "qr", "det", "slogdet", "cholesky", "cholesky_inverse", "pinverse"]
        },
        "nuclear_norm": (SQUARE, torch.nuclear_norm),
        "inverse": (SQUARE, lambda x: torch.inverse(_definite(x))),
        "logdet": (SQUARE, lambda x: torch.logdet(_definite(x))),
        "matrix_power": (SQUARE, lambda x: torch.linalg.matrix_power(x, 3)),
        "linalg.solve": (PAIR, lambda a, b: torch.linalg.solve(_definite(a), b)),
        "linalg.lstsq": (PAIR, lambda a, b: torch.linalg.lstsq(_definite(a), b)[0]),
        "linalg.solve_triangular": (PAIR, lambda a, b: torch.linalg.solve_triangular(_definite(a), b, upper=True)),
        "cholesky_solve": (PAIR, lambda a, b: torch.cholesky_solve(b, _definite(a))),
        "orthogonal_": (SQUARE, lambda x: nn.init.orthogonal_(x.detach().clone())),
        "pdist": (SQUARE, F.pdist),
        "trunc_normal_": (SQUARE, lambda x: nn.init.trunc_normal_(x.detach().clone())),
        "kaiming_uniform_": (SQUARE, lambda x: nn.init.kaiming_uniform_(x.detach().clone())),
        "erfinv_ and uniform_": (SQUARE, lambda x: x.detach().clone().uniform_(-0.9, 0.9).erfinv_()),
    },
)


def _optimized(kind: Any, **options: Any) -> Callable[..., Any]:
    def run(weight: Any, grad: Any) -> Any:
        weight = nn.Parameter(weight.detach().clone())
        weight.grad = torch.zeros_like(weight)
        weight.grad.data = grad.detach().clone()
        kind([weight], lr=1e-3, **options).step()
        return weight

    return run


def _unscaled(weight: Any, grad: Any) -> Any:
    weight = nn.Parameter(weight.detach().clone())
    weight.grad = torch.zeros_like(weight)
    weight.grad.data = grad.detach().clone()
    scaler = torch.amp.GradScaler(K.device, enabled=True)
    scaler.scale(torch.ones((), device=K.device))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return weight.grad


class Scaled(torch.autograd.Function):
    """Without ``custom_fwd`` and ``custom_bwd``."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


_O = torch.optim
_add(
    "training",
    {
        "SGD": (PAIR, _optimized(_O.SGD, momentum=0.9)),
        "SGD fused": (PAIR, _optimized(_O.SGD, momentum=0.9, fused=True)),
        "SGD one by one": (PAIR, _optimized(_O.SGD, momentum=0.9, foreach=False)),
        "AdamW": (PAIR, _optimized(_O.AdamW)),
        "AdamW fused": (PAIR, _optimized(_O.AdamW, fused=True)),
        "AdamW one by one": (PAIR, _optimized(_O.AdamW, foreach=False)),
        "Adam amsgrad": (PAIR, _optimized(_O.Adam, amsgrad=True)),
        "Adagrad": (PAIR, _optimized(_O.Adagrad)),
        "RMSprop": (PAIR, _optimized(_O.RMSprop)),
        "Adafactor": (PAIR, _optimized(_O.Adafactor)),
        "NAdam": (PAIR, _optimized(_O.NAdam)),
        "RAdam": (PAIR, _optimized(_O.RAdam)),
        "Adamax": (PAIR, _optimized(_O.Adamax)),
        "Adadelta": (PAIR, _optimized(_O.Adadelta)),
        "ASGD": (PAIR, _optimized(_O.ASGD)),
        "Rprop": (PAIR, _optimized(_O.Rprop)),
        "unscale_": (PAIR, _unscaled),
        "p.grad = another dtype": (PAIR, lambda a, b: _assigned(a, b)),
        "_foreach_add": (PAIR, lambda a, b: torch._foreach_add([a, a], [b, b])[0]),
        "_foreach_mul": (PAIR, lambda a, b: torch._foreach_mul([a, a], [b, b])[0]),
        "_foreach_add_": (PAIR, _changed(lambda a, b: torch._foreach_add_([a], [b], alpha=0.5))),
        "_foreach_mul_": (PAIR, _changed(lambda a, b: torch._foreach_mul_([a], [b]))),
        "_foreach_lerp_": (PAIR, _changed(lambda a, b: torch._foreach_lerp_([a], [b], 0.5))),
        "_foreach_copy_": (
            PAIR,
            lambda a, b: (copy := [a.detach().clone()], torch._foreach_copy_(copy, [b.detach()]))[0][0],
        ),
        "_foreach_addcdiv_": (
            "a 4,4; b 4,4; c 4,4",
            _changed(lambda a, b, c: torch._foreach_addcdiv_([a], [b], [c])),
        ),
        "_foreach_norm": (PAIR, lambda a, b: torch.stack(torch._foreach_norm([a.detach(), b.detach()]))),
        "Function without custom_fwd": (PAIR, Scaled.apply),
    },
)


def _assigned(weight: Any, grad: Any) -> Any:
    weight = nn.Parameter(weight.detach().clone())
    weight.grad = grad.detach().clone()
    return weight.grad


OPERATIONS: tuple[Operation, ...] = tuple(_ALL)
