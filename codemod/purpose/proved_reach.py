"""Whether some run that the project gives comes to a place: the one question that all rules about crashes ask.

Published programs mostly run. What would raise is therefore nearly always code that no run comes to, or a branch that
no run takes: an argument that nobody passes, an option that no launch line and no configuration switches on, a function
that nothing calls. Nothing is said of a place unless each step from a program to it can be followed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..python.callers import callers_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain, names_of
from ..python.options import Option, options_in
from ..python.paths import guards
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import Bound, Gap, Step
from ..source.documents import FileKind
from ..source.project import Project
from .files import is_test

MAX_HOPS = 4
"""How many calls up a function is followed."""
MAX_DECLARING_FILES = 12
"""Files that may declare the options of one name; a name that stands in more is a common word."""
LAUNCHING = (FileKind.SHELL, FileKind.TEXT, FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.ENV)
CALLED_BY_OTHERS = ("forward", "__call__", "__init__", "__getitem__", "__iter__", "__next__", "__enter__", "backward")
"""Methods that are called under another name, or by a library."""

DECLARING = ("add_argument", "option", "add_option")
DISPLAYS = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr, ast.Lambda, ast.BinOp, ast.ListComp)
"""Expressions that are never None."""

BUILTINS = frozenset(dir(builtins))
"""Names whose calls fill no parameter of the project's."""


class Something:
    """A value that is not None; nothing else is known of it."""


class Open:
    """A value that the source does not give."""


SOMETHING, OPEN = Something(), Open()
Known = tuple[str, object]
Answer = Known | Something | Open
Values = Callable[[ast.expr], tuple[Answer, ...]]


def is_reached(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a run of the project comes to ``node``, as far as calls, arguments and options tell."""
    return not is_test(module.document.path) and _is_reached(project, module, node, MAX_HOPS, ())


def can_run(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether each test around ``node`` in its function can come out so that it runs."""
    return project.memo(_can_run, (module, node))


def can_come_out(project: Project, module: ModuleNames, test: ast.expr, holds: bool) -> bool:
    """Whether a test comes out as ``holds`` in some run; not where it asks a switch that nothing is known to set."""
    return _comes_out(test, holds, lambda node: _values(project, module, node))


def _comes_out(test: ast.expr, holds: bool, values: Values) -> bool:
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


def _is_reached(project: Project, module: ModuleNames, node: ast.AST, hops: int, way: tuple[ast.AST, ...]) -> bool:
    if not can_run(project, module, node):
        return False
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode) or not hops or function in way:
        return True
    sites = [site for site in callers_of(project, module, function).sites if not is_test(site.module.document.path)]
    if not sites:
        return project.memo(_is_named, (module, function))
    return any(_is_reached(project, site.module, site.call, hops - 1, (*way, function)) for site in sites)


def _can_run(project: Project, asked: tuple[ModuleNames, ast.AST]) -> bool:
    module, node = asked
    return all(can_come_out(project, module, guard.test, guard.holds) for guard in guards(module, node))


def _is_named(project: Project, asked: tuple[ModuleNames, FunctionNode]) -> bool:
    """Whether code outside of tests reads the name of a function, or of its class where others call its method.

    A file that is no program is written for others, who may call all of it.
    """
    module, function = asked
    if function.decorator_list and not _only_wraps(function):
        return True
    owner = module.scopes[function].enclosing_class
    inner = module.scopes[function].parent
    if inner is not None and isinstance(inner.node, FunctionNode):
        return function.name in module.name_loads
    by_class = owner is not None and (function.name in CALLED_BY_OTHERS or function.name.startswith("__"))
    name = getattr(owner.node, "name", "") if by_class and owner is not None else function.name
    own = set(ast.walk(function))
    for document in project.python_documents((name,)):
        other = names_of(project, document)
        loads: list[ast.AST] = [*other.name_loads.get(name, []), *other.attribute_loads.get(name, [])]
        if not is_test(document.path) and any(load not in own for load in loads):
            return True
    return not _is_program(module) or (owner is not None and bool(getattr(owner.node, "bases", ())))


