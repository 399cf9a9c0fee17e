"""The operations of PyTorch by what they do to a tensor's role. Names are those of functions and methods."""

from __future__ import annotations

PRODUCTS = frozenset(
    {
        "matmul", "mm", "bmm", "mv", "einsum", "addmm", "addmv", "addbmm", "baddbmm", "linear", "chain_matmul",
        "multi_dot", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "scaled_dot_product_attention", "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight",
        "conv3d_input", "conv3d_weight",
    }
)  # fmt: skip
"""Computed in 16 bits under CUDA's autocast; without it all operands must have one dtype."""
PRODUCT_METHODS = frozenset({"matmul", "mm", "bmm", "mv", "addmm", "addmv", "addbmm", "baddbmm"})
IN_PLACE_PRODUCTS = frozenset({"addmm_", "addmv_", "addbmm_", "baddbmm_"})
"""Autocast leaves these alone: receiver and operands must have one dtype in any case."""
WITH_OUT = frozenset({"matmul", "mm", "bmm", "mv", "addmm", "addmv", "addbmm", "baddbmm"})
"""With ``out=`` autocast leaves these alone too."""
FULL_UNDER_AUTOCAST = frozenset(
    {
        "softmax", "log_softmax", "exp", "expm1", "log", "log10", "log1p", "log2", "logsumexp", "pow", "prod", "sum",
        "cumsum", "cumprod", "norm", "vector_norm", "matrix_norm", "reciprocal", "rsqrt", "softplus", "cdist",
        "cosine_similarity", "layer_norm", "group_norm", "rms_norm", "tan", "sinh", "cosh",
    }
)  # fmt: skip
KEEPING = frozenset(
    {
        "view", "reshape", "t", "transpose", "permute", "contiguous", "flatten", "unflatten", "squeeze", "squeeze_",
        "unsqueeze", "unsqueeze_", "expand", "expand_as", "detach", "detach_", "clone", "narrow", "select",
        "index_select", "movedim", "swapaxes", "swapdims", "view_as", "reshape_as", "repeat", "repeat_interleave",
        "tile", "roll", "flip", "tril", "triu", "requires_grad_", "cuda", "cpu", "pin_memory", "masked_fill",
        "masked_fill_", "clamp", "clamp_", "clamp_min", "clamp_max", "clip", "relu", "relu_", "sigmoid", "tanh",
        "gelu", "silu", "leaky_relu", "abs", "neg", "sign", "sqrt", "square", "mean", "amax", "amin", "dropout",
        "zero_", "fill_", "copy_", "add_", "sub_", "mul_", "div_", "addcmul_", "addcdiv_", "mT", "T", "H", "data",
        "as_strided", "unfold", "diagonal", "to_dense", "unbind", "chunk",
        "split", "tensor_split", "hsplit", "vsplit",
    }
)  # fmt: skip
IN_PARTS = frozenset({"unbind", "chunk", "split", "tensor_split", "hsplit", "vsplit"})
LIKE = frozenset({"zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"})
NEW = frozenset({"new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"})
FACTORIES = frozenset({"zeros", "ones", "empty", "full", "rand", "randn", "eye", "linspace", "normal"})
"""Float32 when no dtype is given."""
ARITHMETIC = frozenset(
    {"add", "sub", "mul", "div", "cat", "stack", "concat", "where", "maximum", "minimum", "true_divide"}
)
NO_TENSORS = frozenset(
    {"size", "dim", "numel", "stride", "item", "tolist", "is_available", "synchronize", "empty_cache", "element_size",
     "data_ptr", "get_device", "device", "ndimension", "len", "range", "int", "float", "bool", "isinstance", "Size"}
)  # fmt: skip

LOW_LAYERS = frozenset(
    {"Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"}
)
FULL_LAYERS = frozenset({"LayerNorm", "GroupNorm", "RMSNorm", "Softmax", "LogSoftmax"})
