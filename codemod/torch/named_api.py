"""Which API of PyTorch an expression names: also through a variable, ``getattr``, a choice whose arms all name one.

``GradScaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler`` is common in
code that serves several releases.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from ..python.arguments import Signature
from ..python.limits import MAX_ALIAS_HOPS
from ..python.names import Binding, ModuleNames, definition_of, is_none, resolve
from ..source.project import Project

CHOICES = (ast.IfExp, ast.BoolOp)
DEVICES = ("device", "device_type")
"""What the first parameter of an API that serves several devices is called."""


def api_named(
    project: Project, module: ModuleNames, node: ast.expr, apis: Mapping[str, Signature], call: ast.Call | None = None
) -> str | None:
    """The API that ``node`` names; of several arms the one whose signature ``call`` is written for."""
    arms = list(_arms(project, module, node, apis, MAX_ALIAS_HOPS))
    known = [arm for arm in arms if arm is not None and arm in apis]
    if not known or len(known) < len(arms):
        return None
    if len({apis[arm] for arm in known}) > 1:
        known = [arm for arm in known if _is_written_for(apis[arm], call)]
    return next(iter(known), None)


def _is_written_for(signature: Signature, call: ast.Call | None) -> bool:
    if call is None:
        return True
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    names_device = isinstance(first, str) or any(item.arg in DEVICES for item in call.keywords)
    return names_device == (signature.names[:1] in (DEVICES[:1], DEVICES[1:])) or not (call.args or names_device)


def _arms(
    project: Project, module: ModuleNames, node: ast.expr, apis: Mapping[str, Signature], hops: int
) -> Iterator[str | None]:
    """The qualified name of each arm; None for what is not known."""
    for arm in _parts(node):
        yield from _arms(project, module, arm, apis, hops)
    if isinstance(node, CHOICES):
        return
    if isinstance(node, ast.Call):
        yield _got(module, node)
    elif isinstance(node, ast.Name | ast.Attribute):
        yield from _named(project, module, node, apis, hops)
    elif not is_none(node):
        yield None


def _got(module: ModuleNames, node: ast.Call) -> str | None:
    """``getattr(torch.amp, "GradScaler")``."""
    if not isinstance(node.func, ast.Name) or node.func.id != "getattr" or len(node.args) not in (2, 3):
        return None
    owner, name = module.qualified(node.args[0]), node.args[1]
    is_known = owner is not None and isinstance(name, ast.Constant) and all(map(is_none, node.args[2:]))
    return f"{owner}.{name.value!s}" if is_known and isinstance(name, ast.Constant) else None


def _named(
    project: Project, module: ModuleNames, node: ast.Name | ast.Attribute, apis: Mapping[str, Signature], hops: int
) -> Iterator[str | None]:
    resolved = resolve(project, module, node)
    if resolved in apis:
        yield resolved
        return
    defined = definition_of(project, module, node) if resolved is not None else None
    holder, name = defined or (module, node.id if isinstance(node, ast.Name) else "")
    bindings = holder.module_scope.lookup(name) if defined else module.scope_of(node).lookup(name)
    if not bindings or not hops:
        yield None
    for binding in bindings if hops else ():
        yield from _bound(project, holder, binding, apis, hops - 1)


def _bound(
    project: Project, module: ModuleNames, binding: Binding, apis: Mapping[str, Signature], hops: int
) -> Iterator[str | None]:
    if binding.kind == "assign" and isinstance(binding.value, (*CHOICES, ast.Name, ast.Attribute, ast.Call)):
        yield from _arms(project, module, binding.value, apis, hops)
    elif binding.kind == "import":
        yield binding.qualified
    elif not is_none(binding.value):
        yield None


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    """The arms of a choice."""
    return (node.body, node.orelse) if isinstance(node, ast.IfExp) else getattr(node, "values", ())


def names_for(project: Project, module: ModuleNames, word: str) -> frozenset[str]:
    """The names of a module that an import or an assignment may bind to an API with this word in its name."""
    return project.memo(_names_for, (module, word))


def _names_for(_project: Project, asked: tuple[ModuleNames, str]) -> frozenset[str]:
    module, word = asked
    bindings = (item for scope in module.scopes.values() for group in scope.bindings.values() for item in group)
    return frozenset(
        item.name
        for item in bindings
        if word in (item.qualified or "") or (item.kind == "assign" and _mentions(item.value, word))
    )


def _mentions(value: ast.expr | None, word: str) -> bool:
    """Whether an expression that can name an API holds the word: all that has to be looked at closely."""
    if isinstance(value, CHOICES):
        return any(_mentions(part, word) for part in _parts(value))
    if isinstance(value, ast.Call):
        is_got = isinstance(value.func, ast.Name) and value.func.id == "getattr" and len(value.args) > 1
        return is_got and isinstance(value.args[1], ast.Constant) and word in str(value.args[1].value)
    return word in (getattr(value, "attr", "") or getattr(value, "id", "") or "")
