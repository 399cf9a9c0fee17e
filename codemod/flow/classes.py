"""What the attributes of a class hold, as its constructor leaves them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from ..python.functions import FunctionTarget, all_bases, class_of
from ..python.names import FunctionNode, ModuleNames, Scope, is_none, last_name, modules_at, parameters_of, resolve
from ..python.scopes import text_of
from ..source.child_fields import within
from ..source.project import Project
from ..torch.api import CASTS, WEIGHT_CASTS
from ..torch.dtypes import FP32
from ..torch.tables.libraries import MODEL_NAMES, TOKEN_IDS
from ..torch.weights import given_for_dtype, is_device
from .frame import Frame
from .lattice import FLOATING, INT64, UNKNOWN_VALUE, Atom, DtypeSource, Kind, MadeHow, Role, Value
from .recast_parts import part_with

if TYPE_CHECKING:
    from .analysis import FlowAnalysis

MODULE_BASES = (
    "Module",
    "Model",
    "PreTrainedModel",
    "ModelMixin",
    "LightningModule",
    "Layer",
    "Block",
    "Encoder",
    "Decoder",
)


@dataclass(slots=True, unsafe_hash=True)  # never changed, like values (`lattice`)
class ProjectClass:
    """A class of the project; equal when it is the same one."""

    module: ModuleNames
    scope: Scope

    @property
    def name(self) -> str:
        return self.scope.node.name if isinstance(self.scope.node, ast.ClassDef) else ""


@dataclass(frozen=True, slots=True)
class TorchLayer:
    """A class of ``torch.nn``."""

    name: str


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """A model of a library, or one that a function is given: its forward is not known."""

    name: str
    prepared: bool = False
    """Went through ``accelerator.prepare``: its forward runs under autocast and returns float32."""
    parameter: str = ""
    """For a model that a function is given: the symbol of that parameter, for the function's callers."""
    is_read: bool = False
    """Whether its class is in the tables: what it returns has the dtype of its weights."""


def has_dtype(model: LibraryModel) -> bool:
    """Whether ``model.dtype`` exists: the models of diffusers and transformers have it, a plain ``nn.Module`` not."""
    return model.name[:1].isupper() or _is_model_name(model.name)


@cache
def _is_model_name(name: str) -> bool:
    return name.lstrip("_").rstrip("_0123456789") in MODEL_NAMES


def model_by_name(node: ast.expr) -> Value:
    """A model of a library, told by the name it goes by (``pipeline.vae``); its dtype is not known."""
    name = last_name(node)
    if _is_model_name(name):
        return Value(Kind.MODULE, (), detail=LibraryModel(name), label=text_of(node))
    return UNKNOWN_VALUE


def ids_by_name(path: str, node: ast.expr, name: str) -> Value:
    """Token ids of a library, told by the name or key they go by (``batch["input_ids"]``)."""
    if name in TOKEN_IDS:
        return Value(Kind.TENSOR, (Atom(INT64, source=DtypeSource(path, node, "token ids")),))
    return UNKNOWN_VALUE


def is_torch_module(project: Project, found: ProjectClass) -> bool:
    """Whether a class is an ``nn.Module``, through the project's own bases; foreign bases are told by their name."""
    for module, base in all_bases(project, found.module, found.scope):
        qualified = resolve(project, module, base) or ast.unparse(base)
        if qualified.startswith("torch.nn.") or qualified.rpartition(".")[2].endswith(MODULE_BASES):
            return True
    return False


def weights_atom(found: ProjectClass, *, can_be_half: bool) -> Atom:
    """The symbol "the dtype of this class's weights"."""
    source = DtypeSource(found.module.document.path, found.scope.node, f"the weights of {found.name} can be 16-bit")
    symbol = f"weights of {found.module.document.path}:{found.name}"
    return Atom(symbol=symbol, role=Role.WEIGHTS, can_be_half=can_be_half, source=source)


def attribute_value(frame: Frame, base: Value, name: str) -> Value:
    if name in ("weight", "bias"):
        return Value(Kind.TENSOR, base.atoms)
    detail = base.detail
    if isinstance(detail, ProjectClass):
        known = frame.analysis.attributes(detail).get(name)
        return part_of(frame, base, detail, known, name) if known is not None else UNKNOWN_VALUE
    if isinstance(detail, LibraryModel):
        return _part(base, detail, name)
    return UNKNOWN_VALUE


def _part(base: Value, detail: LibraryModel, name: str) -> Value:
    """A submodule of a library's model, where its name tells that it is one with weights."""
    if name in ("module", "model", "text_model"):
        return Value(Kind.MODULE, base.atoms, label=base.label, detail=detail)
    return UNKNOWN_VALUE


