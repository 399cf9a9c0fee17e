"""The words by which names, tests and texts speak of precision; what asks for other words adds them to one of these."""

from __future__ import annotations

HALVES = ("fp16", "float16", "bf16", "bfloat16")
"""How the 16-bit dtypes are spelled."""
DTYPES = (*HALVES, "half")
CHOOSING = (*DTYPES, "dtype", "precision")
"""Of names and tests that choose a dtype."""
SWITCHING = (*DTYPES, "amp", "autocast")
"""Of names whose value is on, off, or a level."""
SCALING = ("scaler", "amp", "fp16", "float16", "half", "mixed", "precision", "autocast")
"""Parts of a test that may decide whether a pass is scaled."""
SAID = (*HALVES, "autocast", "scaler", "precision")
"""What files say that speak of precision."""
