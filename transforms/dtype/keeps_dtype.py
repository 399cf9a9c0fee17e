"""Which operations keep a floating dtype, and which ones CUDA's autocast computes in 16 bits or in float32.

From the registrations of PyTorch 2.13 (aten/src/ATen/autocast_mode.cpp); the names are those of functions, methods
and layers, not of the dispatcher.
"""

from __future__ import annotations

AUTOCAST_FUNCTIONS = frozenset(
    {
        "matmul", "mm", "bmm", "einsum", "baddbmm", "addmm", "addbmm", "linear", "conv1d", "conv2d", "conv3d",
        "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "scaled_dot_product_attention",
    }
)  # fmt: skip
AUTOCAST_METHODS = frozenset({"matmul", "mm", "bmm", "baddbmm"})
AUTOCAST_LAYERS = frozenset(
    {"Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"}
)

KEEPING_METHODS = frozenset(
    {
        "view", "reshape", "transpose", "permute", "contiguous", "squeeze", "unsqueeze", "expand", "expand_as",
        "repeat", "repeat_interleave", "flatten", "unflatten", "chunk", "split", "unbind", "tensor_split", "clone",
        "detach", "narrow", "select", "index_select", "gather", "roll", "flip", "movedim", "swapaxes", "view_as",
        "t", "cuda", "cpu", "requires_grad_", "masked_fill", "masked_fill_", "clamp", "clamp_", "clamp_min",
        "clamp_max", "clip", "relu", "relu_", "abs", "neg", "sigmoid", "tanh", "sqrt", "tril", "triu", "mean", "amax",
        "amin", "var", "std", "add_", "sub_", "mul_", "div_", "add", "sub", "mul", "div", "fill_", "zero_",
    }
)  # fmt: skip
KEEPING_FUNCTIONS = frozenset(
    {
        "transpose", "permute", "reshape", "squeeze", "unsqueeze", "flatten", "masked_fill", "clamp", "clip", "relu",
        "leaky_relu", "gelu", "silu", "dropout", "abs", "neg", "sigmoid", "tanh", "sqrt", "tril", "triu", "mean",
        "var", "std", "add", "sub", "mul", "div", "movedim",
    }
)  # fmt: skip
KEEPING_LAYERS = frozenset(
    {"Dropout", "Dropout1d", "Dropout2d", "Identity", "ReLU", "GELU", "SiLU", "LeakyReLU", "Sigmoid", "Tanh"}
)
KEEPING_ATTRIBUTES = frozenset({"T", "mT", "H", "data"})

FACTORIES = frozenset({"zeros", "ones", "full", "empty", "rand", "randn", "tensor"})
LIKE = frozenset({"zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"})
NEW = frozenset({"new_zeros", "new_ones", "new_full", "new_empty"})
