"""What rules ask of the dtype flow: every meeting and every watched operation of the project, found once.

Only functions that can hold one are interpreted: those that make float32 (a factory, ``.float()``, ``float32``), write
through an index, or apply a watched operation.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..purpose.files import purpose_of
from ..purpose.words import Purpose
from ..python.names import FunctionNode, ModuleNames, names_of
from ..source.project import Project
from ..torch.dtypes import FP32
from ..torch.tables.halves import speaks_of_half_weights
from ..torch.tables.kernels import WITHOUT_KERNELS
from ..torch.tables.libraries import FLOAT32_TABLES, MODEL_NAMES, PARTS
from .analysis import FlowAnalysis, flow_of
from .attributes import is_float32_table
from .frame import Application, Meeting
from .lattice import Kind, Made
from .operation_calls import WATCHED
from .prepared import named_as_prepared
from .stored import stored_mask

MAKERS = (
    "float", "double", "zeros", "ones", "full", "empty", "rand", "randn", "linspace", "logspace", "eye", "tensor",
    "FloatTensor", "as_tensor", "hann_window", "hamming_window", "encode", "half", "bfloat16", "normal", "Tensor",
)  # fmt: skip
"""Names whose calls (or reads) make it worth to follow a function."""
ASKED = (
    *WATCHED, *{name.rpartition(".")[2] for name in WITHOUT_KERNELS},
    "scaled_dot_product_attention", "masked_fill", "masked_fill_", "lstm", "gru", "rnn",
)  # fmt: skip
"""Operations that rules ask about: what is watched, what lacks 16-bit kernels, what never promotes."""
JOINS = ("cat", "concat", "concatenate", "stack")
MAX_CALLERS = 3
"""How far a float32 value, or weights, are followed to callers."""
SEGMENT = 400
"""How many files are held at a time: what they parse to is let go before the next ones are read."""


@dataclass(frozen=True, slots=True)
class Encounters:
    """All meetings and applications of a project, by path and line."""

    meetings: tuple[Meeting, ...]
    applications: tuple[Application, ...]


def encounters(project: Project) -> Encounters:
    """Every meeting and watched operation outside of tests."""
    return project.fact(_all)


def _all(project: Project) -> Encounters:
    paths = [path for path in project.python_paths(("torch",), ("import torch", "from torch")) if not _is_skipped(path)]
    if len(paths) <= SEGMENT:
        return _within(project, paths)
    found = []
    for start in range(0, len(paths), SEGMENT):
        part = project.detached(speaks_of_half_weights, named_as_prepared)
        found.append(_within(part, paths[start : start + SEGMENT]))
        del part
        gc.collect()  # scopes and syntax trees hold each other
    return Encounters(
        tuple(item for part_found in found for item in part_found.meetings),
        tuple(item for part_found in found for item in part_found.applications),
    )


def _within(project: Project, paths: Sequence[str]) -> Encounters:
    """The encounters in some files; what they import is read as it is needed."""
    analysis = flow_of(project)
    meetings: list[Meeting] = []
    applications: list[Application] = []
    modules = [names_of(project, document) for document in project.python_documents_at(paths)]
    holders = {module: worth_following(project, module) for module in modules}
    add_callers(analysis, holders)
    for module in modules:
        for record in _records(analysis, module, holders[module]):
            meetings += record[0]
            applications += record[1]
    return Encounters(tuple(meetings), tuple(applications))


def _is_skipped(path: str) -> bool:
    return purpose_of(path) in (Purpose.TEST, Purpose.DOCUMENTATION)


def _records(
    analysis: FlowAnalysis, module: ModuleNames, holders: set[FunctionNode | None]
) -> Iterator[tuple[list[Meeting], list[Application]]]:
    if None in holders:
        done = analysis.module_body(module)
        yield done.record.meetings, list(done.record.applications.values())
    for function in _in_order(holders):
        done = analysis.function(module, function)
        yield done.record.meetings, list(done.record.applications.values())


def _in_order(holders: set[FunctionNode | None]) -> list[FunctionNode]:
    """What is interpreted first decides what a circle of calls is cut at: always the same."""
    return sorted((item for item in holders if item is not None), key=lambda item: item.lineno)


def _is_definition(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a node of module level stands in a class body or a signature, not in the statements of a script."""
    return isinstance(module.scope_of(node).node, ast.ClassDef)


