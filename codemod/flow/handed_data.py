"""Functions that are passed a 16-bit model together with a loader whose batches are float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.names import FunctionNode, ModuleNames
from ..source.project import Project
from ..torch.dtypes import FP32
from ..torch.half_words import weights_can_be_half
from ..torch.tables.libraries import MODEL_PARAMETERS
from .frame import Autocasting, Meeting
from .lattice import Kind, Role
from .roots import holders, in_order
from .ways import Way, in_way, ways_into


def meetings_of_data(project: Project, module: ModuleNames) -> Iterator[Meeting]:
    """Where a batch meets the weights of a model, both known only from the calls that lead there."""
    if not weights_can_be_half(project) or not project.fact(_has_loaders):
        return
    nodes: list[ast.AST] = [call for name in MODEL_PARAMETERS for call in module.calls_by_name.get(name, [])]
    for function in in_order(holders(module, nodes)):
        if isinstance(function, FunctionNode):
            for way in ways_into(project, module, function):
                if _has_half_model(way):
                    met = in_way(project, module, function, way).record.meetings
                    yield from (item for item in met if _is_of_data(item))


def _has_loaders(project: Project) -> bool:
    """Whether any file makes a loader: only what one gives is data of a dtype that is known."""
    return bool(project.python_paths(("dataloader",), ("DataLoader",)))


def _has_half_model(way: Way) -> bool:
    if way.state is not None and way.state.state is Autocasting.ON:
        return False
    models = [value for value in way.names.values() if value.kind is Kind.MODULE]
    return any(model.atoms and all(atom.is_half for atom in model.atoms) for model in models)


def _is_of_data(meeting: Meeting) -> bool:
    return meeting.odd.atom.role is Role.DATA and meeting.odd.atom.dtype == FP32
