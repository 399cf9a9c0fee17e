"""Carries out steps in Python code: arguments of calls, keys of dictionaries, variables of configuration modules."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...model import (
    AddImport,
    Edit,
    EditRefused,
    NameArgument,
    Operation,
    PythonOperation,
    RemoveArgument,
    RemoveStatement,
    ReplaceExpression,
    SetArgument,
)
from ...source.project import Project
from ...torch.dtypes import TORCH_DTYPES
from ..framework import FrameworkKey, by_machine
from ..reading.mapping_items import MappingItem
from ..reading.recognition import stands_at
from ..reading.scopes import FALSE, NULL, TRUE, CodeOrigin, SettingScope
from .machine_choice import MachineQuestion, question
from .steps import ChangeStep


def code_edits(
    project: Project, scope: SettingScope, origin: CodeOrigin, steps: Sequence[ChangeStep]
) -> tuple[Edit, ...]:
    """The edits that make all steps. Raises EditRefused."""
    if scope.kind == "call" and scope.is_open and any(step.setting is None for step in steps):
        raise EditRefused("arguments come from elsewhere, too: the same one twice is a TypeError")
    editor = _Editor(project, scope.kind == "call", origin)
    return tuple(Edit(scope.path, operation) for operation in editor.operations(steps))


class _Editor:
    def __init__(self, project: Project, is_call: bool, origin: CodeOrigin) -> None:
        self._project = project
        self._is_call = is_call
        self._module = origin.module
        self._document = origin.module.document
        self._items = origin.items
        self._node = origin.node

    def operations(self, steps: Sequence[ChangeStep]) -> list[Operation]:
        present = [(self._items[step.setting.index], step) for step in steps if step.setting is not None]
        gone = tuple(f"{item.path}." for item, step in present if step.verb == "drop")
        present = [(item, step) for item, step in present if not item.path.startswith(gone)]
        added = [step for step in steps if step.setting is None]
        found: list[Operation] = [operation for item, step in present for operation in self._changed(item, step)]
        found += [operation for step in added for operation in self._added(step)]
        asks = any(by_machine(step.value) for step in steps)
        return [*found, *(edit.operation for edit in self._question().edits)] if asks else found

    def _changed(self, item: MappingItem, step: ChangeStep) -> list[PythonOperation]:
        document, holder = self._document, item.holder
        if step.verb == "set":
            return self._set(item, step)
        if isinstance(holder, ast.Call | ast.Dict):
            span, renamed = document.span(holder), step.verb == "rename"
            return [NameArgument(span, item.key, step.value) if renamed else RemoveArgument(span, item.key)]
        if step.verb == "drop" and isinstance(holder, ast.Assign | ast.AnnAssign):
            return [RemoveStatement(document.span(holder))]
        raise EditRefused(f"{step.verb} of {item.path} cannot be written here")

    def _set(self, item: MappingItem, step: ChangeStep) -> list[PythonOperation]:
        if step.setting is not None and step.setting.kind == "name":
            return self._other_member(item.value, step.value)
        text = self._machine_choice(step) if by_machine(step.value) else self._respelled(item, step)
        imports = _imports(step.value) if step.setting is None or step.setting.kind != "dtype" else []
        return [ReplaceExpression(self._document.span(item.value), (text,)), *imports]

    def _other_member(self, value: ast.expr, name: str) -> list[PythonOperation]:
        """Another member of the module that an imported class is from."""
        package, _, last = (self._module.qualified(value) or "").rpartition(".")
        span = self._document.span(value)
        if isinstance(value, ast.Attribute):
            return [ReplaceExpression(span, (f"{ast.unparse(value.value)}.{name}",))]
        if not isinstance(value, ast.Name) or value.id != last or not package or not name.isidentifier():
            raise EditRefused(f"{ast.unparse(value)} is imported in an unusual way")
        return [AddImport(f"from {package} import {name}"), ReplaceExpression(span, (name,))]

    def _added(self, step: ChangeStep) -> list[PythonOperation]:
        text = self._machine_choice(step) if by_machine(step.value) else self._source(step.value)
        for place in self._places(step.key):
            parent, _, name = place.rpartition(".")
            holder = self._holder(parent) if name.isidentifier() else None
            if isinstance(holder, ast.Call | ast.Dict):
                return [SetArgument(self._document.span(holder), name, text), *_imports(step.value)]
        raise EditRefused(f"there is no section to add {step.key.name} to")

    def _places(self, key: FrameworkKey) -> tuple[str, ...]:
        """Where a key may be added; to a call as its first argument."""
        if not self._is_call:
            return key.places
        if not key.arguments:
            raise EditRefused(f"{key.name} is not a keyword argument")
        return key.arguments[:1]

    def _holder(self, pattern: str) -> ast.expr | None:
        if not pattern:
            return self._node
        found = [item.section for item in self._items if item.section and stands_at(item.path, pattern)]
        return found[0] if len(found) == 1 else None

    def _respelled(self, item: MappingItem, step: ChangeStep) -> str:
        """A step's value as source, in the style of the expression whose place it takes."""
        if item.section is not None:
            raise EditRefused(f"{item.path} is a section")
        kind = step.setting.kind if step.setting is not None else ""
        name = step.value.removeprefix("torch.")
        if kind == "dtype" and f"torch.{name}" in TORCH_DTYPES:
            if not isinstance(item.value, ast.Attribute):
                raise EditRefused(f"{ast.unparse(item.value)} is imported by its own name")
            return f"{ast.unparse(item.value.value)}.{name}"
        is_single = self._document.source(self._document.span(item.value))[-1:] == "'"
        return self._source(step.value, is_single if kind == "string" else None)

    def _source(self, value: str, is_single: bool | None = None) -> str:
        """A token as Python source; in the quotes that the file prefers where nothing else decides."""
        text, source = source_of(value), self._document.text
        if is_single is None:
            is_single = source.count("'") > source.count('"')
        return text.replace('"', "'") if is_single and text[:1] == '"' and "'" not in text else text

    def _question(self) -> MachineQuestion:
        assert self._node is not None
        return question(self._project, self._module, [self._node])

    def _machine_choice(self, step: ChangeStep) -> str:
        parts, asked = by_machine(step.value), self._question()
        if step.setting is not None and step.setting.kind == "dtype":
            parts = tuple(f"{asked.torch}.{part}" for part in parts)
        bf16, fp16, neither = (part if part.startswith(f"{asked.torch}.") else source_of(part) for part in parts)
        return asked.choice(bf16, fp16, neither)


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
