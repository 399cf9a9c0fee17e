"""Where a meeting can be: the functions that are worth interpreting, found by looking at their text.

A function is looked at where it makes float32 (a factory, ``.float()``, ``float32``), a 16-bit type, or reads what a
library or the project's data keeps in float32; and where it calls what gives such a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator
from functools import cache

from ..purpose.files import purpose_of
from ..purpose.words import Purpose
from ..python.bindings import self_stores
from ..python.functions import FunctionTarget, called_function, class_of, lineage, method_of
from ..python.names import FunctionNode, ModuleNames, Scope, attribute_chain, modules_at, root_name
from ..source.facts import memo
from ..source.project import Project
from ..torch.dtypes import FP32
from ..torch.tables.libraries import FLOAT32_TABLES, MODEL_NAMES
from .analysis import FlowAnalysis, flow_of
from .attributes import is_float32_table
from .bases import is_super
from .elements import holds_data
from .facts import module_of
from .lattice import Kind, MadeHow, Value
from .stored import stored_mask

MAKERS = (
    "float", "zeros", "ones", "full", "empty", "rand", "randn", "linspace", "logspace", "eye", "tensor", "FloatTensor",
    "as_tensor", "hann_window", "hamming_window", "encode", "half", "bfloat16", "normal", "Tensor",
)  # fmt: skip
"""Names whose calls make it worth to look at a function."""
DTYPES = ("float32", "float16", "bfloat16")
JOINS = ("cat", "concat", "concatenate", "stack")
DATA_WORDS = ("loader", "dataset")
"""What the names of things hold that give batches."""
BATCH = "batch"
"""What a batch is called."""
MAX_CALLERS = 3
"""How far a float32 value is followed to callers."""
Holder = FunctionNode | None
"""A function; None: the statements of a module."""


@memo
def roots_in(project: Project, module: ModuleNames) -> tuple[Holder, ...]:
    """The functions and statements of a file in which something wide can meet what does not promote."""
    found = project.memo(_given, (module, MAX_CALLERS))
    return tuple(in_order(item for item in found if not _is_constructor(item)))  # weights are in float32 there


def _given(project: Project, asked: tuple[ModuleNames, int]) -> frozenset[Holder]:
    """The functions of a file that make something wide or take it out of a batch, and those that are given it."""
    module, hops = asked
    if not hops:
        found = _candidates(project, module)
        return frozenset(_with_nested(found | _readers(flow_of(project), module, found)))
    known = project.memo(_given, (module, hops - 1))
    called = [(holder, target) for holder, target in project.memo(_called, module) if holder not in known]
    return known | {holder for holder, target in called if _gives(project, target, hops - 1)}


def _given_at(project: Project, path: str, hops: str) -> frozenset[str]:
    """The same by the names of the functions: it rests on no more of what they say than it depends on."""
    module = module_of(project, path)
    given = project.memo(_given, (module, int(hops))) if module is not None else ()
    return frozenset(module.addresses[each] for each in given if module is not None and each is not None)


def followed_modules(project: Project, among: Container[str] | None = None) -> Iterator[ModuleNames]:
    """The modules that import torch among those that are checked, outside of tests and documentation."""
    paths = (path for path in project.fact(_followed) if project.is_checked(path) and (among is None or path in among))
    return modules_at(project, paths)


def _followed(project: Project) -> tuple[str, ...]:
    paths = project.python_paths(("torch",), ("import torch", "from torch"))
    return tuple(path for path in paths if purpose_of(path) not in (Purpose.TEST, Purpose.DOCUMENTATION))


def in_order(found: Iterable[Holder]) -> list[Holder]:
    """The functions as they stand in the file, its own statements first."""
    return sorted(found, key=lambda item: item.lineno if item is not None else 0)


def _candidates(project: Project, module: ModuleNames) -> set[Holder]:
    """The functions that hold something that makes a dtype."""
    nodes: list[ast.AST] = []
    for name in MAKERS:
        calls = module.calls_by_name.get(name, [])
        nodes += [call for call in calls if not (_is_of_plain_values(call) or _has_dtype_of_another(module, call))]
    for name in DTYPES:
        nodes += module.attribute_loads.get(name, [])
    for name in {name for tables in FLOAT32_TABLES.values() for name in tables}:
        nodes += [node for node in module.attribute_loads.get(name, []) if is_float32_table(node)]
    return holders(module, nodes) | _always(project, module) | _of_data(module)


def _is_of_plain_values(call: ast.Call) -> bool:
    """``float(x)`` and ``text.encode("utf-8")``."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "float"
    plain = not call.args or (isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str))
    return isinstance(call.func, ast.Attribute) and call.func.attr == "encode" and plain and not call.keywords


