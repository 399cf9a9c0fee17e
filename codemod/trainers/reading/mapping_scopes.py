"""What trainers are told by dictionaries in Python code, and by the variables of Python configuration files."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from ...model import (
    AddImport,
    Edit,
    EditRefused,
    Place,
    PythonOperation,
    RemoveArgument,
    RemoveStatement,
    ReplaceExpression,
    ReplaceText,
    SetArgument,
    Span,
)
from ...python.names import ModuleNames, attribute_chain, names_of
from ...source.documents import Document
from ...source.project import Project
from ..framework import Framework
from ..writing.exchanges import exchanged
from ..writing.literal_editing import LiteralDraft
from .call_scopes import respelled, source_of, token_of_node
from .mapping_items import Item, builds_on_others, is_mapping, items_of, module_items
from .recognition import owner_of, stands_at, words_of_mark
from .scopes import Scope, Setting, Step

WORDS = ("bf16", "fp16", "bfloat16", "float16", "amp", "loss_scale", "precision")


def mapping_scopes(project: Project) -> Iterator[Scope]:
    """A scope for every dictionary and every configuration module that a framework owns."""
    dictionaries = [item for item in project.frameworks if "dict" in item.recognise.mappings]
    modules = [item for item in project.frameworks if "module" in item.recognise.mappings]
    if not dictionaries and not modules:
        return
    literal = [mark for framework in dictionaries for mark in framework.recognise.strong]
    variable = [mark for framework in modules for mark in framework.recognise.strong if not mark.startswith("-")]
    words = (*WORDS, *sorted({words[0] for mark in (*literal, *variable) if (words := words_of_mark(mark))}))
    for document in project.python_documents(words, where=_filter(literal, variable)):
        module = names_of(project, document)
        owned = _module_scope(modules, module) if modules else None
        if owned is not None:
            yield owned
        elif dictionaries:
            yield from _dictionary_scopes(dictionaries, module)


def _filter(literal: Sequence[str], variable: Sequence[str]) -> Callable[[str], bool]:
    """Whether a text may hold a mapping or be a configuration module: parsing is what costs.

    Keys of dictionaries stand in quotes or before ``=``, variables of a module at the start of a line.
    """
    keys = [words for mark in literal if (words := words_of_mark(mark))]
    starts = [[part.partition(": ")[0].partition(".")[0] for part in mark.split(" + ")] for mark in variable]
    names = [listed for listed in starts if all(name.isidentifier() for name in listed)]

    def may_hold(text: str) -> bool:
        if any(all(f"\n{name}" in text or text.startswith(name) for name in listed) for listed in names):
            return True
        halves = any(_is_key(word, text) for word in ("bf16", "bfloat16", "fp16", "amp"))
        return halves and any(all(_is_key(word, text) for word in words) for words in keys)

    return may_hold


def _is_key(word: str, text: str) -> bool:
    return f'"{word}"' in text or f"'{word}'" in text or any(f"{before}{word}=" in text for before in "( \n,")


def _dictionary_scopes(frameworks: Sequence[Framework], module: ModuleNames) -> Iterator[Scope]:
    owned: set[ast.AST] = set()
    for node in module.nodes:
        if not isinstance(node, ast.Dict | ast.Call) or not is_mapping(node):
            continue
        if _is_inner(module, node) and any(parent in owned for parent in module.ancestors(node)):
            continue
        items = list(items_of(node))
        framework = owner_of(frameworks, "", _marks(module, items))
        if framework is not None:
            owned.add(node)
            is_open = isinstance(node, ast.Dict) and None in node.keys
            yield _scope(module, framework, items, module.document.span(node), is_open, node)


def _is_inner(module: ModuleNames, node: ast.expr) -> bool:
    parent = module.parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = module.parents.get(parent)
    return isinstance(parent, ast.expr) and is_mapping(parent)


def _module_scope(frameworks: Sequence[Framework], module: ModuleNames) -> Scope | None:
    """The module's variables as a mapping: ``fp16 = dict(loss_scale=512.)``, ``train.amp.enabled = True``."""
    items = list(module_items(module))
    framework = owner_of(frameworks, module.document.path, _marks(module, items)) if items else None
    if framework is None:
        return None
    return _scope(module, framework, items, Span(1, 1, 1, 1), builds_on_others(module), None)


def _marks(module: ModuleNames, items: Sequence[Item]) -> dict[str, str | None]:
    return {item.path: _token(module, item.value)[0] for item in items}


def _token(module: ModuleNames, node: ast.expr) -> tuple[str | None, str]:
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
    items: Sequence[Item],
    span: Span,
    is_open: bool,
    node: ast.expr | None,
) -> Scope:
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
    editor = MappingEditor(document, module, tuple(items), node)
    return Scope(framework, document.path, "mapping", span, title, tuple(settings), is_open, editor)


