"""What else than the precision hangs on a setting that a move changes, in its run and in other programs.

What is only shown is no such use, and neither is what belongs to a precision: a loss scale, bits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..model import Place
from ..purpose.files import purpose_of
from ..python.conditions import conditions_in
from ..python.names import ModuleNames, modules_at, modules_with
from ..source.facts import memo
from ..source.project import Project
from ..torch.dtypes import Constant
from ..trainers.reading.command_options import declared_options
from ..trainers.reading.links import joined_sources
from ..trainers.reading.reach_of_runs import may_use
from ..trainers.reading.run_members import Run
from ..trainers.reading.setting_reads import read_of
from .left_behind import CODE
from .naming_files import moved_anchors, moved_in_scripts
from .pairs import RunPair
from .run_values import RunValues
from .setting_names import SettingNames, plain_name
from .uses_of_settings import other_uses

CONSEQUENCES = ("scaler", "cast", "island")
"""Roles of what a setting decides, and that are none."""
OPTIONS = ("option", "field", "flag")
"""Roles of settings that one object holds."""
TRUTHS = {"true": True, "false": False}


def chosen_besides(
    project: Project, after: Project, pair: RunPair, old: Run | None, new: Run | None
) -> Iterator[Place]:
    """The places that decide something else by what has moved."""
    was, now, places = _moved(pair)
    told = (entry.declaration for entry in pair.before.entries)
    are_options = any(item.key.startswith("--") or item.role in OPTIONS for item in told if plain_name(item.key) in was)
    found = _Uses(after, new, now, are_options).found() if now and new is not None and new.modules else {}
    known = _Uses(project, old, was, are_options).found() if found and old is not None else {}
    for said, (place, value) in found.items():
        before = known.get(said)
        if value is None or before is None or before[1] != value:
            yield place
    texts = project.document(pair.before.path), after.document(pair.before.path)
    if texts[0] is not None and texts[1] is not None and not pair.before.path.endswith(CODE):
        named = moved_in_scripts(texts[0], texts[1])
        yield from (
            Place(pair.before.path, span, text) for span, text in named if pair.says(pair.before.path, span.row)
        )
    for path in sorted({path for path, _ in places if path.endswith((".yaml", ".yml"))}):
        texts = project.document(path), after.document(path)
        if texts[0] is not None and texts[1] is not None:
            yield from (Place(path, span, text) for span, text in moved_anchors(texts[0], texts[1]))
    own = {*new.modules} if new is not None else {pair.before.path}
    for module in modules_with(after, tuple(name.rpartition(".")[2] for name in now)) if now else ():
        if module.path not in own and not purpose_of(module.path).is_foreign:
            for place, sources in _in_other_programs(after, module, frozenset(now)):
                if sources is None or not places.isdisjoint(sources):
                    yield place


def _moved(pair: RunPair) -> tuple[Mapping[str, Constant], Mapping[str, Constant], set[tuple[str, int]]]:
    """The settings of a run that a move has changed, with their values before and after it, and where they stand."""
    told = [[entry.declaration for entry in run.entries] for run in (pair.before, pair.after or pair.before)]
    said = [{(item.path, item.key, item.value) for item in each} for each in told]
    gone = [
        {plain_name(item.key): _value(item.value) for item in each if item.role not in CONSEQUENCES} for each in told
    ]
    changed = said[0] ^ said[1]
    names = {plain_name(key) for _, key, _ in changed} & (gone[0].keys() | gone[1].keys())
    was = {name: gone[0].get(name) for name in names}
    now = {name: gone[1].get(name, False if was[name] is True else None) for name in names}
    rows = {
        (item.path, item.span.row) for each in told for item in each if (item.path, item.key, item.value) in changed
    }
    return was, now, rows


def _value(text: str) -> Constant:
    return TRUTHS.get(text.lower(), text.strip("'\""))


@memo
def _in_other_programs(
    project: Project, module: ModuleNames, names: frozenset[str]
) -> tuple[tuple[Place, frozenset[tuple[str, int]] | None], ...]:
    """What a module decides by settings of these names, each with the places that it has them from.

    None where it has them from no place that is seen, and loads something: what a training has saved.
    """
    known = SettingNames(project, [module], dict.fromkeys(names))
    loads = any("load" in name for name in module.calls_by_name)
    found = []
    for use in other_uses(project, module, known):
        parts = [part for part in ast.walk(use.read or use.node) if known.is_read(module, part)]
        asked = [part for part in parts if isinstance(part, ast.expr)]
        places = {(item.path, item.span.row) for part in asked for item in joined_sources(project, module, part)}
        reads = [read for part in asked if (read := read_of(module, part)) is not None]
        options = [each for read in reads for each in declared_options(project, module, read.name)]
        places |= {(each.module.path, each.module.document.span(each.node).row) for each in options}
        if places or loads:
            found.append((module.place(use.node, use.said), frozenset(places) or None))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Uses(RunValues):
    """What the code of one run decides by some of its settings."""

    moved: Mapping[str, Constant]
    are_options: bool
    """Whether they are options of a program or fields of a class, of which code may make one text."""

    def found(self) -> Mapping[tuple[str, ...], tuple[Place, object]]:
        """The places, by what they say, each with what comes of it; None where nobody knows."""
        found: dict[tuple[str, ...], tuple[Place, object]] = {}
        modules = [*modules_at(self.project, self.run.modules)]
        known = SettingNames(self.project, modules, self.moved, are_options=self.are_options)
        for module in modules:
            for node, said, read, is_test in other_uses(self.project, module, known):
                if may_use(self.project, self.run.modules[0], module, node) and self.is_reached(module, node):
                    value: object = None
                    if read is not None:
                        value = self._truth(module, read, known) if is_test else self._values(module, read, known)
                    found[module.path, ast.unparse(node), said] = module.place(node, said), value
        return found

    def _truth(self, module: ModuleNames, test: ast.expr, known: SettingNames) -> object:
        """Whether a test holds; None where that is not known."""
        given = conditions_in(self.project, module).given(test, True)
        outcomes = [self.holds(module, item) for item in given]
        if given and None not in outcomes:
            return all(outcomes)
        return _held(test, known, self.moved)

    def _values(self, module: ModuleNames, node: ast.expr, known: SettingNames) -> object:
        return frozenset(self.read(module, node)) or known.value_of(node)


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
