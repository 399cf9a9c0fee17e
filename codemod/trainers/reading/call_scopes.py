"""What trainers are told by calls in Python code: ``TrainingArguments(bf16=True)``, ``Trainer(precision=16)``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from ...model import (
    Place,
)
from ...python.bindings import reaching
from ...python.names import ModuleNames, names_of, resolve
from ...source.project import Project
from ...torch.dtypes import TORCH_DTYPES
from ..framework import Framework
from .mapping_items import items_of
from .scopes import FALSE, NULL, TRUE, CodeOrigin, Scope, Setting


def call_scopes(project: Project) -> Iterator[Scope]:
    """A scope for every call of a framework's constructors, by file and line."""
    by_name: dict[str, list[tuple[Framework, str]]] = {}
    for framework in project.frameworks:
        for qualified in framework.recognise.calls:
            by_name.setdefault(qualified.rpartition(".")[2], []).append((framework, qualified))
    if not by_name:
        return
    words = [_words(qualified) for found in by_name.values() for _, qualified in found]
    for document in project.python_documents({first for first, _ in words}, where=_filter(words)):
        module = names_of(project, document)
        for name in by_name.keys() & module.calls_by_name.keys():
            for call in module.calls_by_name[name]:
                yield from _scopes_of(project, module, call, by_name[name])


def _words(qualified: str) -> tuple[str, str]:
    """What a text with such a call holds; for a method (``pkg.Model.train``) its class is what is rare."""
    owner, _, name = qualified.rpartition(".")
    class_name = owner.rpartition(".")[2]
    return (class_name if class_name[:1].isupper() else name), f"{name}("


def _filter(words: Sequence[tuple[str, str]]) -> Callable[[str], bool]:
    return lambda text: any(first in text and second in text for first, second in words)


def _called(project: Project, module: ModuleNames, function: ast.expr) -> str | None:
    """The qualified name of what is called; of a method, where its object is made of a known class."""
    qualified = resolve(project, module, function)
    if qualified is not None or not isinstance(function, ast.Attribute):
        return qualified
    made: ast.expr | None = function.value
    if isinstance(made, ast.Name):
        values = [binding.value for binding in reaching(module, module.scope_of(made).lookup(made.id), made)]
        made = values[0] if len(values) == 1 else None
    owner = resolve(project, module, made.func) if isinstance(made, ast.Call) else None
    return f"{owner}.{function.attr}" if owner is not None else None


def _scopes_of(
    project: Project, module: ModuleNames, call: ast.Call, candidates: Sequence[tuple[Framework, str]]
) -> Iterator[Scope]:
    qualified = _called(project, module, call.func)
    if qualified is None:
        return
    for framework, pattern in candidates:
        if fnmatchcase(qualified, pattern):
            yield _scope(module, framework, call)
            return


def _scope(module: ModuleNames, framework: Framework, call: ast.Call) -> Scope:
    document = module.document
    settings = []
    items = tuple(items_of(call))
    for index, item in enumerate(items):
        key = next((key for key in framework.keys if item.path in key.arguments), None)
        if key is None:
            continue
        value, kind = token_of_node(module, item.value) if item.section is None else (None, "section")
        place = Place(document.path, document.span(item.value), f"{item.path} is {ast.unparse(item.value)[:60]}")
        settings.append(Setting(key, value, kind, place, item.path, index))
    is_open = any(keyword.arg is None for keyword in call.keywords)
    is_open = is_open or any(isinstance(argument, ast.Starred) for argument in call.args)
    title = f"{ast.unparse(call.func)}(...)"
    origin = CodeOrigin(module, items, call)
    return Scope(framework, document.path, "call", document.span(call), title, tuple(settings), is_open, origin)


def token_of_node(module: ModuleNames, node: ast.expr) -> tuple[str | None, str]:
    """An argument's value as conditions write it, and its kind."""
    if isinstance(node, ast.Constant):
        value = node.value
        if value is None:
            return NULL, "null"
        if isinstance(value, bool):
            return (TRUE if value else FALSE), "bool"
        if isinstance(value, int | float):
            return str(value), "number"
        return (value, "string") if isinstance(value, str) else (None, "unknown")
    dtype = TORCH_DTYPES.get(module.qualified(node) or "")
    return (dtype.name, "dtype") if dtype is not None else (None, "unknown")
