"""The first value of a step that is not finite: kept until the loss or the weights show that it mattered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .tensors import dtype_name

_MEANT = """
    full full_like fill_ masked_fill masked_fill_ where new_full log log_ __setitem__ index_fill index_fill_ tensor
    as_tensor
"""
"""What makes infinities on purpose: the masks of attention."""
LARGEST = 1 << 22
"""Elements of a tensor that is looked through."""


class Finite:
    """Looks at what operations of the forward pass compute."""

    def __init__(self, session: Any) -> None:
        self.session, self.torch = session, session.torch
        self.meant = frozenset(_MEANT.split())
        self.first: dict[str, Any] | None = None
        self._of_scaling = False
        """A scaled gradient overflowed: it is the scaler's to skip such a step and to find another scale."""
        functorch = getattr(session.torch._C, "_functorch", None)
        self._transforms = getattr(functorch, "peek_interpreter_stack", lambda: None)
        """Within ``torch.func.vmap`` and its like tensors have no values to look at."""
        self._unwatched = getattr(session.torch._C, "_DisableTorchDispatch", None)

    def look(self, name: str, operands: Any, results: Any, place: Any) -> None:
        if self.session.in_backward or self._unwatched is None:
            return
        births = self.session.births
        for each in results:
            if self.is_finite(each):
                continue
            birth = births.of(each)
            if birth is not None:
                birth.is_bad = True
            if name == "grad" and self.session.training.is_scaling():
                self._of_scaling = True
            elif self.first is None and operands and name not in self.meant and not self._given(operands):
                self._keep(name, operands, each, place)

    def _given(self, operands: Any) -> bool:
        """Whether an operand was not finite already."""
        known = (self.session.births.of(each) for each in operands)
        return any(birth is not None and birth.is_bad for birth in known)

    def is_finite(self, tensor: Any) -> bool:
        torch = self.torch
        if not tensor.is_floating_point() or tensor.layout is not torch.strided or type(tensor) not in self._plain():
            return True
        if tensor.is_meta or tensor.is_nested or self._transforms() is not None or not 0 < tensor.numel() <= LARGEST:
            return True
        if self.session.is_captured(tensor):
            return True
        with torch.no_grad(), self._unwatched():  # type: ignore[misc]
            total = torch.sum(tensor, dtype=torch.float32).item()  # ten times faster than looking at each
            return math.isfinite(total) or bool(torch.isfinite(tensor).all())

    def _plain(self) -> tuple[Any, Any]:
        return self.torch.Tensor, self.torch.nn.Parameter

    def _keep(self, name: str, operands: Any, result: Any, place: Any) -> None:
        self.first = {
            "op": name,
            "dtype": dtype_name(result.dtype),
            "operands": [self.session.failures.operand(each) for each in operands[:8]],
            "module": self.session.module_path_here(),
            "autocast": self.session.autocast(),
            "place": place,
        }

    def mattered(self, sentence: str, phase: str, stack: Sequence[Any] = ()) -> None:
        """The loss or the weights are no longer finite; ``stack`` are places that had a part in it."""
        first = self.first
        if first is None and self._of_scaling and phase == "forward":
            return
        cause = f"; the first such value came from {first['op']}, in {first['dtype']}" if first else ""
        entry = {
            "error": f"{sentence}{cause}",
            "stack": [*stack],
            "op": first["op"] if first else "",
            "operands": first["operands"] if first else [],
            "module": first["module"] if first else "",
            "autocast": first["autocast"] if first else self.session.autocast(),
        }
        place = (first["place"] if first else None) or self.session.places.here(2)
        self.session.failures.nonfinite(entry, place, "forward" if first else phase)

    def step_done(self) -> None:
        self.first, self._of_scaling = None, False
