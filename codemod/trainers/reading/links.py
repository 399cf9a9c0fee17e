"""From an expression to the places that give it its value: options, fields, constants, configuration files, flags.

``args.amp_dtype`` leads to the default of ``--amp-dtype``, to the ``amp_dtype:`` of the YAML files that the program
reads, and to ``--amp-dtype fp16`` in its launch scripts. What cannot be followed is left out: no source is ever
guessed. What functions return is not followed: their branches are the code's, not the user's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...model import Place
from ...python.callers import callers_of
from ...python.names import FunctionNode, ModuleNames, last_name
from ...python.options import Option
from ...python.paths import guards
from ...python.scopes import Binding
from ...python.trace import Domain, Trace, trace
from ...python.trace_steps import Chosen, Defaulted, Filled, FromBinding, Passed, TraceGap, TraceStep
from ...source.project import Project
from ...torch.accelerators import asked_of_accelerators
from ...torch.dtype_values import constants_of
from ...torch.dtypes import Unknown
from .command_options import FILLING, FILLS_FROM_FILES, as_overridden, declared_options, values_given
from .enum_members import are_members, member_source
from .given_fields import entries_given, given_to_field
from .joined_switches import ASKS_FOR_DEVICE, all_of, is_joined, none_of
from .launch_flags import programs_of
from .mapping_items import DICTIONARIES, fills, is_of_globals, values_under
from .named_classes import arguments_named
from .opened_files import FILES
from .picked_words import Pick, pick_of
from .setting_reads import Read, entries_filling, entries_read, is_of_settings, read_of
from .source import SourceKind, ValueSource, literal_source, tested_source
from .word_pairs import pairs_given

MAX_SHOWN = 3
"""Calls on the way to a value that are named."""
SAME_VALUE = ("lower", "upper", "strip", "str", "bool")
"""Calls that give back what they are given, as far as settings go."""
ALWAYS_THERE = ("option", "flag")
"""Kinds of sources of what a parser has filled in: no default of ``getattr`` counts beside them."""
HERE: SourceKind = ""
"""The kind of a literal that stands in the expression itself: the step that leads to it says what it is."""


def sources(
    project: Project, module: ModuleNames, expression: ast.expr, domain: Domain[ValueSource] | None = None
) -> tuple[ValueSource, ...]:
    """Every literal that ``expression`` of ``module`` can have its value from, by place; empty when none is known.

    Empty, too, where something else has a say beside it: see `joined_sources`.
    """
    found = _found(project, module, expression, domain or LITERALS)
    return () if any(map(is_joined, found)) else found


def joined_sources(project: Project, module: ModuleNames, expression: ast.expr) -> tuple[ValueSource, ...]:
    """The same of what a trainer is passed: with the places whose word picks it (``args.precision == "fp16"``), and of
    ``a and b`` those of ``a``, with what ``b`` says to them."""
    pick = pick_of(project, module, expression)
    picked = _picked(pick, _found(project, pick.module, pick.node, LITERALS)) if pick is not None else ()
    return picked or _found(project, module, expression, WORDS)


def _found(project: Project, module: ModuleNames, node: ast.expr, by: Domain[ValueSource]) -> tuple[ValueSource, ...]:
    found = {(item.path, item.span): item for item in reversed(trace(project, module, node, by))}
    return tuple(_of_kind(found[place], "constant", "") for place in sorted(found))


def _picked(pick: Pick, found: Iterable[ValueSource]) -> tuple[ValueSource, ...]:
    """What the words at some places pick, if that is known of each."""
    picked = tuple(map(pick.as_picked, found))
    return picked if not any(isinstance(item.value, Unknown) for item in picked) else ()


def _of_kind(source: ValueSource, kind: SourceKind, key: str) -> ValueSource:
    return source if source.kind and source.key else replace(source, kind=source.kind or kind, key=source.key or key)


def _leaf(question: Trace[ValueSource], module: ModuleNames, node: ast.expr) -> Iterable[ValueSource] | None:
    literal = literal_source(HERE, module, node, "") or member_source(question.project, HERE, module, node)
    if literal is not None:
        return (literal,)
    if isinstance(node, ast.Attribute) and node.attr == "value":
        found = question.of(module, node.value)
        return found if are_members(found) else None
    given = list(asked_of_accelerators(question.project, module, node))
    if given:
        return [item for there, value in given for item in question.of(there, value)]
    if isinstance(node, ast.IfExp):
        checked = _checked(node)
        return question.of(module, checked) if checked is not None else _of_machine(module, node)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return all_of(question, module, node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return none_of(question.of(module, node.operand))
    if isinstance(node, ast.Subscript):
        return _setting(question, module, node)
    return _call(question, module, node) if isinstance(node, ast.Call) else None


def _leaf_or_pick(question: Trace[ValueSource], module: ModuleNames, node: ast.expr) -> Iterable[ValueSource] | None:
    pick = pick_of(question.project, module, node) if isinstance(node, ast.Compare) else None
    return _leaf(question, module, node) if pick is None else _picked(pick, question.of(pick.module, pick.node))


def _checked(node: ast.IfExp) -> ast.expr | None:
    """``x`` of ``x if x in ("no", "fp16") else "no"``: what stands for words that are not accepted decides nothing."""
    test = node.test
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.In | ast.NotIn):
        return None
    kept = node.body if isinstance(test.ops[0], ast.In) else node.orelse
    return kept if ast.unparse(kept) == ast.unparse(test.left) else None


def _of_machine(module: ModuleNames, node: ast.IfExp) -> Iterable[ValueSource] | None:
    """A choice by a test of the machine is a value of its own, or none; by a device or a setting it is followed."""
    test = node.test
    if isinstance(test, ast.Call) and (module.qualified(test.func) in ASKS_FOR_DEVICE or read_of(module, test)):
        return None
    whole = tested_source(HERE, module, node, "") if _asks_machine_alone(module, node.test) else None
    return (whole,) if whole is not None else () if isinstance(test, ast.BoolOp | ast.Call) else None


def _asks_machine_alone(module: ModuleNames, test: ast.expr) -> bool:
    """Whether no setting decides as well: ``args.amp and torch.cuda.is_bf16_supported()``."""
    if isinstance(test, ast.BoolOp):
        return all(_asks_machine_alone(module, part) for part in test.values)
    asked = test.operand if isinstance(test, ast.UnaryOp) else test.left if isinstance(test, ast.Compare) else test
    called = next((part for part in ast.walk(asked) if isinstance(part, ast.Call)), None)
    return called is not None and read_of(module, called) is None


def _call(question: Trace[ValueSource], module: ModuleNames, node: ast.Call) -> Iterable[ValueSource]:
    """``x.lower()``, ``str(x)``, ``getattr(args, "x", default)``, ``getattr(torch, x)``, ``config.get("x")``."""
    func, arguments = node.func, node.args
    name = last_name(func)
    if name == "getattr" and len(arguments) >= 2 and module.qualified(arguments[0]) == "torch":
        return question.of(module, arguments[1])
    read = read_of(module, node) if name in ("getattr", "get", "getenv", "pop") else None
    if read is not None:
        found = list(_setting(question, module, node))
        held = any(True for _ in _of_dictionary(question, module, node))
        held = held or (name == "getattr" and any(item.kind in ALWAYS_THERE for item in found))
        default = arguments[-1:] if len(arguments) >= (3 if name == "getattr" else 2) and not held else []
        kind: SourceKind = "parameter" if read.of_environment else "fallback"
        return [*found, *(_of_kind(item, kind, read.name) for value in default for item in question.of(module, value))]
    if name in SAME_VALUE and isinstance(func, ast.Attribute) and not arguments:
        return question.of(module, func.value)
    is_same = name in SAME_VALUE and isinstance(func, ast.Name) and len(arguments) == 1
    return question.of(module, arguments[0]) if is_same else ()


def _setting(question: Trace[ValueSource], module: ModuleNames, node: ast.expr) -> Iterator[ValueSource]:
    """What an option or configuration key that is read here is given anywhere."""
    yield from _of_dictionary(question, module, node)
    read = read_of(module, node)
    if read is None or not is_of_settings(question.project, read):
        return
    yield from entries_read(question.project, read)
    yield from pairs_given(question.project, read.parts, programs_of(question.project, read.module))
    options = () if read.of_environment else declared_options(question.project, read.module, read.name)
    always = any(option.kind == "field" and not _branch_of(option) for option in options)
    for option in options:
        yield from _as_taken(option, values_given(question.project, option))
        yield from _as_taken(option, entries_given(question.project, option, read))
        given = given_to_field(question.project, option, read)
        for caller, value, kind in given.values:
            yield from (_of_kind(source, kind, read.name) for source in question.of(caller, value))
        if option.value is not None and not option.is_switched and given.leaves_default:
            test = _branch_of(option) if always else ""
            for source in _as_taken(option, question.of(option.module, option.value)):
                guessed = source.is_guessed or option.is_guessed
                yield _of_kind(
                    replace(source, picked_by=source.picked_by or test, is_guessed=guessed), option.kind, read.name
                )


def _branch_of(option: Option) -> str:
    """The test under which a field is given this value: ``if args.disable_amp: config.AMP = False``."""
    node = option.default if option.kind == "field" else None
    return " and ".join(_tests_around(option.module, node, option.name)) if node is not None else ""


def _as_taken(option: Option, found: Iterable[ValueSource]) -> Iterator[ValueSource]:
    """The values of an option, each with its declaration."""
    return (replace(source, option=source.option or option) for source in found)


def _of_dictionary(question: Trace[ValueSource], module: ModuleNames, node: ast.expr) -> Iterator[ValueSource]:
    """What a dictionary that is written out, and never changed under this key, holds: ``options["dtype"]``."""
    is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and bool(node.args)
    asked = node.slice if isinstance(node, ast.Subscript) else node.args[0] if is_get else None  # type: ignore[attr-defined]
    table = node.value if isinstance(node, ast.Subscript) else node.func.value if is_get else None  # type: ignore[attr-defined]
    key = asked.value if isinstance(asked, ast.Constant) else None
    if not isinstance(table, ast.Name) or not isinstance(key, str):
        return
    for owner, made in trace(question.project, module, table, DICTIONARIES):
        known = values_under(owner, made, key)
        if len(known) == 1 and not any(fills(item, key) for item in (owner, module)):
            found = (_of_kind(source, "constant", key) for source in question.of(owner, known[0]))
            yield from as_overridden(question.project, owner, key, found) if is_of_globals(made) else found


def _gap(question: Trace[ValueSource], module: ModuleNames, node: ast.AST, why: TraceGap) -> Iterator[ValueSource]:
    """Nothing; but click fills parameters from options, and configurations those of what they name by its path."""
    function = module.parents.get(module.parents.get(node, node)) if isinstance(node, ast.arg) else None
    if (
        why in (TraceGap.CALLERS, TraceGap.MORE_CALLERS)
        and isinstance(node, ast.arg)
        and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    ):
        yield from arguments_named(question.project, module, function, node.arg)
        for option in declared_options(question.project, module, node.arg, function):
            yield from _as_taken(option, values_given(question.project, option))
            yield from _as_taken(option, _parsed_from_files(question.project, option))
            if option.value is not None and not option.is_switched:
                for source in _as_taken(option, question.of(option.module, option.value)):
                    yield _of_kind(source, option.kind, option.name)


def _parsed_from_files(project: Project, option: Option) -> Iterator[ValueSource]:
    """jsonargparse fills the parameters of a function from the files that ``--config`` names."""
    if option.function is not None and not FILLS_FROM_FILES.isdisjoint(option.module.imported_packages):
        for source in entries_read(project, Read(option.module, (option.name,))):
            if source.kind == "entry" and source.key == option.name and not source.is_guessed:
                yield source


def _carried(question: Trace[ValueSource], step: TraceStep, found: Iterable[ValueSource]) -> Iterable[ValueSource]:
    if isinstance(step, FromBinding):
        in_class = isinstance(step.binding.scope.node, ast.ClassDef)
        name = step.binding.name.removeprefix("self.")
        test = _picking(step)
        picked = (replace(item, picked_by=item.picked_by or test) if item.kind == HERE else item for item in found)
        own = [_of_kind(source, "field" if in_class else "constant", name) for source in picked]
        is_variable = step.binding.scope is step.module.module_scope
        return as_overridden(question.project, step.module, name, own) if is_variable else own
    if isinstance(step, Defaulted):
        kind: SourceKind = "fallback" if _is_filled(question.project, step) else "parameter"
        return [_of_kind(source, kind, step.parameter.name) for source in found]
    if isinstance(step, Filled):
        return [*found, *_of_filling(question.project, step)]
    if isinstance(step, Passed):
        site = step.site
        call = f"{site.module.path}:{site.module.document.span(site.call).row}"
        passed = (_of_kind(source, "argument", step.parameter.name) for source in found)
        return [
            replace(source, via=(call, *source.via)) if len(source.via) < MAX_SHOWN else source for source in passed
        ]
    if isinstance(step, Chosen) and constants_of(question.project, step.module, step.node.test) == {not step.holds}:
        return ()
    if isinstance(step, Chosen) and not _is_fallback(step.node):
        test = ast.unparse(step.node.test)
        return [replace(item, picked_by=item.picked_by or test) if item.kind == HERE else item for item in found]
    return found


def _of_filling(project: Project, step: Filled) -> Iterator[ValueSource]:
    """The entries of files that are loaded and passed as a whole: ``main(**OmegaConf.load(args.config))``."""
    site, function = step.site, step.parameter.scope.node
    for value in (item.value for item in site.call.keywords if item.arg is None):
        read = read_of(site.module, value)
        above = read.parts if read is not None else ()
        named = trace(project, site.module, value, FILES)
        if isinstance(function, FunctionNode) and any(named):
            yield from entries_filling(project, Read(site.module, (*above, step.parameter.name)), function)


def _is_filled(project: Project, step: Defaulted) -> bool:
    """Whether a mapping that is not written out may fill the parameter: ``main(**OmegaConf.load(path))``."""
    function = step.parameter.scope.node
    sites = callers_of(project, step.module, function).sites if isinstance(function, FunctionNode) else ()
    unpacked = (item for site in sites for item in site.call.keywords if item.arg is None)
    is_filled = bool(getattr(function, "decorator_list", ())) and not step.module.imported_packages.isdisjoint(FILLING)
    return is_filled or any(not isinstance(item.value, ast.Dict) for item in unpacked)


def _picking(step: FromBinding) -> str:
    """The test of the ``if`` in which a variable is given this value, or beside which it keeps it; empty for none.

    A test of the variable itself is no choice, but a default.
    """
    others = [binding for binding in step.rivals if binding is not step.binding]
    tests = _tests_of(step, step.binding)
    tests = tests or [f"not ({test})" for binding in others for test in _tests_of(step, binding)]
    return " and ".join(dict.fromkeys(tests)) if others else ""


def _tests_of(step: FromBinding, binding: Binding) -> list[str]:
    is_assigned = isinstance(binding.node, ast.stmt | ast.expr) and binding.kind == "assign"
    return _tests_around(step.module, binding.node, binding.name) if is_assigned else []


def _tests_around(module: ModuleNames, node: ast.AST, name: str) -> list[str]:
    around = [guard for guard in guards(module, node) if guard.leaving is None]
    own = [guard for guard in around if not any(_is_named(item, name) for item in ast.walk(guard.test))]
    return [ast.unparse(guard.test) if guard.holds else f"not ({ast.unparse(guard.test)})" for guard in own]


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name


def _is_fallback(node: ast.IfExp) -> bool:
    """``x if x else "fp16"``, ``"fp16" if x is None else x``: no choice between two, but a default."""
    tested = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
    tested = tested.left if isinstance(tested, ast.Compare) else tested
    return ast.unparse(tested) in (ast.unparse(node.body), ast.unparse(node.orelse))


MAX_PLACES = 400
"""Places that one setting has its value from: the configurations of a large project, each with its own."""
LITERALS: Domain[ValueSource] = Domain(
    _leaf, _gap, _carried, _setting, follows_returns=False, every_default=True, most=MAX_PLACES
)
"""A literal that a setting has its value from."""
WORDS = replace(LITERALS, leaf=_leaf_or_pick)
"""The same, and a word that is compared."""


def unfollowed_argument(project: Project, module: ModuleNames, expression: ast.expr) -> Place | None:
    """A call that hands ``expression`` something which leads to no literal, so that its `sources` are not all of them.

    The default of that parameter decides only the other runs. None where there is no such call.
    """
    return next(iter(trace(project, module, expression, UNFOLLOWED)), None)


def _passed_on(question: Trace[Place], step: TraceStep, found: Iterable[Place]) -> Iterable[Place]:
    yield from found
    if isinstance(step, Passed):
        site = step.site
        argument = site.target.arguments(site.call)[step.parameter.name]
        if not trace(question.project, site.module, argument, LITERALS):
            yield site.module.place(argument, "what is passed here cannot be followed")


UNFOLLOWED: Domain[Place] = Domain(
    lambda _question, module, node: () if literal_source(HERE, module, node, "") is not None else None,
    lambda *_gap: (),
    _passed_on,
    lambda *_setting: (),
    follows_returns=False,
    every_default=True,
)
"""The arguments on the way to a value that lead nowhere."""
