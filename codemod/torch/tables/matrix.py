"""Matrix products, convolutions, attention, norms, losses, transforms and decompositions."""

from __future__ import annotations

from itertools import chain

from .operation import Operation, rows

_X = "0:input"
_WEIGHTED = "0:input 1:weight 2:bias"

_PRODUCTS = chain(
    rows("matmul linalg.matmul inner linalg.vecdot", "promote", "raises", "0:input 1:other"),
    rows("mm bmm", "promote", "raises", "0:input 1:mat2"),
    rows("mv", "promote", "raises", "0:input 1:vec"),
    rows("dot", "promote", "raises", "0:input 1:tensor", zero_dim="always"),
    rows("vdot", "promote", "raises", "0:input 1:other", zero_dim="always"),
    rows("tensordot", "promote", "raises", "0:a 1:b"),
    rows("einsum", "promote", "raises", "1:operands*"),
    rows("chain_matmul", "promote", "raises", "0:matrices*"),
    rows("linalg.multi_dot", "promote", "raises", "0:tensors*"),
    rows("addmm", "promote", "raises", "0:input 1:mat1 2:mat2"),
    rows("addmv", "promote", "raises", "0:input 1:mat 2:vec"),
    rows("addbmm baddbmm", "promote", "raises", "0:input 1:batch1 2:batch2"),
    rows("addr", "promote", "raises-backward", "0:input 1:vec1 2:vec2"),
    rows("matrix_power linalg.matrix_power matrix_exp linalg.matrix_exp", "first", operands=_X),
    rows("linear", "promote", "raises", _WEIGHTED),
    rows("bilinear", "promote", "raises", "0:input1 1:input2 2:weight"),
    rows(
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
        "promote",
        "raises",
        _WEIGHTED,
    ),
    rows("conv_tbc", "promote", "raises", "0:input 1:weight"),
    rows("prelu", "promote", "raises", "0:input 1:weight"),
    rows("scaled_dot_product_attention", "first", "raises-mask", "0:query 1:key 2:value 3:attn_mask"),
    rows("multi_head_attention_forward", "tuple_of_first", "raises", "0:query 1:key 2:value 5:in_proj_weight"),
    rows("cdist", "promote", "raises", "0:x1 1:x2"),
    rows("pdist", "first", operands=_X),
    rows("cosine_similarity", "promote", "promotes", "0:x1 1:x2"),
    rows("pairwise_distance", "promote-float", "promotes", "0:x1 1:x2"),
)

_NORMS = chain(
    # CUDA: LayerNormKernelImpl reads weight and bias in the input's dtype (trace in pytorch/pytorch#38487).
    rows("layer_norm", "first", "raises-narrow-weight", "0:input 2:weight 3:bias", mix_on_cuda="raises"),
    # CUDA: GroupNormKernelImplInternal (native/cuda/group_norm_kernel.cu) does so too.
    rows("group_norm", "first", "raises-narrow-weight", "0:input 2:weight 3:bias", mix_on_cuda="raises"),
    rows("batch_norm", "first", "raises-narrow-weight", "0:input 1:running_mean 2:running_var 3:weight 4:bias"),
    rows("instance_norm", "first", "raises-narrow-weight", "0:input 1:running_mean 2:running_var 3:weight 4:bias"),
    rows("rms_norm", "first", "promotes", "0:input 2:weight"),
)

_TWO = "0:input 1:target"
_LOSSES = chain(
    rows("soft_margin_loss hinge_embedding_loss", "first", "promotes", _TWO, zero_dim="always"),
    rows("mse_loss l1_loss smooth_l1_loss kl_div", "promote", "promotes", _TWO, zero_dim="always"),
    rows("huber_loss", "first", "raises-backward", _TWO, zero_dim="always"),
    rows("poisson_nll_loss", "promote-float", "promotes", _TWO, zero_dim="always"),
    rows("gaussian_nll_loss", "promote", "promotes", "0:input 1:target 2:var", zero_dim="always"),
    rows("binary_cross_entropy", "promote", "raises", _TWO, zero_dim="always"),
    rows("binary_cross_entropy_with_logits", "operand:1", "promotes", "0:input 1:target 2:weight", zero_dim="always"),
    rows("cross_entropy nll_loss", "first", "raises", "0:input 2:weight", zero_dim="always"),
    rows("multilabel_soft_margin_loss", "promote", "promotes", "0:input 1:target 2:weight", zero_dim="always"),
    rows("multilabel_margin_loss", "first", operands=_X, zero_dim="always"),
    rows("multi_margin_loss", "first", "raises", "0:input 4:weight", zero_dim="always"),
    rows("margin_ranking_loss", "promote-float", "promotes", "0:input1 1:input2 2:target", zero_dim="always"),
    rows("cosine_embedding_loss", "promote-float", "promotes", "0:input1 1:input2", zero_dim="always"),
    rows(
        "triplet_margin_loss triplet_margin_with_distance_loss",
        "promote-float",
        "promotes",
        "0:anchor 1:positive 2:negative",
        zero_dim="always",
    ),
    rows("ctc_loss", "first", operands="0:log_probs", zero_dim="always"),
)

_DECOMPOSITIONS = chain(
    rows(
        """
        linalg.inv linalg.pinv linalg.cholesky linalg.svdvals linalg.eigvalsh linalg.det linalg.cond
        inverse pinverse cholesky cholesky_inverse det logdet
        """,
        "first",
        operands=_X,
    ),
    rows("linalg.svd linalg.qr linalg.eigh linalg.slogdet slogdet svd qr linalg.lu", "tuple_of_first", operands=_X),
    rows("linalg.solve", "promote", "raises", "0:A 1:B"),
    rows("linalg.lstsq", "tuple_of_first", "raises", "0:input 1:b"),
    rows("linalg.eigvals", "complex", operands=_X),
    rows("linalg.matrix_rank", "int64", operands=_X),
)

_TRANSFORMS = chain(
    rows(
        """
        fft.fft fft.ifft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft fft.rfft2 fft.rfftn fft.ihfft stft
        """,
        "complex",
        operands=_X,
    ),
    rows("fft.irfft fft.irfft2 fft.irfftn fft.hfft istft view_as_real real imag", "real", operands=_X),
    rows("fft.fftshift fft.ifftshift", "first", operands=_X),
    rows("fft.fftfreq fft.rfftfreq", "factory"),
    rows("view_as_complex", "complex", operands=_X),
    rows("complex", "complex", "raises", "0:real 1:imag"),
    rows("polar", "complex", "raises", "0:abs 1:angle"),
)

MATRIX: tuple[Operation, ...] = (*_PRODUCTS, *_NORMS, *_LOSSES, *_DECOMPOSITIONS, *_TRANSFORMS)
