"""What autocast does to which operation, per device type.

Sources: the operations registered for the Autocast keys in the dispatcher of the torch 2.13.0 wheel; their policies
from its ``ATen/autocast_mode.h`` (CUDA) and from ``aten/src/ATen/autocast_mode.cpp`` at 008ec6b1840c (CPU, MPS). Names
are the keys of ``operations.OPERATIONS``: ``aten::linalg_inv`` is written ``linalg.inv``.
"""

from __future__ import annotations

_CUDA = {
    "lower": """
        addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d
        conv_transpose2d conv_transpose3d convolution cudnn_convolution cudnn_convolution_transpose einsum gru_cell
        linalg.multi_dot linalg.vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell
        scaled_dot_product_attention
    """,
    "fp32": """
        acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity dist erfinv
        exp expm1 frobenius_norm group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10
        log1p log2 logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm
        nll_loss nll_loss2d nuclear_norm pdist poisson_nll_loss pow reciprocal renorm rms_norm rsqrt sinh
        smooth_l1_loss soft_margin_loss softplus tan triplet_margin_loss upsample_bicubic2d upsample_bilinear2d
        upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    """,
    "set_opt_dtype": """
        cumprod cumsum linalg.matrix_norm linalg.vector_norm log_softmax norm prod softmax sum
    """,
    "promote": """
        addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot
    """,
    "banned": """
        binary_cross_entropy
    """,
}
_CPU = {
    "lower": """
        addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
        linalg.vecdot linear matmul mkldnn_rnn_layer mm prelu scaled_dot_product_attention
    """,
    "fp32": """
        adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits
        cdist cholesky cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy_loss ctc_loss
        fake_quantize_per_tensor_affine fft.fft fft.fft2 fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft
        fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn fractional_max_pool2d fractional_max_pool3d
        geqrf grid_sampler grid_sampler_2d grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div l1_loss
        linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh
        linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq linalg.matrix_rank linalg.qr linalg.solve
        linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve lu_solve margin_ranking_loss max_pool3d
        max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward
        nanquantile nll_loss nll_loss2d orgqr ormqr pinverse poisson_nll_loss polar prod qr quantile
        reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d smooth_l1_loss
        soft_margin_loss stft svd trace triangular_solve triplet_margin_loss view_as_complex
    """,
    "agree-lower": """
        chain_matmul inner linalg.multi_dot linalg.pinv
    """,
    "promote": """
        cat index_copy stack
    """,
}
_MPS = {
    "lower": """
        addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d
        conv_transpose2d convolution einsum linalg.multi_dot linear lstm_cell matmul mm mv prelu
        scaled_dot_product_attention
    """,
    "fp32": """
        acos asin batch_norm binary_cross_entropy_with_logits cdist conv_transpose3d cosh cosine_embedding_loss
        cosine_similarity cumprod cumsum dist erfinv exp expm1 frobenius_norm group_norm hinge_embedding_loss
        huber_loss kl_div l1_loss layer_norm linalg.matrix_norm linalg.vector_norm log log10 log1p log2 log_softmax
        logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm nll_loss
        nll_loss2d nuclear_norm pdist poisson_nll_loss pow prod reciprocal renorm rsqrt sinh smooth_l1_loss
        soft_margin_loss softmax softplus sum tan triplet_margin_loss
    """,
    "promote": """
        addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot
    """,
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: policy for policy, names in table.items() for name in names.split()}


POLICIES = {"cuda": _by_name(_CUDA), "cpu": _by_name(_CPU), "mps": _by_name(_MPS)}
"""Policy by operation, by device type."""
LIKE_CUDA = ("xpu", "mtia", "maia")
"""Device types whose lists are CUDA's but for the cuDNN-only operations."""
CALLS = {
    "affine_grid": "bmm",  # on CUDA too: affine_grid_generator calls bmm on every device
    "arccos": "acos",
    "arcsin": "asin",
    "cross_entropy": "cross_entropy_loss nll_loss",
    "einsum": "bmm",
    "chain_matmul": "mm",
    "float_power": "pow",
    "gaussian_nll_loss": "log",
    "grid_sample": "grid_sampler",
    "gumbel_softmax": "softmax",
    "inner": "tensordot",
    "interpolate": "upsample_bilinear2d",
    "linalg.matmul": "matmul",
    "linalg.matrix_power": "matmul",
    "linalg.multi_dot": "mm",
    "linalg.norm": "linalg.vector_norm",
    "local_response_norm": "pow avg_pool3d",
    "lp_pool1d": "pow",
    "lp_pool2d": "pow",
    "lp_pool3d": "pow avg_pool3d",
    "matrix_power": "matmul",
    "multi_head_attention_forward": "linear",
    "multilabel_soft_margin_loss": "sum",
    "normalize": "linalg.vector_norm",
    "pairwise_distance": "norm",
    "softmin": "softmax",
    "square": "pow",
    "triplet_margin_with_distance_loss": "norm",
    "upsample": "upsample_bilinear2d",
}
"""Operations that autocast knows by the operations they call; the first with a policy on the device counts."""


def policy_of(name: str, device: str) -> str:
    """A policy's name as :meth:`Operation.autocast` explains it; "" where autocast does nothing."""
    table = POLICIES.get("cuda" if device in LIKE_CUDA else device, {})
    return next((table[called] for called in (name, *CALLS.get(name, "").split()) if called in table), "")
