"""What else than the precision code decides by a setting that a move changes: ``batch = 8 if args.fp16 else 4``.

Sizes, rates, counts, models, names of files. What is only shown is no such use, and neither is what belongs to a
precision: a loss scale, bits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..model import Place
from ..python.conditions import conditions_in
from ..python.names import FunctionNode, ModuleNames, last_name, modules_at, string_of
from ..python.trace import TABLES, trace
from ..source.project import Project
from ..torch.dtypes import Constant, Dtype, as_dtype
from ..trainers.reading.reach_of_runs import may_use
from ..trainers.reading.run_members import Run
from ..trainers.reading.stated_words import is_precision_word, speaks, text_of
from .left_behind import CODE
from .naming_files import is_shown, moved_in_paths, names_of_files
from .pairs import RunPair
from .run_values import RunValues
from .setting_names import SettingNames, plain_name

OF_PRECISION = frozenset(
    ("scale", "scaler", "bits", "bytes", "itemsize", "backend", "autocast", "nullcontext", "float", "bfloat16")
)
"""Parts of names of what belongs to a precision beside those that name one."""
CONSEQUENCES = ("scaler", "cast", "island")
"""Roles of what a setting decides, and that are none."""
TRUTHS = {"true": True, "false": False}


def chosen_besides(
    project: Project, after: Project, pair: RunPair, old: Run | None, new: Run | None
) -> Iterator[Place]:
    """The places in the code of a run that decide something else by what has moved."""
    was, now = _moved(pair)
    found = _Uses(after, new, now).found() if now and new is not None and new.modules else {}
    known = _Uses(project, old, was).found() if found and old is not None else {}
    texts = project.document(pair.before.path), after.document(pair.before.path)
    if texts[0] is not None and texts[1] is not None and not pair.before.path.endswith(CODE):
        told = moved_in_paths(texts[0], texts[1])
        yield from (Place(pair.before.path, span, text) for span, text in told if pair.says(pair.before.path, span.row))
    for said, (place, value) in found.items():
        before = known.get(said)
        if value is None or before is None or before[1] != value:
            yield place


def _moved(pair: RunPair) -> tuple[Mapping[str, Constant], Mapping[str, Constant]]:
    """The settings of a run that a move has changed, with their values before and after it."""
    told = [[entry.declaration for entry in run.entries] for run in (pair.before, pair.after or pair.before)]
    said = [{(item.path, item.key, item.value) for item in each} for each in told]
    gone = [
        {plain_name(item.key): _value(item.value) for item in each if item.role not in CONSEQUENCES} for each in told
    ]
    changed = said[0] ^ said[1]
    names = {plain_name(item.key) for each in told for item in each if (item.path, item.key, item.value) in changed}
    names &= gone[0].keys() | gone[1].keys()
    was = {name: gone[0].get(name) for name in names}
    return was, {name: gone[1].get(name, False if was[name] is True else None) for name in names}


def _value(text: str) -> Constant:
    return TRUTHS.get(text.lower(), text.strip("'\""))


@dataclass(frozen=True, slots=True)
class _Uses(RunValues):
    """What the code of one run does with some of its settings."""

    moved: Mapping[str, Constant]

    def found(self) -> Mapping[tuple[str, ...], tuple[Place, object]]:
        """The places, by what they say, each with what comes of it; None where nobody knows."""
        found: dict[tuple[str, ...], tuple[Place, object]] = {}
        modules = [*modules_at(self.project, self.run.modules)]
        known = SettingNames(self.project, modules, self.moved)
        for module in modules:
            for node, text, value in (
                *self._picks(module, known),
                *self._looked_up(module, known),
                *self._named(module, known),
            ):
                if may_use(self.project, self.run.modules[0], module, node) and self.is_reached(module, node):
                    found[module.path, ast.unparse(node), text] = module.place(node, text), value
        return found

    def _picks(self, module: ModuleNames, known: SettingNames) -> Iterator[tuple[ast.expr, str, object]]:
        """``8 if args.fp16 else 4``, and the same as a statement."""
        for node in module.of_type(ast.IfExp):
            if known.read(module, node.test) and _differ(node.body, node.orelse) and not _belongs_around(module, node):
                yield node.test, _said(node.test, node), self._truth(module, node.test, known)
        for branch in module.of_type(ast.If):
            given = _given_in(branch) if known.read(module, branch.test) else ()
            yield from (
                (branch.test, _said(branch.test, item), self._truth(module, branch.test, known)) for item in given
            )
        for match in module.of_type(ast.Match):
            bodies = (case.body for case in match.cases) if known.read(module, match.subject) else ()
            yield from (
                (match.subject, _said(match.subject, item), None) for body in bodies for item in _constants(body)
            )

    def _looked_up(self, module: ModuleNames, known: SettingNames) -> Iterator[tuple[ast.expr, str, object]]:
        """``SIZES[args.precision]``, ``SIZES.get(args.precision, 4)``."""
        reads: list[tuple[ast.expr, ast.expr, ast.expr]] = []
        for node in module.of_type(ast.Subscript):
            reads += [(node, node.value, node.slice)] if isinstance(node.ctx, ast.Load) else ()
        for call in module.calls_by_name.get("get", ()):
            reads += (
                [(call, call.func.value, call.args[0])] if isinstance(call.func, ast.Attribute) and call.args else ()
            )
        for node, table, key in reads:
            if isinstance(key, ast.Constant | ast.Slice) or not known.read(module, key):
                continue
            for made in trace(self.project, module, table, TABLES):
                values = made[1].values if made is not None else ()
                if any(_differ(one, other) for one in values for other in values) and not _belongs_around(module, node):
                    yield node, _said(key, node), self._values(module, key, known)

    def _named(self, module: ModuleNames, known: SettingNames) -> Iterator[tuple[ast.expr, str, object]]:
        for node, parts in names_of_files(self.project, module):
            read = next((part for part in parts if known.read(module, part)), None)
            if read is not None:
                yield (
                    node,
                    f"names a file by {text_of(read)}, which moves: {text_of(node)}",
                    self._values(module, read, known),
                )

    def _truth(self, module: ModuleNames, test: ast.expr, known: SettingNames) -> object:
        """Whether a test holds; None where that is not known."""
        given = conditions_in(self.project, module).given(test, True)
        outcomes = [self.holds(module, item) for item in given]
        if given and None not in outcomes:
            return all(outcomes)
        return _held(test, known, self.moved)

    def _values(self, module: ModuleNames, node: ast.expr, known: SettingNames) -> object:
        return frozenset(self.read(module, node)) or known.value_of(node)


def _said(read: ast.expr, node: ast.AST) -> str:
    shown = text_of(node) if isinstance(node, ast.expr) else ast.unparse(node)
    return f"{text_of(read)} also decides {shown}"


def _given_in(branch: ast.If) -> Iterator[ast.AST]:
    """What a branch gives that is no precision: numbers and words, and what the other branch gives otherwise."""
    yield from _constants(branch.body)
    yield from _constants(branch.orelse)
    others = {ast.unparse(target): value for target, value in _stored(branch.orelse)}
    for target, value in _stored(branch.body):
        other = others.get(ast.unparse(target))
        if other is not None and not (_is_other(value) or _is_other(other)) and _differ(value, other):
            yield value


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
    for target, value in _stored(body):
        if _is_other(value) and not _belongs(_target_name(target)):
            yield value if not isinstance(target, ast.Name) else ast.Assign([target], value, lineno=0)


def _target_name(target: ast.expr) -> str:
    return string_of(target.slice) or "" if isinstance(target, ast.Subscript) else last_name(target)


def _stored(body: Iterable[ast.stmt]) -> Iterator[tuple[ast.expr, ast.expr]]:
    for statement in body:
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                yield from zip(target.elts, statement.value.elts, strict=False)
            elif isinstance(statement, ast.Assign):
                yield target, statement.value


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


def _held(test: ast.expr, known: SettingNames, moved: Mapping[str, Constant]) -> bool | None:
    """Whether a test holds for what its settings are under their own names; None where that is not known."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _held(test.operand, known, moved)
        return None if inner is None else not inner
    value = known.value_of(test.left if isinstance(test, ast.Compare) else test)
    if isinstance(test, ast.Name | ast.Attribute | ast.Subscript):
        return value if isinstance(value, bool) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or value is None:
        return None
    other = test.comparators[0]
    sides = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
    words = [item.value for item in sides if isinstance(item, ast.Constant)]
    if len(words) != len(sides) or not isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        return None
    return (value in words) == isinstance(test.ops[0], ast.Eq | ast.In)