def worth_following(project: Project, module: ModuleNames) -> set[FunctionNode | None]:
    """The functions (None: the module's own statements) that hold something that makes or asks for a dtype."""
    nodes: list[ast.AST] = []
    for name in (*MAKERS, *ASKED):
        nodes += module.calls_by_name.get(name, [])
    for name in ("float32", "float64", "float16", "bfloat16"):
        nodes += module.attribute_loads.get(name, [])
    for name in {name for tables in FLOAT32_TABLES.values() for name in tables}:
        nodes += [node for node in module.attribute_loads.get(name, []) if is_float32_table(node)]
    for name in JOINS:
        nodes += [call for call in module.calls_by_name.get(name, []) if _joins_data(project, call)]
    for name in MODEL_NAMES:
        nodes += [call for call in module.calls_by_name.get(name, []) if _is_fed_data(call)]
    for name in PARTS:
        nodes += module.calls_by_name.get(name, [])
    return _with_nested(module, _holders(module, nodes))


def _with_nested(module: ModuleNames, holders: set[FunctionNode | None]) -> set[FunctionNode | None]:
    """The functions and those nested in them, which use what the outer one made."""
    found = set(holders)
    for function in holders:
        body = function.body if function is not None else []
        found.update(item for item in body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
    return found


def _is_fed_data(call: ast.Call) -> bool:
    """``unet(batch["latents"])``: an item of something goes into a model as it is."""
    values = [*call.args, *(item.value for item in call.keywords)]
    return any(isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant) for item in values)


def _holders(module: ModuleNames, nodes: Iterable[ast.AST]) -> set[FunctionNode | None]:
    """The functions that hold some nodes; None for the statements of the module."""
    holders: set[FunctionNode | None] = set()
    for node in nodes:
        scope = module.scope_of(node).function.node
        if isinstance(scope, ast.Module) and _is_definition(module, node):
            continue
        holders.add(scope if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) else None)
    return holders


def _joins_data(project: Project, call: ast.Call) -> bool:
    """``torch.cat([latents, batch["mask"]])``: an item that the data code makes as a mask is concatenated."""
    operands = call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []
    items = [item.slice for item in operands if isinstance(item, ast.Subscript)]
    keys = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return any(stored_mask(project, key) is not None for key in keys)


def add_callers(analysis: FlowAnalysis, holders: dict[ModuleNames, set[FunctionNode | None]]) -> None:
    """Follow those who call a function that gives float32, or hands a tensor on to weights."""
    for module, found in holders.items():
        found |= _readers(analysis, module, found)
    asked: set[str] = set()
    new = {(module, item) for module, found in holders.items() for item in found if item is not None}
    for _ in range(MAX_CALLERS):
        in_order = sorted(new, key=lambda item: (item[0].document.path, item[1].lineno))
        names = {name for module, function in in_order for name in _called_as(analysis, module, function)} - asked
        asked |= names
        new = set()
        for module, found in holders.items():
            calls = [call for name in names & module.calls_by_name.keys() for call in module.calls_by_name[name]]
            new |= {(module, item) for item in _holders(module, calls) - found if item is not None}
            found |= _holders(module, calls)
        if not new:
            return


def _readers(
    analysis: FlowAnalysis, module: ModuleNames, holders: set[FunctionNode | None]
) -> set[FunctionNode | None]:
    """The methods that read what a constructor made in float32 and kept as a plain attribute."""
    nodes: list[ast.AST] = []
    for function in _in_order(holders):
        if function.name != "__init__":
            continue
        for place, value in analysis.function(module, function).names.items():
            wide = any(atom.dtype == FP32 and atom.made in (Made.FACTORY, Made.CAST) for atom in value.atoms)
            if wide and value.kind is Kind.TENSOR and place.startswith("self."):
                owner = module.scope_of(function).enclosing_class
                loads = module.attribute_loads.get(place[5:], [])
                nodes += [node for node in loads if module.scope_of(node).enclosing_class is owner]
    return _holders(module, nodes)


def _called_as(analysis: FlowAnalysis, module: ModuleNames, function: FunctionNode) -> list[str]:
    """The names by which others call a function whose result, or whose input, is worth to follow."""
    done = analysis.function(module, function)
    makers = (Made.FACTORY, Made.CAST, Made.MODULE)
    gives = any(atom.dtype == FP32 and atom.made in makers for atom in done.returned.atoms)
    if function.name.startswith("__") or not (gives or done.record.inputs):
        return []
    if function.name != "forward":
        return [function.name]
    owner = module.scope_of(function).enclosing_class
    name = owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else ""
    parents = [module.parents.get(call) for call in module.calls_by_name.get(name, [])]
    targets = [target for item in parents if isinstance(item, ast.Assign) for target in item.targets]
    return [target.attr for target in targets if isinstance(target, ast.Attribute)]
