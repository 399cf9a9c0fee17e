"""What trainers are told by calls in Python code: ``TrainingArguments(bf16=True)``, ``Trainer(precision=16)``.

A call of the project's own subclass counts where that adds no ``__init__``; so do the entries of a dictionary that is
passed by ``**`` and written down once; more may be added to it under other names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from ...python.functions import all_bases, class_of
from ...python.keywords import lasting_entries
from ...python.names import ModuleNames, last_name, modules_at, modules_with, resolve
from ...source.project import Project
from ...torch.dtypes import TORCH_DTYPES
from ..framework import Framework
from .mapping_items import MappingItem, items_of
from .scopes import FALSE, NULL, TRUE, CodeOrigin, Setting, SettingKind, SettingScope

OWN_WAYS = frozenset({"__init__", "__new__", "__post_init__"})
"""Methods of a subclass after which an argument need not mean what it means to the trainer."""


def call_scopes(project: Project) -> Iterator[SettingScope]:
    """A scope for every call of a framework's constructors, by file and line."""
    calls = _calls(project)
    if not calls.words:
        return
    subclasses: dict[ast.AST, Framework] = {}
    for path in project.python_paths({first for first, _ in calls.words}):
        scopes, own = project.memo(_at, path)
        yield from scopes
        subclasses |= dict(own)
    yield from calls.calls_of(subclasses)


def _calls(project: Project) -> _Calls:
    return project.once(_Calls, lambda: _Calls(project))


def _at(project: Project, path: str) -> tuple[tuple[SettingScope, ...], tuple[tuple[ast.AST, Framework], ...]]:
    """The scopes in a file, and the classes there that are a trainer's; calls of these may stand elsewhere."""
    calls = _calls(project)
    module = next(modules_at(project, (path,)), None) if project.says(path, calls.may_call) else None
    return (tuple(calls.scopes(module)), tuple(calls.subclasses(module))) if module is not None else ((), ())


class _Calls:
    def __init__(self, project: Project) -> None:
        makers = [(framework, name) for framework in project.frameworks for name in framework.recognize.calls]
        self._project = project
        self._makers: dict[str, list[tuple[Framework, str]]] = {}
        for framework, name in makers:
            self._makers.setdefault(name.rpartition(".")[2], []).append((framework, name))
        self.words = tuple({_words(name) for _, name in makers})

    def scopes(self, module: ModuleNames) -> Iterator[SettingScope]:
        renamed = _renamed(module)
        for name, calls in module.calls_by_name.items():
            makers = self._makers_called(renamed.get(name, name))
            for call in calls if makers else ():
                framework = _owner(_called(self._project, module, call.func), makers)
                if framework is not None:
                    yield _scope(module, framework, call)
        yield from self._held(module)

    def _held(self, module: ModuleNames) -> Iterator[SettingScope]:
        """Calls of a variable that holds a constructor, or one of several that belong to one framework."""
        assigned = (item for item in module.of_type(ast.Assign) if isinstance(item.value, ast.Name | ast.Attribute))
        holders = {target.id for item in assigned if self._held_by(module, item.value) for target in _names(item)}
        for name in sorted(holders):
            for call in module.calls_by_name.get(name, ()):
                owners = {self._held_by(module, item.value) for item in module.scope_of(call).lookup(name)}
                framework = owners.pop() if len(owners) == 1 and isinstance(call.func, ast.Name) else None
                if framework is not None:
                    yield _scope(module, framework, call)

    def _held_by(self, module: ModuleNames, node: ast.expr | None) -> Framework | None:
        name = last_name(node) if node is not None else ""
        makers = self._makers_called(name) if name else []
        return _owner(resolve(self._project, module, node), makers) if makers and node is not None else None

    def may_call(self, text: str) -> bool:
        ends = ("(", ")", ",", " as ")
        return any(first in text and any(f"{name}{end}" in text for end in ends) for first, name in self.words)

    def _makers_called(self, name: str) -> list[tuple[Framework, str]]:
        """The constructors that a call of this name may be one of; the last part of some is a pattern."""
        if name in self._makers:
            return self._makers[name]
        return [
            item for last, found in self._makers.items() if "*" in last and fnmatchcase(name, last) for item in found
        ]

    # --- the project's own subclasses ---------------------------------------------------------------------------------

    def subclasses(self, module: ModuleNames) -> Iterator[tuple[ast.AST, Framework]]:
        for node, scope in module.scopes.items():
            if isinstance(node, ast.ClassDef) and OWN_WAYS.isdisjoint(scope.bindings):
                framework = self._owner_of_bases(module, node)
                if framework is not None:
                    yield node, framework

    def _owner_of_bases(self, module: ModuleNames, node: ast.ClassDef) -> Framework | None:
        named = (resolve(self._project, *base) or "" for base in all_bases(self._project, module, module.scopes[node]))
        owners = (_owner(name, self._makers_called(name.rpartition(".")[2])) for name in named)
        return next((owner for owner in owners if owner is not None), None)

    def calls_of(self, subclasses: Mapping[ast.AST, Framework]) -> Iterator[SettingScope]:
        names = {node.name for node in subclasses if isinstance(node, ast.ClassDef)}
        if not names:
            return
        for module in modules_with(self._project, names, [f"{name}(" for name in names]):
            for call in (call for name in names for call in module.calls_by_name.get(name, ())):
                found = class_of(self._project, module, call.func)
                if found is not None and found[1].node in subclasses:
                    framework = subclasses[found[1].node]
                    own = any(argument in found[1].bindings for key in framework.keys for argument in key.arguments)
                    yield _scope(module, framework, call, is_open=own)


