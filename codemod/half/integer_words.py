"""Names that tell of integers, where the dtype flow does not know what a tensor holds."""

from __future__ import annotations

import ast

INTEGRAL = (
    "id", "ids", "idx", "index", "indices", "label", "labels", "len", "length", "lengths", "token", "tokens", "mask",
    "masks", "code", "codes", "class", "classes", "seq", "sequences", "box", "boxes", "bbox", "points", "target",
    "targets", "step", "epoch",
)  # fmt: skip
"""Words in a key or name that make it unlikely that a floating result of a model is meant."""


def speaks_of_integers(node: ast.expr) -> bool:
    """Whether a name or key in the expression tells of ids, labels, lengths."""
    names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
    names += [str(item.value) for item in ast.walk(node) if isinstance(item, ast.Constant)]
    return any(not set(name.lower().split("_")).isdisjoint(INTEGRAL) for name in names)
