"""What a setting of the precision decides besides: ``batch = 8 if args.precision == "fp16" else 4``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...python.names import ModuleNames, last_name, modules_with, string_of
from ...source.project import Project
from ...torch.dtypes import Constant, Dtype, as_dtype
from ..reading.runs import all_runs_of
from ..reading.source import ValueSource
from ..reading.stated_words import is_precision_word, speaks

SHOWING = ("autocast", "print", "info", "str", "repr", "format", "nullcontext")
"""Calls whose arguments compute nothing."""
OF_PRECISION = frozenset({"scale", "scaler", "bits", "bytes", "itemsize", "backend"})
"""Parts of names of what belongs to a precision beside those that name one."""
PASSED_ON = (ast.Name, ast.Attribute, ast.Subscript, ast.Compare, ast.BoolOp, ast.UnaryOp)
"""Expressions that give a setting, or a test of it, another name."""


def chosen_besides(project: Project, source: ValueSource, value: Constant) -> str:
    """Where a setting that gets another value picks what is no precision; empty where that stays, or nothing does."""
    key = source.key.lstrip("-").rpartition(".")[2].replace("-", "_")
    near = _near(project, source)
    for module in (item for item in modules_with(project, (key,)) if not near or item.path in near):
        other = next(_fallbacks(module, key, source), None) if source.kind == "fallback" else None
        if other is not None:
            return f"{module.path}:{other.lineno} {ast.unparse(other)} has a default of its own"
        known = {key, *_other_names(module, key)}
        for test, said in _choices(module, known):
            if _may_change(test, known, source.value, value):
                return f"{module.path}:{test.lineno} {key} also decides which of {said} it is"
    return ""


def _fallbacks(module: ModuleNames, key: str, source: ValueSource) -> Iterator[ast.Call]:
    """The other places that read a key with a default: ``cfg.get("amp", True)``, ``getattr(cfg, "amp", True)``."""
    for call in (*module.calls_by_name.get("get", ()), *module.calls_by_name.get("getattr", ())):
        words = [string_of(item) for item in call.args[:-1]]
        is_here = module.path == source.path and module.document.span(call.args[-1]) == source.span if words else True
        if key in words and not is_here:
            yield call


def _near(project: Project, source: ValueSource) -> set[str]:
    """The files of the runs that the source belongs to; none where that is not known."""
    runs = (run for run in all_runs_of(project) if source.path in (run.place.path, *run.modules))
    return {path for run in runs for path in run.modules}


def _other_names(module: ModuleNames, key: str) -> Iterator[str]:
    """What a file calls the setting, or a test of it: ``use_amp`` of ``use_amp = args.precision != "fp32"``."""
    for statement in module.of_type(ast.Assign):
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Name | ast.Attribute) and isinstance(value, PASSED_ON) and key in _names(value):
            yield last_name(target)


def _choices(module: ModuleNames, known: set[str]) -> Iterator[tuple[ast.expr, str]]:
    """The tests of the setting that pick between other values, and these."""
    for node in module.of_type(ast.IfExp):
        others = all(map(_is_other, (node.body, node.orelse)))
        if others and not known.isdisjoint(_names(node.test)) and not _is_shown(module, node):
            yield node.test, ast.unparse(node)
    for branch in module.of_type(ast.If):
        tested = not known.isdisjoint(_names(branch.test))
        given = (item for item in (*branch.body, *branch.orelse) if isinstance(item, ast.Assign)) if tested else ()
        for item in given:
            if _is_other(item.value) and not _belongs(last_name(item.targets[0])):
                yield branch.test, ast.unparse(item)


def _names(test: ast.AST) -> set[str]:
    """The names that a test reads: of ``cfg.SOLVER.AMP.ENABLED`` also AMP, of ``cfg["amp"]`` also amp."""
    found = (getattr(node, "id", None) or getattr(node, "attr", None) or _key(node) for node in ast.walk(test))
    return {name for name in found if name}


def _key(node: ast.AST) -> str | None:
    """``amp`` of ``cfg["amp"]`` and of ``cfg.get("amp")``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return string_of(node.args[0])
    return string_of(node.slice) if isinstance(node, ast.Subscript) else None


def _is_other(value: ast.expr) -> bool:
    """Whether a value is a string or a number that names no precision."""
    inner = value.operand if isinstance(value, ast.UnaryOp) else value
    said = inner.value if isinstance(inner, ast.Constant) else None
    if isinstance(said, str):
        return not is_precision_word(said) and not isinstance(as_dtype(said), Dtype)
    return isinstance(said, int | float) and not isinstance(said, bool) and said not in (16, 32)


def _belongs(name: str) -> bool:
    return speaks(name) or not OF_PRECISION.isdisjoint(name.lower().split("_"))


def _is_shown(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a value is only shown, or stands under a name of what belongs to a precision."""
    above = list(module.ancestors(node))
    named = (last_name(item.func) for item in above if isinstance(item, ast.Call))
    given = [item.arg or "" for item in above if isinstance(item, ast.keyword)]
    given += [last_name(item.targets[0]) for item in above if isinstance(item, ast.Assign)]
    is_text = any(isinstance(item, ast.JoinedStr) for item in above)
    return is_text or any(name in SHOWING for name in named) or any(map(_belongs, given))


def _may_change(test: ast.expr, known: set[str], before: Constant, after: Constant) -> bool:
    held = [_held(test, known, value) for value in (before, after)]
    return None in held or held[0] != held[1]


def _held(test: ast.expr, known: set[str], value: Constant) -> bool | None:
    """Whether a test holds where the setting has a value; None where that is not known."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _held(test.operand, known, value)
        return None if inner is None else not inner
    if isinstance(test, ast.Name | ast.Attribute | ast.Subscript) and isinstance(value, bool):
        return value if not known.isdisjoint(_names(test)) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or known.isdisjoint(_names(test.left)):
        return None
    other = test.comparators[0]
    sides = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
    words = [item.value for item in sides if isinstance(item, ast.Constant)]
    if len(words) != len(sides) or not isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        return None
    return (value in words) == isinstance(test.ops[0], ast.Eq | ast.In)
