"""Whether ``enabled=...`` can be written where a scaler is made, and whether the project survives a disabled scaler."""

from __future__ import annotations

import ast

from ...purpose.regions import regions_of
from ...python.arguments import bind
from ...python.functions import class_of
from ...python.names import modules_with, positional
from ...python.paths import function_of
from ...python.scopes import last_name, text_of
from ...source.project import Project
from ..autocast import autocasts
from ..dtypes import FP16
from ..scalers import APIS, Scaler, ScalerUse, scalers

ENABLED_ONLY = ("get_growth_factor", "get_backoff_factor", "get_growth_interval")
"""Methods that read what a disabled scaler does not have (PyTorch 2.13: an AttributeError)."""
STATE = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
"""What the state of an enabled scaler holds."""
ALWAYS_THERE = ("_enabled", "_device")
"""The private attributes that every scaler has."""


def can_disable(project: Project, scaler: Scaler) -> bool:
    """Whether the call can be given ``enabled`` and nothing reads the inner state that only an enabled scaler has."""
    if not scaler.switch or scaler.arguments is None or not survives_disabling(scaler):
        return False
    holders = (item for item in scalers(project) if any(call is scaler.call for _, call in item.inner))
    if not all(map(survives_disabling, holders)) or (scaler.uses_of("state_dict") and _is_resumed(project, scaler)):
        return False
    return scaler.kind != "subclass" or _subclass_can_be_disabled(project, scaler)


def _is_resumed(project: Project, scaler: Scaler) -> bool:
    """Whether code reads what a saved state holds, or resumes it with a scaler that stays on: it is empty then."""
    others = (item for item in scalers(project) if item.call is not scaler.call and item.uses_of("load_state_dict"))
    if project.fact(_reads_saved_state):
        return True
    return any(not item.switched_off and (not survives_disabling(item) or _stays_on(project, item)) for item in others)


def _stays_on(project: Project, scaler: Scaler) -> bool:
    """Whether a scaler scales for float16 alone, or nobody sees for what."""
    values = [region.values for region in regions_of(project, scaler)]
    is_off = any(region.switched_off for region in autocasts(project) if region.module in scaler.modules)
    return {FP16} in values or not (values or is_off)


def _reads_saved_state(project: Project) -> bool:
    """``checkpoint["scaler"]["scale"]``"""
    return any(
        isinstance(node.slice, ast.Constant)
        and node.slice.value in STATE
        and isinstance(node.value, ast.Subscript)
        and "scaler" in ast.unparse(node.value.slice).lower()
        for module in modules_with(project, ("scaler",), STATE)
        for node in module.of_type(ast.Subscript)
    )


def survives_disabling(scaler: Scaler) -> bool:
    """Whether nothing reads the inner state that only an enabled scaler has, nor goes by its scale, which is 1 then."""
    if any(_is_indexed(use) for use in scaler.uses_of("state_dict")) or _wrapper_needs_enabled(scaler):
        return False
    members = [use.module.parents[use.node] for use in scaler.uses_of("private", "method", "bound-method")]
    if any(_needs_enabled(item.attr) for item in members if isinstance(item, ast.Attribute)):
        return False
    return not any(_is_compared(use) for use in scaler.uses_of("get_scale"))


def _is_compared(use: ScalerUse) -> bool:
    """``scaler.get_scale() < 2``, also through a variable; two scales of one scaler are equal then, and may be."""
    module, call = use.module, use.call
    above = module.parents.get(call) if call is not None else None
    if call is None or not isinstance(above, ast.Assign | ast.NamedExpr):
        return isinstance(above, ast.Compare) and not all(_is_scale(use, item) for item in _compared(above))
    targets = above.targets if isinstance(above, ast.Assign) else [above.target]
    compares = (item for item in module.of_type(ast.Compare) if function_of(module, item) is function_of(module, call))
    names = {item.id for item in targets if isinstance(item, ast.Name)}
    asked = (item for item in compares if any(getattr(part, "id", "") in names for part in _compared(item)))
    return any(not all(_is_scale(use, part) for part in _compared(item)) for item in asked)


def _compared(node: ast.Compare) -> list[ast.expr]:
    return [node.left, *node.comparators]


def _is_scale(use: ScalerUse, node: ast.expr) -> bool:
    """Whether an expression is a scale, or a variable that holds one."""
    if isinstance(node, ast.Call):
        return last_name(node.func) == "get_scale"
    name, stores = ast.unparse(node), use.module.of_type(ast.Assign)
    held = (item.value for item in stores if any(ast.unparse(each) == name for each in item.targets))
    return any(isinstance(item, ast.Call) and last_name(item.func) == "get_scale" for item in held)


def _is_indexed(use: ScalerUse) -> bool:
    """``scaler.state_dict()["scale"]``, also through a variable: the state of a disabled scaler is empty."""
    module, call = use.module, use.call
    above = module.parents.get(call) if call is not None else None
    if call is None or not isinstance(above, ast.Assign):
        return isinstance(above, ast.Subscript)
    names = (item.id for item in above.targets if isinstance(item, ast.Name))
    loads = (node for name in names for node in module.name_loads.get(name, ()))
    near = (node for node in loads if function_of(module, node) is function_of(module, call))
    return any(isinstance(module.parents.get(node), ast.Subscript) for node in near)


def _wrapper_needs_enabled(scaler: Scaler) -> bool:
    """Whether the class around the held scaler reads what only an enabled one has."""
    for module, call in scaler.inner:
        owner = module.scope_of(call).enclosing_class
        held = [node for node in ast.walk(owner.node) if isinstance(node, ast.Attribute)] if owner is not None else []
        if any(isinstance(node.value, ast.Attribute) and _needs_enabled(node.attr) for node in held):
            return True
    return False


def _needs_enabled(name: str) -> bool:
    return name in ENABLED_ONLY or (name.startswith("_") and not name.startswith("__") and name not in ALWAYS_THERE)


def _subclass_can_be_disabled(project: Project, scaler: Scaler) -> bool:
    found = class_of(project, scaler.module, scaler.call.func)
    if found is None or not isinstance(found[1].node, ast.ClassDef):
        return False
    owner = found[1].node
    read = (node.attr for node in ast.walk(owner) if isinstance(node, ast.Attribute) and text_of(node.value) == "self")
    return not any(map(_needs_enabled, read)) and _takes_enabled(owner, scaler)


def _takes_enabled(owner: ast.ClassDef, scaler: Scaler) -> bool:
    """Whether ``enabled=`` may be added to the call: accepted, and not given by position already."""
    call = scaler.call
    if any(isinstance(item, ast.Starred) for item in call.args):
        return False
    for item in owner.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            placed = [argument.arg for argument in positional(item.args)][1:]
            given = placed[: len(call.args)]
            accepted = {*placed, *(argument.arg for argument in item.args.kwonlyargs)}
            return "enabled" not in given and ("enabled" in accepted or item.args.kwarg is not None)
    by_position = bind(APIS[scaler.api], ast.Call(call.func, call.args, []))
    return by_position is not None and "enabled" not in by_position


def held_scalers(project: Project, scaler: Scaler) -> list[Scaler]:
    """The scalers of all wrappers without a switch like this one, where the call in them can be passed ``enabled=``."""
    if len(scaler.inner) != 1:
        return []
    call = scaler.inner[0][1]
    alike = [item for item in scalers(project) if item.inner and item.inner[0][1] is call]
    taken = len(call.args) > 1 or any(item.arg in (None, "enabled") for item in call.keywords)
    return alike if not taken and all(map(survives_disabling, alike)) else []
