"""Carries out steps in Python code: arguments of calls, keys of dictionaries, variables of configuration modules.

Structural operations wherever they can say it. What changes which keys a ``{...}`` has, or what a key is called, is
worked out on the text of the outermost literal, from its end, so that comments stay where they are.
"""

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
    ReplaceText,
    SetArgument,
)
from ...source.project import Project
from ...torch.dtypes import TORCH_DTYPES
from ..framework import Key, by_machine
from ..reading.mapping_items import Item, is_mapping, items_of
from ..reading.recognition import stands_at
from ..reading.scopes import FALSE, NULL, TRUE, CodeOrigin, Scope
from .literal_editing import LiteralDraft
from .machine_choice import Question, question
from .steps import Step


def code_edits(project: Project, scope: Scope, origin: CodeOrigin, steps: Sequence[Step]) -> tuple[Edit, ...]:
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
        self._drafts: dict[ast.expr, LiteralDraft] = {}

    def operations(self, steps: Sequence[Step]) -> list[Operation]:
        present = [(self._items[step.setting.index], step) for step in steps if step.setting is not None]
        gone = tuple(f"{item.path}." for item, step in present if step.verb == "drop")
        present = [(item, step) for item, step in present if not item.path.startswith(gone)]
        added = [step for step in steps if step.setting is None]
        if self._rewrites_literals(present, added):
            return [*self._drafted(present, added)]
        found: list[Operation] = [operation for item, step in present for operation in self._changed(item, step)]
        found += [operation for step in added for operation in self._added(step)]
        asks = any(by_machine(step.value) for step in steps)
        return [*found, *(edit.operation for edit in self._question().edits)] if asks else found

    # --- structural operations ----------------------------------------------------------------------------------------

    def _changed(self, item: Item, step: Step) -> list[PythonOperation]:
        document, holder = self._document, item.holder
        if step.verb == "set":
            return self._set(item, step)
        if isinstance(holder, ast.Call):
            span, renamed = document.span(holder), step.verb == "rename"
            return [NameArgument(span, item.key, step.value) if renamed else RemoveArgument(span, item.key)]
        if step.verb == "drop" and isinstance(holder, ast.Assign | ast.AnnAssign):
            return [RemoveStatement(document.span(holder))]
        raise EditRefused(f"{step.verb} of {item.path} cannot be written here")

    def _set(self, item: Item, step: Step) -> list[PythonOperation]:
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

    def _added(self, step: Step) -> list[PythonOperation]:
        text = self._machine_choice(step) if by_machine(step.value) else self._source(step.value)
        for place in self._places(step.key):
            parent, _, name = place.rpartition(".")
            holder = self._holder(parent) if name.isidentifier() else None
            if isinstance(holder, ast.Call):
                return [SetArgument(self._document.span(holder), name, text), *_imports(step.value)]
        raise EditRefused(f"there is no call or dict(...) to add {step.key.name} to")

    # --- edits of literals --------------------------------------------------------------------------------------------

    def _rewrites_literals(self, present: Sequence[tuple[Item, Step]], added: Sequence[Step]) -> bool:
        """Whether a step changes which keys a ``{...}`` has, or what a key is called."""
        if any(step.verb == "drop" and isinstance(item.holder, ast.Dict) for item, step in present):
            return True
        holders = (self._holder(place.rpartition(".")[0]) for step in added for place in self._places(step.key))
        if any(isinstance(holder, ast.Dict) for holder in holders):
            return True
        needs_import = any("torch." in step.value for step in (*added, *(step for _, step in present)))
        return any(step.verb == "rename" for _, step in present) and not (self._is_call and needs_import)

    def _drafted(self, present: Sequence[tuple[Item, Step]], added: Sequence[Step]) -> list[ReplaceText]:
        for item, step in sorted(present, key=lambda pair: self._items.index(pair[0]), reverse=True):
            draft, inner = self._draft(item)
            if step.verb == "set":
                draft.set(inner, self._respelled(item, step))
            elif step.verb == "drop":
                draft.drop(inner)
            else:
                draft.rename(inner, step.value)
        for step in added:
            self._add_to_literal(step)
        return [edit for draft in self._drafts.values() for edit in draft.edits()]

    def _add_to_literal(self, step: Step) -> None:
        if "torch." in step.value:
            raise EditRefused(f"{step.value} would need an import")
        if self._node is None:
            raise EditRefused("a key is only added to a literal that stands by itself")
        draft = self._drafts.setdefault(self._node, LiteralDraft(self._document, self._node))
        if not any(draft.add(place, self._source(step.value)) for place in self._places(step.key)):
            raise EditRefused(f"there is no section to add {step.key.name} to")

    def _draft(self, item: Item) -> tuple[LiteralDraft, str]:
        """The draft of the outermost literal that holds an item, and the item's path in it."""
        root = item.holder
        while isinstance(root, ast.expr) and is_mapping(root) and (outer := self._around(root)) is not None:
            root = outer
        if not isinstance(root, ast.expr):
            raise EditRefused(f"{item.path} is not in a dictionary")
        inner = next(each.path for each in items_of(root) if each.value is item.value)
        if root not in self._drafts:
            self._drafts[root] = LiteralDraft(self._document, root)
        return self._drafts[root], inner

    def _around(self, node: ast.expr) -> ast.Dict | ast.Call | None:
        """The dictionary, or the call of this scope, that ``node`` is a value of."""
        parent = self._module.parents.get(node)
        outer = self._module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        is_outer = outer is self._node or (isinstance(outer, ast.expr) and is_mapping(outer))
        return outer if is_outer and isinstance(outer, ast.Dict | ast.Call) else None

    # --- places and values --------------------------------------------------------------------------------------------

    def _places(self, key: Key) -> tuple[str, ...]:
        """Where a key may be added; of a call as one of its own arguments only."""
        if not self._is_call:
            return key.places
        if not key.arguments or "." in key.arguments[0]:
            raise EditRefused(f"{key.name} is not a keyword argument")
        return key.arguments[:1]

    def _holder(self, pattern: str) -> ast.expr | None:
        if not pattern:
            return self._node
        found = [item.section for item in self._items if item.section and stands_at(item.path, pattern)]
        return found[0] if len(found) == 1 else None

    def _respelled(self, item: Item, step: Step) -> str:
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

    def _question(self) -> Question:
        assert self._node is not None
        return question(self._project, self._module, [self._node])

    def _machine_choice(self, step: Step) -> str:
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
