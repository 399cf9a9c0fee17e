"""Classes whose buffers are 16-bit in a training: the whole model is cast, whatever region is open around its calls.

Autocast lowers what it computes and never raises a buffer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.classes import ProjectClass
from ....codemod.flow.parts import parts_of
from ....codemod.model import Place
from ....codemod.purpose.decided import is_switched_off
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.training import training_modules
from ....codemod.python.creations import creations_of
from ....codemod.python.functions import called_function, class_of
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.source.project import Project
from ....codemod.torch.api import WEIGHT_CASTS
from ....codemod.torch.dtypes import HALVES, Dtype
from ....codemod.torch.half_models import later_statements
from ....codemod.torch.weight_changes import moves_only
from ....codemod.torch.weights import cast_dtype

CASTS = (*WEIGHT_CASTS, "to")
MAX_CLASSES = 200
MAX_HOPS = 2


@dataclass(frozen=True, slots=True)
class HalfBuffers:
    """The cast of a model that makes the buffers of one of its classes 16-bit."""

    place: Place
    dtype: Dtype


def half_buffers(project: Project) -> Mapping[str, HalfBuffers]:
    """The symbols of the weights of such classes (`FlowAnalysis.own_weights`)."""
    return project.fact(_half_buffers)


def _half_buffers(project: Project) -> dict[str, HalfBuffers]:
    found: dict[str, HalfBuffers] = {}
    for module in training_modules(project):
        for call in (call for name in ("to", "half", "bfloat16") for call in module.calls_by_name.get(name, [])):
            dtype = cast_dtype(project, module, call)
            owner = _class_of(project, module, call) if dtype in HALVES else None
            if owner is None or not isinstance(dtype, Dtype) or not is_reached(project, module, call):
                continue
            again = [item for each in _changes(project, module, call) for item in each]
            if None in again or is_switched_off(project, module, call):
                continue
            kept = {part for item in again if item is not None for part in _parts(project, item)}
            place = module.place(call, f"{owner.name} and its buffers are cast to {dtype.name} here")
            for part in _parts(project, owner):
                if part not in kept:
                    found.setdefault(flow_of(project).own_weights(part).symbol, HalfBuffers(place, dtype))
    return found


def _class_of(project: Project, module: ModuleNames, cast: ast.Call) -> ProjectClass | None:
    made = creations_of(project, module, cast.func.value) if isinstance(cast.func, ast.Attribute) else ()
    known = {class_of(project, item.module, item.call.func) for item in made}
    only = known.pop() if len(known) == 1 else None
    return ProjectClass(*only) if only is not None and flow_of(project).is_module(ProjectClass(*only)) else None


def _parts(project: Project, owner: ProjectClass) -> dict[ProjectClass, None]:
    found, waiting = dict[ProjectClass, None](), [owner]
    while waiting and len(found) < MAX_CLASSES:
        current = waiting.pop()
        if current not in found:
            found[current] = None
            waiting += parts_of(project, current)
    return found


# --- what is cast again -----------------------------------------------------------------------------------------------


def _changes(project: Project, module: ModuleNames, cast: ast.Call) -> Iterator[Iterator[ProjectClass | None]]:
    for name, statements in later_statements(module, cast).items():
        yield from (_of_statement(project, module, item, name, MAX_HOPS) for item in statements)


def _of_statement(
    project: Project, module: ModuleNames, statement: ast.AST, name: str, hops: int
) -> Iterator[ProjectClass | None]:
    """The classes whose modules a statement casts again; None for what is not known."""
    for call in (item for item in ast.walk(statement) if isinstance(item, ast.Call)):
        chain = attribute_chain(call.func) or [""]
        if chain[-1] in CASTS and not (chain[-1] == "to" and moves_only(call)) and chain[-2:-1] != ["data"]:
            yield from _walked(project, module, statement, call, chain[0])
        target = called_function(project, module, call) if hops else None
        if target is not None and target.node.name != "__init__":
            given = [key for key, value in target.arguments(call).items() if ast.unparse(value) == name]
            for key in given:
                for inner in target.node.body:
                    yield from _of_statement(project, target.module, inner, key, hops - 1)


def _walked(
    project: Project, module: ModuleNames, statement: ast.AST, cast: ast.Call, name: str
) -> Iterator[ProjectClass | None]:
    """``for m in model.modules(): if isinstance(m, Linear): m.float()``: the classes that are asked for."""
    tests = [item.test for item in module.ancestors(cast) if isinstance(item, ast.If)]
    asked = [
        test.args[1]
        for test in tests
        if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance" and ast.unparse(test.args[0]) == name
    ]
    for node in asked[0].elts if asked and isinstance(asked[0], ast.Tuple) else asked[:1]:
        known = class_of(project, module, node)
        if known is not None or not (module.qualified(node) or "").startswith("torch.nn."):
            yield ProjectClass(*known) if known is not None else None
    if not isinstance(statement, ast.For) or not asked:
        yield None
