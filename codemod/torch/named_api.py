"""Which API of PyTorch an expression names: also through a variable, ``getattr``, a choice whose arms all name one.

``GradScaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler`` is common in
code that serves several releases.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from ..python.arguments import Signature
from ..python.names import Binding, ModuleNames, definition_of, is_none, resolve
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import TraceGap
from ..source.facts import memo
from ..source.project import Project

CHOICES = (ast.IfExp, ast.BoolOp)
DEVICES = ("device", "device_type")
"""What the first parameter of an API that serves several devices is called."""


def api_named(
    project: Project, module: ModuleNames, node: ast.expr, apis: Mapping[str, Signature], call: ast.Call | None = None
) -> str | None:
    """The API that ``node`` names; of several arms the one whose signature ``call`` is written for."""
    arms = trace(project, module, node, APIS)
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


def _leaf(question: Trace[str | None], module: ModuleNames, node: ast.expr) -> Iterable[str | None] | None:
    """What a name of another package, or ``getattr(torch.amp, "GradScaler")``, names; None for what is followed."""
    if is_none(node):
        return ()
    if isinstance(node, ast.Call):
        return (_got(module, node),)
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    bindings = module.bindings_of(node)
    resolved = resolve(question.project, module, node)
    is_own = resolved is None or definition_of(question.project, module, node) is not None
    if is_own:
        return (resolved,) if any(item.kind == "parameter" for item in bindings) else None
    return _of_torch(module, node, bindings) or (resolved,)


def _of_torch(module: ModuleNames, node: ast.expr, bindings: list[Binding]) -> tuple[str, ...]:
    """What each import that ``node`` may see takes from PyTorch: one per release, where ``except`` holds another."""
    names = (item.qualified or "" for item in module.imports_seen(bindings, node))
    return tuple(name for name in names if name.startswith("torch."))


def _gap(_question: Trace[str | None], module: ModuleNames, node: ast.AST, _why: TraceGap) -> Iterable[str | None]:
    """Nothing for the stand-in of a release that lacks the API: ``except AttributeError: class autocast: ...``."""
    return () if any(isinstance(item, ast.ExceptHandler) for item in module.ancestors(node)) else (None,)


APIS: Domain[str | None] = Domain(_leaf, _gap, follows_returns=False)
"""The qualified name of each arm; None for what is not known."""


def _got(module: ModuleNames, node: ast.Call) -> str | None:
    """``getattr(torch.amp, "GradScaler")``."""
    if not isinstance(node.func, ast.Name) or node.func.id != "getattr" or len(node.args) not in (2, 3):
        return None
    owner, name = module.qualified(node.args[0]), node.args[1]
    is_known = owner is not None and isinstance(name, ast.Constant) and all(map(is_none, node.args[2:]))
    return f"{owner}.{name.value!s}" if is_known and isinstance(name, ast.Constant) else None


@memo
def names_for(_project: Project, module: ModuleNames, word: str) -> frozenset[str]:
    """The names of a module that an import or an assignment may bind to an API with this word in its name."""
    return frozenset(
        item.name
        for item in module.all_bindings
        if word in (item.qualified or "") or (item.kind == "assign" and _mentions(item.value, word))
    )


def _mentions(value: ast.AST | None, word: str) -> bool:
    """Whether an expression that can name an API holds the word: all that has to be looked at closely."""
    if isinstance(value, CHOICES):
        return any(_mentions(part, word) for part in ast.iter_child_nodes(value))
    if isinstance(value, ast.Call):
        is_got = isinstance(value.func, ast.Name) and value.func.id == "getattr" and len(value.args) > 1
        return is_got and isinstance(value.args[1], ast.Constant) and word in str(value.args[1].value)
    return word in (getattr(value, "attr", "") or getattr(value, "id", "") or "")
