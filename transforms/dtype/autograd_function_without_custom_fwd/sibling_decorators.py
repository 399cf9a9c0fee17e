"""How the decorator of the other pass is written: after the one that is there, or new."""

from __future__ import annotations

import ast

from ....codemod.model import Edit
from ....codemod.python.names import ModuleNames, attribute_chain, definition_of
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts, is_float32_island
from ..amp_decorators import BACKWARD, FORWARD, AmpDecorator

SINCE = "2.4"
"""The first release with ``torch.amp.custom_fwd(device_type=)``."""


def sibling(project: Project, module: ModuleNames, decorator: AmpDecorator, kind: str) -> tuple[str, list[Edit]] | None:
    """The text of the ``kind`` decorator in the spelling of ``decorator``, and the import it needs; None if unknown."""
    node = decorator.node
    func = node.func if isinstance(node, ast.Call) else node
    chain = attribute_chain(func)
    if chain is None or decorator.kind not in chain[-1]:
        return None
    name = chain[-1].replace(decorator.kind, kind)
    imports = [] if len(chain) > 1 else _import_of(project, module, func, name)
    if imports is None:
        return None
    text = ".".join([*chain[:-1], name])
    if isinstance(node, ast.Call):
        document = module.document
        device = [document.source(document.span(item.value)) for item in node.keywords if item.arg == "device_type"]
        inside = ", ".join(f"device_type={text}" for text in device)
        text += f"({inside})" if inside else ""
    return text, imports


def _import_of(project: Project, module: ModuleNames, func: ast.expr, name: str) -> list[Edit] | None:
    """The import that binds ``name`` beside the plain name ``func``; empty where it is bound, None where none is."""
    if module.module_scope.lookup(name):
        return []
    bindings = module.bindings_of(func)
    if len(bindings) != 1 or not isinstance(bindings[0].node, ast.ImportFrom):
        return None
    statement, qualified = bindings[0].node, bindings[0].qualified or ""
    if qualified.rpartition(".")[2] != bindings[0].name:
        return None
    defined = definition_of(project, module, func)
    if defined is not None and not defined[0].module_scope.lookup(name):
        return None
    if defined is None and not qualified.startswith("torch."):
        return None
    return [module.add_import(f"from {'.' * statement.level}{statement.module or ''} import {name}")]


def new_pair(project: Project, path: str, cast_inputs: str = "") -> tuple[str, str] | None:
    """Both decorators, written for the device and the release of torch that the project uses; None if there is none."""
    cast = f"cast_inputs={cast_inputs}" if cast_inputs else ""
    device = _device(project)
    versions = allowed(project, "torch", near=path)
    if versions is not None and versions.may_be_below(SINCE):
        called = f"({cast})" if cast else ""
        return (f"torch.cuda.amp.{FORWARD}{called}", f"torch.cuda.amp.{BACKWARD}") if device == "cuda" else None
    given = f'device_type="{device}"' + (f", {cast}" if cast else "")
    return f"torch.amp.{FORWARD}({given})", f'torch.amp.{BACKWARD}(device_type="{device}")'


def _device(project: Project) -> str:
    devices = {item.device for item in autocasts(project) if not is_float32_island(project, item)}
    only = devices.pop() if len(devices) == 1 else None
    return only or "cuda"
