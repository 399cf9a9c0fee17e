"""Which calls made an object: back through variables, attributes, functions, parameters, and what only wraps it.

Calls that give back the object they are given (``get_peft_model(model)``, ``model.to(device)``) are noted and passed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..source.project import Project
from ..torch.api import ADAPTER_CLASSES, LOADERS, MODEL_WRAPPERS, SAME_MODULE
from .functions import called_function, class_of
from .names import Binding, ModuleNames, attribute_chain
from .scopes import last_name
from .trace import Domain, Trace, trace
from .trace_steps import Defaulted, FromBinding, TraceGap, TraceStep

PARSING = ("parse_args_into_dataclasses", "parse_args_and_config", "parse_dict", "parse_yaml_file", "parse_json_file")
"""Methods of HfArgumentParser and TrlParser that make the trainer's arguments from what the program is given."""

INSIDE = ("module", "_orig_mod")
"""The attributes by which torch's wrappers hold the model: those of parallel training, and of ``compile``."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """A name the object has, and the function (or class, for attributes of ``self``) in which it has it."""

    module: ModuleNames
    container: ast.AST
    text: str
    part: str = ""
    """The attribute of the object that alone is meant; empty for the object."""


@dataclass(frozen=True, slots=True)
class Creation:
    """A call that makes the object, the calls it went through since, and the names it had; the last ones first."""

    module: ModuleNames
    call: ast.Call
    through: tuple[ast.Call, ...] = ()
    names: tuple[ObjectName, ...] = ()


MaybeCreation: TypeAlias = "Creation | None"


def creations_of(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Creation, ...]:
    """The calls that can have made the object that ``node`` is; empty when some part of the way is not known."""
    found = trace(project, module, node, CREATIONS)
    return () if None in found else tuple(item for item in found if item is not None)


def known_creations(project: Project, module: ModuleNames, node: ast.expr | Binding) -> tuple[Creation, ...]:
    """The calls that are known to make it; there may be others."""
    return tuple(item for item in trace(project, module, node, CREATIONS) if item is not None)


def may_be_of_class(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether classes of the project alone can have made the object: most are refuted without asking who calls."""
    made_by = trace(project, module, node, HERE)
    calls = [(made.module, made.call) for made in made_by if made is not None and isinstance(made.call, ast.Call)]
    return None not in made_by and all(class_of(project, there, call.func) is not None for there, call in calls)


def only_call(project: Project, module: ModuleNames, node: ast.expr) -> ast.Call | None:
    """The one call of the same file that certainly made the object of ``node``, which nothing wraps."""
    found = creations_of(project, module, node)
    alone = len(found) == 1 and found[0].module is module and not found[0].through
    return found[0].call if alone else None


def _leaf(question: Trace[MaybeCreation], module: ModuleNames, node: ast.expr) -> Iterable[MaybeCreation] | None:
    if isinstance(node, ast.Constant) and node.value is None:
        return ()
    if isinstance(node, ast.Attribute) and node.attr in INSIDE and ast.unparse(node.value) != "self":
        return _inside(question.of(module, node.value))
    if not isinstance(node, ast.Call):
        return None
    inner = _wrapped_by(node)
    if inner is not None:
        return _through(node, question.of(module, inner))
    target = called_function(question.project, module, node)
    is_followed = target is not None and target.node.name not in ("__init__", *LOADERS)
    return None if is_followed else (Creation(module, node),)


def _through(call: ast.Call, made: Iterable[MaybeCreation]) -> Iterable[MaybeCreation]:
    return [replace(item, through=(call, *item.through)) if item is not None else None for item in made]


def _inside(made: tuple[MaybeCreation, ...]) -> Iterable[MaybeCreation] | None:
    """What a wrapper holds is the model that it was given; None for an attribute of what nothing is known to wrap."""
    return made if made and all(item is not None and _may_be_wrapped(item) for item in made) else None


def _may_be_wrapped(made: Creation) -> bool:
    """Whether a wrapper was put around it; of a parameter, callers are asked."""
    return not isinstance(made.call, ast.Call) or any(last_name(call.func) in MODEL_WRAPPERS for call in made.through)


def _gap(
    _question: Trace[MaybeCreation], _module: ModuleNames, _node: ast.AST, why: TraceGap
) -> Iterable[MaybeCreation]:
    return () if why is TraceGap.MORE_CALLERS else (None,)


def _carried(
    _question: Trace[MaybeCreation], step: TraceStep, made: Iterable[MaybeCreation]
) -> Iterable[MaybeCreation]:
    if not isinstance(step, FromBinding):
        return made
    scope = step.binding.scope
    owner = scope.enclosing_class if step.binding.name.startswith("self.") else None
    name = ObjectName(step.module, (owner or scope).node, step.binding.name)
    return [replace(item, names=(name, *item.names)) if item is not None else None for item in made]


def _element(
    question: Trace[MaybeCreation], module: ModuleNames, call: ast.Call, position: int
) -> Iterable[MaybeCreation] | None:
    """``model, tokenizer = load(...)``: the first is what a library makes; ``prepare`` gives back what it is given.

    A parser makes all that it gives back.
    """
    if last_name(call.func) == "prepare" and position < len(call.args):
        return _through(call, question.of(module, call.args[position]))
    return (Creation(module, call),) if position == 0 or last_name(call.func) in PARSING else None


CREATIONS: Domain[MaybeCreation] = Domain(_leaf, _gap, _carried, element=_element)
"""The call that made an object; None where the source does not say."""


def _gap_here(
    _question: Trace[MaybeCreation], module: ModuleNames, node: ast.AST, why: TraceGap
) -> Iterable[MaybeCreation]:
    return (None,) if why in (TraceGap.EXPRESSION, TraceGap.OPTION) else (Creation(module, node),)  # type: ignore[arg-type]


def _carried_here(
    question: Trace[MaybeCreation], step: TraceStep, made: Iterable[MaybeCreation]
) -> Iterable[MaybeCreation]:
    return () if isinstance(step, Defaulted) else _carried(question, step, made)


HERE: Domain[MaybeCreation] = Domain(_leaf, _gap_here, _carried_here, element=_element, asks_callers=False)
"""The same, with the parameter in place of a call where callers would have to be asked."""


def _wrapped_by(call: ast.Call) -> ast.expr | None:
    """The object that ``call`` gives back wrapped or moved; None for other calls."""
    name = last_name(call.func)
    first = call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None
    if name in MODEL_WRAPPERS:
        return first if first is not None else next((item.value for item in call.keywords if item.arg == "model"), None)
    if isinstance(call.func, ast.Attribute):
        chain = attribute_chain(call.func) or []
        if name == "from_pretrained" and chain[-2:-1] and chain[-2] in ADAPTER_CLASSES:
            return first
        if name in SAME_MODULE:
            return call.func.value
    return None