def _has_dtype_of_another(module: ModuleNames, call: ast.Call) -> bool:
    """``torch.zeros(3, dtype=x.dtype)``, ``dtype=dtype`` of a parameter: as wide as the caller wants it."""
    given = next((item.value for item in call.keywords if item.arg == "dtype"), None)
    if isinstance(given, ast.Attribute):
        return given.attr == "dtype" and root_name(given) not in ("self", "cls")
    bindings = module.scope_of(call).lookup(given.id) if isinstance(given, ast.Name) else []
    return bool(bindings) and all(item.kind == "parameter" for item in bindings)


def _of_data(module: ModuleNames) -> set[Holder]:
    """The functions that name a batch, a loader or a dataset, and the methods of classes whose constructors do."""
    loads = ((name, nodes) for table in (module.name_loads, module.attribute_loads) for name, nodes in table.items())
    nodes: list[ast.AST] = [node for name, found in loads if _is_of_data(name) for node in found]
    keys = ((node, node.slice) for node in module.of_type(ast.Subscript))
    nodes += [node for node, key in keys if isinstance(key, ast.Constant) and _is_of_data(str(key.value))]
    found = holders(module, nodes)
    owners = {module.scopes[item].parent for item in found if item is not None and _is_constructor(item)}
    return found | {item for owner in owners if owner is not None for item in _functions_in(owner.node)}


@cache
def _is_of_data(name: str) -> bool:
    return name == BATCH or any(word in name.lower() for word in DATA_WORDS)


def _functions_in(node: ast.AST) -> Iterator[FunctionNode]:
    return (item for item in getattr(node, "body", ()) if isinstance(item, FunctionNode))


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
        scope = module.scope_of(node)
        holder = scope.function.node
        if isinstance(holder, ast.Module) and isinstance(scope.node, ast.ClassDef):
            continue  # in a class body or a signature, not in the statements of a script
        found.add(holder if isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef) else None)
    return found


def _with_nested(found: set[Holder]) -> list[Holder]:
    """The functions and those nested in them, which use what the outer one made; in order."""
    nested = (item for function in found if function is not None for item in _functions_in(function))
    return in_order(found.union(nested))


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


def _called(project: Project, module: ModuleNames) -> tuple[tuple[Holder, FunctionTarget], ...]:
    """Which functions of the project the others of a file may call, models among them."""
    found: dict[tuple[Holder, FunctionTarget], None] = {}
    known = project.memo(_given, (module, 0))
    for function, calls in module.calls_by_function.items():
        for holder in in_order(({function} if isinstance(function, FunctionNode) else holders(module, calls)) - known):
            inside = calls if holder is function else [call for call in calls if holders(module, [call])]
            targets = (target for call in inside for target in _targets(project, module, call))
            found.update(dict.fromkeys((holder, target) for target in targets))
    return tuple(found)


def _targets(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[FunctionTarget]:
    """The function that is named, or ``forward`` of the part in ``self.encoder(x)``, or a method of a part or base."""
    named = called_function(project, module, call)
    if named is not None:
        yield from [named] if named.node.name != "__init__" else []
        return
    owner = module.scope_of(call).enclosing_class if isinstance(call.func, ast.Attribute) else None
    if owner is not None and isinstance(call.func, ast.Attribute):
        chain, name = attribute_chain(call.func) or [], call.func.attr
        of_part = chain[:1] == ["self"] and len(chain) <= 3
        if not of_part and not is_super(call.func.value):
            return
        classes = list(lineage(project, module, owner))
        if of_part:
            classes, name = _classes_of_part(project, classes, chain[1]), name if len(chain) == 3 else "forward"
        else:
            classes = classes[1:]
        methods = (method_of(project, *each, name) for each in classes)
        yield from (method for method in methods if method is not None)


def _classes_of_part(
    project: Project, owners: Iterable[tuple[ModuleNames, Scope]], name: str
) -> list[tuple[ModuleNames, Scope]]:
    """The project's classes of which ``self.<name>`` is made."""
    made = ((module, value) for module, owner in owners for value, _ in self_stores(module, owner, name))
    found = (class_of(project, module, value.func) for module, value in made if isinstance(value, ast.Call))
    return [each for each in found if each is not None]


def _gives(project: Project, target: FunctionTarget, hops: int) -> bool:
    """Whether a function returns something wide, or items of a batch."""
    return project.memo(_gives_at, (target.module.path, target, hops))


def _gives_at(project: Project, asked: tuple[str, FunctionTarget, int]) -> bool:
    _, target, hops = asked
    if target.module.addresses[target.node] not in project.fact(_given_at, target.module.path, str(hops)):
        return False
    makers = (MadeHow.FACTORY, MadeHow.CAST, MadeHow.MODULE)
    given = flow_of(project).function(target.module, target.node).returned
    return holds_data(given) or any(atom.dtype == FP32 and atom.made in makers for atom in given.atoms)


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
        return any(atom.dtype == FP32 and atom.made in (MadeHow.FACTORY, MadeHow.CAST) for atom in value.atoms)
    return any(_is_made_wide(item) for item in value.items or ())
