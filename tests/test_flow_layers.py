"""The table of layers against the installed torch: weights, results, mixes, CPU autocast, simulated CUDA autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from precfix.codemod.torch.api import SAME_MODULE, WEIGHT_CASTS
from precfix.codemod.torch.tables.kernels import missing_dtypes
from precfix.codemod.torch.tables.layers import LAYERS, LayerRow
from precfix.codemod.torch.tables.operations import OPERATIONS
from torch import nn

from .flow_calls import explained
from .soft import Soft
from .test_flow_operations import BF16, FP32, RAISES, dtypes_in, promoted

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SQUARE, LINE, IMAGE, VOLUME = (4, 4), (2, 4, 8), (2, 4, 8, 8), (2, 4, 8, 8, 8)
BY_DIMS = {"1d": LINE, "2d": IMAGE, "3d": VOLUME}
NOT_IN_TABLE = {
    *("Container", "CrossMapLRN2d", "LinearCrossEntropyLoss", "NLLLoss2d", "RNNBase", "RNNCellBase"),
}
"""Bases, a legacy class, and a loss newer than the releases in use."""
NOT_CALLED = {
    "SyncBatchNorm": "needs CUDA and a process group",
    "AdaptiveLogSoftmaxWithLoss": "its own test",
    "Transformer": "its own test",
    "TransformerDecoder": "its own test",
    "TransformerDecoderLayer": "its own test",
    **{name: "needs indices of a pool" for name in LAYERS if name.startswith("MaxUnpool")},
    **{name: "its own test" for name, each in LAYERS.items() if each.role in ("container", "wrapper", "loss")},
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Linear": (4, 4),
    "LazyLinear": (4,),
    "Bilinear": (4, 4, 4),
    "PReLU": (4,),
    "Embedding": (9, 4),
    "EmbeddingBag": (9, 4),
    "LayerNorm": (8,),
    "RMSNorm": (8,),
    "GroupNorm": (2, 4),
    "MultiheadAttention": (4, 2),
    "TransformerEncoderLayer": (8, 2, 8),
    "Threshold": (0.1, 0.2),
    "Softmax": (-1,),
    "LogSoftmax": (-1,),
    "Softmin": (-1,),
    "Flatten": (),
    "Unflatten": (1, (2, 2)),
    "Fold": ((4, 4), (2, 2)),
    "Unfold": (2,),
    "ChannelShuffle": (2,),
    "PixelShuffle": (2,),
    "PixelUnshuffle": (2,),
    "Upsample": (None, 2),
    "UpsamplingNearest2d": (None, 2),
    "UpsamplingBilinear2d": (None, 2),
    "LocalResponseNorm": (2,),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), (4, 4)),
    **dict.fromkeys(("RNNCell", "LSTMCell", "GRUCell"), (8, 8)),
}
SHAPES = {
    "Linear": SQUARE,
    "LazyLinear": SQUARE,
    "RNN": (3, 2, 4),
    "LSTM": (3, 2, 4),
    "GRU": (3, 2, 4),
    **dict.fromkeys(("RNNCell", "LSTMCell", "GRUCell"), (2, 8)),
    "MultiheadAttention": (3, 2, 4),
    "Fold": (1, 16, 9),
    "Dropout1d": LINE,
    **dict.fromkeys(("Softmax2d", "Unfold", "FeatureAlphaDropout", "LocalResponseNorm", "Upsample"), IMAGE),
    **dict.fromkeys(("PixelShuffle", "PixelUnshuffle", "ChannelShuffle"), IMAGE),
}
FIRST_ARGUMENTS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("LazyConv", (4, 3)),
    ("Conv", (4, 4, 3)),
    ("LazyBatchNorm", ()),
    ("LazyInstanceNorm", ()),
    ("BatchNorm", (4,)),
    ("InstanceNorm", (4,)),
    ("AdaptiveAvgPool", (2,)),
    ("AdaptiveMaxPool", (2,)),
    ("FractionalMaxPool", (2, 3)),
    ("LPPool", (2, 2)),
    ("AvgPool", (2,)),
    ("MaxPool", (2,)),
    ("MaxUnpool", (2,)),
    ("ConstantPad", (1, 0.0)),
    ("ZeroPad", (1,)),
    ("CircularPad", (1,)),
    ("ReflectionPad", (1,)),
    ("ReplicationPad", (1,)),
)


def made(name: str) -> nn.Module:
    arguments = ARGUMENTS.get(name)
    if arguments is None:
        arguments = next((given for start, given in FIRST_ARGUMENTS if name.startswith(start)), ())
    if name == "TransformerEncoder":
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8), 1)
    cls: Callable[..., nn.Module] = getattr(nn, name)
    module = cls(*arguments)
    if name.startswith("Lazy"):
        module(torch.zeros(shape_of(name)))
    return module


def shape_of(name: str) -> tuple[int, ...]:
    return SHAPES.get(name) or BY_DIMS.get(name[-2:], LINE)


def called(name: str, weights: torch.dtype, given: torch.dtype) -> object:
    try:
        module = made(name).to(weights)
        x = (torch.rand(shape_of(name)) * 0.5 + 0.2).to(given)
        if LAYERS[name].role == "lookup":
            return dtypes_in(module(torch.zeros(2, 3, dtype=torch.int64)))
        inputs = {"MultiheadAttention": 3, "Bilinear": 2}.get(name, 1)
        if name == "Bilinear":
            x = x[:, :, :4].contiguous()
        return dtypes_in(module(*[x] * inputs))
    except (RuntimeError, ValueError, NotImplementedError):
        return RAISES


def first_of(found: object) -> object:
    """The dtype of the first tensor that a module returned."""
    return first_of(found[0]) if isinstance(found, tuple) else found


def told(each: LayerRow, weights: torch.dtype, given: torch.dtype, autocast: bool = False) -> object:
    policy = each.autocast("cpu") if autocast else ""
    if each.role == "passing" or each.affine.startswith("!"):
        weights = given
    if policy in ("lower", "fp32", "set_opt_dtype"):
        weights = given = BF16 if policy == "lower" else FP32
    if BF16 in (weights, given) and "bfloat16" in missing_dtypes(each.operation, "cpu"):
        return RAISES
    meets = weights != given and policy != "keeps-input" and each.role != "lookup"
    if meets and (each.mix == "raises" or (each.mix == "raises-narrow-weight" and weights == BF16)):
        return RAISES
    return weights if each.result == "weights" and policy != "keeps-input" else given


CALLED = sorted(set(LAYERS) - set(NOT_CALLED))
PAIRS = [(FP32, FP32), (BF16, BF16), (FP32, BF16), (BF16, FP32)]


def test_the_table_is_complete() -> None:
    in_torch = {name for name in nn.__dict__ if isinstance(getattr(nn, name), type)}
    modules = {name for name in in_torch if issubclass(getattr(nn, name), nn.Module)}
    assert modules - set(LAYERS) == NOT_IN_TABLE
    assert set(LAYERS) - modules == {"DistributedDataParallel"}


def test_every_word_is_explained() -> None:
    roles, returns = explained("layers.txt", "Role"), explained("layers.txt", "Returns")
    for each in LAYERS.values():
        assert each.role in roles
        assert each.mix in explained("operations.txt", "Mix")
        assert each.returns in returns
        assert each.result in {"input", "weights", "promote", "input-float", "target"}


def weights_are_owned(name: str) -> None:
    owned = {p.dtype for p in made_loss(name).parameters()} if LAYERS[name].role == "loss" else params(name)
    assert bool(owned) == LAYERS[name].has_weights
    assert owned <= {FP32}


def made_loss(name: str) -> nn.Module:
    loss: nn.Module = getattr(nn, name)()
    return loss


def params(name: str) -> set[torch.dtype]:
    return {parameter.dtype for parameter in made(name).parameters()}


def without_autocast(name: str) -> None:
    for weights, given in PAIRS:
        expected = told(LAYERS[name], weights, given)
        assert first_of(called(name, weights, given)) == expected, (weights, given)


def under_cpu_autocast(name: str) -> None:
    if name == "LSTM" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return  # it is oneDNN's, which raises on a CPU without AVX-512
    with torch.autocast("cpu", dtype=BF16):
        for weights, given in PAIRS:
            if name.startswith("TransformerEncoder") and (weights, given) == (BF16, FP32):
                assert called(name, weights, given) == RAISES  # the norm behind the residual sum
                continue
            expected = told(LAYERS[name], weights, given, autocast=True)
            assert first_of(called(name, weights, given)) == expected, (weights, given)


WITH_WEIGHTS = sorted({*CALLED, *(name for name, each in LAYERS.items() if each.role in ("loss", "passing"))})


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_each_layer_is_as_its_row_says(name: str) -> None:
    with Soft() as soft:
        with soft("weights"):
            weights_are_owned(name)
        if name in CALLED:
            with soft("without autocast"):
                without_autocast(name)
            with soft("under CPU autocast"):
                under_cpu_autocast(name)


def test_cuda_autocast_is_that_of_the_operation() -> None:
    """The operations' own CUDA policies are simulated in test_flow_operations."""
    apart = {name for name, each in LAYERS.items() if each.on_cuda}
    assert apart == {
        *("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"),
        *(name for name in LAYERS if name.startswith("Transformer")),
    }
    for each in LAYERS.values():
        if each.operation in OPERATIONS and each.name not in apart:
            assert each.autocast("cuda") == OPERATIONS[each.operation].autocast("cuda")


