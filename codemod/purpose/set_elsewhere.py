"""What other code gives an attribute of a class, or a name of a module: ``trainer.amp = True``, ``setattr(...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from ..python.creations import known_creations
from ..python.functions import class_of, class_of_object, lineage
from ..python.glimpses import may_set
from ..python.names import ModuleNames, Scope, attribute_chain, names_of
from ..python.settings_objects import is_called_as_settings
from ..source.project import Project
from .files import is_test
from .switches import is_set

Given: TypeAlias = "tuple[ModuleNames, ast.expr | None]"
"""An expression that gives a value; None for one that is not written down."""
Store: TypeAlias = "tuple[ModuleNames, ast.expr, ast.expr | None, ast.expr | None]"
"""A store under a name that is computed: the object, the name (None for any), and the value."""
RESTORING = ("load_state_dict", "__setstate__", "load_state")
"""Methods that only give back what the object itself had."""


def given_elsewhere(project: Project, module: ModuleNames, owner: Scope, name: str) -> tuple[Given, ...]:
    """What others than a class (code that has its objects, classes below it) or a module give one of its names."""
    return project.memo(_given_elsewhere, (module, owner, name))


def _given_elsewhere(project: Project, asked: tuple[ModuleNames, Scope, str]) -> tuple[Given, ...]:
    module, owner, name = asked
    stores = [
        (other, value)
        for other, holder, value in project.memo(_named_stores, name)
        if _is_of(project, other, holder, (module, owner), is_below=True)
    ]
    computed = [
        (other, value)
        for other, holder, key, value in project.fact(_computed_stores)
        if may_be_text(other, key, name) and _is_of(project, other, holder, (module, owner), is_below=False)
    ]
    return (*stores, *computed, *(_overridden(project, module, name) if owner is module.module_scope else ()))


def _named_stores(project: Project, name: str) -> tuple[tuple[ModuleNames, ast.expr | ast.stmt, ast.expr | None], ...]:
    """All stores of an attribute outside of tests, with the object; with the statement for ``self`` and classes."""
    found: list[tuple[ModuleNames, ast.expr | ast.stmt, ast.expr | None]] = []
    for document in project.python_documents((name,), where=lambda text: may_set(text, name)):
        module = names_of(project, document) if not is_test(document.path) else None
        for chain, value, statement in module.attribute_stores.get(name, ()) if module is not None else ():
            holder = None if chain in (None, ["self"]) else _holder_of(statement, name)
            found.append((module, holder or statement, value))  # type: ignore[arg-type]
    return tuple(found)


def _holder_of(statement: ast.stmt, name: str) -> ast.expr | None:
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Attribute) and node.attr == name)
    return next((node.value for node in stored if isinstance(node.ctx, ast.Store)), None)


def _is_of(
    project: Project,
    module: ModuleNames,
    holder: ast.expr | ast.stmt,
    owner: tuple[ModuleNames, Scope],
    *,
    is_below: bool,
) -> bool:
    """Whether an object is of a class, or of one below it; the class's own stores (``is_below``) do not count."""
    if owner[1] is owner[0].module_scope:
        return isinstance(holder, ast.expr) and _is_module(project, module, holder, owner[0])
    if isinstance(holder, ast.stmt) or attribute_chain(holder) in (["self"], ["cls"]):
        own = module.scope_of(holder).enclosing_class
        return own is not None and (own is not owner[1] or not is_below) and _is_above(project, owner, (module, own))
    known = list(_classes_of(project, module, holder))
    if not known:
        return is_below and not is_called_as_settings(holder)
    return any(_is_above(project, owner, each) or _is_above(project, each, owner) for each in known)


def _is_module(project: Project, module: ModuleNames, holder: ast.expr, asked: ModuleNames) -> bool:
    """Whether an expression is a module, or the names of the one that it stands in."""
    if isinstance(holder, ast.Call) or "__name__" in ast.unparse(holder):
        return module is asked
    qualified = module.qualified(holder)
    return qualified is not None and project.python_path(qualified, module.path) == asked.path


def _is_above(project: Project, base: tuple[ModuleNames, Scope], below: tuple[ModuleNames, Scope]) -> bool:
    return any(scope is base[1] for _, scope in lineage(project, *below))


def _classes_of(project: Project, module: ModuleNames, node: ast.expr) -> Iterator[tuple[ModuleNames, Scope]]:
    """The project's classes that an object can be of, or that an expression names."""
    chain = attribute_chain(node)
    found = class_of(project, module, node) or (class_of_object(project, module, node, chain) if chain else None)
    made = () if found is not None else known_creations(project, module, node)
    classes = (found, *(class_of(project, item.module, item.call.func) for item in made))
    return (item for item in classes if item is not None)


