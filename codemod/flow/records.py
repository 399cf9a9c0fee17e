"""Dictionaries, and objects with fields: what their keys hold."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ..python.class_fields import declared_fields
from ..python.functions import lineage
from ..python.names import Scope, attribute_chain, last_name
from ..source.project import Project
from ..torch.tables.libraries import is_output_class
from .call_dtypes import NamedValues
from .classes import ProjectClass
from .frame import Frame, place_of
from .lattice import FIRST, UNKNOWN_VALUE, Kind, Value
from .meetings import NodeValue

MAX_FIELDS = 40
"""Records with more keys are not followed."""
FIELD_BASES = ("NamedTuple", "TypedDict", "ModelOutput", "BaseOutput")
"""Base classes whose subclasses keep what they are called with under the names of their annotations."""
LISTS = Value(Kind.RECORD, items=(), label="lists")
"""``defaultdict(list)``: an empty list under each key."""
EMPTY = Value(Kind.RECORD, items=())


def record_of(keys: Sequence[ast.expr | None], values: Sequence[Value]) -> Value:
    """``{"logits": x, **others}``: what is unpacked may replace what stands before it."""
    fields: dict[str, Value] = {}
    for key, value in zip(keys, values, strict=True):
        if key is None:
            fields = {**fields, **value.fields()} if value.kind is Kind.RECORD else {}
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            fields[key.value] = value
        elif not isinstance(key, ast.Constant):
            fields = {}
    return EMPTY.with_fields(fields) if len(fields) <= MAX_FIELDS else EMPTY


def field_of(base: Value, name: str) -> Value | None:
    """``base.name`` or ``base["name"]``, where the record is known to hold it."""
    return base.fields().get(name)


def item_of(base: Value, index: ast.expr) -> Value:
    if not (isinstance(index, ast.Constant) and isinstance(index.value, str)):
        return first_field(base, index)
    empty = Value(Kind.SEQUENCE, items=()) if base.label == LISTS.label else UNKNOWN_VALUE
    return field_of(base, index.value) or empty


def first_field(base: Value, index: ast.expr) -> Value:
    """``output[0]`` of an object that a model returns."""
    first = isinstance(index, ast.Constant) and index.value == 0 and bool(base.detail) and bool(base.items)
    return base.fields().get(FIRST, base.items[0]) if first and base.items else UNKNOWN_VALUE


def written(frame: Frame, target: ast.Subscript, base: Value, value: Value) -> None:
    """``record[key] = value``: under a key that is not known, anything can have been replaced."""
    place = place_of(target.value)
    if place is None:
        return
    known = isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    if base.kind is Kind.RECORD and known and isinstance(target.slice, ast.Constant):
        frame.put(place, base.with_fields({**base.fields(), str(target.slice.value): value}))
    elif not known:
        frame.put(place, UNKNOWN_VALUE)


def mapped(node: ast.DictComp) -> ast.expr | None:
    """``batch`` of ``{k: f(v) for k, v in batch.items()}``."""
    first, *others = node.generators
    target, source = first.target, first.iter
    if others or first.ifs or not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return None
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute) or source.func.attr != "items":
        return None
    named = all(isinstance(item, ast.Name) for item in target.elts)
    return source.func.value if named and ast.unparse(node.key) == ast.unparse(target.elts[0]) else None


def forget_passed(frame: Frame, call: ast.Call) -> None:
    """``cast_all(batch)``, whose result is not used: what a function was passed may be changed by it."""
    if last_name(call.func) in ("print", "append", "extend"):
        return
    for item in (*call.args, *(keyword.value for keyword in call.keywords)):
        held = frame.get(place_of(item) or "")
        if held is not None and held.kind in (Kind.RECORD, Kind.SEQUENCE) and not held.detail:
            frame.put(place_of(item) or "", UNKNOWN_VALUE)


def record_method(frame: Frame, node: ast.Call, receiver: Value, name: str, positional: list[NodeValue]) -> Value:
    """``record.get("x")``, ``record.copy()``, ``record.update(...)``."""
    assert isinstance(node.func, ast.Attribute)
    place = place_of(node.func.value)
    key = positional[0][0] if positional else None
    if name in ("get", "pop") and isinstance(key, ast.Constant):
        return field_of(receiver, str(key.value)) or UNKNOWN_VALUE
    if name == "copy":
        return receiver
    if name == "values":
        return Value(Kind.SEQUENCE, items=receiver.items)
    if name == "update" and place is not None:
        given = [None, *(ast.Constant(item.arg) if item.arg else None for item in node.keywords)]
        known = len(positional) == 1 and positional[0][1].kind is Kind.RECORD and len(given) == 1
        frame.put(place, record_of([None, None], [receiver, positional[0][1]]) if known else UNKNOWN_VALUE)
    elif name in ("clear", "popitem", "setdefault") and place is not None:
        frame.put(place, UNKNOWN_VALUE)
    return UNKNOWN_VALUE


def object_of(node: ast.Call, qualified: str | None, named: NamedValues) -> Value | None:
    """``BaseModelOutput(last_hidden_state=x)`` of a library, ``SimpleNamespace(x=x)``, ``dict(x=x)``."""
    if qualified == "collections.defaultdict":
        return LISTS if node.args and ast.unparse(node.args[0]) == "list" else None
    plain = isinstance(node.func, ast.Name) and node.func.id == "dict"
    if node.args or not (plain or is_output_class(qualified or "")):
        return None
    keys = [None if key == "**" else ast.Constant(key) for key, _, _ in named]
    made = record_of(keys, [value for _, _, value in named])
    return made if plain else replace(made, detail=(qualified or "").rpartition(".")[2])


def fields_of_class(
    frame: Frame, found: ProjectClass, node: ast.Call, positional: list[NodeValue], named: NamedValues
) -> Value | None:
    """An object of a dataclass or named tuple of the project: what it was called with, by the names of its fields."""
    names = _field_names(frame.project, found)
    if not names or any(isinstance(item, ast.Starred) for item in node.args):
        return None
    given = dict(zip(names, (value for _, value in positional), strict=False))
    given |= {key: value for key, _, value in named if key in names}
    return Value(Kind.MODULE, (), detail=found).with_fields({key: given[key] for key in names if key in given})


def _field_names(project: Project, found: ProjectClass) -> list[str]:
    """The annotated names of a dataclass or named tuple, in order; none for other classes."""
    classes = [scope for _, scope in lineage(project, found.module, found.scope)]
    if not _keeps_fields(classes[0]):
        return []
    fields = (declared_fields(scope.node) for scope in reversed(classes) if _keeps_fields(scope))
    return list(dict.fromkeys(name for each in fields for name in each))


def _keeps_fields(scope: Scope) -> bool:
    node = scope.node
    if not isinstance(node, ast.ClassDef) or "__init__" in scope.bindings:
        return False
    marks = [*node.decorator_list, *node.bases]
    names = [attribute_chain(item.func if isinstance(item, ast.Call) else item) or [""] for item in marks]
    return any(name[-1] == "dataclass" or name[-1].endswith(FIELD_BASES) for name in names)
