"""What trainers are told by calls in Python code: ``TrainingArguments(bf16=True)``, ``Trainer(precision=16)``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from ...model import (
    AddImport,
    Edit,
    EditRefused,
    Place,
    PythonOperation,
    RemoveArgument,
    ReplaceExpression,
    ReplaceText,
    SetArgument,
)
from ...python.bindings import reaching
from ...python.names import ModuleNames, names_of, resolve
from ...source.project import Project
from ...torch.dtypes import TORCH_DTYPES
from ..framework import Framework, Key, by_machine
from ..writing.exchanges import exchanged
from ..writing.literal_editing import LiteralDraft
from ..writing.machine_choice import Question, question
from .mapping_items import Item, items_of
from .scopes import FALSE, NULL, TRUE, Scope, Setting, Step


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
            yield _scope(project, module, framework, call)
            return


def _scope(project: Project, module: ModuleNames, framework: Framework, call: ast.Call) -> Scope:
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
    span = document.span(call)
    editor = CallEditor(project, module, call, items)
    return Scope(framework, document.path, "call", span, title, tuple(settings), is_open, editor)


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


class CallEditor:
    """Edits the keyword arguments of one call."""

    def __init__(self, project: Project, module: ModuleNames, call: ast.Call, items: tuple[Item, ...]) -> None:
        self._project = project
        self._module = module
        self._call = call
        self._items = items

    def expression(self, setting: Setting) -> tuple[ModuleNames, ast.expr]:
        """The expression that gives a setting its value."""
        return self._module, self._items[setting.index].value

    @property
    def constant(self) -> str:
        """The name that a module gives to what this call makes, for others to use; empty elsewhere."""
        statement = self._module.statement_of(self._call)
        if not isinstance(statement, ast.Assign) or statement.value is not self._call:
            return ""
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or self._module.scope_of(self._call) is not self._module.module_scope:
            return ""
        return "" if target.id in self._module.name_loads else target.id

    def edits(self, scope: Scope, steps: Sequence[Step]) -> tuple[Edit, ...]:
        """The edits that make all steps. Raises EditRefused."""
        steps = exchanged(scope, steps)
        if scope.is_open and any(step.setting is None for step in steps):
            raise EditRefused("arguments come from elsewhere, too: the same one twice is a TypeError")
        if any(step.verb == "rename" for step in steps) and not any("torch." in step.value for step in steps):
            return tuple(Edit(scope.path, edit) for edit in self._edited_text(steps))
        span = self._module.document.span(self._call)
        operations: list[PythonOperation] = []
        for step in steps:
            if step.setting is None:
                name = _argument(step.key)
                operations.append(SetArgument(span, name, self._source(step)))
                operations += _imports(step.value)
                continue
            item = self._items[step.setting.index]
            if step.verb == "set" and by_machine(step.value):
                operations.append(ReplaceExpression(self._module.document.span(item.value), (self._source(step),)))
            elif step.verb == "set":
                operations.append(respelled(self._module, item.value, step))
                operations += _imports(step.value) if step.setting.kind != "dtype" else []
            elif not isinstance(item.holder, ast.Call):
                raise EditRefused(f"{step.verb} of {item.path} in a dictionary is not written")
            else:
                holder = self._module.document.span(item.holder)
                operations.append(RemoveArgument(holder, item.key))
                if step.verb == "rename":
                    text = self._module.document.source(self._module.document.span(item.value))
                    operations.append(SetArgument(holder, step.value, text))
        asked = self._question().edits if any(by_machine(step.value) for step in steps) else ()
        return (*(Edit(scope.path, operation) for operation in operations), *asked)

    def _question(self) -> Question:
        return question(self._project, self._module, [self._call])

    def _source(self, step: Step) -> str:
        parts = by_machine(step.value)
        if not parts:
            return source_of(step.value)
        asked = self._question()
        if step.setting is not None and step.setting.kind == "dtype":
            parts = tuple(f"{asked.torch}.{part}" for part in parts)
        bf16, fp16, neither = (part if part.startswith(f"{asked.torch}.") else source_of(part) for part in parts)
        return asked.choice(bf16, fp16, neither)

    def _edited_text(self, steps: Sequence[Step]) -> list[ReplaceText]:
        """The steps as edits of text: a new name where the old one stands keeps its comment."""
        draft = LiteralDraft(self._module.document, self._call)
        for step in steps:
            item = self._items[step.setting.index] if step.setting is not None else None
            if item is None:
                draft.add(_argument(step.key), source_of(step.value))
            elif step.verb == "rename":
                draft.rename(item.path, step.value)
            elif step.verb == "drop":
                draft.drop(item.path)
            else:
                draft.set(item.path, str(respelled(self._module, item.value, step).parts[0]))
        return draft.edits()


def respelled(module: ModuleNames, value: ast.expr, step: Step) -> ReplaceExpression:
    """The edit that puts a step's value in the place of an expression, in that expression's style."""
    text = source_of(step.value)
    kind = step.setting.kind if step.setting is not None and step.value not in (TRUE, FALSE, NULL) else ""
    if kind == "dtype" and isinstance(value, ast.Attribute):
        text = f"{ast.unparse(value.value)}.{step.value.removeprefix('torch.')}"
    elif kind == "dtype":
        raise EditRefused(f"{ast.unparse(value)} is imported by its own name")
    elif kind == "string" and text[:1] == '"':
        source = module.document.source(module.document.span(value))
        if source[-1:] == "'" and "'" not in text:
            text = text.replace('"', "'")
    return ReplaceExpression(module.document.span(value), (text,))


def _argument(key: Key) -> str:
    if not key.arguments or "." in key.arguments[0]:
        raise EditRefused(f"{key.name} is no keyword argument")
    return key.arguments[0]


def source_of(value: str) -> str:
    """A token as Python source; ``torch.float16`` and ``dict(...)`` are code already."""
    known = {TRUE: "True", FALSE: "False", NULL: "None"}
    if value in known:
        return known[value]
    if value.startswith(("torch.", "dict(")) or value.isdigit():
        return value
    return f'"{value}"' if "'" in value else repr(value).replace("'", '"')


def _imports(value: str) -> list[PythonOperation]:
    return [AddImport("import torch")] if value.startswith("torch.") or "=torch." in value else []