def part_of(frame: Frame, base: Value, owner: ProjectClass, value: Value, name: str) -> Value:
    """A class's attribute seen on the object ``base``; where that was cast as a whole, what was made otherwise too."""
    cast = frame.run is not None and value.kind is Kind.MODULE and bool(value.atoms)
    follows = cast or value.atoms == (frame.analysis.own_weights(owner),)
    made = bool(base.atoms) and all(atom.made is MadeHow.MODULE for atom in base.atoms)
    if follows and made and (owner.scope, name) in owner.module.of_parts(_cast_in_constructors):
        return value.with_atoms(())  # of an object that is made in float32 this part alone may not be
    return part_with(value.with_atoms(base.atoms) if follows else value, base.recast, (name,))


def constructed(analysis: FlowAnalysis, found: ProjectClass, names: dict[str, Value]) -> dict[str, Value]:
    """The attributes after ``__init__``: parameters, buffers and submodules follow the weights of the class."""
    own = analysis.own_weights(found)
    is_module = analysis.is_module(found)
    result = {}
    for place, value in names.items():
        if not place.startswith("self.") or "." in place[5:] or "[" in place:
            continue
        inside = value.kind is Kind.MODULE and is_module and not _is_kept_wide(value)
        result[place[5:]] = replace(value, atoms=(own,)) if inside else value
    return result


def _is_kept_wide(value: Value) -> bool:
    """``nn.Linear(4, 4, dtype=torch.float32)``, ``self.head.float()``: float32 is asked for."""
    return bool(value.atoms) and all(atom.dtype == FP32 and atom.made is MadeHow.CAST for atom in value.atoms)


def has_parts_with_weights(analysis: FlowAnalysis, found: ProjectClass) -> bool:
    """Whether a class keeps something with a floating dtype, or anything that is not understood but is a module."""
    if found.name.endswith(("Loss", "Criterion")):
        return False
    parts = analysis.attributes(found).values()
    return not parts or any(part.kind is Kind.UNKNOWN or bool(part.atoms) for part in parts)


def registered_buffer(value: Value, own: Atom) -> Value:
    """A floating buffer is cast with the module; integer and bool ones never are."""
    floating = [atom for atom in value.atoms if atom.dtype in FLOATING]
    return value.with_atoms((own,)) if floating and len(floating) == len(value.atoms) else value


def is_set_outside_constructor(project: Project, found: ProjectClass, name: str) -> bool:
    """Whether another method of a class than its constructor gives an attribute a value as well.

    To cast a module is the same, where no module holds it: then only the constructor says what its weights are.
    """
    setters = found.module.of_parts(_set_outside_constructors).get((found.scope, name), ())
    return any(
        not is_idle_setter(project, found.module, found.scope, *setter)
        and not (casts_part(found.module, setter[1]) and is_torch_module(project, found))
        for setter in setters
    )


def set_later(analysis: FlowAnalysis, found: ProjectClass) -> dict[str, Value]:
    """What attributes hold to which a method that sets things up gives their only value."""
    setters = found.module.of_parts(_set_outside_constructors)
    values = {
        name: _set_up(analysis, found, name, each) for (owner, name), each in setters.items() if owner is found.scope
    }
    return {name: value for name, value in values.items() if value is not None}


def _set_up(
    analysis: FlowAnalysis, found: ProjectClass, name: str, setters: Sequence[tuple[ast.AST, ast.AST]]
) -> Value | None:
    """Read before its only method has set it, an attribute is missing, or None."""
    project, module = analysis.project, found.module
    method, statement = setters[0] if len(setters) == 1 else (None, None)
    if not isinstance(method, FunctionNode) or method.decorator_list or statement not in method.body:
        return None
    if not isinstance(statement, ast.Assign):
        return None
    if any(at is not statement and not is_none(value) for _, value, at in module.attribute_stores.get(name, ())):
        return None
    if any(path != module.path for path in project.fact(_stored, name)[0]):
        return None
    value = constructed(analysis, found, analysis.with_names(module, method, {}).names).get(name)
    is_known = value is not None and value.atoms and all(item.role is not Role.PARAMETER for item in value.atoms)
    return value if is_known and not is_stored_elsewhere(project, found, name) else None


def is_stored_elsewhere(project: Project, found: ProjectClass, name: str) -> bool:
    """Whether other code than the methods of a class stores an attribute, or one of them under a computed name."""
    computed = (call for call in found.module.calls_by_name.get("setattr", ()) if ast.unparse(call.args[0]) == "self")
    scopes = (found.module.scope_of(call) for call in computed if not isinstance(call.args[1], ast.Constant))
    if any(scope.enclosing_class is found.scope and not _is_constructor(scope.function.node) for scope in scopes):
        return True
    return project.fact(_stored, name)[1]


def _stored(project: Project, name: str) -> tuple[tuple[str, ...], bool]:
    """The files that give an attribute another value than None, and whether any stores it in others than ``self``."""
    found = [(path, *project.memo(_stored_in, path)) for path in project.python_paths((name,))]
    given = tuple(path for path, given, _ in found if name in given)
    return given, any(name in of_others for _, _, of_others in found)


