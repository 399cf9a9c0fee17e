"""How tests of arguments, attributes and options can come out in the runs that a project gives."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..python.arguments import hides_arguments
from ..python.callers import callers_of
from ..python.enumerations import EnumMember, enumeration_of, equals_its_value, member_named, members_of
from ..python.functions import called_function, class_of
from ..python.names import (
    FunctionNode,
    ModuleNames,
    attribute_chain,
    defaults_in,
    definition_of,
    modules_at,
    modules_with,
    positional,
)
from ..python.paths import Guard, guards
from ..python.settings_objects import may_hold_settings
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import FromBinding, TraceGap, TraceStep
from ..source.facts import memo
from ..source.project import Project
from ..torch.dtypes import TextCondition
from ..torch.tables.operations import OPERATIONS
from .files import is_test
from .set_elsewhere import given_elsewhere
from .switches import OF_TRAINER, declared_options, is_set, trainer_switches_are_off
from .training_switches import is_needed
from .typed_flags import may_be_typed

DISPLAYS = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr, ast.Lambda, ast.BinOp, ast.ListComp)
"""Expressions that are never None."""
BUILTINS = frozenset(dir(builtins))
"""Names whose calls fill no parameter of the project's."""
OF_OBJECTS = ("forward", "__call__")
"""Methods that a call of an object runs, whatever that is called."""


class Something:
    """A value that is not None; nothing else is known of it."""


class Open:
    """A value that the source does not give."""


SOMETHING, OPEN = Something(), Open()
CUT = Open()
"""What is too much to look at: what calls pass that are too many, a way that is too long."""
KnownOutcome = tuple[str, object]
Answer = KnownOutcome | Something | Open
OutcomesOf = Callable[[ast.expr], tuple[Answer, ...]]


def can_come_out(project: Project, module: ModuleNames, test: ast.expr, holds: bool) -> bool:
    """Whether a test comes out as ``holds`` in some run; not where it asks a switch that nothing is known to set."""
    return _comes_out(test, holds, lambda node: _values(project, module, node))


def is_seen_to_come_out(project: Project, module: ModuleNames, test: ast.expr, holds: bool) -> bool:
    """The same, where what is too much to look at counts for nothing."""
    return _comes_out(
        test, holds, lambda node: tuple(item for item in _values(project, module, node) if item is not CUT)
    )


def runs_with(project: Project, module: ModuleNames, node: ast.AST, made: tuple[ModuleNames, ast.Call]) -> bool:
    """Whether the tests around a place in a constructor can come out so that a call of the class runs it."""
    there, call = made
    target = called_function(project, there, call)
    passed = target.arguments(call) if target is not None else {}
    if target is None or hides_arguments(call):
        return True
    defaults = defaults_in(target.node.args)

    def values(asked: ast.expr) -> tuple[Answer, ...]:
        bindings = module.bindings_of(asked) if isinstance(asked, ast.Name) else []
        if not isinstance(asked, ast.Name) or [item.kind for item in bindings] != ["parameter"]:
            return _values(project, module, asked)
        if asked.id in passed:
            return _values(project, there, passed[asked.id])
        return _values(project, module, defaults[asked.id]) if asked.id in defaults else (OPEN,)

    return all(_comes_out(guard.test, guard.holds, values) for guard in guards(module, node))


