"""The project's own switch for mixed precision around a region, and what it is set to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.model import Place
from ....codemod.python.bindings import only_value
from ....codemod.python.callers import callers_of
from ....codemod.python.functions import called_function
from ....codemod.python.identifiers import words_of
from ....codemod.python.names import FunctionNode, ModuleNames, modules_with
from ....codemod.python.paths import guards
from ....codemod.python.scopes import last_name
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import BF16, DTYPE_WORDS, FP16, FP32, HALVES, Constant, Dtype, as_dtype
from ....codemod.trainers.reading import region_switches
from ....codemod.trainers.reading.command_options import declared_options
from ....codemod.trainers.reading.numerals import truths
from ....codemod.trainers.reading.source import ValueSource
from ....codemod.trainers.reading.stated_words import is_switch, speaks
from ....codemod.trainers.reading.word_tests import word_tests

DEVICES = frozenset(("cuda", "gpu", "cpu", "device", "mps", "xpu"))
"""Words of names that say what a program runs on."""
SHOWING = ("autocast", "print", "info", "str", "repr", "format", "nullcontext")
"""Calls whose arguments compute nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """An expression that must be true for a region to compute in 16 bits, and where it is given its value."""

    module: ModuleNames
    node: ast.expr
    sources: tuple[ValueSource, ...]
    opens: bool = True
    """False for one that must not be true: ``enabled=not args.full_precision``."""

    @property
    def text(self) -> str:
        return ast.unparse(self.node)

    @property
    def is_off_by_default(self) -> bool:
        """Whether everything that is known to set it says no; or yes, of one that closes the region."""
        off = (False, None) if self.opens else (True,)
        return bool(self.sources) and all(item.value in off for item in self.sources)

    @property
    def is_picked(self) -> bool:
        """Whether the code gives it both values itself: ``amp = True`` in one branch, or call, and False in another."""
        return {True, False} <= {item.value for item in self.sources if item.kind in ("constant", "argument")}

    @property
    def other_meaning(self) -> str:
        """That a closing switch is not named for precision: ``not args.debug``. Empty where it is, or opens."""
        names = (last_name(self.node), *(item.key.rpartition(".")[2] for item in self.sources))
        if self.opens or any(speaks(name) or not words_of(name).isdisjoint(DTYPE_WORDS) for name in names):
            return ""
        return f"{self.text} is not named for precision, and may decide more"

    def is_named_for_other(self, wanted: Dtype) -> bool:
        """Whether its name, or that of an option that feeds it, says the other 16-bit dtype alone: ``--fp16``."""
        names = (last_name(self.node) or "", *(item.key for item in self.sources))
        said = ({DTYPE_WORDS[word] for word in words_of(name) if word in DTYPE_WORDS} for name in names)
        return any(dtypes and dtypes <= {*HALVES} - {wanted} for dtypes in said)

    @property
    def on(self) -> tuple[ValueSource, ...]:
        """The places that switch mixed precision on."""
        return tuple(item for item in self.sources if item.value is self.opens)


def switches_of(project: Project, item: Autocast) -> tuple[Switch, ...]:
    """The switches of a region: its ``enabled=`` and the tests of mixed precision around it.

    Of ``scaler is not None`` what decides whether one is made: ``scaler = GradScaler() if args.amp else None``.
    """
    nodes = [(item.module, switch.node) for switch in region_switches.switches_of(item) if switch.opens]
    nodes += region_switches.made_around(project, item)
    return tuple(Switch(module, node, truths(project, module, node)) for module, node in nodes)


def closing_switches(project: Project, item: Autocast) -> tuple[Switch, ...]:
    """The switches of a region that keep it off when they are on: ``enabled=not args.full_precision``."""
    nodes = [switch.node for switch in region_switches.switches_of(item) if not switch.opens]
    return tuple(Switch(item.module, node, truths(project, item.module, node), opens=False) for node in nodes)


def is_off_by_default(project: Project, item: Autocast) -> bool:
    """Whether everything that is known to set a switch of the region says no, so that only a caller's flag opens it."""
    return any(switch.is_off_by_default for switch in switches_of(project, item))


def undecided(project: Project, item: Autocast) -> str:
    """Why a region should not be switched off by itself: an option that nothing here gives a value decides."""
    asked = [switch for switch in switches_of(project, item) if _is_asked(item, switch.node)]
    open_ones = [switch.text for switch in (*asked, *closing_switches(project, item)) if not switch.sources]
    if open_ones:
        return f"{open_ones[0]} decides today, and would do nothing then"
    tests = word_tests(project, item)
    if tests is not None:
        return f"{tests.text} decides today, and would do nothing then"
    called = next(tests_of_callers(project, item), None)
    if called is not None:
        return f"{called[0].path}:{called[1].lineno} {ast.unparse(called[1])} decides today, and would do nothing then"
    passed = next(_passed_in(project, item), None)
    if passed is not None:
        return f"{passed.path}:{passed.span.row} {passed.message}"
    dtype = item.dtype_node
    other = _other_use(project, item.module, dtype) if isinstance(dtype, ast.Name) else None
    return f"{other.path}:{other.span.row} {other.message}" if other is not None else ""


