"""Operations that torch has no 16-bit kernels for, by device: the rows of ``kernels.txt``."""

from __future__ import annotations

from . import table_rows

MISSING = {
    (name, device): tuple(dtypes.split())
    for (devices, dtypes), names in table_rows("kernels.txt")
    for device in devices.split()
    for name in names
}
"""The dtypes without a kernel, by operation and device type."""
WITHOUT_KERNELS = frozenset(name for name, _ in MISSING)
FLOAT16_ALONE = frozenset(
    f"torch.{name}" for (name, device), dtypes in MISSING.items() if (device, dtypes) == ("cuda", ("bfloat16",))
)
"""The functions that take float16 on CUDA, and raise for bfloat16."""
FFT_SIZES = {"stft": "n_fft", "istft": "n_fft"} | {
    name: "s" if name.endswith(("n", "2")) else "n" for name, _ in MISSING if name.startswith("fft.")
}
"""What their argument for the size is called; it is their second."""
ANTIALIAS = {"cpu": ("bfloat16", "float16")}
"""The dtypes that ``interpolate(antialias=True)``, which has its own kernels, lacks one for."""

WORKS_SINCE = {
    (name, "cuda", "bfloat16"): "2.1"  # pytorch/pytorch#80339, #86679, #88536
    for name in ("interpolate", "upsample")
}
"""The torch version that brought a kernel which older ones in use lack, by operation, device type and dtype."""


def missing_dtypes(name: str, device: str) -> tuple[str, ...]:
    """The 16-bit dtypes for which the operation raises on ``device``; empty where none is known to."""
    return MISSING.get((name, device), ())