def test_what_modules_return() -> None:
    x = torch.zeros(3, 2, 4)
    assert {LAYERS[name].returns for name in ("RNN", "GRU")} == {"output_state"}
    assert dtypes_in(nn.GRU(4, 4)(x)) == (FP32, FP32)
    assert LAYERS["LSTM"].returns == "output_states"
    assert dtypes_in(nn.LSTM(4, 4)(x)) == (FP32, (FP32, FP32))
    assert LAYERS["LSTMCell"].returns == "states"
    assert dtypes_in(nn.LSTMCell(4, 4)(x[0])) == (FP32, FP32)
    assert LAYERS["MultiheadAttention"].returns == "attention"
    assert dtypes_in(nn.MultiheadAttention(4, 2)(x, x, x, need_weights=False)) == (FP32, None)
    assert LAYERS["MaxPool1d"].returns == "values_indices"
    assert dtypes_in(nn.MaxPool1d(2, return_indices=True)(x)) == (FP32, torch.int64)
    assert LAYERS["AdaptiveLogSoftmaxWithLoss"].returns == "output_loss"
    loss = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])(torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64))
    assert dtypes_in(tuple(loss)) == (FP32, FP32)


def test_states_must_have_the_dtype_of_the_weights() -> None:
    x, state = torch.zeros(3, 2, 4), torch.zeros(1, 2, 4, dtype=BF16)
    with pytest.raises((RuntimeError, ValueError)):
        nn.GRU(4, 4)(x, state)


