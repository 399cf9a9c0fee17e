"""Factors of an angle that are cast to the dtype of something else: of activations, or of weights, by who calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ....codemod.half.half_here import Half, half_here
from ....codemod.half.launchers import HOLDING
from ....codemod.half.weight_changes import cast_values, is_cast
from ....codemod.purpose.decided import decided
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.runs import runs_of, uses
from ....codemod.python.arguments import receiver_of
from ....codemod.python.creations import known_creations
from ....codemod.python.functions import FunctionTarget, class_of
from ....codemod.python.names import FunctionNode, ModuleNames, modules_with
from ....codemod.python.paths import name_parts
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16
from ....codemod.torch.entering_calls import sites_of
from .angle_origins import MEANING, AngleOrigin, behind

INTEGERS = frozenset(("ids", "id", "idx", "index", "indices", "mask", "labels", "tokens", "token"))
"""Words in the names of tensors that are no activations."""
MAX_HOPS = 4
AskedDtype: TypeAlias = Callable[[Project, ModuleNames, ast.expr], Half | None]


def cast_to_activations(project: Project, module: ModuleNames, origin: AngleOrigin) -> tuple[Half, str] | None:
    """Why a factor is 16-bit where activations are, and whose dtype it gets: ``inv_freq.to(x.dtype)``."""
    asked = next((item for factor in origin.factors for item in _asked(module, factor)), None)
    if asked is None:
        return None
    owner = _owner(asked)
    name = ast.unparse(owner)
    place = module.place(asked, f"it gets the dtype of {name} here")
    runs = [run for run in runs_of(project, module, origin.node) if uses(project, run, module, origin.node)]
    if is_of_power(module, origin):
        runs = [run for run in runs if not run.is_mixed]  # autocast computes powers in float32, and so the product
    if not isinstance(owner, ast.Name) or _passed(project, module, owner, 0, half_here) is None:
        runs = [run for run in runs if not run.is_mixed or run.trainer in HOLDING]  # regions keep many in float32
    dtypes = frozenset(dtype for run in runs for dtype in run.dtypes)
    return (Half(dtypes, False, (place, runs[0].place)), name) if runs else None


def is_of_power(module: ModuleNames, origin: AngleOrigin) -> bool:
    """Whether a factor is ``1.0 / 10000**exponents``, in place or in a variable, with no cast behind it; no ``@``."""
    names = [item for item in origin.factors if isinstance(item, ast.Name)]
    held = [each.value for item in names for each in module.bindings_of(item)]
    plain = isinstance(origin.node, ast.BinOp) and not isinstance(origin.node.op, ast.MatMult)
    values = [item for item in (*origin.factors, *held) if plain and isinstance(item, ast.BinOp)]
    return any(isinstance(node, ast.Pow) for value in values for node in ast.walk(value))


def _owner(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Attribute) and node.attr == "dtype" else node


def _asked(module: ModuleNames, factor: ast.expr) -> Iterator[ast.expr]:
    """``x.dtype`` of ``factor.to(x.dtype)``, ``x`` of ``factor.type_as(x)``, where x is a parameter."""
    for node in behind(module, factor):
        if isinstance(node, ast.Call) and receiver_of(node) is not None:
            given = [*node.args, *(item.value for item in node.keywords if item.arg == "dtype")]
            named = [item for item in given if isinstance(item, ast.Attribute) and item.attr == "dtype"]
            asked = node.args[:1] if receiver_of(node, "type_as") is not None else named
            yield from (item for item in asked if _is_activation(module, _owner(item)))
        if receiver_of(node, "float", "double", "to", "type_as") is not None:
            return


def _is_activation(module: ModuleNames, node: ast.expr) -> bool:
    if not isinstance(node, ast.Name) or name_parts(node) & (MEANING | INTEGERS):
        return False
    bindings = module.bindings_of(node)
    return any(item.kind == "parameter" for item in bindings)


def cast_by_caller(project: Project, module: ModuleNames, origin: AngleOrigin) -> Half | None:
    """Why a factor is 16-bit when it arrives: a caller casts it, ``model(x, timesteps=t.to(weight_dtype))``."""
    for factor in origin.factors:
        for node in behind(module, factor, products=True):
            if isinstance(node, ast.Name):
                found = _passed(project, module, node, 0, _cast)
                if found is not None:
                    return found
    return None


def _passed(project: Project, module: ModuleNames, node: ast.Name, hops: int, asked: AskedDtype) -> Half | None:
    bindings = module.bindings_of(node)
    function = module.scope_of(node).function.node
    parameter = next((item for item in bindings if item.kind == "parameter" and item.scope.node is function), None)
    if parameter is None or hops >= MAX_HOPS or not isinstance(function, FunctionNode):
        return None
    target = FunctionTarget(module, function, bound=module.scope_of(function).enclosing_class is not None)
    for other, call in (*sites_of(project, module, function), *_named_calls(project, module, function, node.id)):
        argument = target.arguments(call).get(node.id)
        if argument is not None and not purpose_of(other.document.path).is_left_alone:
            found = asked(project, other, argument)
            if found is None and isinstance(argument, ast.Name):
                found = _passed(project, other, argument, hops + 1, asked)
            if found is not None:
                return found
    return None


def _named_calls(
    project: Project, module: ModuleNames, function: FunctionNode, name: str
) -> tuple[tuple[ModuleNames, ast.Call], ...]:
    """``model(x, timesteps=t.to(dtype))`` of an object of the class whose ``forward`` this is, through all wrappers."""
    owner = module.scopes[function].parent
    if function.name != "forward" or owner is None or not isinstance(owner.node, ast.ClassDef):
        return ()
    return tuple(project.memo(_casting_calls, name).get(owner.node, ()))


def _casting_calls(project: Project, name: str) -> dict[ast.AST, dict[tuple[ModuleNames, ast.Call], None]]:
    """The calls that pass an argument of this name and cast it, in files that train, by the class that is called."""
    found: dict[ast.AST, dict[tuple[ModuleNames, ast.Call], None]] = {}
    for module in modules_with(project, (f"{name}=",), ("backward",)):
        for call in module.calls:
            if any(item.arg == name and is_cast(item.value) for item in call.keywords):
                for made in known_creations(project, module, call.func):
                    known = class_of(project, made.module, made.call.func)
                    if known is not None:
                        found.setdefault(known[1].node, {})[module, call] = None
    return found


def _cast(project: Project, module: ModuleNames, argument: ast.expr) -> Half | None:
    """A cast of the argument that settings which the project states make one to bfloat16; float16 counts to 2,048."""
    if not isinstance(argument, ast.Call) or receiver_of(argument, "to", "half", "bfloat16") is None:
        return None
    for value in cast_values(project, module, argument):
        if value.value == BF16:
            known = decided(project, module, value.given)
            if known is not None and not known.open:
                place = module.place(argument, f"it is cast to {BF16.name} here")
                return Half(frozenset((BF16,)), True, (place, *known.places))
    return None
