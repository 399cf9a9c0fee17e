"""Which of several imports names an autocast: ``try`` takes the new interface, ``except ImportError`` the old one."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ....codemod.python.names import root_name
from ....codemod.python.paths import guards
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from .scaler_arguments import SCALER_SINCE

GENERIC_SINCE = "1.10"
"""The release that has ``torch.amp.autocast``."""
ASKED = ("version", "hasattr")
"""Words of tests that ask which interface there is."""


def imports_of(region: Autocast) -> dict[str, ast.AST]:
    """The imports that may have named the autocast: the run decides, and each release may have its own call."""
    root = root_name(region.reference)
    bindings = region.module.scope_of(region.reference).lookup(root)
    seen = region.module.imports_seen(bindings, region.reference)
    return {item.qualified or "": item.node for item in seen} or {"": region.reference}


def is_new_where_it_is(project: Project, region: Autocast, imports: Mapping[str, ast.AST]) -> bool:
    """``try: from torch.amp import autocast``, ``except ImportError: from torch.cuda.amp import autocast``.

    Releases that have what is tried take it: the call must be right for them.
    """
    tried = imports.get(region.api)
    around = region.module.parents.get(tried) if isinstance(tried, ast.ImportFrom) else None
    if not isinstance(tried, ast.ImportFrom) or not isinstance(around, ast.Try) or tried not in around.body:
        return False
    since = SCALER_SINCE if any(item.name == "GradScaler" for item in tried.names) else GENERIC_SINCE
    versions = allowed(project, "torch", near=region.module.path)
    handled = [item for handler in around.handlers for item in handler.body]
    flags = [item for item in (*around.body, *handled) if not isinstance(item, ast.Import | ast.ImportFrom | ast.Pass)]
    asks = any(
        word in text for guard in guards(region.module, region.node) for text, _ in guard.facts for word in ASKED
    )
    is_caught = not flags and not asks and all(node is tried or node in handled for node in imports.values())
    return is_caught and not region.is_old_api and (versions is None or versions.may_reach(since))
