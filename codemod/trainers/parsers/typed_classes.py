"""Parsers over classes of fields: transformers' `HfArgumentParser`, trl's `TrlParser`, and the project's subclasses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...python.bindings import only_value
from ...python.class_fields import declared_fields
from ...python.functions import class_of
from ...python.names import ModuleNames, resolve
from ...source.project import Project
from ..framework import Framework

MAX_BASES = 6
TYPED_PARSERS = ("HfArgumentParser", "TrlParser")
CONFIG_READERS = ("parse_yaml_file", "parse_json_file", "parse_dict", "parse_args_and_config")
"""Methods with which such a parser reads a file; `parse_dict` is given what a file was read into."""
OF_TRL = frozenset(("--config",))
PLAIN_BASES = frozenset(
    (
        *("object", "abc.ABC", "ABC", "typing.Generic", "typing.Protocol", "enum.Enum", "Enum", "str", "dict"),
        *("pydantic.BaseModel", "pydantic_settings.BaseSettings", "typing.NamedTuple", "NamedTuple"),
    )
)
"""Base classes of other libraries without fields of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class TypedParser:
    """One call that makes such a parser."""

    call: ast.Call
    classes: tuple[ast.expr, ...]
    is_readable: bool
    """Whether the classes are written down at the call."""
    file_flags: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The fields of some classes."""

    names: frozenset[str]
    frameworks: tuple[Framework, ...]
    """Trainers whose classes are among them, or among their bases."""
    is_complete: bool


def typed_parsers(project: Project, module: ModuleNames) -> tuple[TypedParser, ...]:
    """Every parser over classes that ``module`` makes."""
    return project.memo(_typed_parsers, module) if project.fact(_are_named) else ()


def _are_named(project: Project) -> bool:
    """Whether any file names the library's parsers: all others derive from these."""
    return bool(project.python_paths(map(str.lower, TYPED_PARSERS), TYPED_PARSERS))


def _typed_parsers(project: Project, module: ModuleNames) -> tuple[TypedParser, ...]:
    return tuple(_made_in(project, module))


def _made_in(project: Project, module: ModuleNames) -> Iterator[TypedParser]:
    for calls in module.calls_by_name.values():
        for call in calls:
            kind = _kind(project, module, call.func, 0)
            if kind:
                classes = _classes(module, call)
                is_own = class_of(project, module, call.func) is not None
                flags = OF_TRL if kind == "TrlParser" else frozenset()
                yield TypedParser(call, classes or (), classes is not None, flags | ({""} if is_own else set()))


def _kind(project: Project, module: ModuleNames, func: ast.expr, depth: int) -> str:
    """The library's parser that a call makes, directly or as the base of the project's class; empty for others."""
    last = (resolve(project, module, func) or "").rpartition(".")[2]
    if last in TYPED_PARSERS:
        return last
    own = class_of(project, module, func) if depth < MAX_BASES else None
    if own is None or not isinstance(own[1].node, ast.ClassDef):
        return ""
    return next((kind for base in own[1].node.bases if (kind := _kind(project, own[0], base, depth + 1))), "")


def _classes(module: ModuleNames, call: ast.Call) -> tuple[ast.expr, ...] | None:
    named = (item.value for item in call.keywords if item.arg in ("dataclass_types", "dataclass_type"))
    given: ast.expr | None = next((*call.args[:1], *named).__iter__(), None)
    if isinstance(given, ast.Name) and not _is_class_name(module, given):
        given = only_value(module, given)
    if isinstance(given, ast.Tuple | ast.List):
        return tuple(given.elts)
    return (given,) if isinstance(given, ast.Name | ast.Attribute) else None


def _is_class_name(module: ModuleNames, node: ast.Name) -> bool:
    bindings = module.bindings_of(node)
    return any(item.kind in ("import", "class") for item in bindings) or not bindings


def fields_of(project: Project, module: ModuleNames, parser: TypedParser) -> Fields:
    """All fields of a parser's classes."""
    return joined((class_fields(project, module, item) for item in parser.classes), parser.is_readable)


def joined(parts: Iterator[Fields], is_complete: bool = True) -> Fields:
    names: set[str] = set()
    frameworks: dict[str, Framework] = {}
    for part in parts:
        names |= part.names
        frameworks |= {item.id: item for item in part.frameworks}
        is_complete = is_complete and part.is_complete
    return Fields(frozenset(names), tuple(frameworks.values()), is_complete)


def class_fields(project: Project, module: ModuleNames, node: ast.expr, depth: int = 0) -> Fields:
    """The fields of one class that an expression names: its own, its bases', and the trainers it belongs to."""
    own = class_of(project, module, node)
    if own is not None and isinstance(own[1].node, ast.ClassDef) and depth < MAX_BASES:
        inner, scope = own
        above = joined(class_fields(project, inner, base, depth + 1) for base in own[1].node.bases)
        return Fields(above.names | declared_fields(scope.node).keys(), above.frameworks, above.is_complete)
    qualified = resolve(project, module, node) or ast.unparse(node)
    if qualified in PLAIN_BASES:
        return Fields(frozenset(), (), True)
    frameworks = tuple(item for item in project.frameworks if _makes(item, qualified))
    return Fields(frozenset(), frameworks, bool(frameworks))


def _makes(framework: Framework, qualified: str) -> bool:
    return any(fnmatchcase(qualified, name) for name in framework.recognize.calls)
