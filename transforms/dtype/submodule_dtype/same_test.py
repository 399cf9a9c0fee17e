"""A value and the module it is fed to that are cast by tests of the same thing: their branches belong together."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ....codemod.flow.frame import Meeting
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import guards

CASTS = ("to", "half", "bfloat16", "float")


def hang_on_one_test(meeting: Meeting) -> bool:
    """Whether what decides about the value's cast decides about the module's as well.

    Which branch of the one goes with which of the other is not asked: the code looked at that test twice.
    """
    operand, call = meeting.odd.node, meeting.node
    if operand is not meeting.meant.node or not isinstance(operand, ast.Name) or not isinstance(call, ast.Call):
        return False
    module = meeting.module
    of_value = _tests(module, (item.node for item in module.scope_of(operand).lookup(operand.id)))
    return not of_value.isdisjoint(_tests(module, _casts(module, call.func)))


def _casts(module: ModuleNames, called: ast.expr) -> Iterator[ast.Call]:
    """The calls that cast the module, or the object that holds it."""
    chain = attribute_chain(called) or []
    owners = {".".join(chain[:count]) for count in range(1, len(chain) + 1)} - {"self"}
    for call in (call for name in CASTS for call in module.calls_by_name.get(name, [])):
        if isinstance(call.func, ast.Attribute) and ".".join(attribute_chain(call.func.value) or []) in owners:
            yield call


def _tests(module: ModuleNames, nodes: Iterable[ast.AST]) -> set[str]:
    """What is asked on the way to any of these places; ``x is None`` and ``x is not None`` ask the same."""
    return {text for node in nodes for guard in guards(module, node) for text, _ in guard.facts}
