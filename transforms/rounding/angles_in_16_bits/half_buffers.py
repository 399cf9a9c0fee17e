"""Classes whose buffers are 16-bit in a training: the whole model is cast, whatever region is open around its calls.

Autocast lowers what it computes and never raises a buffer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.classes import ProjectClass
from ....codemod.flow.half_classes import CASTS, made_model
from ....codemod.flow.parts import all_parts
from ....codemod.model import Place
from ....codemod.purpose.given import is_switched_off
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.training import training_modules
from ....codemod.python.functions import called_function, class_of
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.source.project import Project
from ....codemod.torch.api import CASTS as ALL_CASTS
from ....codemod.torch.cast_models import later_statements
from ....codemod.torch.dtypes import HALVES, Dtype
from ....codemod.torch.weight_changes import moves_only
from ....codemod.torch.weights import cast_dtype

MAX_HOPS = 2


def half_buffers(project: Project) -> Mapping[str, tuple[Place, Dtype]]:
    """The symbols of the weights of such classes (`FlowAnalysis.own_weights`); what casts them, and to what."""
    return project.fact(_half_buffers)


def _half_buffers(project: Project) -> dict[str, tuple[Place, Dtype]]:
    found: dict[str, tuple[Place, Dtype]] = {}
    for module in training_modules(project):
        for call in (call for name in CASTS for call in module.calls_by_name.get(name, [])):
            dtype = cast_dtype(project, module, call)
            owner, _ = (made_model(project, module, call) if dtype in HALVES else None) or (None, ())
            again = set(_cast_again(project, module, call)) if owner is not None else {None}
            if owner is None or dtype is None or None in again or not is_reached(project, module, call):
                continue
            kept = {part for item in again if item is not None for part in all_parts(project, item)}
            place = module.place(call, f"{owner.name} and its buffers are cast to {dtype.name} here")
            for part in all_parts(project, owner) if not is_switched_off(project, module, call) else ():
                if part not in kept:
                    found.setdefault(flow_of(project).own_weights(part).symbol, (place, dtype))
    return found


def _cast_again(project: Project, module: ModuleNames, cast: ast.Call) -> Iterator[ProjectClass | None]:
    """The classes whose modules later statements of the function cast again; None for what is not known."""
    for name, statements in later_statements(module, cast).items():
        for item in statements:
            yield from _by_statement(project, module, item, name, MAX_HOPS)


def _by_statement(
    project: Project, module: ModuleNames, statement: ast.stmt, name: str, hops: int
) -> Iterator[ProjectClass | None]:
    for call in (item for item in ast.walk(statement) if isinstance(item, ast.Call)):
        chain = attribute_chain(call.func) or [""]
        if chain[-1] in ALL_CASTS and chain[-2:-1] != ["data"] and not (chain[-1] == "to" and moves_only(call)):
            yield from _asked_for(project, module, call, chain[0]) if isinstance(statement, ast.For) else (None,)
        target = called_function(project, module, call) if hops else None
        if target is not None and target.node.name != "__init__":
            for key in (key for key, value in target.arguments(call).items() if ast.unparse(value) == name):
                for inner in target.node.body:
                    yield from _by_statement(project, target.module, inner, key, hops - 1)


def _asked_for(project: Project, module: ModuleNames, cast: ast.Call, name: str) -> Iterator[ProjectClass | None]:
    """The classes of ``for m in model.modules(): if isinstance(m, Linear): m.float()``."""
    tests = (item.test for item in module.ancestors(cast) if isinstance(item, ast.If))
    asked = [item for item in tests if ast.unparse(item).startswith(f"isinstance({name}, ")]
    for test in asked[:1]:
        given = test.args[1] if isinstance(test, ast.Call) else test
        for node in given.elts if isinstance(given, ast.Tuple) else [given]:
            known = class_of(project, module, node)
            if known is not None or not (module.qualified(node) or "").startswith("torch.nn."):
                yield ProjectClass(*known) if known is not None else None
    if not asked:
        yield None