# --- names that are computed ------------------------------------------------------------------------------------------


def _computed_stores(project: Project) -> tuple[Store, ...]:
    """``setattr(x, name, value)``, ``vars(x).update(values)``, ``x.__dict__ = values``, ``globals()[name] = value``."""
    documents = project.python_documents(("setattr", "__dict__", "vars(", "globals("))
    modules = (names_of(project, document) for document in documents if not is_test(document.path))
    return tuple(
        (module, *store)
        for module in modules
        for store in (*_set_by_name(module), *_updated(module), *_replaced(module))
        if getattr(module.scope_of(store[0]).function.node, "name", "") not in RESTORING
    )


def _set_by_name(module: ModuleNames) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    for name in ("setattr", "__setattr__"):
        for call in module.calls_by_name.get(name, ()):
            if len(call.args) == 3:
                yield call.args[0], call.args[1], call.args[2]


def _updated(module: ModuleNames) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    for call in module.calls_by_name.get("update", ()):
        holder = _dictionary_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if holder is not None:
            yield from ((holder, key, value) for item in call.args for key, value in _entries(item))
            named = [item for item in call.keywords if item.arg is not None]
            yield from ((holder, _constant(item), item.value) for item in named)
            yield from ((holder, None, None) for _ in call.keywords[len(named) :])


def _replaced(module: ModuleNames) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """``self.__dict__ = values``, ``self.__dict__[name] = value``."""
    for node in module.of_type(ast.Subscript):
        holder = _dictionary_of(node.value) if isinstance(node.ctx, ast.Store) else None
        if holder is not None:
            yield holder, node.slice, None
    for _, value, statement in module.attribute_stores.get("__dict__", ()):
        holder = _holder_of(statement, "__dict__")
        for key, given in _entries(value) if holder is not None else ():
            yield holder, key, given  # type: ignore[misc]


def _overridden(project: Project, module: ModuleNames, name: str) -> tuple[Given, ...]:
    """What ``exec(open("more.py").read())`` gives a variable: a launch line, or a file of nothing but variables."""
    if not any(isinstance(call.func, ast.Name) for call in module.calls_by_name.get("exec", ())):
        return ()
    others = (names_of(project, document) for document in project.python_documents((name,)))
    files = [(item, item.module_scope.bindings.get(name, ())) for item in others if _holds_variables(item)]
    given = [(item, binding.value) for item, bindings in files for binding in bindings]
    return (*given, *([(module, None)] if project.memo(is_set, name) else []))


def _holds_variables(module: ModuleNames) -> bool:
    plain = (ast.Assign, ast.AnnAssign)
    return all(isinstance(item, plain) or _is_text(item) for item in module.tree.body)


def _is_text(item: ast.stmt) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)


def _dictionary_of(node: ast.expr) -> ast.expr | None:
    """The object of ``x.__dict__`` or ``vars(x)``; ``globals()`` stands for its module."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("vars", "globals"):
        return node.args[0] if node.args else node
    return node.value if isinstance(node, ast.Attribute) and node.attr == "__dict__" else None


def _entries(node: ast.expr | None) -> Iterator[tuple[ast.expr | None, ast.expr | None]]:
    if isinstance(node, ast.Dict):
        yield from (
            (key, value if key is not None else None) for key, value in zip(node.keys, node.values, strict=True)
        )
    else:
        yield None, None


def _constant(item: ast.keyword) -> ast.Constant:
    return ast.Constant(item.arg)


def may_be_text(module: ModuleNames, node: ast.expr | None, text: str) -> bool:
    """Whether an expression can be a text: ``f"layer{i}"`` is only one that begins so."""
    if isinstance(node, ast.Constant):
        return node.value == text
    if isinstance(node, ast.Name):
        listed = [_looped(item.node, item.name) for item in module.scope_of(node).lookup(node.id)]
        return not listed or any(
            item is None or any(may_be_text(module, each, text) for each in item) for item in listed
        )
    return text.startswith(_beginning(node))


def _looped(node: ast.AST, name: str) -> list[ast.expr] | None:
    """The texts of ``for name in ("a", "b")``."""
    is_loop = isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == name
    listed = node.iter if is_loop and isinstance(node, ast.For) else None
    return listed.elts if isinstance(listed, ast.Tuple | ast.List | ast.Set) else None


def _beginning(node: ast.expr | None) -> str:
    """How a text that is put together begins; empty where that is not written down."""
    if isinstance(node, ast.JoinedStr):
        return _beginning(node.values[0]) if node.values else ""
    if isinstance(node, ast.BinOp):
        return _beginning(node.left).partition("%")[0] if isinstance(node.op, ast.Mod) else _beginning(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _beginning(node.func.value).partition("{")[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