def _stored_in(project: Project, path: str) -> tuple[frozenset[str], frozenset[str]]:
    """The attributes that a file gives other values than None, and those that it stores in others than ``self``."""
    stores = [item for module in modules_at(project, (path,)) for item in module.attribute_stores.items()]
    given = (name for name, each in stores if not all(is_none(value) for _, value, _ in each))
    of_others = (name for name, each in stores if any(receiver not in (None, ["self"]) for receiver, *_ in each))
    return frozenset(given), frozenset(of_others)


def _is_constructor(function: ast.AST) -> bool:
    return isinstance(function, FunctionNode) and function.name == "__init__"


def _set_outside_constructors(
    module: ModuleNames,
) -> dict[tuple[Scope, str], list[tuple[ast.AST, ast.AST]]]:
    """For each class of a file and attribute, the methods that give it a value, constructors aside, and where."""
    found: dict[tuple[Scope, str], list[tuple[ast.AST, ast.AST]]] = {}
    stores = module.attribute_stores.items()
    changed: list[tuple[str, ast.AST]] = [
        (name, statement) for name, each in stores for receiver, _, statement in each if receiver == ["self"]
    ]
    changed += [
        (name, node) for name, nodes in module.attribute_loads.items() for node in nodes if _changes(module, node)
    ]
    for name, node in changed:
        holder = module.scope_of(node)
        made = holder.function.node
        if holder.enclosing_class is None or _is_constructor(made):
            continue
        found.setdefault((holder.enclosing_class, name), []).append((made, node))
    return found


def _changes(module: ModuleNames, node: ast.Attribute) -> bool:
    """``self.grids[k] = ...`` and ``self.grids.append(...)``."""
    parent = module.parents.get(node)
    replaced = isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)
    grown = isinstance(parent, ast.Attribute) and parent.attr in ("append", "extend", "insert")
    is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
    return is_own and (replaced or grown or casts_part(module, node))


def casts_part(module: ModuleNames, node: ast.AST) -> bool:
    """``self.net.half()``, ``self.net.encoder.to(dtype)``: whether what is called on a part gives it another dtype."""
    part = module.parents.get(node)
    while isinstance(part, ast.Attribute) and part.attr not in CASTS:
        part = module.parents.get(part)
    call = module.parents.get(part) if isinstance(part, ast.Attribute) else None
    if not isinstance(part, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not part:
        return False
    return part.attr in WEIGHT_CASTS or not all(is_device(item) for item in given_for_dtype(call))


def _cast_in_constructors(module: ModuleNames) -> dict[tuple[Scope, str], bool]:
    """The attributes that the constructor of a class casts: ``self.head.to(dtype)``."""
    found = dict[tuple[Scope, str], bool]()
    for name, nodes in module.attribute_loads.items():
        for node in (each for each in nodes if isinstance(each.value, ast.Name) and each.value.id == "self"):
            scope = module.scope_of(node)
            if scope.enclosing_class and _is_constructor(scope.function.node) and casts_part(module, node):
                found[scope.enclosing_class, name] = True
    return found


def casts_own_part(_project: Project, target: FunctionTarget) -> bool:
    """Whether a method gives a part of its object another dtype."""
    loads = (node for node in within(target.node) if isinstance(node, ast.Attribute))
    of_self = (node for node in loads if isinstance(node.value, ast.Name) and node.value.id == "self")
    return any(casts_part(target.module, node) for node in of_self)


# --- setters that nobody calls ----------------------------------------------------------------------------------------


def is_idle_setter(project: Project, module: ModuleNames, owner: Scope, method: ast.AST, statement: ast.AST) -> bool:
    """Whether ``method`` stores the attribute in ``statement``, and is mentioned nowhere in the project.

    A base class of a library may call it by a name that it knows: then it hands over what takes the place of what was
    there (new embeddings), and only that is passed over.
    """
    if not isinstance(method, FunctionNode) or method.decorator_list:
        return False
    value = statement.value if isinstance(statement, ast.Assign) else None
    if value is None and not casts_part(module, statement):
        return False
    if method.name.startswith("__") or method.name == "forward":
        return False
    given = isinstance(value, ast.Name) and value.id in {item.arg for item in parameters_of(method)}
    if not given and not _is_plain_module(project, module, owner):
        return False
    return not project.fact(_is_mentioned_in, module.path, method.name) and not project.memo(_is_mentioned, method.name)


def _is_mentioned_in(project: Project, path: str, name: str) -> bool:
    return project.says(path, lambda text: any(word in text for word in _mentions(name)))


def _is_mentioned(project: Project, name: str) -> bool:
    return bool(project.python_paths(_mentions(name)))


def _mentions(name: str) -> tuple[str, ...]:
    """``model.reset_head``, or its name as a text."""
    return (f".{name}", f'"{name}"', f"'{name}'")


def _is_plain_module(project: Project, module: ModuleNames, owner: Scope) -> bool:
    """Whether a class and its bases are the project's own, but for those of torch, which call no such method."""
    return all(
        class_of(project, holder, base) is not None or (resolve(project, holder, base) or "").startswith("torch.nn.")
        for holder, base in all_bases(project, module, owner)
    )
