"""Whether an ``autocast()`` without a dtype would compute in another dtype in the new spelling.

``torch.cuda.amp.autocast()`` is float16 wherever it stands. ``torch.amp.autocast("cuda")`` asks for the current
default, and inside another region that is the dtype of this region (checked with PyTorch 2.13 on the CPU).
"""

from __future__ import annotations

import ast

from ....codemod.python.arguments import bind
from ....codemod.python.names import modules_with
from ....codemod.python.scopes import is_off
from ....codemod.source.project import Project
from ....codemod.torch.autocast import DEFAULT_DTYPE, Autocast, autocasts, changes_default, dtype_scenarios
from .deprecated_uses import OLD_AUTOCAST, Use

LOOPS_OF_OTHERS = ("lightning", "pytorch_lightning", "accelerate", "transformers", "composer", "deepspeed", "trl")
"""Libraries that open an autocast region around the project's code, with a dtype from a configuration."""

_BF16_WORDS = ("bf16", "bfloat16")


def may_differ(project: Project, use: Use) -> bool:
    """Whether ``use`` may run inside a region of another dtype than its own default."""
    if use.entry.kind != "autocast" or use.call is None or use.form not in ("call", "partial"):
        return False
    skip = 1 if use.form == "partial" else 0
    arguments = bind(OLD_AUTOCAST, use.call, skip) or {}
    if "dtype" in arguments or is_off(arguments.get("enabled")) or _decorates(use):
        return False
    if changes_default(project):
        return True
    if _runs_the_loop(use):
        return False
    return project.fact(_loop_is_elsewhere) or any(
        region.call is not use.call and _may_differ_from_default(project, region, use.entry.device)
        for region in project.fact(_regions_with_dtype)
    )


def _decorates(use: Use) -> bool:
    """A decorator is made when its module is loaded, outside of any region."""
    return use.call in getattr(use.module.parents[use.whole], "decorator_list", ())


def _runs_the_loop(use: Use) -> bool:
    """Whether the function around it also calls ``backward``: it opens the outermost region itself."""
    if any(_is_autocast_with(use, parent) for parent in use.module.ancestors(use.whole)):
        return False
    scope = use.module.scope_of(use.whole).function
    return any(
        node.attr == "backward" and use.module.scope_of(node).function is scope
        for node in use.module.attribute_loads.get("backward", ())
    )


def _is_autocast_with(use: Use, parent: ast.AST) -> bool:
    if not isinstance(parent, ast.With | ast.AsyncWith):
        return False
    called = (item.context_expr.func for item in parent.items if isinstance(item.context_expr, ast.Call))
    names = [use.module.qualified(node) or "" for node in called if node is not use.node]
    return any(name.endswith("autocast") for name in names)


def _regions_with_dtype(project: Project) -> tuple[Autocast, ...]:
    return tuple(
        region
        for region in autocasts(project)
        if not region.switched_off and (region.dtype_node is not None or not region.understood)
    )


def _may_differ_from_default(project: Project, region: Autocast, device: str) -> bool:
    """Whether the region may set another default for ``device``: each device has its own."""
    if region.device not in (None, device):
        return False
    return any(scenario.value not in (DEFAULT_DTYPE[device], None) for scenario in dtype_scenarios(project, region))


def _loop_is_elsewhere(project: Project) -> bool:
    """Whether a library that is told a precision runs the project's code, and bfloat16 is spoken of at all."""
    for module in modules_with(project, _BF16_WORDS):
        bindings = module.module_scope.bindings.values()
        imported = {item.qualified or "" for group in bindings for item in group if item.kind == "import"}
        if any(name.partition(".")[0] in LOOPS_OF_OTHERS for name in imported):
            return True
    return False
