"""TF32 is switched off or on for products, and then the other way by `set_float32_matmul_precision`

## What goes wrong

Nothing raises. `torch.backends.cuda.matmul.allow_tf32 = False` above `torch.set_float32_matmul_precision("high")`
leaves products of float32 in TF32, with 10 bits after the point in place of 23, though the code says that they are
not; `= True` above `"highest"` leaves them as slow as they were. `NVIDIA_TF32_OVERRIDE=0` in the script that launches a
program outweighs whatever the program allows.

## Why

Both write one setting of PyTorch, and the later one counts: measured with PyTorch 2.13, `allow_tf32` reads True after
`"high"`, whatever it was. `"high"` and `"medium"` allow TF32, `"highest"` does not.

## Fix

None is written, as nobody but the author knows which of both is wanted. Keep one of them.

## Not flagged

Settings that agree; a variable that not every launch of the program sets (a comparison); a setting that only some runs
come to; the other order, in which `"high"` still counts for other devices; values that are chosen at run time; anything
computed between both, which may be a comparison of precisions; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.purpose.files import is_test
from ....codemod.python.arguments import argument
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, checked_modules, string_of
from ....codemod.python.paths import calls_of, function_of, guard_facts, loops, position
from ....codemod.source.project import Project
from .overridden_tf32 import overridden

SETTER, SWITCH = "set_float32_matmul_precision", "allow_tf32"
BACKEND = "torch.backends.cuda.matmul"
ALLOWS = {"highest": False, "high": True, "medium": True}
SETTING_UP = (
    "torch.cuda.is_",
    "torch.cuda.get_device_",
    "torch.backends.",
    "torch.manual_seed",
    "torch.cuda.manual_seed",
)
ASKING = ("hasattr", "getattr", "print", "setattr", "torch.set_", "torch.get_", "torch.use_deterministic_algorithms")
"""How calls begin that compute nothing."""


def check(project: Project) -> Iterator[Finding]:
    for module in checked_modules(project, (SWITCH,), (SETTER,)):
        for _, value, statement in module.attribute_stores.get(SWITCH, ()) if not is_test(module.path) else ():
            if isinstance(value, ast.Constant) and isinstance(value.value, bool) and _is_of_products(module, statement):
                yield from _undone(module, statement, allowed=value.value)
    yield from (rule.found(*draft) for draft in overridden(project))


def _undone(module: ModuleNames, statement: ast.stmt, *, allowed: bool) -> Iterator[Finding]:
    """The call below that says the opposite, where it runs whenever the statement does."""
    for call in module.calls_by_name.get(SETTER, ()):
        named = argument(call, "precision", position=0)
        word = string_of(named) if named is not None else None
        if ALLOWS.get(word or "", allowed) is allowed or module.qualified(call.func) != f"torch.{SETTER}":
            continue
        if _runs_after(module, statement, call):
            message = (
                f"this has no effect: {SETTER}({word!r}) below switches TF32 {'off' if allowed else 'on'} again, as"
                " both write one setting"
            )
            yield rule.at(module, statement, message, (module.place(call, "TF32 is set here for good"),))
            return


def _runs_after(module: ModuleNames, statement: ast.stmt, call: ast.Call) -> bool:
    function = function_of(module, statement)
    same = function_of(module, call) is function and loops(module, call) == loops(module, statement)
    if (
        not same
        or position(call) < position(statement)
        or not guard_facts(module, call) <= guard_facts(module, statement)
    ):
        return False
    products = (item for item in ast.walk(function) if isinstance(item, ast.BinOp) and isinstance(item.op, ast.MatMult))
    if any(_is_between(item, statement, call) for item in products):
        return False
    between = (item for item in calls_of(module, function) if _is_between(item, statement, call))
    return all(
        (module.qualified(item.func) or ast.unparse(item.func)).startswith((*SETTING_UP, *ASKING)) for item in between
    )


def _is_between(node: ast.AST, first: ast.AST, last: ast.AST) -> bool:
    return position(first) < position(node) < position(last)


def _is_of_products(module: ModuleNames, statement: ast.stmt) -> bool:
    """``torch.backends.cuda.matmul.allow_tf32 = ...``, also through a variable; of cuDNN it is another setting."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        owner = target.value if isinstance(target, ast.Attribute) else None
        value = only_value(module, owner) if isinstance(owner, ast.Name) else owner
        if value is not None and module.qualified(value) == BACKEND:
            return True
    return False


rule = Rule.of("PF506", check)