def can_hold(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether a condition can hold in some run, as `can_come_out` says it of a test in ``module``."""
    plain = isinstance(item.node, ast.Name | ast.Attribute) and item.node in module.parents
    if not plain or ast.unparse(item.node) != item.text:
        return True
    asks = _is_true if item.values == (True,) else lambda each: _is_among(each, item.values)
    return any(asks(each) in (None, item.equal) for each in _values(project, module, item.node))


def _comes_out(test: ast.expr, holds: bool, values: OutcomesOf) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _comes_out(test.operand, not holds, values)
    if isinstance(test, ast.BoolOp):
        parts = [_comes_out(item, holds, values) for item in test.values]
        return all(parts) if isinstance(test.op, ast.And) is holds else any(parts)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compares(test, holds, values)
    if isinstance(test, ast.Name | ast.Attribute | ast.Constant):
        return any(_is_true(item) in (None, holds) for item in values(test))
    return True


def _compares(test: ast.Compare, holds: bool, values: OutcomesOf) -> bool:
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        wanted = [right]
    elif isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
        wanted = right.elts
    else:
        return True
    constants = [value for item in wanted for value in _constant(item, values)]
    if len(constants) < len(wanted) or not isinstance(left, ast.Name | ast.Attribute | ast.Call):
        return True
    if isinstance(left, ast.Call) and not _makes_object(left):
        return True
    equal = isinstance(operator, ast.Eq | ast.Is | ast.In)
    return any(_is_among(item, constants) in (None, holds is equal) for item in values(left))


def _constant(node: ast.expr, values: OutcomesOf) -> list[object]:
    """The literal that is compared with, or what a member of an enumeration stands for; none of anything else."""
    if isinstance(node, ast.Constant):
        return [node.value]
    chain = attribute_chain(node) or []
    found = values(node) if any(item[:1].isupper() for item in chain[:-1]) else ()
    return [item[1] for item in found if isinstance(item, tuple)] if len(found) == 1 else []


def _is_among(item: Answer, constants: Sequence[object]) -> bool | None:
    if isinstance(item, tuple):
        same = any(type(item[1]) is type(each) and item[1] == each for each in constants)
        return same or (None if any(_may_be_parsed(item[1], each) for each in constants) else False)
    return False if isinstance(item, Something) and list(constants) == [None] else None


def _may_be_parsed(one: object, other: object) -> bool:
    """Whether one is a member and the other its value, of which a parser may make the member: ``type=Kind``."""
    parsed = (isinstance(item, EnumMember) and item.value == word for item, word in ((one, other), (other, one)))
    return any(parsed)


def _is_true(item: Answer) -> bool | None:
    return bool(item[1]) if isinstance(item, tuple) else None


def known_texts(project: Project, module: ModuleNames, node: ast.expr) -> frozenset[object] | None:
    """All that a key can be, where the source gives each of its values; else None."""
    found = _values(project, module, node)
    known = frozenset(item[1] for item in found if isinstance(item, tuple))
    is_open = any(isinstance(item, Open) for item in found)
    return known if not is_open and not any(isinstance(item, EnumMember) for item in known) else None


# --- what a name can be -----------------------------------------------------------------------------------------------


def _values(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Answer, ...]:
    return trace(project, module, node, VALUES)


def _leaf(question: Trace[Answer], module: ModuleNames, node: ast.expr) -> Iterable[Answer] | None:
    if isinstance(node, ast.Constant):
        return (_literal(node.value),)
    if isinstance(node, DISPLAYS):
        return (SOMETHING,)
    if isinstance(node, ast.Attribute):
        return _member(question, module, node)
    return _made(question, module, node) if isinstance(node, ast.Call) and _makes_object(node) else None


def _literal(value: object) -> KnownOutcome:
    return (type(value).__name__, value)


def _member(question: Trace[Answer], module: ModuleNames, node: ast.Attribute) -> Iterable[Answer] | None:
    """``Kind.BCE``, and ``kind.value``, where all that the kind can be are members."""
    member = member_named(question.project, module, node)
    if member is not None:
        return (_literal(member.value if equals_its_value(member) else member),)
    if node.attr != "value":
        return None
    named = member_named(question.project, module, node.value)
    if named is not None:
        return (_literal(named.value),)
    found = question.of(module, node.value) if isinstance(node.value, ast.Name | ast.Attribute) else ()
    members = [item[1] for item in found if isinstance(item, tuple) and isinstance(item[1], EnumMember)]
    return [_literal(item.value) for item in members] if members and len(members) == len(found) else None


def _made(question: Trace[Answer], module: ModuleNames, node: ast.Call) -> Iterator[Answer]:
    """An object; ``Kind("bce")`` is the member of that value."""
    owner = enumeration_of(question.project, module, node.func) if len(node.args) == 1 and not node.keywords else None
    if owner is None:
        yield SOMETHING
        return
    offered = members_of(owner.node).values()
    for item in question.of(module, node.args[0]):
        member = item[1] if isinstance(item, tuple) else None
        member = member if isinstance(member, EnumMember) else EnumMember(owner, member)
        known = member.owner is owner and any(_is_among(_literal(member.value), [each]) for each in offered)
        yield _literal(member.value if equals_its_value(member) else member) if known else OPEN


def _makes_object(node: ast.Call) -> bool:
    """``nn.Linear(8, 8)``: classes are written with a capital."""
    return (attribute_chain(node.func) or [""])[-1][:1].isupper()


def _carried(question: Trace[Answer], step: TraceStep, values: Iterable[Answer]) -> Iterable[Answer]:
    """A value that is given in a branch counts where that branch can be taken; so does what others give."""
    if isinstance(step, FromBinding) and step.binding.kind != "parameter" and isinstance(step.binding.node, ast.stmt):
        return [*(values if _is_taken(question, step, step.binding.node) else ()), *_elsewhere(question, step)]
    return values


def _is_taken(question: Trace[Answer], step: FromBinding, statement: ast.stmt) -> bool:
    inner = Trace(question.project, VALUES, question)  # type: ignore[arg-type]
    for guard in question.project.memo(_guards, (step.module, statement)):
        comes_out = _comes_out(guard.test, guard.holds, lambda node: inner.of(step.module, node))
        question.charge(inner)
        if not comes_out:
            return False
    return True


def _elsewhere(question: Trace[Answer], step: FromBinding) -> Iterator[Answer]:
    """What other code gives the attribute, or the variable of the module: ``trainer.amp = True``."""
    scope, name = step.binding.scope, step.binding.name
    owner = scope.enclosing_class if name.startswith("self.") else scope if scope is step.module.module_scope else None
    if owner is not None and step.binding.kind == "assign" and step.binding is step.rivals[0]:
        for module, value in given_elsewhere(question.project, step.module, owner, name.removeprefix("self.")):
            yield from question.of(module, value) if value is not None else (OPEN,)


def _guards(_project: Project, asked: tuple[ModuleNames, ast.stmt]) -> tuple[Guard, ...]:
    return guards(*asked)


def _gap(question: Trace[Answer], module: ModuleNames, node: ast.AST, why: TraceGap) -> Iterable[Answer]:
    """A parameter that nobody is known to fill has its default; what is asked for without one is passed."""
    if why is TraceGap.CALLERS and isinstance(node, ast.arg) and _has_default(module, node):
        return (OPEN,) if question.project.memo(may_be_passed, (module, node)) else ()
    function = module.parents.get(module.parents.get(node, node)) if why is TraceGap.MORE_CALLERS else None
    is_cut = isinstance(function, FunctionNode) and callers_of(question.project, module, function).is_cut
    return (CUT if is_cut or why is TraceGap.LIMIT else OPEN,)


def may_be_passed(project: Project, asked: tuple[ModuleNames, ast.arg]) -> bool:
    """Whether a call of something of the function's name fills a parameter: which function that is, is not known."""
    module, parameter = asked
    function = next((item for item in module.ancestors(parameter) if isinstance(item, FunctionNode)), None)
    if function is None:
        return True
    owner = module.scopes[function].enclosing_class
    by_class = owner is not None and function.name in ("__init__", *OF_OBJECTS)
    name = getattr(owner.node, "name", "") if by_class and owner is not None else function.name
    placed = positional(function.args)
    index = placed.index(parameter) - (owner is not None) if parameter in placed else len(placed)
    if function.name not in OF_OBJECTS:
        return any(_is_filled_in(project, path, name, parameter.arg, index) for path in project.python_paths((name,)))
    for other in modules_with(project, (name, parameter.arg) if function.name == "__call__" else (name,)):
        filling = (call for call in other.calls if _fills(call, parameter.arg, index))
        if not is_test(other.path) and any(
            not _runs_another(project, (module, function), other, call) for call in filling
        ):
            return True
    return False


@memo
def _is_filled_in(project: Project, path: str, name: str, parameter: str, index: int) -> bool:
    """Whether a call in a file, of something of this name, fills a parameter."""
    calls = (call for other in modules_at(project, (path,)) for call in other.calls_by_name.get(name, []))
    return any(_fills(call, parameter, index) for call in calls) and not is_test(path)


def _runs_another(
    project: Project, asked: tuple[ModuleNames, FunctionNode], module: ModuleNames, call: ast.Call
) -> bool:
    """Whether a call is known to run something else than a method of objects: a function, a class, ``x.view(2, 8)``."""
    home, function = asked
    target = called_function(project, module, call)
    if target is not None:
        return target.node is not function
    if class_of(project, module, call.func) is not None:
        return True
    if module.qualified(call.func) is not None:
        return definition_of(project, module, call.func) is None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name in OPERATIONS and not any(name in each.attribute_stores for each in (home, module))


def _fills(call: ast.Call, name: str, index: int) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in BUILTINS:
        return False
    if any(item.arg in (None, name) for item in call.keywords):
        return True
    return len(call.args) > index or any(isinstance(item, ast.Starred) for item in call.args)


def _has_default(module: ModuleNames, node: ast.arg) -> bool:
    arguments = module.parents.get(node)
    return isinstance(arguments, ast.arguments) and node.arg in defaults_in(arguments)


def _setting(question: Trace[Answer], module: ModuleNames, node: ast.Attribute) -> Iterator[Answer]:
    """An option has its default, and any value that a launch line or a configuration may give it."""
    project = question.project
    is_option = may_hold_settings(project, module, node.value)
    declared = project.memo(declared_options, (module, node.attr)) if is_option else ()
    if not declared:
        is_off = is_option and node.attr in OF_TRAINER and trainer_switches_are_off(project)
        yield ("bool", False) if is_off else OPEN
    for option in declared:
        if option.switch is not None:
            yield ("bool", option.value_when_absent)
        elif option.value is not None:
            yield from question.of(option.module, option.value)
        else:
            yield ("NoneType", None)
    is_typed = any(may_be_typed(project, option) for option in declared)
    if is_typed or (declared and (project.memo(is_set, node.attr) or is_needed(project, module, node.attr))):
        yield OPEN


VALUES: Domain[Answer] = Domain(_leaf, _gap, _carried, setting=_setting)
"""What a variable, an argument or an option can be, as far as tests of it are concerned."""
