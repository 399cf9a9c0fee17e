"""Engines of DeepSpeed, which cast the weights of their model to the one 16-bit type of their configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..flow.analysis import flow_of
from ..flow.classes import ProjectClass
from ..purpose.files import is_test
from ..python.arguments import argument
from ..python.creations import creations_of
from ..python.functions import class_of
from ..python.names import ModuleNames, modules_with
from ..source.project import Project
from ..torch.cast_models import is_same_object
from ..torch.dtypes import BF16, FP16, Dtype
from ..trainers.reading.engine_configs import configs_read_by
from ..trainers.reading.scopes import TRUE, SettingScope
from .half_classes import MAX_ENTRIES, goes_on

CASTING = ("fp16.auto_cast", "torch_autocast.enabled", "amp.enabled")
"""Settings with which an engine casts what its model is given."""

Engine = tuple[ModuleNames, list[ast.Call], ProjectClass, ast.Call, Dtype]
"""Where it is made, the calls of it, the class of its model, what makes it, and the dtype of its weights."""


def certain_engines(project: Project) -> Iterator[Engine]:
    """The engines whose weights are certainly 16-bit, and that a file makes and calls."""
    for module in modules_with(project, ("deepspeed",), ("initialize",)):
        for made in module.calls_by_name.get("initialize", ()) if not is_test(module.path) else ():
            calls = [call for call in _calls(module, made) if goes_on(project, module, call)]
            owner = _class_of_model(project, made, module) if calls else None
            dtype = _dtype(project, module, made) if owner is not None else None
            if owner is not None and dtype is not None:
                yield module, calls[:MAX_ENTRIES], owner, made, dtype


def _calls(module: ModuleNames, made: ast.Call) -> list[ast.Call]:
    """The calls of the first of what ``deepspeed.initialize`` gives, if it has a name of its own."""
    statement = module.statement_of(made)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is made else None
    first = target.elts[0] if isinstance(target, ast.Tuple | ast.List) and target.elts else None
    name = first.id if isinstance(first, ast.Name) else getattr(first, "attr", "")
    if first is None or not name or (isinstance(first, ast.Name) and len(module.scope_of(made).lookup(name)) != 1):
        return []
    alike = (call for call in module.calls_by_name.get(name, ()) if ast.unparse(call.func) == ast.unparse(first))
    return [call for call in alike if is_same_object(module, first, call)]


def _class_of_model(project: Project, made: ast.Call, module: ModuleNames) -> ProjectClass | None:
    model = argument(made, "model", position=1)
    ways = creations_of(project, module, model) if model is not None else ()
    owner = class_of(project, ways[0].module, ways[0].call.func) if len(ways) == 1 else None
    known = ProjectClass(*owner) if owner is not None else None
    return known if known is not None and flow_of(project).is_module(known) else None


def _dtype(project: Project, module: ModuleNames, made: ast.Call) -> Dtype | None:
    """The dtype that all configurations which the engine may read ask for."""
    found = [_asked(scope) for scope in configs_read_by(project, module, made)]
    return found[0] if found and len(set(found)) == 1 else None


def _asked(scope: SettingScope) -> Dtype | None:
    on = [dtype for dtype, name in ((FP16, "fp16"), (BF16, "bf16")) if _is_on(scope, f"{name}.enabled")]
    return on[0] if len(on) == 1 and not any(_is_on(scope, name) for name in CASTING) else None


def _is_on(scope: SettingScope, name: str) -> bool:
    found = scope.last(name)
    return found is not None and found.value == TRUE
