"""What autocast does to which operation, per device type: the rows of ``policies.txt``."""

from __future__ import annotations

from . import table_rows

POLICIES: dict[str, dict[str, str]] = {}
"""Policy by operation, by device type."""
CALLS: dict[str, str] = {}
"""Operations that autocast knows by the operations they call."""
LIKE_CUDA = ("xpu", "mtia", "maia")
"""Device types whose lists are CUDA's but for the cuDNN-only operations."""

for (_device, _said), _names in table_rows("policies.txt"):
    (CALLS if _device == "like" else POLICIES.setdefault(_device, {})).update(dict.fromkeys(_names, _said))


def policy_of(name: str, device: str) -> str:
    """A policy's name as :meth:`Operation.autocast` explains it; "" where autocast does nothing."""
    table = POLICIES.get("cuda" if device in LIKE_CUDA else device, {})
    return next((table[called] for called in (name, *CALLS.get(name, "").split()) if called in table), "")