class MappingEditor:
    """Edits dictionaries and module variables."""

    def __init__(self, document: Document, module: ModuleNames, items: tuple[Item, ...], node: ast.expr | None) -> None:
        self._document = document
        self._module = module
        self._items = items
        self._node = node

    def edits(self, scope: Scope, steps: Sequence[Step]) -> tuple[Edit, ...]:
        """The edits that make all steps. Raises EditRefused."""
        steps = exchanged(scope, steps)
        if any(self._is_in_literal(step) for step in steps):
            return tuple(Edit(scope.path, edit) for edit in self._literal_edits(steps))
        gone = [self._items[step.setting.index].path for step in steps if step.setting and step.verb == "drop"]
        done: list[PythonOperation] = []
        for step in steps:
            if step.setting is None:
                done.append(self._added(step))
                continue
            item = self._items[step.setting.index]
            if not any(item.path.startswith(f"{path}.") for path in gone):
                done += self._changed(item, step)
        return tuple(Edit(scope.path, operation) for operation in done)

    def _is_in_literal(self, step: Step) -> bool:
        """Whether a step changes which keys a ``{...}`` has, or what a key is called."""
        if step.setting is not None:
            holder = self._items[step.setting.index].holder
            return step.verb == "rename" or (step.verb == "drop" and isinstance(holder, ast.Dict))
        holders = (self._holder(place.rpartition(".")[0]) for place in step.key.places)
        return isinstance(next((holder for holder in holders if holder is not None), None), ast.Dict)

    def _literal_edits(self, steps: Sequence[Step]) -> list[ReplaceText]:
        """The same as edits of text: each outermost literal is changed step by step, from its end."""
        drafts: dict[ast.expr, LiteralDraft] = {}
        present = [step for step in steps if step.setting is not None]
        gone = [self._items[step.setting.index].path for step in present if step.setting and step.verb == "drop"]
        for step in sorted(present, key=lambda step: step.setting.index if step.setting else 0, reverse=True):
            item = self._items[step.setting.index if step.setting else 0]
            if any(item.path.startswith(f"{path}.") for path in gone):
                continue
            draft, inner = self._draft(drafts, item)
            if step.verb == "set":
                text = respelled(self._module, item.value, step).parts[0]
                if item.section is not None or not isinstance(text, str):
                    raise EditRefused(f"{item.path} is a section")
                draft.set(inner, text)
            elif step.verb == "drop":
                draft.drop(inner)
            else:
                draft.rename(inner, step.value)
        for step in (step for step in steps if step.setting is None):
            self._add_to_literal(drafts, step)
        return [edit for draft in drafts.values() for edit in draft.edits()]

    def _add_to_literal(self, drafts: dict[ast.expr, LiteralDraft], step: Step) -> None:
        if "torch." in step.value:
            raise EditRefused(f"{step.value} would need an import")
        if self._node is None:
            raise EditRefused("a key is only added to a literal that stands by itself")
        draft = drafts.setdefault(self._node, LiteralDraft(self._document, self._node))
        if not any(draft.add(place, self._quoted(source_of(step.value))) for place in step.key.places):
            raise EditRefused(f"there is no section to add {step.key.name} to")

    def _draft(self, drafts: dict[ast.expr, LiteralDraft], item: Item) -> tuple[LiteralDraft, str]:
        """The draft of the outermost literal that holds an item, and the item's path in it."""
        root: ast.AST | None = item.holder
        while isinstance(root, ast.expr) and _is_inner(self._module, root):
            parent = self._module.parents.get(root)
            root = self._module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(root, ast.expr):
            raise EditRefused(f"{item.path} is not in a dictionary")
        inner = next(each.path for each in items_of(root) if each.value is item.value)
        if root not in drafts:
            drafts[root] = LiteralDraft(self._document, root)
        return drafts[root], inner

    def _changed(self, item: Item, step: Step) -> list[PythonOperation]:
        if step.verb == "set" and step.setting is not None and item.section is None:
            if step.setting.kind == "name":
                return self._renamed(item.value, step.value)
            if step.setting.kind != "string" and step.value.isidentifier():
                text = self._quoted(source_of(step.value))
                return [ReplaceExpression(self._document.span(item.value), (text,))]
            return [respelled(self._module, item.value, step)]
        if step.verb == "drop" and isinstance(item.holder, ast.Call):
            return [RemoveArgument(self._document.span(item.holder), item.key)]
        if step.verb == "drop" and isinstance(item.holder, ast.Assign | ast.AnnAssign):
            return [RemoveStatement(self._document.span(item.holder))]
        raise EditRefused(f"{step.verb} of {item.path} in a dictionary is not written")

    def _renamed(self, value: ast.expr, name: str) -> list[PythonOperation]:
        """Another member of the module that an imported class is from."""
        qualified = self._module.qualified(value) or ""
        package, _, last = qualified.rpartition(".")
        span = self._document.span(value)
        if isinstance(value, ast.Attribute):
            return [ReplaceExpression(span, (f"{ast.unparse(value.value)}.{name}",))]
        if not isinstance(value, ast.Name) or value.id != last or not package or not name.isidentifier():
            raise EditRefused(f"{ast.unparse(value)} is imported in an unusual way")
        return [AddImport(f"from {package} import {name}"), ReplaceExpression(span, (name,))]

    def _added(self, step: Step) -> PythonOperation:
        for place in step.key.places:
            parent, _, name = place.rpartition(".")
            holder = self._holder(parent) if name.isidentifier() else None
            if isinstance(holder, ast.Call):
                return SetArgument(self._document.span(holder), name, self._quoted(source_of(step.value)))
        raise EditRefused(f"there is no dict(...) to add {step.key.name} to")

    def _quoted(self, text: str) -> str:
        """A text in the quotes that the file prefers."""
        source = self._document.text
        is_single = source.count("'") > source.count('"') and "'" not in text
        return text.replace('"', "'") if is_single else text

    def _holder(self, pattern: str) -> ast.expr | None:
        if not pattern:
            return self._node
        found = [item.section for item in self._items if item.section and stands_at(item.path, pattern)]
        return found[0] if len(found) == 1 else None
