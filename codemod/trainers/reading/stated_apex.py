"""What code asks of apex: ``amp.initialize(opt_level="O1")``, the scaled loss, the master weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...outcome import Declaration
from ...python.names import ModuleNames
from .stated_words import text_of

ROLES = {"initialize": "compute", "scale_loss": "scaler", "master_params": "scaler"}


def stated_apex(module: ModuleNames) -> Iterator[Declaration]:
    """Every call of apex.amp in one module."""
    for name, role in ROLES.items():
        for call in module.calls_by_name.get(name, ()):
            if (module.qualified(call.func) or "").startswith("apex."):
                level = next((item.value for item in call.keywords if item.arg == "opt_level"), None)
                value = level.value if isinstance(level, ast.Constant) else text_of(level) or "on"
                place = level if level is not None else call
                span = module.document.span(place)
                yield Declaration(module.document.path, span, "apex", f"amp.{name}", role, str(value))