def _is_program(module: ModuleNames) -> bool:
    """Whether a file runs something by itself: what its program leaves out, nobody else can be counted on to call."""
    return any(isinstance(item, ast.If) and "__name__" in ast.unparse(item.test) for item in module.tree.body) or any(
        isinstance(item, ast.Expr) and isinstance(item.value, ast.Call) for item in module.tree.body
    )


def _only_wraps(function: FunctionNode) -> bool:
    """``@torch.no_grad()``, ``@staticmethod``: decorators that hand the function to nobody."""
    texts = [ast.unparse(item) for item in function.decorator_list]
    return all(text.startswith(("torch.", "staticmethod", "classmethod", "property", "functools.")) for text in texts)


def _compares(test: ast.Compare, holds: bool, values: Values) -> bool:
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        wanted = [right]
    elif isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
        wanted = right.elts
    else:
        return True
    constants = [item.value for item in wanted if isinstance(item, ast.Constant)]
    if len(constants) < len(wanted) or not isinstance(left, ast.Name | ast.Attribute):
        return True
    equal = isinstance(operator, ast.Eq | ast.Is | ast.In)
    return any(_is_among(item, constants) in (None, holds is equal) for item in values(left))


def _is_among(item: Answer, constants: Sequence[object]) -> bool | None:
    if isinstance(item, tuple):
        return any(type(item[1]) is type(each) and item[1] == each for each in constants)
    return False if isinstance(item, Something) and list(constants) == [None] else None


def _is_true(item: Answer) -> bool | None:
    return bool(item[1]) if isinstance(item, tuple) else None


def known_texts(project: Project, module: ModuleNames, node: ast.expr) -> frozenset[object] | None:
    """All that a key can be, where the source gives each of its values; else None."""
    found = _values(project, module, node)
    return frozenset(item[1] for item in found if isinstance(item, tuple)) if OPEN not in found else None


# --- what a name can be -----------------------------------------------------------------------------------------------


def _values(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Answer, ...]:
    return trace(project, module, node, VALUES)


def _leaf(_question: Trace[Answer], _module: ModuleNames, node: ast.expr) -> Iterable[Answer] | None:
    if isinstance(node, ast.Constant):
        return ((type(node.value).__name__, node.value),)
    if isinstance(node, DISPLAYS):
        return (SOMETHING,)
    return (SOMETHING,) if isinstance(node, ast.Call) and _makes_object(node) else None


def _makes_object(node: ast.Call) -> bool:
    """``nn.Linear(8, 8)``: classes are written with a capital."""
    return (attribute_chain(node.func) or [""])[-1][:1].isupper()


def _carried(question: Trace[Answer], step: Step, values: Iterable[Answer]) -> Iterable[Answer]:
    """A value that is given in a branch counts where that branch can be taken."""
    if isinstance(step, Bound) and step.binding.kind != "parameter" and isinstance(step.binding.node, ast.stmt):
        inner = Trace(question.project, VALUES, question)  # type: ignore[arg-type]
        for guard in guards(step.module, step.binding.node):
            if not _comes_out(guard.test, guard.holds, lambda node: inner.of(step.module, node)):
                return ()
    return values


def _gap(question: Trace[Answer], module: ModuleNames, node: ast.AST, why: Gap) -> Iterable[Answer]:
    """A parameter that nobody is known to fill has its default; what is asked for without one is passed."""
    if why is Gap.CALLERS and isinstance(node, ast.arg) and _has_default(module, node):
        return (OPEN,) if question.project.memo(_may_be_passed, (module, node)) else ()
    return (OPEN,)


def _may_be_passed(project: Project, asked: tuple[ModuleNames, ast.arg]) -> bool:
    """Whether a call of something of the function's name fills a parameter: which function that is, is not known."""
    module, parameter = asked
    function = next((item for item in module.ancestors(parameter) if isinstance(item, FunctionNode)), None)
    if function is None:
        return True
    owner = module.scopes[function].enclosing_class
    by_class = owner is not None and function.name in ("__init__", "forward")
    name = getattr(owner.node, "name", "") if by_class and owner is not None else function.name
    placed = [*function.args.posonlyargs, *function.args.args]
    index = placed.index(parameter) - (owner is not None) if parameter in placed else len(placed)
    for document in project.python_documents((name,)):
        other = names_of(project, document)
        calls = other.calls if function.name == "forward" else other.calls_by_name.get(name, [])
        if not is_test(document.path) and any(_fills(call, parameter.arg, index) for call in calls):
            return True
    return False