@pytest.mark.parametrize("name", ["Transformer", "TransformerDecoder", "TransformerDecoderLayer"])
def test_transformers_with_two_inputs(name: str) -> None:
    made_of: dict[str, Callable[[], nn.Module]] = {
        "Transformer": lambda: nn.Transformer(4, 2, 1, 1, 4),
        "TransformerDecoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 4), 1),
        "TransformerDecoderLayer": lambda: nn.TransformerDecoderLayer(4, 2, 4),
    }
    for weights, given in PAIRS:
        x = torch.zeros(3, 2, 4, dtype=given)
        module = made_of[name]().to(weights)
        if weights == given:
            assert dtypes_in(module(x, x)) == told(LAYERS[name], weights, given)
        else:
            with pytest.raises(RuntimeError, match="dtype"):
                module(x, x)


THREE = {"GaussianNLLLoss", "MarginRankingLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss"}
CLASS_TARGETS = {"NLLLoss": (4,), "MultiLabelMarginLoss": (4, 4), "MultiMarginLoss": (4,)}


def loss_of(name: str, given: torch.dtype, target: torch.dtype) -> object:
    x = (torch.rand(4, 4) * 0.5 + 0.2).to(given)
    y = (torch.rand(4, 4) * 0.5 + 0.2).to(target)
    module = getattr(nn, name)()
    try:
        if name in CLASS_TARGETS:
            return dtypes_in(module(x, torch.zeros(CLASS_TARGETS[name], dtype=torch.int64)))
        if name == "MarginRankingLoss":
            return dtypes_in(module(x.select(0, 0), y.select(0, 0), y.select(0, 0)))
        if name == "CosineEmbeddingLoss":
            return dtypes_in(module(x, y, torch.ones(4)))
        return dtypes_in(module(x, y, y) if name in THREE else module(x, y))
    except (RuntimeError, NotImplementedError):
        return RAISES


LOSSES = sorted(name for name, each in LAYERS.items() if each.role == "loss" and name != "CTCLoss")


def told_of_loss(each: LayerRow, given: torch.dtype, target: torch.dtype, autocast: bool) -> object:
    policy = each.autocast("cpu") if autocast else ""
    if policy == "banned":
        return RAISES
    if policy in ("fp32", "set_opt_dtype"):
        given = target = FP32
    if each.mix == "raises" and given != target:
        return RAISES
    if given == BF16 and "bfloat16" in missing_dtypes(each.operation, "cpu"):
        return RAISES
    if each.name in CLASS_TARGETS or each.result == "input":
        return given
    return target if each.result == "target" else promoted((given, target))


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    for given, target in PAIRS:
        assert loss_of(name, given, target) == told_of_loss(LAYERS[name], given, target, False)
    with torch.autocast("cpu", dtype=BF16):
        for given, target in PAIRS:
            assert loss_of(name, given, target) == told_of_loss(LAYERS[name], given, target, True)


@pytest.mark.parametrize("name", sorted({*SAME_MODULE} - {"cuda", "xpu", "npu"}))
def test_methods_that_give_back_the_module(name: str) -> None:
    module = torch.nn.Linear(2, 2)
    given = {"type": (FP32,), "to": ("cpu",)}.get(name, ())
    kept = {"device": "cpu"} if name == "to_empty" else {}
    assert getattr(module, name)(*given, **kept) is module
    assert str(module.weight.dtype) == f"torch.{WEIGHT_CASTS[name].name if name in WEIGHT_CASTS else 'float32'}"