def _is_asked(item: Autocast, node: ast.expr) -> bool:
    """Whether a switch is one of precision: by its name, or since nothing but ``enabled=`` is seen to make use of it.

    What a test or torch says of the machine is none: ``cuda = device.type != "cpu"``.
    """
    names = [*_names(node)]
    if any(map(is_switch, names)) or node is not item.enabled_node:
        return any(map(is_switch, names))
    value = only_value(item.module, node) or node
    is_test = isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)
    is_torch = isinstance(value, ast.Call) and (item.module.qualified(value.func) or "").startswith("torch.")
    return not (is_test or is_torch or any(not DEVICES.isdisjoint(words_of(name)) for name in names))


def tests_of_callers(project: Project, item: Autocast) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """The tests of mixed precision around the calls of the function that holds a region, or around its class."""
    scope = item.module.scope_of(item.node).function
    owner = scope.enclosing_class
    if isinstance(scope.node, FunctionNode) and owner is None:
        nodes = [(site.module, site.call) for site in callers_of(project, item.module, scope.node).sites]
    else:
        name = getattr(owner.node, "name", "") if owner is not None else ""
        found = modules_with(project, (name,)) if name else ()
        nodes = [
            (module, load)
            for module in found
            for load in (*module.name_loads.get(name, ()), *module.attribute_loads.get(name, ()))
        ]
    for module, node in nodes:
        tests = [guard.test for guard in guards(module, node)]
        tests += [above.test for above in module.ancestors(node) if isinstance(above, ast.IfExp)]
        yield from ((module, test) for test in tests if any(map(is_switch, _names(test))))


def _passed_in(project: Project, item: Autocast) -> Iterator[Place]:
    """What callers pass for what opens the region, or is its dtype, whatever that is called there: ``on=args.amp``."""
    function = item.module.scope_of(item.node).function.node
    tests = [guard.test for guard in guards(item.module, item.node)]
    read = {name for node in (*tests, item.node) for name in _names(node)}
    for site in callers_of(project, item.module, function).sites if isinstance(function, FunctionNode) else ():
        for name, value in site.target.arguments(site.call).items():
            if name in read and any(map(_asks_for_precision, _names(value))):
                yield site.module.place(value, f"{ast.unparse(value)} decides today, and would do nothing then")


def _asks_for_precision(name: str) -> bool:
    return is_switch(name) or speaks(name)


def _names(test: ast.expr) -> Iterator[str]:
    """The names that a test reads: of ``cfg.SOLVER.AMP.ENABLED`` also AMP, of ``cfg["amp"]`` also amp."""
    for node in ast.walk(test):
        name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "value", None)
        if isinstance(name, str):
            yield name


def _other_use(project: Project, module: ModuleNames, dtype: ast.Name) -> Place | None:
    """Where the variable of a region's dtype says that of something else: ``load(name, dtype=amp_dtype)``."""
    function = module.scope_of(dtype).function.node
    for load in module.name_loads.get(dtype.id, ()):
        if module.scope_of(load).function.node is not function:
            continue
        parent = module.parents.get(load)
        call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or load is call.func or last_name(call.func) in SHOWING:
            continue
        if isinstance(parent, ast.keyword) or called_function(project, module, call) is None:
            return module.place(load, f"{ast.unparse(call)} is in the dtype of the region, and would stay in it")
    return None


def is_for_half_only(project: Project, item: Autocast) -> bool:
    """``autocast(dtype=dtype) if dtype != torch.float32 else nullcontext()``: float32 needs no edit here."""
    node = item.dtype_node
    if node is None:
        return False
    for guard in guards(item.module, item.node):
        test, holds = guard.test, guard.holds
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and ast.unparse(node) == ast.unparse(test.left):
            excluded = isinstance(test.ops[0], ast.NotEq | ast.IsNot) == holds
            others = constants_of(project, item.module, test.comparators[0]) if excluded else set()
            if any(as_dtype(value) == FP32 for value in others):
                return True
    return False


def half_asked_by(project: Project, item: Autocast, wanted: Dtype) -> str:
    """``enabled=dtype == torch.float16``: the test that asks for another 16-bit dtype than ``wanted``.

    Also where a variable, a parameter or a field has it: what names float16 then must not compute in bfloat16.
    """
    for module, test in region_switches.tests_of(project, item):
        if isinstance(test.ops[0], ast.Eq | ast.Is | ast.In):
            for side in (test.left, test.comparators[0]):
                asked = set(_dtypes(project, module, side))
                if asked and asked <= {BF16, FP16} and wanted not in asked:
                    return ast.unparse(test)
    tests = word_tests(project, item)
    if tests is not None and any(as_dtype(word) in {BF16, FP16} - {wanted} for word in tests.words):
        return tests.text
    return next((switch.text for switch in switches_of(project, item) if _is_of_trainer(project, switch, wanted)), "")


def _is_of_trainer(project: Project, switch: Switch, wanted: Dtype) -> bool:
    """``self.args.fp16``, which nothing in the project defines: a trainer's switch for float16 alone."""
    name = switch.node.attr if isinstance(switch.node, ast.Attribute) else ""
    is_other = DTYPE_WORDS.get(name) in {BF16, FP16} - {wanted}
    return is_other and not switch.sources and not declared_options(project, switch.module, name)


def _dtypes(project: Project, module: ModuleNames, side: ast.expr) -> Iterator[Constant]:
    """What one side of a test can be: ``"16-mixed"``, ``16``, each of ``("fp16", "float16")``."""
    for node in side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else (side,):
        for value in constants_of(project, module, node):
            yield as_dtype(str(value) if type(value) is int else value)
