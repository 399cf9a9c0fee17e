"""Parts of a model that are cast back to float32 while the model feeds them what its 16-bit layers computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.classes import ProjectClass, TorchLayer
from ....codemod.flow.frame import OUTSIDE
from ....codemod.flow.half_classes import WORDS, casts_to_half
from ....codemod.flow.lattice import Kind
from ....codemod.model import Place
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.source.project import Project
from ....codemod.torch.half_models import parts_cast_back
from ....codemod.torch.tables.layers import LAYERS


@dataclass(frozen=True, slots=True, eq=False)
class PartInFloat32:
    """``model.head.float()``, the cast of the whole model above it, and where its class calls the part."""

    module: ModuleNames
    cast: ast.Call
    called: ast.expr
    whole: Place
    fed: Place


def parts_in_float32(project: Project) -> Iterator[PartInFloat32]:
    """Only layers that refuse a mix, and whose input certainly has the dtype of the other weights."""
    for document in project.checked_documents(WORDS):
        module = names_of(project, document)
        for whole, owner in casts_to_half(project, module):
            for cast in parts_cast_back(module, whole):
                part = cast.func.value if isinstance(cast.func, ast.Attribute) else cast.func
                fed = _fed(project, owner, part.attr) if isinstance(part, ast.Attribute) else None
                if fed is not None:
                    place = module.place(whole, f"{owner.name} is cast to 16 bits here")
                    yield PartInFloat32(module, cast, part, place, fed)


def _fed(project: Project, owner: ProjectClass, name: str) -> Place | None:
    """The first call of ``self.<name>`` in ``forward`` whose input has the dtype of the class's weights."""
    analysis = flow_of(project)
    part, forward = analysis.attributes(owner).get(name), analysis.method(owner, "forward")
    if forward is None or part is None or not isinstance(part.detail, TorchLayer):
        return None
    layer = LAYERS.get(part.detail.name)
    if layer is None or layer.mix != "raises":
        return None
    own = analysis.own_weights(owner)
    values = analysis.observed(forward.module, forward.node, OUTSIDE).record.values
    for call in forward.module.calls_by_name.get(name, []):
        value = values.get(call.args[0]) if len(call.args) == 1 and ast.unparse(call.func) == f"self.{name}" else None
        if value is not None and value.kind is Kind.TENSOR and set(value.atoms) == {own}:
            return forward.module.place(
                call, f"{ast.unparse(call.args[0])[:50]} has the dtype of the other weights here"
            )
    return None
