"""What a name that code computes may stand for: texts, modules, objects of a class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.bindings import only_value
from ..python.creations import known_creations
from ..python.functions import class_of, class_of_object, lineage
from ..python.names import ModuleNames, Scope, attribute_chain, last_name, string_of
from ..source.project import Project

IMPORTING = ("import_module", "__import__")
"""Functions that import a module by a text."""
OWN = ("__name__", "__package__")
"""What stands for the package that code is in."""
ENDING = ".py"


def may_be_text(module: ModuleNames, node: ast.expr | None, text: str, seen: frozenset[ast.Name] = frozenset()) -> bool:
    """Whether an expression can be a text: ``f"layer{i}"`` is only one that begins so."""
    if isinstance(node, ast.Constant):
        return node.value == text
    if isinstance(node, ast.Name):
        return node not in seen and _may_be_bound(module, node, text, seen | {node})
    return text.startswith(beginning(node))


def _may_be_bound(module: ModuleNames, node: ast.Name, text: str, seen: frozenset[ast.Name]) -> bool:
    """Whether a variable can be a text; ``for name in (name, "b")`` goes on with what it was."""
    bindings = module.bindings_of(node)
    listed = [_looped(item.node, item.name) for item in bindings]
    return not listed or any(
        item is None or any(may_be_text(module, each, text, seen) for each in item) for item in listed
    )


def _looped(node: ast.AST, name: str) -> list[ast.expr] | None:
    """The texts of ``for name in ("a", "b")``."""
    is_loop = isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == name
    listed = node.iter if is_loop and isinstance(node, ast.For) else None
    return listed.elts if isinstance(listed, ast.Tuple | ast.List | ast.Set) else None


def beginning(node: ast.expr | None) -> str:
    """How a text that is put together begins; empty where that is not written down."""
    if isinstance(node, ast.JoinedStr):
        return beginning(node.values[0]) if node.values else ""
    if isinstance(node, ast.BinOp):
        return beginning(node.left).partition("%")[0] if isinstance(node.op, ast.Mod) else beginning(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return beginning(node.func.value).partition("{")[0]
    return string_of(node) or ""


def is_module(project: Project, module: ModuleNames, holder: ast.expr, asked: ModuleNames) -> bool:
    """Whether an expression can be a module, or the names of the one that it stands in (``globals()``)."""
    made = only_value(module, holder) or holder if isinstance(holder, ast.Name) else holder
    if isinstance(made, ast.Call) and last_name(made.func) in IMPORTING:
        return bool(made.args) and _is_imported(project, module, made, asked)
    if isinstance(made, ast.Call) or "__name__" in ast.unparse(made):
        return module is asked
    qualified = module.qualified(holder)
    return qualified is not None and project.python_path(qualified, module.path) == asked.path


def _is_imported(project: Project, module: ModuleNames, call: ast.Call, asked: ModuleNames) -> bool:
    """``import_module(f"jobs.{name}")`` is one of the modules that are called so."""
    name = call.args[0]
    if isinstance(name, ast.Constant):
        return isinstance(name.value, str) and project.python_path(name.value, module.path) == asked.path
    return is_below(asked.path, imported_below(module, call))


def is_below(path: str, prefix: str) -> bool:
    """Whether a file is one of those whose places begin so; none does where the beginning is not written down."""
    return bool(prefix) and f"/{prefix}" in f"/{path}"


def imported_below(module: ModuleNames, call: ast.Call) -> str:
    """``jobs/`` of ``import_module(f"jobs.{name}")`` and ``import_module("." + name, "jobs")``: where modules lie that
    a computed name can be; empty where nothing of the name is written down.
    """
    name = only_value(module, call.args[0]) or call.args[0]
    first = name.values[0] if isinstance(name, ast.JoinedStr) else name
    while isinstance(first, ast.BinOp):
        first = first.left
    said = beginning(name)
    if said.startswith("."):
        given = [*call.args[1:2], *(item.value for item in call.keywords if item.arg == "package")]
        first, said = (given[0] if given else first), said.lstrip(".")
        above = string_of(first)
        said = f"{above}.{said}" if above else said
    held = first.value if isinstance(first, ast.FormattedValue) else first
    if isinstance(held, ast.Name) and held.id in OWN:
        said = f"{module.path.removesuffix(ENDING).rpartition('/')[0]}/{said.lstrip('.')}".lstrip("/")
    return said.replace(".", "/")


def is_of_class(
    project: Project, module: ModuleNames, holder: ast.expr | ast.stmt, owner: tuple[ModuleNames, Scope]
) -> bool | None:
    """Whether an expression is an object of a class, of one below it, or that class; None where nobody knows."""
    if isinstance(holder, ast.stmt) or attribute_chain(holder) in (["self"], ["cls"]):
        own = module.scope_of(holder).enclosing_class
        return own is not None and is_above(project, owner, (module, own))
    known = list(classes_of(project, module, holder))
    related = (is_above(project, owner, each) or is_above(project, each, owner) for each in known)
    return any(related) if known else None


def is_above(project: Project, base: tuple[ModuleNames, Scope], below: tuple[ModuleNames, Scope]) -> bool:
    """Whether a class is another one, or one of those that it is made of."""
    return any(scope is base[1] for _, scope in lineage(project, *below))


def classes_of(project: Project, module: ModuleNames, node: ast.expr) -> Iterator[tuple[ModuleNames, Scope]]:
    """The project's classes that an object can be of, or that an expression names."""
    chain = attribute_chain(node)
    found = class_of(project, module, node) or (class_of_object(project, module, node, chain) if chain else None)
    made = () if found is not None else known_creations(project, module, node)
    classes = (found, *(class_of(project, item.module, item.call.func) for item in made))
    return (item for item in classes if item is not None)
