"""Whether an object can be what holds a program's settings: only then its attributes and keys are settings."""

from __future__ import annotations

import ast

from ..source.project import Project
from ..torch.api import ACCELERATOR
from .creations import PARSING, known_creations
from .functions import class_of, class_of_object
from .names import ModuleNames, attribute_chain, last_name, resolve
from .options import NODE_ROOTS, SETTINGS

_MAKERS = """
parse_args parse_known_args parse cli from_cli Namespace SimpleNamespace EasyDict edict Munch DotMap Box vars
load safe_load full_load unsafe_load loads load_config read_config fromfile compose create merge to_container
"""
MAKERS = frozenset((*PARSING, *_MAKERS.split()))
"""Calls that make an object of settings: parsers of command lines, loaders of files, what wraps their result."""

MAX_DEPTH = 4
"""Sections in sections; names that stand for more are no settings."""


def may_hold_settings(project: Project, module: ModuleNames, owner: ast.expr, depth: int = 0) -> bool:
    """Whether an object is called as settings are, or made as they are, or is of a class of the project.

    ``device.type`` and ``batch["name"]`` ask for no setting, whatever files and options have such a key.
    """
    holders = _holders(owner)
    if holders[:1] == ["device"]:
        return False
    if holders in (["self"], ["cls"]) or is_called_as_settings(owner):
        return True
    if _is_section(project, module, owner, depth):
        return True
    chain = attribute_chain(owner)
    if chain is not None and (
        class_of(project, module, owner) is not None or class_of_object(project, module, owner, chain) is not None
    ):
        return True
    return any(_makes_settings(project, made.module, made.call) for made in known_creations(project, module, owner))


def is_called_as_settings(owner: ast.expr) -> bool:
    """Whether one of the names that an object stands under is one of settings: ``self.cfg``, ``args``."""
    return any(map(_is_named, _holders(owner)))


def _holders(node: ast.expr) -> list[str]:
    """The names that stand before a key: ``cfg`` and ``train`` of ``cfg["train"]``."""
    found: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            found.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            found.append(str(node.slice.value) if isinstance(node.slice, ast.Constant) else "")
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return [*found, node.id] if isinstance(node, ast.Name) else found


def _is_section(project: Project, module: ModuleNames, owner: ast.expr, depth: int) -> bool:
    """Whether a name stands for a part of settings alone: ``train = config["training"]``, ``config.get("x")``."""
    wholes = [_whole(item.value) for item in module.bindings_of(owner)] if depth < MAX_DEPTH else []
    return bool(wholes) and all(
        whole is not None and may_hold_settings(project, module, whole, depth + 1) for whole in wholes
    )


def _whole(part: ast.expr | None) -> ast.expr | None:
    """What a part is taken from; None for anything else."""
    if isinstance(part, ast.Call):
        part = part.func if isinstance(part.func, ast.Attribute) and part.func.attr == "get" else None
    return part.value if isinstance(part, ast.Subscript | ast.Attribute) else None


def _is_named(name: str) -> bool:
    return name in NODE_ROOTS or not SETTINGS.isdisjoint(name.lower().strip("_").split("_"))


def _makes_settings(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    qualified = resolve(project, module, call.func) or ""
    if last_name(call.func) in MAKERS:
        return not qualified.startswith("torch.")
    return qualified in ACCELERATOR or class_of(project, module, call.func) is not None