def _renamed(module: ModuleNames) -> dict[str, str]:
    """What imports call otherwise: ``from lightning import Trainer as Engine``."""
    imported = (alias for node in module.of_type(ast.ImportFrom) for alias in node.names)
    return {alias.asname: alias.name for alias in imported if alias.asname}


def _names(statement: ast.Assign) -> Iterator[ast.Name]:
    return (target for target in statement.targets if isinstance(target, ast.Name))


def _words(qualified: str) -> tuple[str, str]:
    """What a text with such a call holds; for a method (``pkg.Model.train``) its class is what is rare."""
    owner, _, name = qualified.rpartition(".")
    class_name = owner.rpartition(".")[2]
    if "*" in name:
        return owner.partition(".")[0], name.strip("*")
    return (class_name if class_name[:1].isupper() else name), name


def _called(project: Project, module: ModuleNames, function: ast.expr) -> str | None:
    """The qualified name of what is called; of a method, where its object is made of a known class."""
    qualified = resolve(project, module, function) if not module.is_ambiguous(function) else None
    if qualified is not None or not isinstance(function, ast.Attribute):
        return qualified
    node = function.value
    made = [item.value for item in module.bindings_of(node)] if isinstance(node, ast.Name) else [node]
    owners = {resolve(project, module, item.func) if isinstance(item, ast.Call) else None for item in made}
    owner = owners.pop() if len(owners) == 1 else None  # also where each branch makes one: ``YOLO("last.pt")``
    return f"{owner}.{function.attr}" if owner is not None else None


def _owner(qualified: str | None, makers: Sequence[tuple[Framework, str]]) -> Framework | None:
    return next((framework for framework, name in makers if qualified and fnmatchcase(qualified, name)), None)


def _scope(module: ModuleNames, framework: Framework, call: ast.Call, is_open: bool = False) -> SettingScope:
    document = module.document
    own = {name for key in framework.keys for name in key.arguments}
    passed = [lasting_entries(module, keyword.value) for keyword in call.keywords if keyword.arg is None]
    known = [each for each in passed if each is not None]
    items = (*items_of(call), *(_passed(module, *entry) for entries, _ in known for entry in entries.items()))
    is_open = is_open or any(not own.isdisjoint(stored) for _, stored in known)
    settings = []
    for index, item in enumerate(items):
        key = next((key for key in framework.keys if item.path in key.arguments), None)
        if key is not None:
            value, kind = token_of_node(module, item.value) if item.section is None else (None, "section")
            place = module.place(item.value, f"{item.path} is {ast.unparse(item.value)[:60]}")
            settings.append(Setting(key, value, kind, place, item.path, index))
    is_open = is_open or None in passed or any(isinstance(argument, ast.Starred) for argument in call.args)
    title = f"{ast.unparse(call.func)}(...)"
    origin = CodeOrigin(module, items, call)
    return SettingScope(framework, document.path, "call", document.span(call), title, tuple(settings), is_open, origin)


def _passed(module: ModuleNames, name: str, value: ast.expr) -> MappingItem:
    """An entry of a dictionary that is passed by ``**``."""
    holder = module.parents[value]
    holder = module.parents[holder] if isinstance(holder, ast.keyword) else holder
    assert isinstance(holder, ast.Dict | ast.Call)
    return MappingItem(name, value, holder, name)


def token_of_node(module: ModuleNames, node: ast.expr) -> tuple[str | None, SettingKind]:
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
