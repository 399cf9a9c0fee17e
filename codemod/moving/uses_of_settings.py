"""What code decides by settings besides a precision: sizes, rates, counts, models, names of files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..python.functions import called_function
from ..python.names import FunctionNode, ModuleNames, last_name, string_of
from ..python.trace import TABLES, trace
from ..source.project import Project
from ..torch.dtypes import Dtype, as_dtype
from ..trainers.reading.stated_words import is_precision_word, speaks, text_of
from .naming_files import SHOWING, is_shown, names_of_files
from .setting_names import SettingNames, assigned

OF_PRECISION = frozenset(
    ("scale", "scaler", "bits", "bytes", "itemsize", "backend", "autocast", "nullcontext", "float", "bfloat16")
)
"""Parts of names of what belongs to a precision beside those that name one."""
SWITCHED = ("enabled", "cache_enabled", "default", "config")
"""Names of arguments that take a setting as it is."""
STEPPING = ("step", "update", "backward", "zero_grad", "exit", "append", "pop", "get", "setattr", "update_scale")
"""Calls of a training step, and of what only keeps or gives back values."""
COUNTING = (ast.Mult, ast.FloorDiv, ast.Sub, ast.Pow, ast.Add)


class OtherUse(NamedTuple):
    """A place that decides something else by a setting."""

    node: ast.expr
    said: str
    read: ast.expr | None
    """What it asks; None where any value may count."""
    is_test: bool


def other_uses(project: Project, module: ModuleNames, known: SettingNames) -> Iterator[OtherUse]:
    """The places of a module that decide something else by these settings."""
    yield from _picks(module, known)
    yield from _looked_up(project, module, known)
    for node, parts in names_of_files(project, module):
        read = next((part for part in parts if known.read(module, part)), None)
        if read is not None:
            said = f"names a file by {text_of(read)}, which moves: {text_of(node)}"
            yield OtherUse(node, said, read, is_test=False)
    for node, given in (*_counted(module), *_passed(project, module)):
        if known.read(module, given, passing=True) and not _belongs_around(module, node):
            yield OtherUse(given, _said(given, node), given, is_test=False)


def _picks(module: ModuleNames, known: SettingNames) -> Iterator[OtherUse]:
    """``8 if args.fp16 else 4``, and the same as a statement."""
    for node in module.of_type(ast.IfExp):
        if known.read(module, node.test) and _differ(node.body, node.orelse) and not _belongs_around(module, node):
            yield OtherUse(node.test, _said(node.test, node), node.test, is_test=True)
    branches: list[ast.If | ast.While] = [*module.of_type(ast.If), *module.of_type(ast.While)]
    for branch in branches:
        for item in _given_in(branch) if known.read(module, branch.test) else ():
            yield OtherUse(branch.test, _said(branch.test, item), branch.test, is_test=True)
    for made in module.of_type(ast.BoolOp):
        others = [item for item in made.values if _is_other(item)]
        if others and known.read(module, made.values[0], passing=True) and not _belongs_around(module, made):
            yield OtherUse(made.values[0], _said(made.values[0], made), made.values[0], is_test=True)
    for match in module.of_type(ast.Match):
        bodies = (case.body for case in match.cases) if known.read(module, match.subject) else ()
        for item in (item for body in bodies for item in _constants(body)):
            yield OtherUse(match.subject, _said(match.subject, item), None, is_test=False)


def _looked_up(project: Project, module: ModuleNames, known: SettingNames) -> Iterator[OtherUse]:
    """``SIZES[args.precision]``, ``SIZES.get(args.precision, 4)``."""
    reads: list[tuple[ast.expr, ast.expr, ast.expr]] = []
    for node in module.of_type(ast.Subscript):
        reads += [(node, node.value, node.slice)] if isinstance(node.ctx, ast.Load) else ()
    for call in module.calls_by_name.get("get", ()):
        if isinstance(call.func, ast.Attribute) and call.args:
            reads.append((call, call.func.value, call.args[0]))
    for call in module.calls_by_name.get("getattr", ()):
        is_known = (
            len(call.args) > 1 and not isinstance(call.args[1], ast.Constant) and known.read(module, call.args[1])
        )
        if is_known and module.qualified(call.args[0]) != "torch" and not _belongs_around(module, call):
            yield OtherUse(call, _said(call.args[1], call), call.args[1], is_test=False)
    for place, table, key in reads:
        if isinstance(key, ast.Constant | ast.Slice) or not known.read(module, key):
            continue
        listed = [table.elts] if isinstance(table, ast.Tuple | ast.List) else []
        tables = [made[1].values for made in trace(project, module, table, TABLES) if made is not None]
        for values in (*listed, *tables):
            if any(_differ(one, other) for one in values for other in values) and not _belongs_around(module, place):
                yield OtherUse(place, _said(key, place), key, is_test=False)


def _counted(module: ModuleNames) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``4 * args.amp``, ``2 + int(args.amp)``."""
    for node in module.of_type(ast.BinOp):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            is_text = any(
                isinstance(item, ast.JoinedStr | ast.Constant) and not _is_number(item) for item in ast.walk(node)
            )
            if isinstance(node.op, COUNTING) and not is_text and (_is_number(other) or isinstance(node.op, ast.Mult)):
                yield node, one


