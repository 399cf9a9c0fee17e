"""Errors as CUDA words them, where the CPU says the same in other words."""

from __future__ import annotations

import re

_SAID = (
    (r"expected m1 and m2 to have the same dtype", "expected mat1 and mat2 to have the same dtype"),
    (r" or (?:input|bias) should be a MKLDNN tensor and (?:weight|bias) is a dense tensor", ""),
    (r"\bCPU(BFloat16|Half|Float|Double)Type\b", r"CUDA\1Type"),
    (r"\btorch\.(Float|Half|Double|BFloat16)Tensor\b", r"torch.cuda.\1Tensor"),
    (r"masked_scatter: (expected .* but got) ?", r"masked_scatter_: \1 "),
    (r"MKL FFT doesn't support tensors of type", "cuFFT doesn't support tensor of type"),
    (r"_cpu\" not implemented for", '_cuda" not implemented for'),
)
"""Each as seen on an H200 with torch 2.11."""
_KERNEL = {
    f"aten::{name}": kernel
    for names, kernel in (
        ("_amp_foreach_non_finite_check_and_unscale_", "_amp_foreach_non_finite_check_and_unscale_cuda"),
        ("_linalg_svd", "svd_cuda_gesvdjBatched"),
        ("linalg_qr geqrf", "geqrf_cuda"),
        ("_linalg_det _linalg_slogdet linalg_lu linalg_lu_factor_ex _linalg_solve_ex", "lu_factor_cusolver"),
        ("linalg_cholesky_ex cholesky", "cholesky_cusolver"),
        ("cholesky_inverse", "cholesky_cuda_potri"),
        ("cholesky_solve", "cholesky_cuda_potrs"),
        ("linalg_solve_triangular", "triangular_solve_cuda"),
        ("_linalg_eigh", "linalg_eigh_cuda"),
        ("_ctc_loss", "ctc_loss_cuda"),
        ("_cdist_forward", "cdist_cuda"),
        ("_pdist_forward", "pdist_cuda"),
        ("special_log_ndtr", "log_ndtr_cuda"),
        ("special_ndtri", "ndtri_cuda"),
        ("histc", "histc"),
    )
    for name in names.split()
}
_TYPED = {"bfloat16": "BFloat16", "float16": "Half", "float32": "Float", "float64": "Double"}


def on_cuda(text: str) -> str:
    """The text of a CPU kernel as the GPU's has it."""
    for said, instead in _SAID:
        text = re.sub(said, instead, text)
    return text


def no_kernel(operation: str, dtype: str, device: str) -> Exception:
    """What a device says that has no kernel for a dtype."""
    plain, typed = operation.removeprefix("aten::"), _TYPED.get(dtype, dtype)
    name = _KERNEL.get(operation, f"{plain}_{device}")
    return of_the_device(NotImplementedError(f"\"{name}\" not implemented for '{typed}'"))


def of_the_device(error: Exception) -> Exception:
    """Marked as what only the device says: the CPU can go on with the very same call."""
    error.of_the_device = True  # type: ignore[attr-defined]
    return error
