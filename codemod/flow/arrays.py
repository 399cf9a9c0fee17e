"""Arrays of NumPy whose dtype is written down: what torch makes of them has it too."""

from __future__ import annotations

import ast

from ..torch.dtypes import BF16, Dtype
from .call_dtypes import Named
from .frame import Frame
from .lattice import ARRAY_VALUE, FLOATING, Atom, Kind, Made, Value

OF_ONE_DTYPE = ("zeros", "ones", "full", "empty", "array", "asarray", "zeros_like", "ones_like", "stack", "fromfile")


def array_made(frame: Frame, node: ast.Call, named: Named) -> Value:
    """``np.zeros(shape, dtype=np.float32)``."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    given = next((item for key, item, _ in named if key == "dtype"), None)
    return array_of(frame, node, given) if given is not None and name in OF_ONE_DTYPE else ARRAY_VALUE


def array_of(frame: Frame, node: ast.Call, dtype: ast.expr) -> Value:
    """``array.astype(np.float32)``, ``array.astype("float32")``."""
    name = dtype.value if isinstance(dtype, ast.Constant) else frame.analysis.qualified(frame.module, dtype)
    found = Dtype(str(name).removeprefix("numpy."))
    if found not in FLOATING or found == BF16:
        return ARRAY_VALUE
    source = frame.source(node, f"this array is {found.name}")
    return Value(Kind.ARRAY, (Atom(found, made=Made.FACTORY, source=source),))