def _passed(project: Project, module: ModuleNames) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``DataLoader(data, shuffle=args.amp)``: what code that is not seen is told under another name."""
    for call in module.calls:
        for item in call.keywords:
            plain = isinstance(item.value, ast.Name | ast.Attribute | ast.Subscript | ast.Compare | ast.UnaryOp)
            is_other = item.arg is not None and item.arg not in SWITCHED and not _belongs(item.arg)
            if plain and is_other and called_function(project, module, call) is None:
                yield call, item.value


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _said(read: ast.expr, node: ast.AST) -> str:
    shown = text_of(node) if isinstance(node, ast.expr) else ast.unparse(node)
    return f"{text_of(read)} also decides {shown}"


def _given_in(branch: ast.If | ast.While) -> Iterator[ast.AST]:
    """What a branch gives that is no precision: numbers and words, and what the other branch gives otherwise."""
    yield from _constants(branch.body)
    yield from _constants(branch.orelse)
    if isinstance(branch, ast.If) and not branch.orelse and not any(map(_is_of_precision, branch.body)):
        yield from (item for item in branch.body if _does_more(item))
    others = {ast.unparse(target): value for target, value in assigned(branch.orelse)}
    for target, value in assigned(branch.body):
        other = others.get(ast.unparse(target))
        if other is not None and not (_is_other(value) or _is_other(other)) and _differ(value, other):
            yield value


def _does_more(statement: ast.stmt) -> bool:
    """Whether a statement calls what is not only for people: ``model = torch.compile(model)``, ``torch.save(...)``."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    called = last_name(value.func) if isinstance(value, ast.Call) else ""
    return bool(called) and not SHOWING.search(called) and called not in STEPPING


def _constants(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        returned = statement.value if isinstance(statement, ast.Return) else None
        if returned is not None and _is_other(returned) and not _may_be_bits(returned):
            yield statement
        if (
            isinstance(statement, ast.AugAssign)
            and _is_other(statement.value)
            and not _belongs(last_name(statement.target))
        ):
            yield statement
    for target, value in assigned(body):
        if _is_other(value) and not _belongs(_target_name(target)):
            yield value if not isinstance(target, ast.Name) else ast.Assign([target], value, lineno=0)


def _target_name(target: ast.expr) -> str:
    return string_of(target.slice) or "" if isinstance(target, ast.Subscript) else last_name(target)


def _differ(one: ast.expr, other: ast.expr) -> bool:
    """Whether two values that a setting picks from differ in what is no precision."""
    if isinstance(one, ast.Dict) and isinstance(other, ast.Dict):
        mine, theirs = (
            {string_of(key): value for key, value in zip(each.keys, each.values, strict=True) if key is not None}
            for each in (one, other)
        )
        return any(_differ(mine[key], theirs[key]) for key in mine.keys() & theirs.keys() if key and not _belongs(key))
    if isinstance(one, ast.Tuple | ast.List) and isinstance(other, ast.Tuple | ast.List):
        return any(map(_differ, one.elts, other.elts))
    if ast.unparse(one) == ast.unparse(other):
        return False
    if isinstance(one, ast.Constant | ast.UnaryOp) or isinstance(other, ast.Constant | ast.UnaryOp):
        return (_is_other(one) and (_is_other(other) or not isinstance(other, ast.Constant))) or (
            _is_other(other) and not isinstance(one, ast.Constant)
        )
    made = [each for each in (one, other) if not _is_of_precision(each) and _makes(each)]
    return len(made) == 2 and _makes(one) != _makes(other)


def _makes(node: ast.expr) -> str:
    """The class, or function, that an expression names or calls."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return last_name(node) if last_name(node)[:1].isupper() and not last_name(node).isupper() else ""


def _is_of_precision(node: ast.AST) -> bool:
    for part in ast.walk(node):
        name = getattr(part, "id", None) or getattr(part, "attr", None) or getattr(part, "arg", None)
        said = getattr(part, "value", None) if isinstance(part, ast.Constant) else name
        if isinstance(said, str) and (_belongs(said) or isinstance(as_dtype(said), Dtype)):
            return True
    return False


def _is_other(value: ast.expr) -> bool:
    """Whether a value is a string or a number that names no precision."""
    inner = value.operand if isinstance(value, ast.UnaryOp) else value
    said = inner.value if isinstance(inner, ast.Constant) else None
    if isinstance(said, str):
        return not is_precision_word(said) and not isinstance(as_dtype(said), Dtype)
    return isinstance(said, int | float) and not isinstance(said, bool)


def _may_be_bits(node: ast.expr) -> bool:
    """Whether a number may be the bits of a precision where no name says what it is."""
    return isinstance(node, ast.Constant) and node.value in (16, 32)


def _belongs(name: str) -> bool:
    return speaks(name) or not OF_PRECISION.isdisjoint(re.findall(r"[a-z\d]+", name.lower()))


def _belongs_around(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a value is only shown, or stands under a name of what belongs to a precision."""
    above = list(module.ancestors(node))
    given = [item.arg or "" for item in above if isinstance(item, ast.keyword)]
    given += [
        _target_name(item.targets[0])
        for item in above
        if isinstance(item, ast.Assign) and not isinstance(item.targets[0], ast.Tuple)
    ]
    if not given and isinstance(node, ast.IfExp) and _may_be_bits(node.body) and _may_be_bits(node.orelse):
        return True
    given += [item.name for item in above if isinstance(item, FunctionNode)][:1]
    given += [last_name(item.func) for item in above if isinstance(item, ast.Call)]
    return is_shown(module, node) or any(map(_belongs, given))
