"""Settings whose values pick a dtype in the project's own code, and what each value means there.

``{"fp16": torch.float16, "bf16": torch.bfloat16}[cfg.dtype]``, ``if args.amp == "bf16": dtype = torch.bfloat16``,
``getattr(torch, args.dtype)``: only values that such code accepts can be written into a configuration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ...model import Edit, EditRefused, ReplaceText
from ...python.conditions import excludes
from ...python.names import ModuleNames, last_name, modules_with, string_of
from ...python.paths import name_parts
from ...python.precision_words import CHOOSING
from ...python.trace import Domain, Trace, trace
from ...source.project import Project
from ...torch.device_tests import asks_for_device
from ...torch.dtypes import BF16, FP16, FP32, Constant, Dtype, Scenario, TextCondition, as_dtype
from ...torch.machine_tests import tells_of_bf16
from .links import sources
from .picked_words import FULL, TWINS, is_full, module_of, spelling
from .source import ValueSource

SETTING_NODES = (ast.Name, ast.Attribute, ast.Subscript)
SPEAKING = frozenset({*CHOOSING, "amp", "mixed", "autocast"})


@dataclass(frozen=True, slots=True, eq=False)
class Knob:
    """A setting, the expression that reads it, and the dtype that each of its values stands for."""

    module: ModuleNames
    node: ast.expr
    meanings: tuple[tuple[Constant, Dtype], ...]
    rivals: tuple[tuple[ModuleNames, ast.expr], ...] = ()
    """Other switches of which one that is on decides before this one, or with it."""
    by_machine: frozenset[Constant] = frozenset()
    """The values that pick float16 where the machine has no bfloat16."""
    undecided: frozenset[Constant] = frozenset()
    """The values with which something else decides between dtypes: ``auto``."""
    others: frozenset[Dtype] = frozenset()
    """What every value picks that no test names; empty where that is not one dtype."""

    @property
    def text(self) -> str:
        return ast.unparse(self.node)

    def literal(self, dtype: Dtype, like: Constant = None) -> Constant | None:
        """The value that picks ``dtype``, spelled as ``like`` is where the code knows it; None: it knows none."""
        known = [value for value, meant in self.meanings if meant == dtype and as_dtype(value) in (None, value, dtype)]
        known.sort(key=lambda value: as_dtype(value) != dtype)  # a name of it, before ``auto``
        alike = [value for value in known if spelling(value) == spelling(like)]
        return next(iter([*alike, *known]), None)

    def written(self, dtype: Dtype, source: ValueSource) -> Constant | None:
        """The same at a place; for float32 also a choice that the code knows as none of those of 16 bits: ``no``."""
        known = self.literal(dtype, source.value)
        words = sorted(source.option.words) if source.option is not None and dtype == FP32 in self.others else ()
        return next(filter(is_full, words), None) if known is None else known

    def meaning(self, value: Constant) -> Dtype | None:
        """The dtype that ``value`` picks; a word for float32 that no branch names counts as one."""
        known = next((meant for literal, meant in self.meanings if literal == value), None)
        if known is not None or isinstance(value, bool):
            return known
        guessed = as_dtype(value)
        if isinstance(guessed, Dtype):
            return guessed
        return FP32 if value in FULL else None

    def sources(self, project: Project) -> tuple[ValueSource, ...]:
        """Where the setting gets its values."""
        found = sources(project, self.module, self.node)
        others = [sources(project, module, node) for module, node in self.rivals]
        return tuple(beside_rivals(found, others)) if others else found


def knobs_of(
    project: Project, module: ModuleNames, scenarios: Iterable[Scenario], dtype_node: ast.expr | None
) -> tuple[Knob, ...]:
    """The settings that decide between the values of ``scenarios``; ``dtype_node`` may name an attribute of torch."""
    found: dict[str, _Growing] = {}
    known = sorted(scenarios, key=_is_fallback)
    for scenario in known:
        for given in scenario.given:
            _note(project, module, found, given, scenario)
    for growing in found.values():
        growing.shared.update(value for item in known for value in _left_to_others(project, growing, item, known))
    for holder, key in trace(project, module, dtype_node, TORCH_KEYS) if dtype_node is not None else ():
        names: dict[Constant, Dtype] = {dtype.name: dtype for dtype in (BF16, FP16, FP32)}
        found[ast.unparse(key)] = _Growing(holder, key, names)
    knobs = [
        Knob(
            item.module, item.node, tuple(item.settled(project)), (), frozenset(item.fallen_back), item.undecided, left
        )
        for item, left in ((item, frozenset(item.others if len(item.others) == 1 else ())) for item in found.values())
    ]
    speaking = [knob for knob in knobs if knob.meanings and _speaks(knob)]
    return tuple(replace(knob, rivals=tuple(_rivals(knob, speaking))) for knob in speaking)


def _is_fallback(scenario: Scenario) -> bool:
    """Whether a value is float16 because the machine has no bfloat16."""
    asked = (given for given in scenario.given if tells_of_bf16(given.text))
    return scenario.value == FP16 and any(given.equal is not (True in given.values) for given in asked)


def _rivals(knob: Knob, others: Iterable[Knob]) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """The other switches that pick another dtype when they are on."""
    picked = knob.meaning(True)
    for other in others if picked is not None else ():
        if other is not knob and other.meaning(True) not in (None, picked):
            yield other.module, other.node


def _speaks(knob: Knob) -> bool:
    """Whether the setting is about precision; ``device.type == "cuda"`` also decides about dtypes, and is not."""
    if any(isinstance(as_dtype(value), Dtype) for value, _ in knob.meanings):
        return True
    return not name_parts(knob.node).isdisjoint(SPEAKING)


@dataclass(slots=True)
class _Growing:
    module: ModuleNames
    node: ast.expr
    meanings: dict[Constant, Dtype]
    shared: set[Constant] = field(default_factory=set)
    """Values with which another setting decides as well."""
    fallen_back: set[Constant] = field(default_factory=set)
    """Values that pick another dtype where the machine has no bfloat16."""
    others: set[Dtype] = field(default_factory=set)
    """What every value picks that no test names."""

    @property
    def undecided(self) -> frozenset[Constant]:
        return frozenset(value for value in self.shared if isinstance(value, str))

    def settled(self, project: Project) -> Iterator[tuple[Constant, Dtype]]:
        yield from ((value, dtype) for value, dtype in self.meanings.items() if value not in self.shared)
        for dtype in self.others if len(self.others) == 1 else ():
            yield from ((word, dtype) for word in self._twins(project, dtype))

    def _twins(self, project: Project, dtype: Dtype) -> Iterator[str]:
        """``bf16`` of ``float16 if x == "fp16" else bfloat16``, where another test of ``x`` knows the word, or each
        test that has this name asks for the other word or for none: ``x != "no"``."""
        text, name = ast.unparse(self.node), _name(self.node)
        own = [item for item in self.module.of_type(ast.Compare) if text in map(ast.unparse, _sides(item))]
        known = {word for test in own for word in _words(test)}
        near = [(self.module, test) for test in own]
        modules = [*modules_with(project, (name,))]
        near += [(module, test) for module in modules for test in _tests_of(module, name)]
        only_tested = all(_only_tests(module, name) for module in modules)
        for value, meant in self.meanings.items():
            twin = TWINS.get(value) if isinstance(value, str) and meant != dtype else None
            if twin is None or as_dtype(twin) != dtype or twin in self.meanings:
                continue
            asked = {value, twin, *FULL}
            is_plain = only_tested and all(_is_plain(*item) and asked.issuperset(_words(item[1])) for item in near)
            if twin in known or is_plain:
                yield twin


def _name(node: ast.expr) -> str:
    return string_of(node.slice) or "" if isinstance(node, ast.Subscript) else last_name(node)


def _tests_of(module: ModuleNames, name: str) -> Iterator[ast.Compare]:
    return (item for item in module.of_type(ast.Compare) if any(_name(side) == name for side in _sides(item)))


def _only_tests(module: ModuleNames, name: str) -> bool:
    """Whether a file does nothing with what has this name but compare it: others might not know the word."""
    loads = (*module.attribute_loads.get(name, ()), *module.name_loads.get(name, ()))
    return all(isinstance(module.parents.get(item), ast.Compare) for item in loads)


def _words(test: ast.Compare) -> set[str]:
    constants = (node.value for node in ast.walk(test) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


def _is_plain(module: ModuleNames, test: ast.Compare) -> bool:
    """Whether a test asks for one word, and no run is stopped by it."""
    statement = module.statement_of(test)
    stops = isinstance(statement, ast.Assert | ast.Raise) or (
        isinstance(statement, ast.If) and isinstance(statement.body[0], ast.Raise)
    )
    return len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.NotEq) and not stops


def _sides(test: ast.Compare) -> tuple[ast.expr, ...]:
    return (test.left, *test.comparators)


def _note(
    project: Project, module: ModuleNames, found: dict[str, _Growing], given: TextCondition, scenario: Scenario
) -> None:
    dtype = scenario.value
    if not isinstance(given.node, (*SETTING_NODES, ast.Call)):
        return
    owner = module_of(project, module, given.scope)
    if owner is None:
        return
    growing = found.setdefault(given.text, _Growing(owner, given.node, {}))
    if not isinstance(dtype, Dtype):  # one that this is not about: float8
        growing.shared.update(_values(given, scenario))
        return
    is_named = any(item.equal and item.text == given.text for item in scenario.given)  # of ``elif x == "bf16":``
    if not given.equal and not is_named and any(isinstance(value, str) for value in given.values):
        growing.others.add(dtype)
    for value in _values(given, scenario):
        if growing.meanings.setdefault(value, dtype) != dtype:
            (growing.fallen_back if _is_fallback(scenario) else growing.shared).add(value)


def _values(given: TextCondition, scenario: Scenario) -> Iterator[Constant]:
    """The literals that ``given`` says the setting has, as far as other tests of it, ``assert x in ("bf16", "fp16")``,
    leave them; of a truth value that it has not, the other one.
    """
    beside = [item for item in scenario.given if item.text == given.text and item.scope is given.scope]
    beside = [item for item in beside if all(isinstance(value, str) for value in item.values)]
    for value in given.values:
        if isinstance(value, bool):
            yield value if given.equal else not value
        elif isinstance(value, str) and given.equal:
            yield from [value] if all((value in item.values) is item.equal for item in beside) else []


def _left_to_others(
    project: Project, growing: _Growing, picked: Scenario, scenarios: Sequence[Scenario]
) -> Iterator[Constant]:
    """Values that pick a dtype only together with another setting, where no branch says what they pick without it:
    ``elif x == "bf16" and fast:``."""
    text = ast.unparse(growing.node)
    beside = [item for item in picked.given if item.text != text and isinstance(item.node, SETTING_NODES)]
    if not beside or all(asks_for_device(project, growing.module, item.node) for item in beside):
        return
    for value in (value for item in picked.given if item.text == text for value in _values(item, picked)):
        for other in scenarios if isinstance(picked.value, Dtype) else ():
            is_named = any(item.text == text and (value in item.values) is not item.equal for item in other.given)
            is_other = isinstance(other.value, Dtype) and other.value != picked.value
            if is_other and not is_named and not any(excludes(item, other.given) for item in beside):
                yield value


KnobKey: TypeAlias = tuple[ModuleNames, ast.expr]


def _key(question: Trace[KnobKey], module: ModuleNames, node: ast.expr) -> tuple[KnobKey, ...] | None:
    """``x`` of ``getattr(torch, x)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "getattr":
        return None
    if len(node.args) not in (2, 3) or module.qualified(node.args[0]) != "torch":
        return None
    key = node.args[1]
    return ((module, key),) if isinstance(key, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else ()


TORCH_KEYS: Domain[KnobKey] = Domain(_key, lambda *_gap: ())
"""The names under which a dtype is looked up in torch, however it comes to the place that is asked about."""


def beside_rivals(found: Iterable[ValueSource], rivals: Sequence[tuple[ValueSource, ...]]) -> Iterator[ValueSource]:
    """The sources of a switch, each with what it takes to switch it on where others may be on."""
    on = [source for sources in rivals for source in sources if source.value is True]
    is_known = all(rivals)
    for source in found:
        if source.value is not False:
            yield source
            continue
        beside = [other for other in on if source.kind != "flag" or line_of(other) == line_of(source)]
        if not beside and is_known:
            yield source
        elif len(beside) == 1 and is_known and _is_bare(beside[0]) and source.flag:
            yield replace(source, span=beside[0].span, respelling=partial(_exchanged, beside[0], source.flag))
        else:
            yield replace(source, respelling=_refused)


def rival_on(project: Project, knobs: Iterable[Knob], source: ValueSource) -> tuple[ValueSource, Dtype] | None:
    """What picks 16 bits on a line that leaves a switch out: its ``--fp16`` gives way to ``--bf16``."""
    if source.value is not False or source.kind != "flag":
        return None
    beside = ((knob, other) for knob in knobs for other in knob.sources(project) if other.value is True)
    told = ((other, knob.meaning(True)) for knob, other in beside if line_of(other) == line_of(source))
    return next(((other, dtype) for other, dtype in told if dtype in (BF16, FP16) and dtype is not None), None)


def line_of(source: ValueSource) -> tuple[str, int]:
    """The file and the row of the command line that a flag stands on, or is missing from."""
    config, entry = source.config, source.entry
    if config is None or entry is None or entry.call is None:
        return source.path, source.span.row
    return source.path, config.document.position(config.text.commands[entry.call].start)[0]


def _is_bare(source: ValueSource) -> bool:
    return source.kind == "flag" and source.entry is not None and not source.text


def _exchanged(other: ValueSource, flag: str, value: Constant) -> Edit:
    if value is not True or other.config is None or other.entry is None:
        raise EditRefused(f"{other.key} is on")
    return other.config.edit(ReplaceText(other.entry.key_start, other.entry.key_end, flag))


def _refused(_value: Constant) -> Edit:
    raise EditRefused("another switch decides as well")
