"""The devices that a program can be rehearsed for, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_UNSCALE = "_amp_foreach_non_finite_check_and_unscale_"
_LINALG = """
    linalg_inv_ex linalg_cholesky_ex _linalg_svd linalg_qr _linalg_eigh _linalg_det _linalg_slogdet linalg_lu
    linalg_lu_factor_ex _linalg_solve_ex linalg_lstsq linalg_eig geqrf linalg_solve_triangular triangular_solve
    cholesky cholesky_inverse cholesky_solve linalg_householder_product ormqr linalg_ldl_factor_ex
    linalg_ldl_solve linalg_lu_solve lu_unpack _cdist_forward _pdist_forward _ctc_loss polar angle histc igamma igammac
"""
_SPECIAL = """
    log_ndtr ndtri erfcx zeta airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1
    modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0
"""
_BF16_ONLY = "_fft_c2c _fft_r2c _fft_c2r complex view_as_complex _embedding_bag_per_sample_weights_backward"
"""Kernels that CUDA has for float16 and not for bfloat16."""


def _missing_on_cuda() -> dict[str, list[str]]:
    """Of the same sources as ``codemod/torch/tables/kernels.py``, under the names of ATen."""
    names = (*_LINALG.split(), *(f"special_{name}" for name in _SPECIAL.split()))
    both = {f"aten::{name}": ["bfloat16", "float16"] for name in names}
    one = {f"aten::{name}": ["bfloat16"] for name in (_UNSCALE, *_BF16_ONLY.split())}
    return {**both, **one}


def missing_on(kind: str) -> dict[str, list[str]]:
    """Operations of ATen that a type of device has no kernel for, by dtype."""
    return _missing_on_cuda() if kind == "cuda" else {}


@dataclass(frozen=True)
class Simulated:
    """A device as torch would describe it."""

    name: str
    type: str = "cuda"
    capability: tuple[int, int] = (8, 0)
    memory: int = 40
    """GiB."""
    native_bf16: bool = True
    hip: bool = False
    missing: Mapping[str, list[str]] = field(default_factory=_missing_on_cuda)


SIMULATED: Mapping[str, Simulated] = {
    "cuda": Simulated("NVIDIA GPU (simulated)"),
    "v100": Simulated("Tesla V100-SXM2-16GB", capability=(7, 0), memory=16, native_bf16=False),
    "t4": Simulated("Tesla T4", capability=(7, 5), memory=15, native_bf16=False),
    "a100": Simulated("NVIDIA A100-SXM4-40GB"),
    "h100": Simulated("NVIDIA H100 80GB HBM3", capability=(9, 0), memory=79),
    "rx7900": Simulated("AMD Radeon RX 7900 XTX", capability=(11, 0), memory=24, hip=True),
    "mps": Simulated("Apple GPU", type="mps", memory=16, missing={}),
    "cpu": Simulated("CPU", type="cpu", missing={}),
}
