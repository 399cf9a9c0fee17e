"""``custom_fwd`` and ``custom_bwd``: the ones of ``torch.amp`` need a device, the ones of a device take none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.proof.needs import RAISES, Known
from ....codemod.proof.proving import proved
from ....codemod.purpose.checked import checked_code
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.device_tests import needs_cuda
from ....codemod.torch.imported import torch_at

NAMES = ("custom_fwd", "custom_bwd")
NEW = ("torch.amp.", "torch.amp.autocast_mode.")
OF_CUDA = ("torch.cuda.amp.", "torch.cuda.amp.autocast_mode.")


def arguments_of_decorators(project: Project) -> Iterator[Draft]:
    for module in checked_code(project, NAMES, ("torch",)):
        for name in NAMES:
            for node in (*module.name_loads.get(name, ()), *module.attribute_loads.get(name, ())):
                found = _mistake(project, module, node, name) if not _has_several_imports(module, node) else None
                if found is not None:
                    yield found


def _has_several_imports(module: ModuleNames, node: ast.expr) -> bool:
    """Whether the release that runs decides which of several imports is meant."""
    imports = module.imports_seen(module.bindings_of(node), node) if isinstance(node, ast.Name) else []
    return len({item.qualified for item in imports}) > 1


def _mistake(project: Project, module: ModuleNames, node: ast.expr, name: str) -> Draft | None:
    """A use as a decorator, bare or called, without the device that it needs, or with one that it does not take."""
    above = module.parents.get(node)
    call = above if isinstance(above, ast.Call) and above.func is node else None
    if call is None and node not in getattr(above, "decorator_list", ()):
        return None
    given = [item.arg for item in call.keywords] if call is not None else []
    package = (module.qualified(node) or "").removesuffix(name)
    if package in NEW and not {"device_type", None} & {*given}:
        message = f"{name} of torch.amp without a device_type raises TypeError as the class is made"
        return Draft.at(module, call or node, message, fixes=_with_device(project, module, node, call, name))
    if package in OF_CUDA and call is not None and "device_type" in given:
        message = f"torch.cuda.amp.{name} does not take device_type: this raises TypeError as the class is made"
        return Draft.at(module, call, message, fixes=_of_torch(project, module, node, call, name))
    return None


def _with_device(
    project: Project, module: ModuleNames, node: ast.expr, call: ast.Call | None, name: str
) -> tuple[Fix, ...]:
    if call is None:
        edit = module.append(node, '(device_type="cuda")')
    else:
        edit = module.set_argument(call, "device_type", '"cuda"')
    on_cuda = Known(needs_cuda(project, module, node), "nothing here shows that it is to run on CUDA")
    return (proved(project, "argument", f'pass "cuda" to {name}', [edit], RAISES, on_cuda),)


def _of_torch(project: Project, module: ModuleNames, node: ast.expr, call: ast.Call, name: str) -> tuple[Fix, ...]:
    torch = torch_at(module, call)
    if torch is None:
        return ()
    edit = module.replace(node, f"{torch}.amp.{name}")
    return (proved(project, "argument", f"call torch.amp.{name}, which takes it", [edit], RAISES),)
