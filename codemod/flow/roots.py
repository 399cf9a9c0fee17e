"""Where a meeting can be: the functions that are worth interpreting, found by looking at their text.

A function is looked at where it makes float32 (a factory, ``.float()``, ``float32``), a 16-bit type, or reads what a
library or the project's data keeps in float32; and where it calls what gives such a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ..purpose.files import purpose_of
from ..purpose.words import Purpose
from ..python.names import Binding, FunctionNode, ModuleNames, names_of, root_name
from ..source.project import Project
from ..torch.dtypes import FP32
from ..torch.tables.libraries import FLOAT32_TABLES, MODEL_NAMES
from .analysis import FlowAnalysis, flow_of
from .attributes import is_float32_table
from .lattice import Kind, Made, Value
from .stored import stored_mask

MAKERS = (
    "float", "zeros", "ones", "full", "empty", "rand", "randn", "linspace", "logspace", "eye", "tensor", "FloatTensor",
    "as_tensor", "hann_window", "hamming_window", "encode", "half", "bfloat16", "normal", "Tensor",
)  # fmt: skip
"""Names whose calls make it worth to look at a function."""
DTYPES = ("float32", "float16", "bfloat16")
JOINS = ("cat", "concat", "concatenate", "stack")
DATA_TEXTS = ("batch[", "batch.get(", "batch.pop(", "loader", "dataset")
"""What a file holds that takes items out of a batch."""
MAX_CALLERS = 3
"""How far a float32 value is followed to callers."""
Holder = FunctionNode | None
"""A function; None: the statements of a module."""


def roots(project: Project) -> dict[ModuleNames, tuple[Holder, ...]]:
    """The functions and scripts outside of tests in which something wide can meet what does not promote."""
    return project.fact(_roots)


def _roots(project: Project) -> dict[ModuleNames, tuple[Holder, ...]]:
    analysis, modules = flow_of(project), followed_modules(project)
    found = {module: _candidates(project, module) for module in modules}
    for module, functions in found.items():
        functions |= _readers(analysis, module, functions)
    new = [(module, item) for module, functions in found.items() for item in _with_nested(functions)]
    first, givers = new, set[str]()
    for _ in range(MAX_CALLERS + 1):
        _note(found, new)
        names = {name for module, function in new for name in _giving(analysis, module, function)} - givers
        if not names:
            break
        givers |= names
        new = _callers(modules, names)
    speaking = [module for module in modules if _speaks_of_data(module)]
    if speaking:
        _note(found, _feeders(analysis, speaking, modules, first))
    return {module: tuple(in_order(functions)) for module, functions in found.items() if functions}


def _note(found: dict[ModuleNames, set[Holder]], new: list[tuple[ModuleNames, Holder]]) -> None:
    for module, function in new:
        found[module].add(function)


def followed_modules(project: Project) -> tuple[ModuleNames, ...]:
    """The modules that import torch, outside of tests and documentation."""
    return project.fact(_followed)


def _followed(project: Project) -> tuple[ModuleNames, ...]:
    paths = [path for path in project.python_paths(("torch",), ("import torch", "from torch")) if not _is_skipped(path)]
    return tuple(names_of(project, document) for document in project.python_documents_at(paths))


def _is_skipped(path: str) -> bool:
    return purpose_of(path) in (Purpose.TEST, Purpose.DOCUMENTATION)


def in_order(found: Iterable[Holder]) -> list[Holder]:
    """The functions as they stand in the file, its own statements first."""
    return sorted(found, key=lambda item: item.lineno if item is not None else 0)


# --- candidates -------------------------------------------------------------------------------------------------------


def _candidates(project: Project, module: ModuleNames) -> set[Holder]:
    """The functions that hold something that makes a dtype."""
    nodes: list[ast.AST] = []
    for name in MAKERS:
        nodes += [call for call in module.calls_by_name.get(name, []) if not _is_of_plain_values(call)]
    for name in DTYPES:
        nodes += module.attribute_loads.get(name, [])
    for name in {name for tables in FLOAT32_TABLES.values() for name in tables}:
        nodes += [node for node in module.attribute_loads.get(name, []) if is_float32_table(node)]
    return holders(module, nodes) | _always(project, module)


def _is_of_plain_values(call: ast.Call) -> bool:
    """``float(x)`` and ``text.encode("utf-8")``."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "float"
    plain = not call.args or (isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str))
    return isinstance(call.func, ast.Attribute) and call.func.attr == "encode" and plain and not call.keywords


def _always(project: Project, module: ModuleNames) -> set[Holder]:
    """The functions in which an item of data goes into a model or beside other tensors as it is."""
    nodes: list[ast.AST] = []
    for name in JOINS:
        nodes += [call for call in module.calls_by_name.get(name, []) if _joins_data(project, call)]
    for name in MODEL_NAMES:
        nodes += [call for call in module.calls_by_name.get(name, []) if _is_fed_data(call)]
    return holders(module, nodes)


