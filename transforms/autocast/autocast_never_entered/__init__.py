"""An autocast is created but never entered, so nothing runs in mixed precision; or entered twice, never left.

## What goes wrong

`autocast("cuda")` as a statement makes an object and drops it: the code after it computes in float32, without an error.
`yield autocast(...)` in a context manager hands the object to a caller that never enters it: the same.
`context = autocast("cuda")`, a name that nothing reads, beside the backward pass of a training step: the same.
`with autocast("cuda"):` around `backward` and `step` alone, behind the forward pass: they take the dtypes of that.
The same around the loss alone (`cross_entropy`), which autocast computes in float32.
`with autocast("cuda") and torch.no_grad():` enters the second alone, as `and` gives its last operand: the same.
`with torch.cuda.amp.autocast:` stops with `TypeError: 'type' object does not support the context manager protocol`
(before Python 3.11: `AttributeError: __enter__`). A bare `@torch.cuda.amp.autocast` takes the function for its argument
`enabled`; the first call stops with `TypeError: autocast()(func) requires a callable`. A bare `@torch.autocast` stops
at once: `ValueError: Expected device_type of type str`.
`with context():` of an autocast stops with `TypeError: autocast.__call__() missing 1 required positional argument:
'func'`, and `context.__exit__()` by hand with `TypeError: autocast.__exit__() missing 3 required positional arguments`.
`model.extract_features(x)` of a model that `Accelerator.prepare` gave back, unwrapped or not, computes in float32:
accelerate wraps `forward` alone (`Accelerator.prepare_model`, accelerate 0.20 to 1.14).
`with context:` inside of `with context:`, one object both times, also where the inner one stands in a function that the
region calls or decorates one that it calls: at the end of the outer region autocast stays on. What follows, losses and
evaluations beside the regions, computes in 16 bits as well, without an error, and each weight is cast once there: after
a step the old copy is read (both tried on a GPU with 2.11).

## Why

autocast does its work in `__enter__` and `__exit__`; making the object changes nothing. A decorator must be called.
`__enter__` keeps what was on before in one attribute of the object (`self.prev`, PyTorch 1.6 to 2.13; measured with
2.13): the second one overwrites "off" with "on", and that is what both exits restore.

## Fix

`call` [safe]: `autocast` becomes `autocast()` where the bare name is a certain crash and the device is part of the API.
For `torch.autocast` the device is not known; the finding has no fix.

`enter` [safe]: `with context():` becomes `with context:`; `exit` [safe]: `__exit__()` becomes
`__exit__(None, None, None)`: certain crashes.

`with` [unsafe]: the statement becomes a `with` around the rest of its block, the `yield` one around itself, and for
`and` of two there is one around the statement. From then on the code really runs in mixed precision: its numerics,
memory and speed change. Not offered where the rest of the block runs `backward` or an optimizer, which belong outside.

`renew` [display-only]: a new object for each region; all places that enter the old one have to be changed.

## Not flagged

`return autocast(...)`, autocast stored in a variable that something reads, or in a file that enters another context of
autocast in training, casts to 16 bits or leaves precision to a library's trainer, or passed to `enter_context`,
`autocast(...).__enter__()`, a generator that is not a context manager, `__enter__()` by hand (for the whole run,
perhaps on purpose), a test that expects the constructor to raise; methods of a prepared model under `no_grad`, in files
that enter an autocast of their own, or where DeepSpeed or FSDP may run it; one object for regions that follow each
other, or where autocast may be on around them already; objects of `enabled=False`; an island between the two, which the
second one restores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Fix, Rule
from ....codemod.proof.needs import RAISES
from ....codemod.proof.proving import proved
from ....codemod.python.bindings import values_at
from ....codemod.python.caught import is_caught
from ....codemod.python.creations import creations_of
from ....codemod.python.exits import after
from ....codemod.python.names import ModuleNames, attribute_chain, checked_modules, modules_with
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts, checked_autocasts
from .around_backward import around_backward, around_loss
from .entered_again import entered_again
from .never_read import never_read
from .prepared_methods import methods_outside_autocast

OUTSIDE = ("backward", "step", "zero_grad", "update", "unscale_")
"""Calls that do not belong under autocast."""

CALLED = ("autocast", "amp", "ctx()", "context()")
"""A file without any of these words is not looked at for contexts that are called."""
_FACTORIES = ("contextlib.contextmanager", "contextlib.asynccontextmanager")
_EXPECTS = ("raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns")


def check(project: Project) -> Iterator[Finding]:
    for autocast in checked_autocasts(project):
        if autocast.form == "statement":
            if not _is_expected_to_fail(autocast):
                yield _dropped(autocast)
        elif autocast.form == "decorator" and autocast.call is None:
            yield _bare(
                project,
                autocast,
                "the autocast decorator must be called: without () it takes the function as its first argument",
            )
        elif autocast.form == "reference" and isinstance(autocast.module.parents[autocast.node], ast.withitem):
            yield _bare(project, autocast, "autocast is not called: with needs an instance, not the class")
        elif autocast.form == "value":
            yield from _yielded(project, autocast)
            yield from _passed_over(autocast)
    for module, call in exits_without_arguments(project):
        yield _exit(project, module, call)
    drawn = (methods_outside_autocast, entered_again, never_read, around_backward, around_loss)
    for drafts in (draw(project) for draw in drawn):
        yield from (rule.found(*draft) for draft in drafts)
    for module, call in objects_called(project):
        yield _called(project, module, call)


def _called(project: Project, module: ModuleNames, call: ast.Call) -> Finding:
    edit = module.replace(call, call.func)
    message = f"{ast.unparse(call.func)} is an autocast already, and calling it raises TypeError"
    return rule.at(module, call, message, fixes=[proved(project, "enter", "enter the object itself", [edit], RAISES)])


def _exit(project: Project, module: ModuleNames, call: ast.Call) -> Finding:
    edit = module.replace(call, call.func, "(None, None, None)")
    message = "__exit__ of autocast needs three arguments: this raises TypeError"
    fix = proved(project, "exit", "pass the three arguments that it needs", [edit], RAISES)
    return rule.at(module, call, message, fixes=[fix])


def _finding(autocast: Autocast, message: str, *fixes: Fix) -> Finding:
    return rule.at(autocast.module, autocast.node, message, fixes=fixes)


def _passed_over(autocast: Autocast) -> Iterator[Finding]:
    """``with autocast(...) and no_grad():``, which enters the last one alone."""
    module = autocast.module
    joined = module.parents[autocast.node]
    entered = isinstance(joined, ast.BoolOp) and isinstance(module.parents[joined], ast.withitem)
    if not isinstance(joined, ast.BoolOp) or not entered or not isinstance(joined.op, ast.And):
        return
    last = joined.values[-1]
    if last is not autocast.node:
        text, statement = "enter both; the block then runs in mixed precision", module.statement_of(joined)
        message = f"`and` gives its last operand: {ast.unparse(last)} is entered, and this autocast is not"
        around = module.wrap(statement, statement, f"with {module.source(autocast.node)}:")
        fix = Fix.unsafe("with", text, around, module.replace(joined, last))
        # A third operand may be a switch, which cannot be entered.
        yield _finding(autocast, message, *([fix] if len(joined.values) == 2 else []))


def _bare(project: Project, autocast: Autocast, message: str) -> Finding:
    if not autocast.is_old_api:
        return _finding(autocast, message)
    edit = autocast.module.replace(autocast.node, autocast.node, "()")
    return _finding(autocast, message, proved(project, "call", "call autocast", [edit], RAISES))


def _is_expected_to_fail(autocast: Autocast) -> bool:
    for parent in autocast.module.ancestors(autocast.node):
        if isinstance(parent, ast.With | ast.AsyncWith):
            called = [item.context_expr.func for item in parent.items if isinstance(item.context_expr, ast.Call)]
            if any((attribute_chain(node) or [""])[-1] in _EXPECTS for node in called):
                return True
        if isinstance(parent, ast.Try):
            return True
    return False


def _dropped(autocast: Autocast) -> Finding:
    module = autocast.module
    statement = module.statement_of(autocast.node)
    message = "this autocast is created and discarded: the code after it does not run in mixed precision"
    rest = after(module.parents[statement], statement)
    if not rest or not _can_be_wrapped(rest):
        return _finding(autocast, message)
    edits = (
        module.remove(statement),
        module.wrap(rest[0], rest[-1], f"with {module.source(autocast.node)}:"),
    )
    text = "enter it around the rest of the block, which then runs in mixed precision"
    return _finding(autocast, message, Fix.unsafe("with", text, *edits))


def _can_be_wrapped(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
                return False
            if isinstance(node, ast.Call) and (attribute_chain(node.func) or [""])[-1] in OUTSIDE:
                return False
    return True


def _yielded(project: Project, autocast: Autocast) -> Iterator[Finding]:
    """``yield autocast()``, also as one side of a conditional expression, in a context manager."""
    module, node = autocast.module, autocast.node
    parent = module.parents[node]
    while isinstance(parent, ast.IfExp) and node is not parent.test:
        node, parent = parent, module.parents[parent]
    function = module.scope_of(node).node
    if not isinstance(parent, ast.Yield) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if not any(_is_factory(module, item) for item in function.decorator_list):
        return
    if _is_entered_by_callers(project, function.name):
        return
    message = f"{function.name} yields an autocast that is never entered: its callers do not run in mixed precision"
    yield _finding(autocast, message, *_with_around(autocast, node, parent))


def _is_factory(module: ModuleNames, decorator: ast.expr) -> bool:
    return module.qualified(decorator) in _FACTORIES


def _is_entered_by_callers(project: Project, name: str) -> bool:
    """Whether a caller takes the object (``with f() as context:``) and may enter it."""
    for module in modules_with(project, (name,)):
        for node in module.nodes:
            if isinstance(node, ast.withitem) and node.optional_vars is not None and _calls(node.context_expr, name):
                return True
            if _calls_enter_context(node, name):
                return True
    return False


def _calls_enter_context(node: ast.AST, name: str) -> bool:
    entered = isinstance(node, ast.Call) and (attribute_chain(node.func) or [""])[-1] == "enter_context"
    return isinstance(node, ast.Call) and entered and any(_calls(item, name) for item in node.args)


def _calls(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and (attribute_chain(node.func) or [""])[-1] == name


def _with_around(autocast: Autocast, yielded: ast.expr, expression: ast.Yield) -> list[Fix]:
    module = autocast.module
    statement = module.parents[expression]
    if not isinstance(statement, ast.Expr):
        return []
    edits = module.insert(statement, f"with {module.source(yielded)}:\n    yield"), module.remove(statement)
    message = "enter it around the yield; what callers do then runs in mixed precision"
    return [Fix.unsafe("with", message, *edits)]


# --- regions entered by hand ------------------------------------------------------------------------------------------


def objects_called(project: Project) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """``with context():`` of what is certainly an autocast, or a ``nullcontext`` in its place, and no class."""
    made = {item.call for item in autocasts(project) if item.form == "value"}
    for module in checked_modules(project, CALLED) if made else ():
        for item in module.of_type(ast.withitem):
            call = item.context_expr
            if isinstance(call, ast.Call) and not call.args and not call.keywords and call not in made:
                found = (
                    creations_of(project, module, call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ()
                )
                plain = [each for each in found if each.module.qualified(each.call.func) == "contextlib.nullcontext"]
                known = all(each in plain or (each.call in made and not each.through) for each in found)
                if len(found) > len(plain) and known and not is_caught(module, call, "TypeError"):
                    yield module, call


def exits_without_arguments(project: Project) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """Every ``__exit__()`` without its three arguments of an object that is certainly an autocast."""
    made: dict[ModuleNames, set[ast.AST]] = {}
    for item in checked_autocasts(project):
        if item.call is not None and item.form in ("value", "statement"):
            made.setdefault(item.module, set()).add(item.call)
    for module, calls in made.items():
        for call in module.calls_by_name.get("__exit__", []):
            if not call.args and not call.keywords and _is_autocast(module, call, calls):
                yield module, call


def _is_autocast(module: ModuleNames, call: ast.Call, made: set[ast.AST]) -> bool:
    """Whether all values that the receiver can have are autocasts."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if receiver in made:
        return True
    values = values_at(module, receiver) if receiver is not None else []
    return bool(values) and all(value in made for value in values)


rule = Rule.of("PF305", check)
