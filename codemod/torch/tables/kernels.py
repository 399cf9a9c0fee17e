"""Operations that torch has no 16-bit kernels for, by device.

Sources: on the CPU, torch 2.13.0, run by tests/test_flow_operations.py; on CUDA, the dtype lists of torch 2.13.0's own
test suite (``dtypesIfCUDA`` of ``torch.testing._internal.common_methods_invocations``), which its CI holds exact.
Autocast may hide a gap by casting to float32: ask :meth:`Operation.autocast` first.
"""

from __future__ import annotations

_BOTH = ("bfloat16", "float16")
_FFT = """
    fft.fft fft.ifft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft fft.rfft2 fft.rfftn fft.irfft fft.irfft2
    fft.irfftn fft.hfft fft.ihfft stft istft
"""
"""On CUDA float16 takes sizes that are powers of two, ``stft`` too (seen on an H200, torch 2.11)."""
FFT_SIZES = {"stft": "n_fft", "istft": "n_fft", "fft.fft2": "s", "fft.ifft2": "s", "fft.rfft2": "s", "fft.irfft2": "s"}
FFT_SIZES |= {name: "s" if name.endswith("n") else "n" for name in _FFT.split() if name not in FFT_SIZES}
"""What their argument for the size is called; it is their second."""
_LINALG = """
    linalg.inv linalg.pinv linalg.cholesky linalg.svdvals linalg.eigvals linalg.eigvalsh linalg.det linalg.cond
    linalg.svd linalg.qr linalg.eigh linalg.slogdet linalg.lu linalg.solve linalg.lstsq linalg.matrix_rank
    inverse pinverse cholesky cholesky_inverse det logdet slogdet svd qr nuclear_norm
"""
"""``linalg.norm`` and ``linalg.matrix_norm`` belong here for ord="nuc", 2 and -2 only."""
_EVERYWHERE = "cdist pdist quantile nanquantile ctc_loss polar special.log_ndtr"
_GAPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (_LINALG + _EVERYWHERE, "cpu", _BOTH),
    (_LINALG + _EVERYWHERE, "cuda", _BOTH),
    (_FFT, "cpu", _BOTH),
    (_FFT, "cuda", ("bfloat16",)),
    ("complex view_as_complex", "cpu", ("bfloat16",)),
    ("complex view_as_complex", "cuda", ("bfloat16",)),
    (
        "avg_pool3d lp_pool3d local_response_norm multi_margin_loss multilabel_margin_loss init.orthogonal_",
        "cpu",
        _BOTH,
    ),
    ("init.orthogonal_", "cuda", _BOTH),
    ("histc angle", "cuda", _BOTH),
)
MISSING: dict[tuple[str, str], tuple[str, ...]] = {
    (name, device): dtypes for names, device, dtypes in _GAPS for name in names.split()
}
"""The dtypes without a kernel, by operation and device type."""
WITHOUT_KERNELS = frozenset(name for name, _ in MISSING)
ANTIALIAS = {"cpu": _BOTH}
"""The same for ``interpolate(antialias=True)``, which has its own kernels."""

WORKS_SINCE = {
    (name, "cuda", "bfloat16"): "2.1"  # pytorch/pytorch#80339, #86679, #88536
    for name in ("interpolate", "upsample")
}
"""The torch version that brought a kernel which older ones in use lack, by operation, device type and dtype."""


def missing_dtypes(name: str, device: str) -> tuple[str, ...]:
    """The 16-bit dtypes for which the operation raises on ``device``; empty where none is known to."""
    return MISSING.get((name, device), ())