def holders(module: ModuleNames, nodes: Iterable[ast.AST]) -> set[Holder]:
    """The functions that hold some nodes; None for the statements of the module."""
    found: set[Holder] = set()
    for node in nodes:
        scope = module.scope_of(node).function.node
        if isinstance(scope, ast.Module) and isinstance(module.scope_of(node).node, ast.ClassDef):
            continue  # in a class body or a signature, not in the statements of a script
        found.add(scope if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) else None)
    return found


def _with_nested(found: set[Holder]) -> list[Holder]:
    """The functions and those nested in them, which use what the outer one made; in order."""
    nested = [item for function in found if function is not None for item in function.body]
    return in_order(found | {item for item in nested if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)})


def _is_constructor(function: Holder) -> bool:
    return function is not None and function.name == "__init__"


def _is_fed_data(call: ast.Call) -> bool:
    """``unet(batch["latents"])``: an item of something goes into a model as it is."""
    values = [*call.args, *(item.value for item in call.keywords)]
    return any(isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant) for item in values)


def _joins_data(project: Project, call: ast.Call) -> bool:
    """``torch.cat([latents, batch["mask"]])``: an item that the data code makes as a mask is concatenated."""
    operands = call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []
    items = [item.slice for item in operands if isinstance(item, ast.Subscript)]
    keys = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return any(stored_mask(project, key) is not None for key in keys)


# --- what is followed -------------------------------------------------------------------------------------------------


def _callers(modules: Iterable[ModuleNames], names: set[str]) -> list[tuple[ModuleNames, Holder]]:
    return [(module, item) for module in modules for item in in_order(holders(module, _calls(module, names)))]


def _speaks_of_data(module: ModuleNames) -> bool:
    return any(word in module.document.text for word in DATA_TEXTS)


def _feeders(
    analysis: FlowAnalysis,
    speaking: list[ModuleNames],
    modules: Sequence[ModuleNames],
    found: list[tuple[ModuleNames, Holder]],
) -> list[tuple[ModuleNames, Holder]]:
    """Those who hand items of data to a function that hands on to weights what it is given."""
    names: set[str] = set()
    for _ in range(MAX_CALLERS):
        new = {name for module, function in found for name in _taking(analysis, module, function)} - names
        if not new:
            break
        names |= new
        found = _callers(modules, new)
    return _callers(speaking, names)


def _taking(analysis: FlowAnalysis, module: ModuleNames, function: Holder) -> list[str]:
    """The names by which others call a function that applies weights to what it is given."""
    names = _names_of_calls(module, function) if function is not None else []
    return names if function is not None and names and analysis.function(module, function).record.inputs else []


def _calls(module: ModuleNames, names: set[str]) -> list[ast.Call]:
    found = (call for name in names & module.calls_by_name.keys() for call in module.calls_by_name[name])
    return [call for call in found if not is_of_torch(module, call)]


def is_of_torch(module: ModuleNames, call: ast.Call) -> bool:
    """``torch.matmul(q, k)``, ``nn.functional.softmax(x)``: no function of the project, whatever it is called."""
    name = root_name(call.func)
    bindings = module.scope_of(call).lookup(name) if name else ()
    return bool(bindings) and all(_is_import_of_torch(item) for item in bindings)


def _is_import_of_torch(binding: Binding) -> bool:
    return binding.kind == "import" and (binding.qualified or "").partition(".")[0] == "torch"


def _readers(analysis: FlowAnalysis, module: ModuleNames, found: set[Holder]) -> set[Holder]:
    """The methods that read what a constructor made in float32 and kept as a plain attribute."""
    nodes: list[ast.AST] = []
    for function in in_order(item for item in found if _is_constructor(item)):
        if function is None:
            continue
        for place, value in analysis.function(module, function).names.items():
            if place.startswith("self.") and _is_made_wide(value):
                owner = module.scope_of(function).enclosing_class
                loads = module.attribute_loads.get(place[5:], [])
                nodes += [node for node in loads if module.scope_of(node).enclosing_class is owner]
    return holders(module, nodes)


def _is_made_wide(value: Value) -> bool:
    """A tensor that was made in float32, or a list that holds one."""
    if value.kind is Kind.TENSOR:
        return any(atom.dtype == FP32 and atom.made in (Made.FACTORY, Made.CAST) for atom in value.atoms)
    return any(_is_made_wide(item) for item in value.items or ())


def _giving(analysis: FlowAnalysis, module: ModuleNames, function: Holder) -> list[str]:
    """The names by which others call a function that returns something wide."""
    names = _names_of_calls(module, function) if function is not None else []
    if function is None or not names:
        return []
    makers = (Made.FACTORY, Made.CAST, Made.MODULE)
    done = analysis.function(module, function)
    return names if any(atom.dtype == FP32 and atom.made in makers for atom in done.returned.atoms) else []


def _names_of_calls(module: ModuleNames, function: FunctionNode) -> list[str]:
    if function.name != "forward":
        return [] if function.name.startswith("__") else [function.name]
    owner = module.scope_of(function).enclosing_class
    name = owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else ""
    parents = [module.parents.get(call) for call in module.calls_by_name.get(name, [])]
    targets = [target for item in parents if isinstance(item, ast.Assign) for target in item.targets]
    return [target.attr for target in targets if isinstance(target, ast.Attribute)]
