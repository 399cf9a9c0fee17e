"""Pointwise operations, comparisons, activations and reductions: what they do to dtypes."""

from __future__ import annotations

from itertools import chain

from .operation import Operand, Operation, rows

_X = "0:input"
_PAIR = "0:input 1:other"

_UNARY = chain(
    rows(
        """
        abs absolute neg negative positive sgn sign floor ceil round trunc fix frac conj resolve_conj resolve_neg
        bitwise_not nan_to_num square
        relu relu6 hardtanh threshold rrelu leaky_relu elu selu celu gelu silu mish glu hardswish hardsigmoid
        hardshrink softshrink softplus logsigmoid
        dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout
        normalize renorm gumbel_softmax
        """,
        "first",
        operands=_X,
    ),
    rows(
        """
        exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan arcsin arccos arctan
        sinh cosh tanh asinh acosh atanh arcsinh arccosh arctanh sigmoid erf erfc erfinv
        softsign tanhshrink local_response_norm lgamma digamma sinc deg2rad rad2deg logit i0
        special.entr special.ndtr special.log_ndtr special.i0e special.i1
        """,
        "first-float",
        operands=_X,
    ),
    rows("angle", "real", operands=_X),
    rows("isnan isinf isfinite isposinf isneginf isreal logical_not signbit", "bool", operands=_X),
)

_BINARY = chain(
    rows(
        """
        add sub subtract mul multiply rsub maximum minimum fmax fmin remainder fmod floor_divide pow
        hypot logaddexp logaddexp2 outer ger kron
        bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm
        """,
        "promote",
        "promotes",
        _PAIR,
    ),
    rows("div divide true_divide ldexp atan2 arctan2 xlogy copysign", "promote-float", "promotes", _PAIR),
    rows("nextafter", "promote", "promotes", _PAIR),
    rows("heaviside", "promote", "raises", "0:input 1:values"),
    rows("cross linalg.cross", "promote", "raises", _PAIR),
    rows("float_power", "cast:float64", "promotes", "0:input 1:exponent"),
    rows(
        """
        eq ne lt le gt ge not_equal less less_equal greater greater_equal logical_and logical_or logical_xor isin
        """,
        "bool",
        "promotes",
        _PAIR,
    ),
    rows("isclose", "bool", "raises", _PAIR),
    rows("allclose", "scalar", "raises", _PAIR),
    rows("equal", "scalar", "promotes", _PAIR),
    rows("clamp clip", "promote", "promotes", "0:input 1:min 2:max"),
    rows("clamp_min", "promote", "promotes", "0:input 1:min"),
    rows("clamp_max", "promote", "promotes", "0:input 1:max"),
    rows("addcmul addcdiv", "promote", "promotes", "0:input 1:tensor1 2:tensor2"),
    rows("lerp", "first", "raises-destination", "0:input 1:end 2:weight"),
    rows("dist", "promote-float", "promotes", _PAIR, zero_dim="always"),
)
_WHERE = Operation(
    "where",
    "where",
    "promotes",
    (Operand(1, "input"), Operand(2, "other")),
    method_operands=(Operand(0, "input"), Operand(2, "other")),
)

_REDUCTIONS = chain(
    rows("sum nansum prod", "sum-like", operands=_X, zero_dim="without-dim"),
    rows("cumsum cumprod", "sum-like", operands=_X),
    rows("logcumsumexp diff", "first", operands=_X),
    rows("softmax log_softmax softmin", "softmax-like", operands=_X),
    rows("mean nanmean norm linalg.norm linalg.vector_norm", "softmax-like", operands=_X, zero_dim="without-dim"),
    rows("linalg.matrix_norm", "softmax-like", operands=_X),
    rows("std var amax amin nuclear_norm quantile nanquantile", "first", operands=_X, zero_dim="without-dim"),
    rows("logsumexp", "first-float", operands=_X),
    rows("trace", "sum-like", operands=_X, zero_dim="always"),
    rows("max min median nanmedian", "max-like", "promotes", _PAIR, zero_dim="without-dim"),
    rows("std_mean var_mean aminmax", "tuple_of_first", operands=_X, zero_dim="without-dim"),
    rows("mode kthvalue cummax cummin sort topk", "values_indices", operands=_X),
    rows("argmax argmin argsort count_nonzero", "int64", operands=_X),
    rows("msort", "first", operands=_X),
    rows("any all", "bool", operands=_X, zero_dim="without-dim"),
    rows("histc", "first", operands=_X),
    rows("bucketize", "int64", "promotes", "0:input 1:boundaries"),
    rows("searchsorted", "int64", "promotes", "0:sorted_sequence 1:input"),
    rows("nonzero argwhere", "int64", operands=_X),
)

POINTWISE: tuple[Operation, ...] = (*_UNARY, *_BINARY, _WHERE, *_REDUCTIONS)
