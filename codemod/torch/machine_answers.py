"""What a switch or a dtype is on a machine that has bfloat16, and on one that has not.

``fp16=not torch.cuda.is_bf16_supported()``, ``torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeAlias

from ..python.names import ModuleNames, last_name
from ..python.trace import Domain, Trace, trace
from ..source.project import Project
from .dtypes import TORCH_DTYPES, Dtype
from .machine_tests import tells_of_bf16

MachineAnswer: TypeAlias = "bool | Dtype | None"
"""None: something else has a say."""
DEVICE = "is_available"
"""The end of the names of questions whether there is a device at all: what trains has one."""


def machine_answers(project: Project, module: ModuleNames, node: ast.expr) -> tuple[bool, bool] | None:
    """The truth value of ``node`` with bfloat16 and without; None unless the machine alone decides between two."""
    first, second = (_only(trace(project, module, node, domain)) for domain in (WITH, WITHOUT))
    return (first, second) if isinstance(first, bool) and isinstance(second, bool) and first is not second else None


def machine_dtypes(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Dtype, Dtype] | None:
    """The same for a dtype."""
    first, second = (_only(trace(project, module, node, domain)) for domain in (WITH, WITHOUT))
    return (first, second) if isinstance(first, Dtype) and isinstance(second, Dtype) and first != second else None


def _only(answers: Sequence[MachineAnswer]) -> MachineAnswer:
    return answers[0] if len(answers) == 1 else None


def _leaf(
    has: bool, question: Trace[MachineAnswer], module: ModuleNames, node: ast.expr
) -> Iterable[MachineAnswer] | None:
    if isinstance(node, ast.Constant):
        return (node.value if isinstance(node.value, bool) else None,)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [not item if isinstance(item, bool) else None for item in question.of(module, node.operand)]
    if isinstance(node, ast.BoolOp):
        return (_together(isinstance(node.op, ast.And), [question.of(module, part) for part in node.values]),)
    if isinstance(node, ast.IfExp):
        tests = question.of(module, node.test)
        picked = [node.body if test else node.orelse for test in tests if isinstance(test, bool)]
        return question.of(module, picked[0]) if len(tests) == len(picked) == 1 else (None,)
    if isinstance(node, ast.Compare):
        return _compared(has, node)
    return _asked(has, question, module, node)


def _asked(
    has: bool, question: Trace[MachineAnswer], module: ModuleNames, node: ast.expr
) -> Iterable[MachineAnswer] | None:
    if isinstance(node, ast.Attribute | ast.Name):
        dtype = TORCH_DTYPES.get(module.qualified(node) or "")
        return (dtype,) if dtype is not None else None
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    if isinstance(node, ast.Call) and name == "bool" and len(node.args) == 1:
        return question.of(module, node.args[0])
    if isinstance(node, ast.Call) and name.endswith(DEVICE):
        return (True,)
    return (has,) if isinstance(node, ast.Call) and tells_of_bf16(name) and "capability" not in name else None


def _together(is_and: bool, parts: list[tuple[MachineAnswer, ...]]) -> MachineAnswer:
    """Of ``and`` and ``or``: known as soon as one part decides, or all are known."""
    if any(part == (not is_and,) for part in parts):
        return not is_and
    return is_and if all(part == (is_and,) for part in parts) else None


def _compared(has: bool, node: ast.Compare) -> Iterable[MachineAnswer]:
    """``torch.cuda.get_device_capability()[0] >= 8``, ``torch.cuda.get_device_capability() >= (8, 0)``."""
    is_major = isinstance(node.left, ast.Subscript) and ast.unparse(node.left.slice) == "0"
    asked = node.left.value if isinstance(node.left, ast.Subscript) and is_major else node.left
    if len(node.ops) != 1 or not isinstance(asked, ast.Call) or "device_capability" not in last_name(asked.func):
        return (None,)
    first, last = (("8",), ("7",)) if is_major else (("(8, 0)", "(8,)"), ("(7, 5)",))
    operator, said = node.ops[0], ast.unparse(node.comparators[0])
    if isinstance(operator, ast.GtE | ast.Lt) and said in first:
        return (has is isinstance(operator, ast.GtE),)
    return (has is isinstance(operator, ast.Gt) if isinstance(operator, ast.Gt | ast.LtE) and said in last else None,)


def _unknown(*_asked: object) -> Iterable[MachineAnswer]:
    return (None,)


WITH, WITHOUT = (Domain(partial(_leaf, has), _unknown, setting=_unknown) for has in (True, False))
"""The truth values of a switch on either machine."""
