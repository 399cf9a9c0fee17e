"""Switches that are joined: ``fp16=args.fp16 and not args.bf16``, ``bf16=args.amp and torch.cuda.is_bf16_supported()``.

Of an ``and`` the first part that is followed is what is set; the others have to be on beside it, in the same run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from ...model import Edit, EditRefused
from ...python.names import ModuleNames
from ...python.trace import Trace
from ...torch.dtypes import Constant
from ...torch.machine_answers import machine_answers
from .source import ValueSource

ASKS_FOR_DEVICE = ("torch.cuda.is_available", "torch.backends.mps.is_available", "torch.xpu.is_available")
"""Calls that ask whether there is an accelerator, not what it can do: the branch for a CPU stays."""


def all_of(question: Trace[ValueSource], module: ModuleNames, node: ast.BoolOp) -> Iterable[ValueSource] | None:
    """What an ``and`` has its value from; None where a part of it is not followed."""
    parts = [item for item in node.values if not (asks_for_device(module, item) or _is_available(module, item))]
    answers = {item: machine_answers(question.project, module, item) for item in parts}
    asked = [item for item in parts if answers[item] is None]
    decided = [answer for answer in answers.values() if answer is not None]
    if not asked or len(decided) > 1:
        return None
    found = [_switches(question.of(module, item)) for item in asked]
    if len(found) == 1 and not decided:
        return question.of(module, asked[0])
    if not all(found):
        return None
    first, *others = found
    machine = decided[0] if decided else None
    return [replace(item, provided=(*item.provided, *others), machine=machine or item.machine) for item in first]


def _switches(found: Sequence[ValueSource]) -> tuple[ValueSource, ...]:
    """The sources of a part, if each of them is a truth value, or nothing."""
    return tuple(found) if all(isinstance(item.value, bool) or item.value is None for item in found) else ()


def is_joined(source: ValueSource) -> bool:
    """Whether something else has a say beside what stands at a place."""
    return bool(source.provided) or source.machine is not None


def none_of(found: Sequence[ValueSource]) -> Iterable[ValueSource]:
    """What ``not x`` has its value from: the same places, with the other truth value."""
    return [] if any(map(is_joined, found)) else [_negated(item) for item in found if isinstance(item.value, bool)]


def _negated(source: ValueSource) -> ValueSource:
    other = replace(source, value=not source.value, respelling=partial(_respelled, source), flag="")
    return replace(other, is_negated=not source.is_negated)


def _respelled(source: ValueSource, value: Constant) -> Edit:
    if not isinstance(value, bool):
        raise EditRefused(f"{source.key} is read as a truth value")
    return source.respelled(not value)


def asks_for_device(module: ModuleNames, node: ast.expr) -> bool:
    """``torch.cuda.is_available()``, ``device.type == "cuda"``: what a run on a GPU has."""
    if isinstance(node, ast.Call):
        return module.qualified(node.func) in ASKS_FOR_DEVICE
    right = node.comparators[0] if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq) else None
    return isinstance(right, ast.Constant) and right.value == "cuda"


def _is_available(module: ModuleNames, node: ast.expr) -> bool:
    """``HAS_AMP``, which a module sets to both truth values around an import: whether a library is there."""
    bindings = module.bindings_of(node)
    values = [item.value for item in bindings]
    tried = any(isinstance(above, ast.Try) for value in values if value for above in module.ancestors(value))
    literal = (value.value for value in values if isinstance(value, ast.Constant))
    return tried and len(values) == 2 and {*literal} == {True, False}
