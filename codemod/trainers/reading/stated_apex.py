"""What code asks of libraries that know float16 alone: apex's levels and scaled loss, the hooks of OpenMMLab 1.x."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...outcome import Declaration
from ...python.names import ModuleNames, last_name, modules_with
from ...source.project import Project
from ...torch.autocast import Autocast
from ...torch.dtypes import FP16
from .links import sources
from .region_switches import condition_of as switched_by
from .source import GIVEN
from .stated_casts import condition_of
from .stated_words import text_of

LEVELS = {"O0": "fp32", "O1": "fp16-mixed", "O2": "fp16-mixed", "O3": "fp16-true"}
"""What apex computes in by its level; without a word it is O1. Source: ``apex/amp/frontend.py``."""
ROLES = {"initialize": "compute", "scale_loss": "scaler"}
HOOKS = {"Fp16OptimizerHook": "compute", "wrap_fp16_model": "cast", "auto_fp16": "cast"}
"""What trains, loads and casts in float16 in mmcv before 2.0, each where the configuration has ``fp16``: the decorator
acts as soon as the model's ``fp16_enabled`` is set. Source: ``mmcv/runner/fp16_utils.py``, ``hooks/optimizer.py``."""
FLOAT16_ALONE = ("apex", "mmcv")
"""What the ledger calls the frameworks of both: there is no other 16-bit dtype in them."""
OPENMMLAB = ("mmcv", "mmdet", "mmseg", "mmaction", "mmpose", "mmcls")


def apex_gates(project: Project) -> Iterator[Autocast]:
    """Every call of apex.amp, as the float16 region that it opens for the whole run."""
    for module in modules_with(project, ("apex",)):
        for call in (call for name in ROLES for call in module.calls_by_name.get(name, ()) if _is_apex(module, call)):
            yield _gate(module, call)


def _gate(module: ModuleNames, call: ast.Call) -> Autocast:
    return Autocast(module, call.func, call, "torch.cuda.amp.autocast", "statement", "cuda", None, None, None, True)


def _is_apex(module: ModuleNames, call: ast.Call) -> bool:
    return (module.qualified(call.func) or "").startswith("apex.")


def stated_apex(project: Project, module: ModuleNames) -> Iterator[Declaration]:
    """Every call of apex.amp in one module."""
    for name, role in ROLES.items():
        for call in module.calls_by_name.get(name, ()):
            if _is_apex(module, call):
                level = _level(call)
                value = level.value if isinstance(level, ast.Constant) else text_of(level) or "on"
                span = module.document.span(level if level is not None else call)
                known = level is None or isinstance(level, ast.Constant)
                regime = LEVELS.get("O1" if level is None else str(value), "") if known and role == "compute" else ""
                place = (module.document.path, span, "apex", f"amp.{name}")
                yield Declaration(*place, role, str(value), regime, switched_by(project, _gate(module, call)))


def stated_hooks(module: ModuleNames) -> Iterator[Declaration]:
    """Every use of float16 as OpenMMLab's libraries had it before mmengine."""
    for name, role in HOOKS.items():
        for call in module.calls_by_name.get(name, ()):
            if (module.qualified(call.func) or "").startswith(OPENMMLAB):
                test = condition_of(module, call) or ("if fp16_enabled" if name == "auto_fp16" else "")
                framework = "mmcv" if role == "compute" else "torch"
                place = (module.document.path, module.document.span(call), framework, name)
                yield Declaration(*place, role, FP16.name, condition=test)
    for owner in module.of_type(ast.ClassDef):
        for base in owner.bases:  # a hook of the project's own, which its configurations name
            if last_name(base) in HOOKS and (module.qualified(base) or "").startswith(OPENMMLAB):
                place = (module.document.path, module.document.span(base), "mmcv", owner.name)
                yield Declaration(*place, "compute", FP16.name)


def followed_levels(project: Project) -> Iterator[Declaration]:
    """What gives the level its value: ``--opt-level O2`` of a launch line, the default of the option."""
    for module in modules_with(project, ("initialize",), ("apex",)):
        for call in module.calls_by_name.get("initialize", ()):
            level = _level(call)
            if level is None or isinstance(level, ast.Constant) or not _is_apex(module, call):
                continue
            feeds = f"feeds {text_of(level)}, amp.initialize ({module.path}:{module.document.span(call).row})"
            for source in sources(project, module, level):
                if source.value in LEVELS and not source.is_guessed:
                    role = "compute" if source.kind in GIVEN else "option"
                    place = (source.path, source.span, "apex", source.key, role)
                    yield Declaration(*place, str(source.value), LEVELS[str(source.value)], feeds=feeds)


def _level(call: ast.Call) -> ast.expr | None:
    return next((item.value for item in call.keywords if item.arg == "opt_level"), None)
