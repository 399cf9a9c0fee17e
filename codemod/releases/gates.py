"""Code that runs for some releases of PyTorch only: version tests, feature tests, fallbacks of a ``try``.

Old spellings that stand there on purpose are right. The judgment is generous: what looks like a gate counts as one.
"""

from __future__ import annotations

import ast

from packaging.version import InvalidVersion, Version

from ..python.exits import before
from ..python.names import ModuleNames, attribute_chain
from ..python.paths import tries

FALLBACK_ERRORS = {"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "Exception", "BaseException"}
"""What a missing or older API raises."""

_ASKING_WORDS = ("greater", "at_least", "_ge_", "newer")
_JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def is_gated(module: ModuleNames, node: ast.AST) -> bool:
    """Whether ``node`` runs only where a test of the release, or a failed attempt, chose it.

    The side of a version test that newer releases take is no gate: ``if version >= "1.6": <old spelling>`` still runs.
    """
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and child is not parent.test:
            chosen = child is parent.body if isinstance(parent, ast.IfExp) else child in parent.body
            if is_gate(module, parent.test) and not _is_newer_side(parent.test, chosen):
                return True
        if _is_fallback(parent, child):
            return True
        if isinstance(child, ast.stmt) and any(_leaves(module, item) for item in before(parent, child)):
            return True
        child = parent
    return False


def guarding_try(module: ModuleNames, node: ast.AST) -> ast.Try | None:
    """The ``try`` of the same function whose handlers catch a missing API, when ``node`` stands in its body."""
    catching = (item for item in tries(module, node) if any(map(_catches_missing_api, item.handlers)))
    return next(catching, None)


def is_gate(module: ModuleNames, test: ast.expr, hops: int = 2) -> bool:
    """Whether a condition asks for a release of a library or for the presence of an API."""
    for node in ast.walk(test):
        if isinstance(node, ast.Name | ast.Attribute) and _names_version(node):
            return True
        if isinstance(node, ast.Call) and _asks_for_attribute(module, node):
            return True
        values = _values_of(module, node) if isinstance(node, ast.Name) and hops else []
        if any(is_gate(module, value, hops - 1) for value in values):
            return True
    return False


def _is_fallback(parent: ast.AST, child: ast.AST) -> bool:
    """Whether ``child`` runs depending on how an attempt to use something went."""
    if isinstance(parent, ast.ExceptHandler):
        return _catches_missing_api(parent)
    return isinstance(parent, ast.Try) and child in parent.orelse and any(map(_catches_missing_api, parent.handlers))


def _is_newer_side(test: ast.expr, chosen: bool) -> bool:
    """Whether newer releases take this branch, where that can be read off the test."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_newer_side(test.operand, not chosen)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _version(_literal(test.comparators[0])) is not None:
        if isinstance(test.ops[0], ast.GtE | ast.Gt):
            return chosen
        return isinstance(test.ops[0], ast.Lt | ast.LtE) and not chosen
    if isinstance(test, ast.Call):
        words = [item.value for item in test.args if isinstance(item, ast.Constant)]
        return (chosen and ">=" in words) or (not chosen and "<" in words)
    return False


def _literal(node: ast.expr) -> ast.expr:
    """The argument of ``Version("2.4")`` and its like."""
    return node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node


def _leaves(module: ModuleNames, statement: ast.stmt) -> bool:
    """``if <newer release>: return ...``: what follows is for the others."""
    if not isinstance(statement, ast.If) or not isinstance(statement.body[-1], _JUMPS):
        return False
    return is_gate(module, statement.test) and not _is_newer_side(statement.test, chosen=False)


def _catches_missing_api(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any((attribute_chain(kind) or [""])[-1] in FALLBACK_ERRORS for kind in kinds)


def _version(node: ast.AST) -> Version | None:
    """The release that a literal of a test names: ``"2.4"``, ``(2, 4)``, ``2.4``."""
    text = ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | float) and not isinstance(node.value, bool):
        text = str(node.value)
    elif isinstance(node, ast.Tuple) and node.elts:
        parts = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, int)]
        text = ".".join(map(str, parts)) if len(parts) == len(node.elts) else ""
    if "." not in text or len(text) > 40:
        return None
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _names_version(node: ast.Name | ast.Attribute) -> bool:
    name = (node.id if isinstance(node, ast.Name) else node.attr).lower()
    if "version" in name:
        return True
    library = "torch" in name or name.startswith(("pt_", "pt1", "pt2"))
    return library and (any(char.isdigit() for char in name) or any(word in name for word in _ASKING_WORDS))


def _asks_for_attribute(module: ModuleNames, call: ast.Call) -> bool:
    """``hasattr(torch.amp, ...)``; asking for the old API itself tells nothing about the new one."""
    name = (attribute_chain(call.func) or [""])[-1]
    if name in ("find_spec", "is_autocast_available"):
        return True
    if name not in ("hasattr", "getattr") or not call.args:
        return False
    asked = module.qualified(call.args[0]) or ""
    return asked.partition(".")[0] == "torch" and not asked.startswith(("torch.cuda.amp", "torch.cpu.amp"))


def _values_of(module: ModuleNames, node: ast.Name) -> list[ast.expr]:
    bindings = module.bindings_of(node)
    return [binding.value for binding in bindings if binding.value is not None and binding.kind == "assign"][:4]