def _fills(call: ast.Call, name: str, index: int) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in BUILTINS:
        return False
    if any(item.arg in (None, name) for item in call.keywords):
        return True
    return len(call.args) > index or any(isinstance(item, ast.Starred) for item in call.args)


def _has_default(module: ModuleNames, node: ast.arg) -> bool:
    arguments = module.parents.get(node)
    if not isinstance(arguments, ast.arguments):
        return False
    placed = [*arguments.posonlyargs, *arguments.args]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return node in placed[len(placed) - len(arguments.defaults) :] or any(
        node is item and default is not None for item, default in named
    )


def _setting(question: Trace[Answer], module: ModuleNames, node: ast.Attribute) -> Iterator[Answer]:
    """An option has its default, and any value that a launch line or a configuration may give it."""
    declared = question.project.memo(_declared, (module, node.attr))
    if not declared:
        yield OPEN
    for option in declared:
        if option.switch is not None:
            yield ("bool", option.value_when_absent)
        elif option.default is not None:
            yield from question.of(option.module, option.default)
        else:
            yield ("NoneType", None)
    if declared and question.project.memo(_is_set, node.attr):
        yield OPEN


def _declared(project: Project, asked: tuple[ModuleNames, str]) -> tuple[Option, ...]:
    """The declarations of an option: in this file, or else wherever its name stands."""
    module, name = asked
    here = _command_options(project, module, name)
    if here:
        return here
    paths = project.python_paths((name, name.replace("_", "-")), ("add_argument", "@dataclass", "option("))
    if len(paths) > MAX_DECLARING_FILES:
        return ()
    documents = project.python_documents_at(paths)
    return tuple(
        item for document in documents for item in _command_options(project, names_of(project, document), name)
    )


def _command_options(project: Project, module: ModuleNames, name: str) -> tuple[Option, ...]:
    return tuple(item for item in options_in(project, module).get(name, ()) if item.is_setting)


def _is_set(project: Project, name: str) -> bool:
    """Whether a launch line, a manual or a configuration names the option."""
    spellings = (name, name.replace("_", "-"))
    for kind in LAUNCHING:
        for document in project.documents(kind, spellings):
            if any(_names(document.text, spelling) for spelling in spellings):
                return True
    modules = (names_of(project, document) for document in project.python_documents(spellings))
    return any(_is_set_in(module, name) for module in modules)


def _is_set_in(module: ModuleNames, name: str) -> bool:
    """``args.amp = True``, ``Namespace(amp=True)``, ``["train.py", "--amp"]``, and any launch line of a notebook."""
    flag = f"--{name.replace('_', '-')}"
    if any(owner not in (None, ["self"]) for owner, *_ in module.attribute_stores.get(name, [])):
        return True
    if module.document.path.endswith(".ipynb") and _names(module.document.text, flag[2:]):
        return True
    for call in module.calls:
        declares = getattr(call.func, "attr", "") in DECLARING
        passed = [item.value for item in call.keywords if item.arg == name]
        if not declares and any(not (isinstance(item, ast.Constant) and not item.value) for item in passed):
            return True
    texts = (node for node in module.of_type(ast.Constant) if isinstance(node.value, str) and "--" in node.value)
    return any(_names(str(node.value).replace("_", "-"), flag[2:]) and not _declares(module, node) for node in texts)


def _declares(module: ModuleNames, node: ast.Constant) -> bool:
    """Whether a string stands in the declaration of an option: its flag, or its help."""
    above = (item for item in module.ancestors(node) if isinstance(item, ast.Call))
    return any(getattr(item.func, "attr", "") in DECLARING for item in above) or isinstance(
        module.parents.get(node), ast.Expr
    )


def _names(text: str, spelling: str) -> bool:
    begin = text.find(spelling)
    while begin >= 0:
        before, after = text[begin - 1 : begin], text[begin + len(spelling) : begin + len(spelling) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after in ("_", "-")):
            return True
        begin = text.find(spelling, begin + 1)
    return False


VALUES: Domain[Answer] = Domain(_leaf, _gap, _carried, setting=_setting)
"""What a variable, an argument or an option can be, as far as tests of it are concerned."""
