"""Whether an expression is decided by a test of the hardware: ``is_bf16_supported()``, ``get_device_capability()``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from ..python.names import ModuleNames, last_name
from ..python.paths import guards
from ..python.trace import Trace, trace
from ..python.trace_steps import Returned, TraceStep
from ..source.project import Project
from .device_tests import speaking

_ASKS_FOR_BF16 = (
    *(f"{dtype}_{asked}" for dtype in ("bf16", "bfloat16") for asked in ("supported", "available", "gpu_available")),
    "device_capability",
)
"""Parts of the names of functions and flags that tell whether there is bfloat16 (torch, accelerate, transformers)."""
_ASKS_MACHINE = (*_ASKS_FOR_BF16, "is_available")


def tells_of_bf16(text: str) -> bool:
    """Whether source code names a test that tells whether there is bfloat16."""
    return any(word in text for word in _ASKS_FOR_BF16)


def asks_machine(project: Project, module: ModuleNames, node: ast.expr, for_bf16: bool = False) -> bool:
    """Whether an expression, or what its names stand for, is decided by a test of the hardware.

    ``for_bf16``: by one that tells whether there is bfloat16, not only whether there is a device.
    """
    return True in trace(project, module, node, ASKS_FOR_BF16 if for_bf16 else ASKS_MACHINE)


def picked_by_machine(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """The same for a test that tells whether there is bfloat16, also of branches of a function that is called."""
    return True in trace(project, module, node, PICKS_BF16)


def _picks(question: Trace[bool], module: ModuleNames, node: ast.expr) -> Iterable[bool] | None:
    """Attributes are not followed: what an object was given may depend on settings besides."""
    known = (tells_of_bf16(node.attr),) if isinstance(node, ast.Attribute) else None
    return known or ASKS_FOR_BF16.leaf(question, module, node)


def _returned(question: Trace[bool], step: TraceStep, values: Iterable[bool]) -> Iterable[bool]:
    """What a function gives back behind such a test is decided by it."""
    if not isinstance(step, Returned):
        return values
    tests = (guard.test for guard in guards(step.target.module, step.statement))
    return (True,) if any(True in question.of(step.target.module, test) for test in tests) else values


ASKS_FOR_BF16 = speaking(lambda node: tells_of_bf16(last_name(node)))
ASKS_MACHINE = speaking(lambda node: any(word in last_name(node) for word in _ASKS_MACHINE))
PICKS_BF16 = replace(ASKS_FOR_BF16, leaf=_picks, carried=_returned)
