"""Autocast within operations that are made of others: ``trace`` sums, ``pinv`` and the fused encoder multiply.

torch takes autocast out of the way while a mode runs an operation. Where the program has called that very operation,
and autocast does nothing to it, autocast is still in force for what it is made of.
"""

from __future__ import annotations

from typing import Any

from .tensors import tensors_in


class AutocastReach:
    """Knows whether autocast reaches into an operation, and lets it."""

    def __init__(self, session: Any) -> None:
        self.torch = session.torch
        on = session.settings.on
        kinds = (on.type,) if on.simulated else dict.fromkeys(("cpu", on.type))
        self._simulated = on.type if on.simulated else ""
        self._known = {kind: self._of(kind) for kind in kinds}
        self._name, self._enabled = "", list[str]()

    def _of(self, kind: str) -> tuple[Any, frozenset[str]]:
        """The key of a device's autocast, and the operations that it casts; a simulated one has the CPU's place."""
        name = f"Autocast{kind.upper()}"
        key = getattr(self.torch._C.DispatchKey, "AutocastCPU" if self._simulated else name, None)
        try:
            cast = self.torch._C._dispatch_get_registrations_for_dispatch_key(name)
        except RuntimeError:
            return None, frozenset()
        return key, frozenset(cast)

    def note(self, name: str) -> None:
        """The program calls a function; within a mode torch says of no autocast that it is on."""
        enabled = [kind for kind in self._known if self.torch.is_autocast_enabled(kind)]
        self._name, self._enabled = (f"aten::{name}", enabled) if enabled else ("", [])

    def let_in(self, func: Any, args: Any) -> Any:
        """A context for the operation in which autocast is not out of the way; None where it is to stay as it is."""
        name = func._schema.name
        if name != self._name:
            return None
        kind = self._simulated or next((each.device.type for each in tensors_in(self.torch.Tensor, args, 1)), "")
        key, cast = self._known.get(kind, (None, frozenset()))
        overload = func._schema.overload_name
        if key is None or kind not in self._enabled or (f"{name}.{overload}" if overload else name) in cast:
            return None
        self._name = ""
        return self.torch._C._SetExcludeDispatchKeyGuard(key, False)
