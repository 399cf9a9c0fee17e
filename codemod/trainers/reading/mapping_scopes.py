"""What trainers are told by dictionaries in Python code, and by the variables of Python configuration files."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ...model import (
    Place,
    Span,
)
from ...python.names import ModuleNames, attribute_chain, modules_at
from ...source.project import Project
from ..framework import Framework
from .call_scopes import token_of_node
from .mapping_items import MappingItem, builds_on_others, is_mapping, items_of, module_items
from .recognition import owner_of, stands_at, words_of_mark
from .scopes import CodeOrigin, Setting, SettingKind, SettingScope

TRACKERS = ("wandb", "mlflow", "neptune", "comet_ml", "clearml", "swanlab", "aim", "trackio")
"""Libraries that keep the settings of a run and read none of them."""
WORDS = ("bf16", "fp16", "bfloat16", "float16", "amp", "loss_scale", "precision")


def mapping_scopes(project: Project) -> Iterator[SettingScope]:
    """A scope for every dictionary and every configuration module that a framework owns."""
    owners = project.once(_Owners, lambda: _Owners(project))
    for path in project.python_paths(owners.words) if owners.dictionaries or owners.modules else ():
        yield from project.memo(_at, path)


class _Owners:
    """The frameworks that own mappings, and what a text with one holds."""

    def __init__(self, project: Project) -> None:
        self.dictionaries = [item for item in project.frameworks if "dict" in item.recognize.mappings]
        self.modules = [item for item in project.frameworks if "module" in item.recognize.mappings]
        literal = [mark for framework in self.dictionaries for mark in framework.recognize.strong]
        variable = [mark for item in self.modules for mark in item.recognize.strong if not mark.startswith("-")]
        self.words = (*WORDS, *sorted({words[0] for mark in (*literal, *variable) if (words := words_of_mark(mark))}))
        self.may_hold = _filter(literal, variable)


def _at(project: Project, path: str) -> tuple[SettingScope, ...]:
    owners = project.once(_Owners, lambda: _Owners(project))
    module = next(modules_at(project, (path,)), None) if project.says(path, owners.may_hold) else None
    if module is None:
        return ()
    owned = _module_scope(owners.modules, module) if owners.modules else None
    if owned is not None:
        return (owned,)
    return tuple(_dictionary_scopes(owners.dictionaries, module)) if owners.dictionaries else ()


def _filter(literal: Sequence[str], variable: Sequence[str]) -> Callable[[str], bool]:
    """Whether a text may hold a mapping or be a configuration module: parsing is what costs.

    Keys of dictionaries stand in quotes or before ``=``, variables of a module at the start of a line.
    """
    keys = {frozenset(words) for mark in literal if (words := words_of_mark(mark))}
    starts = [[part.partition(": ")[0].partition(".")[0] for part in mark.split(" + ")] for mark in variable]
    names = {frozenset(listed) for listed in starts if all(name.isidentifier() for name in listed)}

    def may_hold(text: str) -> bool:
        lines = f"\n{text}"
        begins = {name for name in frozenset().union(*names) if f"\n{name}" in lines}
        if any(listed <= begins for listed in names):
            return True
        if not any(_is_key(word, text) for word in ("bf16", "bfloat16", "fp16", "amp")):
            return False
        held = {word for word in frozenset().union(*keys) if _is_key(word, text)}
        return any(listed <= held for listed in keys)

    return may_hold


def _is_key(word: str, text: str) -> bool:
    if word not in text:
        return False
    return f'"{word}"' in text or f"'{word}'" in text or any(f"{before}{word}=" in text for before in "( \n,")


def _dictionary_scopes(frameworks: Sequence[Framework], module: ModuleNames) -> Iterator[SettingScope]:
    owned: set[ast.AST] = set()
    for node in module.nodes:
        if not isinstance(node, ast.Dict | ast.Call) or not is_mapping(node):
            continue
        if _is_inner(module, node) and any(parent in owned for parent in module.ancestors(node)):
            continue
        items = list(items_of(node))
        framework = owner_of(frameworks, "", _marks(module, items))
        if framework is not None and not _is_only_logged(module, node):
            owned.add(node)
            is_open = isinstance(node, ast.Dict) and None in node.keys
            yield _scope(module, framework, items, module.document.span(node), is_open, node)


def _is_only_logged(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a dictionary is a variable that only trackers are passed: ``wandb.init(config=settings)``."""
    statement = module.parents.get(node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    loads = module.name_loads.get(target.id, ()) if isinstance(target, ast.Name) else ()
    scope = module.scope_of(node)
    own = [load for load in loads if any(item.scope is scope for item in module.scope_of(load).lookup(load.id))]
    return bool(own) and all(any(map(partial(_logs, module), module.ancestors(load))) for load in own)


def _logs(module: ModuleNames, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    is_print = isinstance(node.func, ast.Name) and node.func.id == "print"
    return is_print or (module.qualified(node.func) or "").partition(".")[0] in TRACKERS


def _is_inner(module: ModuleNames, node: ast.expr) -> bool:
    parent = module.parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = module.parents.get(parent)
    return isinstance(parent, ast.expr) and is_mapping(parent)


def _module_scope(frameworks: Sequence[Framework], module: ModuleNames) -> SettingScope | None:
    """The module's variables as a mapping: ``fp16 = dict(loss_scale=512.)``, ``train.amp.enabled = True``."""
    items = list(module_items(module))
    framework = owner_of(frameworks, module.document.path, _marks(module, items)) if items else None
    if framework is None:
        return None
    return _scope(module, framework, items, Span(1, 1, 1, 1), builds_on_others(module), None)


def _marks(module: ModuleNames, items: Sequence[MappingItem]) -> dict[str, str | None]:
    return {item.path: _token(module, item.value)[0] for item in items}


def _token(module: ModuleNames, node: ast.expr) -> tuple[str | None, SettingKind]:
    """A value as conditions write it; imported classes and functions by their name: ``type=AmpOptimWrapper``."""
    if is_mapping(node):
        return None, "section"
    value, kind = token_of_node(module, node)
    chain = attribute_chain(node)
    if kind == "unknown" and chain and "." in (module.qualified(node) or ""):
        return chain[-1], "name"
    return value, kind


def _scope(
    module: ModuleNames,
    framework: Framework,
    items: Sequence[MappingItem],
    span: Span,
    is_open: bool,
    node: ast.Dict | ast.Call | None,
) -> SettingScope:
    document = module.document
    settings = []
    for index, item in enumerate(items):
        for key in framework.keys:
            if any(stands_at(item.path, place) for place in key.places):
                value, kind = _token(module, item.value)
                shown = "a section" if kind == "section" else ast.unparse(item.value)[:60]
                place = Place(document.path, document.span(item.value), f"{item.path} is {shown}")
                settings.append(Setting(key, value, kind, place, item.path, index))
    title = document.path.rpartition("/")[2] if node is None else "a dictionary"
    if settings and node is None:
        span = settings[0].place.span
    origin = CodeOrigin(module, tuple(items), node)
    return SettingScope(framework, document.path, "mapping", span, title, tuple(settings), is_open, origin)
