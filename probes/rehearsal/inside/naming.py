"""What the user's code calls a tensor at the place that is running, found by identity."""

from __future__ import annotations

from types import FrameType
from typing import Any

MOST = 4


def names_of(tensor: Any, frame: FrameType | None) -> list[str]:
    """``x``, ``self.scale``: the names under which the running function has this very tensor."""
    if frame is None:
        return []
    names = [name for name, value in list(frame.f_locals.items()) if value is tensor and name.isidentifier()]
    own = frame.f_locals.get("self")
    for held in ("_parameters", "_buffers", ""):
        names += [f"self.{name}" for name in _holding(own, held, tensor)]
    return sorted(dict.fromkeys(names))[:MOST]


def role_of(torch: Any, tensor: Any) -> str:
    """``parameter`` for what a module owns to be trained."""
    return "parameter" if isinstance(tensor, torch.nn.Parameter) else "other"


def class_of(module: Any) -> str:
    """``torch.nn.modules.linear.Linear``; empty where no module runs."""
    kind = type(module)
    return "" if module is None else f"{kind.__module__}.{kind.__qualname__}"


def _holding(own: Any, held: str, tensor: Any) -> list[str]:
    attributes = getattr(own, "__dict__", {})
    found = attributes.get(held) if held else attributes
    return [name for name, value in found.items() if value is tensor] if isinstance(found, dict) else []
