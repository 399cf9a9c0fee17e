"""What a setting is where nobody gives it, and the code fills it in: ``args.dtype = args.dtype or "bfloat16"``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..python.bindings import only_value
from ..python.names import ModuleNames, attribute_chain
from ..python.paths import guards, position
from ..source.project import Project
from ..trainers.reading.links import sources
from ..trainers.reading.source import ValueSource

MISSING = (None, "")


def as_filled_in(
    project: Project, module: ModuleNames, node: ast.expr, found: Sequence[ValueSource]
) -> list[ValueSource]:
    """The values of a setting, with what the code gives it in place of those that are missing.

    None at all where that is not one known value.
    """
    if not any(source.value in MISSING for source in found):
        return list(found)
    modules = (module, *(source.option.module for source in found if source.option is not None))
    fillings = [(other, value) for other in dict.fromkeys(modules) for value in _fillings(other, node, module)]
    if not fillings:
        return list(found)
    each = [sources(project, *filling) for filling in fillings]
    values = {(type(source.value), source.value) for given in each for source in given if source.value not in MISSING}
    if not all(each) or len(values) != 1:
        return []
    ((_, filled),) = values
    return [replace(source, value=filled) if source.value in MISSING else source for source in found]


def _fillings(module: ModuleNames, node: ast.expr, reader: ModuleNames) -> Iterator[ast.expr]:
    """What stands in for a missing value, in one file: of the settings object, or of the variable that is read."""
    if isinstance(node, ast.Name):
        value = only_value(module, node) if module is reader else None
        filling = _filling(value, None) if value is not None else None
        yield from () if filling is None else (filling,)
    if not isinstance(node, ast.Attribute):
        return
    for chain, value, statement in module.attribute_stores.get(node.attr, ()):
        is_own = chain == ["self"] and attribute_chain(node.value) != chain
        if value is None or not chain or is_own or (module is reader and _is_below(module, statement, node)):
            continue
        text = ".".join((*chain, node.attr))
        around = [guard for guard in guards(module, statement) if guard.leaving is None and not _is_start(guard.test)]
        filling = _filling(value, text) if not around else None
        if len(around) == 1 and _asks_whether_missing(around[0].test, text) is around[0].holds:
            filling = value
        if filling is not None:
            yield filling


def _filling(value: ast.expr, text: str | None) -> ast.expr | None:
    """``y`` of ``x or y``, ``x if x else y`` and ``y if x is None else x``; with ``text`` only where it is ``x``."""
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
        return value.values[-1] if text in (None, ast.unparse(value.values[0])) else None
    if not isinstance(value, ast.IfExp):
        return None
    for kept, other, holds in ((value.body, value.orelse, False), (value.orelse, value.body, True)):
        own = ast.unparse(kept)
        if text in (None, own) and _asks_whether_missing(value.test, own) is holds:
            return other
    return None


def _asks_whether_missing(test: ast.expr, text: str) -> bool | None:
    """What a test comes to where ``text`` is missing; None for a test of something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _asks_whether_missing(test.operand, text)
        return None if inner is None else not inner
    if isinstance(test, ast.Compare) and ast.unparse(test.left) == text:
        is_none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value in MISSING
        operator = test.ops[0] if is_none and len(test.ops) == 1 else None
        return True if isinstance(operator, ast.Is | ast.Eq) else False if operator is not None else None
    return False if ast.unparse(test) == text else None


def _is_below(module: ModuleNames, statement: ast.stmt, node: ast.expr) -> bool:
    """Whether a store runs only after the read: below it in the same function."""
    return module.scope_of(statement) is module.scope_of(node) and position(statement) > position(node)


def _is_start(test: ast.expr) -> bool:
    """``if __name__ == "__main__"``."""
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(test))
