"""What other code gives an attribute of a class, or a name of a module: ``trainer.amp = True``, ``setattr(...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from ..python.functions import attribute_bindings
from ..python.glimpses import may_set
from ..python.names import (
    ModuleNames,
    Scope,
    attribute_chain,
    definition_of,
    modules_at,
    modules_with,
    names_of,
    string_of,
)
from ..python.scopes import is_docstring
from ..python.settings_objects import is_called_as_settings
from ..source.facts import memo
from ..source.project import Project
from ..torch import dtypes
from .computed_names import classes_of, is_module, is_of_class, may_be_text
from .files import is_test
from .switches import is_set

SetValue: TypeAlias = "tuple[ModuleNames, ast.expr | None]"
"""An expression that gives a value; None for one that is not written down."""
Store: TypeAlias = "tuple[ModuleNames, ast.expr, ast.expr | None, ast.expr | None]"
"""A store under a name that is computed: the object, the name (None for any), and the value."""
NamedStore: TypeAlias = "tuple[ModuleNames, ast.expr | ast.stmt, ast.expr | None]"
"""A store under a name that is written down: the object, or the statement, and the value."""
RESTORING = ("load_state_dict", "__setstate__", "load_state")
"""Methods that only give back what the object itself had."""


def holder_of(
    project: Project, module: ModuleNames, item: dtypes.TextCondition
) -> tuple[ModuleNames, Scope, str] | None:
    """The class of ``self.amp`` and ``CFG.amp``, or the module of ``settings.AMP``, with the name there."""
    if not isinstance(item.node, ast.Attribute):
        return None
    found = definition_of(project, module, item.node)
    if found is not None:
        return found[0], found[0].module_scope, found[1]
    own, is_own = item.scope.enclosing_class, attribute_chain(item.node.value) == ["self"]
    owners = [(module, own)] if is_own and own is not None else [*classes_of(project, module, item.node.value)]
    if len(owners) != 1:
        return None
    holder, bindings = attribute_bindings(project, *owners[0], item.node.attr)
    return holder, (bindings[0].scope.enclosing_class if bindings else None) or owners[0][1], item.node.attr


def given_elsewhere(project: Project, module: ModuleNames, owner: Scope, name: str) -> tuple[SetValue, ...]:
    """What others than a class (code that has its objects, classes below it) or a module give one of its names."""
    return project.fact(_given_elsewhere, module.path, module.addresses[owner.node], name)


def _given_elsewhere(project: Project, path: str, address: str, name: str) -> tuple[SetValue, ...]:
    """The same for what has an address there: it rests on no more of other files than it says."""
    module = next(modules_at(project, (path,)), None)
    node = module.by_address.get(address) if module is not None else None
    if module is None or node is None:
        return ()
    owner = module.scopes[node]
    setting, computing = project.fact(_setting, name), project.fact(_computing, name)
    stores = [item for path in setting for item in _given_at(project, path, module, owner, name)[0]]
    computed = [item for path in computing for item in _given_at(project, path, module, owner, name)[1]]
    return (*stores, *computed, *(_overridden(project, module, name) if owner is module.module_scope else ()))


def surely_given(
    project: Project, module: ModuleNames, owner: Scope, name: str
) -> tuple[tuple[ModuleNames, ast.expr, ast.expr], ...]:
    """The stores into an attribute that are certainly of objects of a class: the object and the value."""
    stores = [item for path in project.fact(_setting, name) for item in _stores_at(project, path, name)]
    stores += [
        (other, holder, value)
        for path in project.fact(_computing, name)
        for other, holder, key, value in _computed_stores(project, path)
        if string_of(key) == name
    ]
    return tuple(
        (other, holder, value)
        for other, holder, value in stores
        if value is not None and isinstance(holder, ast.expr) and is_of_class(project, other, holder, (module, owner))
    )


@memo
def _given_at(
    project: Project, path: str, module: ModuleNames, owner: Scope, name: str
) -> tuple[tuple[SetValue, ...], tuple[SetValue, ...]]:
    """What one file gives it, under the name as it is written, and under one that is computed."""
    stores = [
        (other, value)
        for other, holder, value in _stores_at(project, path, name)
        if _is_of(project, other, holder, (module, owner), is_named=True)
    ]
    may_compute = path in project.fact(_computing, name)
    computed = [
        (other, value)
        for other, holder, key, value in (_computed_stores(project, path) if may_compute else ())
        if may_be_text(other, key, name) and _is_of(project, other, holder, (module, owner), is_named=False)
    ]
    return tuple(stores), tuple(computed)


def _setting(project: Project, name: str) -> tuple[str, ...]:
    """The files outside of tests that store into an attribute of this name."""
    return tuple(path for path in project.python_paths((name,)) if not is_test(path) and _sets(project, path, name))


@memo
def _sets(project: Project, path: str, name: str) -> bool:
    return bool(_stores_at(project, path, name))


@memo
def _stores_at(project: Project, path: str, name: str) -> tuple[NamedStore, ...]:
    """The stores in a file, with the object; with the statement for ``self`` and classes.

    The text is looked at only to spare that it is parsed.
    """
    document = project.document(path)
    if document is None or not (document.is_parsed or may_set(document.text, name)) or not document.parses:
        return ()
    module = names_of(project, document)
    found: list[NamedStore] = []
    for chain, value, statement in module.attribute_stores.get(name, ()):
        holder = None if chain in (None, ["self"]) else _holder_of(statement, name)
        found.append((module, holder or statement, value))
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
    is_named: bool,
) -> bool:
    """Whether an object is of the class or module; where nobody knows, only a plain name (``is_named``) counts.

    What the class itself stores under that name is no news.
    """
    if owner[1] is owner[0].module_scope:
        return isinstance(holder, ast.expr) and is_module(project, module, holder, owner[0])
    if is_named and isinstance(holder, ast.stmt) and module.scope_of(holder).enclosing_class is owner[1]:
        return False
    known = is_of_class(project, module, holder, owner)
    return known if known is not None else is_named and not is_called_as_settings(holder)  # type: ignore[arg-type]


# --- names that are computed ------------------------------------------------------------------------------------------


def _computing(project: Project, name: str) -> tuple[str, ...]:
    """The files outside of tests that store under a computed name that may be this one."""
    paths = project.python_paths(("setattr", "__dict__", "vars(", "globals("))
    return tuple(path for path in paths if not is_test(path) and _may_compute(project, path, name))


@memo
def _may_compute(project: Project, path: str, name: str) -> bool:
    return any(may_be_text(module, key, name) for module, _, key, _ in _computed_stores(project, path))


@memo
def _computed_stores(project: Project, path: str) -> tuple[Store, ...]:
    """``setattr(x, name, value)``, ``vars(x).update(values)``, ``x.__dict__ = values``, ``globals()[name] = value``."""
    return tuple(
        (module, *store)
        for module in modules_at(project, (path,))
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
        holder = dictionary_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if holder is not None:
            yield from ((holder, key, value) for item in call.args for key, value in _entries(item))
            named = [item for item in call.keywords if item.arg is not None]
            yield from ((holder, _constant(item), item.value) for item in named)
            yield from ((holder, None, None) for _ in call.keywords[len(named) :])


def _replaced(module: ModuleNames) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """``self.__dict__ = values``, ``self.__dict__[name] = value``."""
    for node in module.of_type(ast.Subscript):
        holder = dictionary_of(node.value) if isinstance(node.ctx, ast.Store) else None
        if holder is not None:
            yield holder, node.slice, None
    for _, value, statement in module.attribute_stores.get("__dict__", ()):
        holder = _holder_of(statement, "__dict__")
        for key, given in _entries(value) if holder is not None else ():
            yield holder, key, given  # type: ignore[misc]


def _overridden(project: Project, module: ModuleNames, name: str) -> tuple[SetValue, ...]:
    """What ``exec(open("more.py").read())`` gives a variable: a launch line, or a file of nothing but variables."""
    if not any(isinstance(call.func, ast.Name) for call in module.calls_by_name.get("exec", ())):
        return ()
    others = modules_with(project, (name,))
    files = [(item, item.module_scope.bindings.get(name, ())) for item in others if _holds_variables(item)]
    given = [(item, binding.value) for item, bindings in files for binding in bindings]
    return (*given, *([(module, None)] if project.memo(is_set, name) else []))


def _holds_variables(module: ModuleNames) -> bool:
    plain = (ast.Assign, ast.AnnAssign)
    return all(isinstance(item, plain) or is_docstring(item) for item in module.tree.body)


def dictionary_of(node: ast.expr) -> ast.expr | None:
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
