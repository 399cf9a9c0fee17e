"""What gives the weights of one model a dtype, from where it is made to where an optimizer takes its parameters."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..purpose.given import is_check
from ..python.arguments import argument, receiver_of
from ..python.bindings import default_of
from ..python.callers import callers_of
from ..python.conditions import conditions_in
from ..python.creations import Creation, creations_of
from ..python.functions import class_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain
from ..python.paths import function_of, position
from ..source.project import Project
from ..torch.api import CASTS, LOAD_KEYS, MODEL_WRAPPERS, SAME_COMPUTATION, SAME_MODULE, WEIGHT_CASTS
from ..torch.dtype_values import constants_of, scenarios_of
from ..torch.dtypes import BF16, FP32, HALVES, Dtype, Scenario, TextCondition, Unknown, as_dtype
from ..torch.weight_changes import may_change_back
from ..trainers.reading.links import sources
from ..trainers.reading.loads import Load, as_read, load_at, may_be_quantized
from ..trainers.reading.trained_loads import Mention, is_below, may_recast, mentions, mentions_of
from .built_half import FROZEN, built_in, layer_dtypes
from .casts_of_each import assigned_state, cast_of_each, cast_of_state, is_of_adapters, part_cast
from .default_dtypes import setter_of
from .optimized_models import is_used_below
from .remade_inside import applied_inside, is_new_part, recasts_inside

KEEPING_ADAPTERS = ("add_adapter", "inject_adapter_in_model")
"""What puts adapters on a model in the dtype of its weights: a function of peft 0.21.2, and the method of diffusers
0.35.2 and transformers 4.57.1 (peft's `get_peft_model` and `PeftModel.add_adapter` make them float32)."""
COPIES = "modules_to_save"
WIDE_ADAPTERS = ("get_peft_model", "PeftModel", "LoraModel", "load_adapter", "add_lora")
AUTO = ('dtype="auto"', "dtype='auto'")
IN_BFLOAT16 = ("Qwen/Qwen2.5-", "meta-llama/Llama-3.1-", "meta-llama/Llama-3.2-")
"""Beginnings of names of checkpoints whose config.json says bfloat16 (huggingface/transformers#36567; logs of their
loads)."""
CONVERTED = ("awq", "gptq", "gguf", "int4", "int8", "fp8", "bnb")
KEEPING = (*SAME_COMPUTATION, "prepare", "setup_module")
"""Wrappers that leave the weights as they are."""
IN_FLOAT32 = (Scenario(FP32),)
KEPT = (Scenario(None),)
"""The dtype of before."""


@dataclass(frozen=True, slots=True)
class WeightChange:
    """One call or statement that may change the dtype of weights."""

    module: ModuleNames
    node: ast.AST
    values: tuple[Scenario, ...]
    """What they can become, each with what must hold for it; empty: nobody knows."""
    given: tuple[TextCondition, ...]
    """What must hold for it to run."""
    part: str = ""
    """The part of the model that alone is meant; empty for all of it."""
    is_adapter: bool = False
    """Whether adapters are trained from here on; of the dtype of the weights where the change keeps that."""
    is_of_adapters: bool = False
    """Whether it casts adapters alone, by the names that they have where a change before has put them on."""
    is_copying: bool = False
    """Whether copies of the part, of the dtype that it has, are trained from here on, and nothing else in 16 bits."""
    is_freezing: bool = False
    is_unfreezing: bool = False
    """Whether it certainly makes a part trainable again, as it is."""

    @property
    def does(self) -> str:
        """What the model does by it, before the name of a dtype."""
        return "copies parts of itself in" if self.is_copying else "becomes"


def changes_of(
    project: Project, module: ModuleNames, made_by: Sequence[Creation], before: ast.Call, *, later: bool | ast.AST
) -> list[WeightChange]:
    """What happens to a model that one call makes, first things first; ``made_by`` are the ways from there."""
    first, holders = made_by[0], dict[ast.AST, ModuleNames]()
    loaded = list(_loaded(project, first))
    found = {change.node: change for change in loaded}
    for made in made_by:
        holders |= {made.module.tree: made.module, **{name.container: name.module for name in reversed(made.names)}}
        for call in made.through:
            holder = next((item for item in (*holders.values(), module) if call in item.parents), module)
            found.setdefault(call, _of_call(project, holder, call, "'lora" in ast.unparse(before)))
    for mention in dict.fromkeys(
        item for made in made_by for item in _mentions(project, made, module, before, later=later)
    ):
        for change in _of_statement(project, mention, first, set(found)):
            found.setdefault(change.node, change)
    rank = {node: index for index, node in enumerate([function_of(first.module, first.call), *holders])}
    inside = {change.node: index for index, change in enumerate(loaded)}

    def when(change: WeightChange) -> tuple[int, tuple[int, int], int]:
        node, there = (first.call, first.module) if change.node in inside else (change.node, change.module)
        around = (rank[item] for item in there.ancestors(node) if item in rank and not isinstance(item, ast.Module))
        size = len(ast.unparse(change.node)) if change.node not in inside else inside[change.node]
        return next(around, 0), position(node), size  # of x.half().to(...) the inner first

    return sorted(found.values(), key=when)


def _mentions(
    project: Project, made: Creation, trains: ModuleNames, optimizer: ast.Call, *, later: bool | ast.AST
) -> Iterator[Mention]:
    """The statements and loops that mention the model, those below the optimizer that act in place included."""
    stepped = trains.statement_of(optimizer)
    end = position(later) if isinstance(later, ast.AST) else (sys.maxsize, 0)
    for item in mentions_of(made):
        counts = not is_below(item, trains, optimizer)
        if not counts and later and position(item.statement) < end:
            acts = isinstance(item.statement, ast.Expr) and is_used_below(trains, optimizer, item.statement)
            counts = acts or _widens(project, item)
        if counts and item.statement is not stepped:
            yield item


def _widens(project: Project, mention: Mention) -> bool:
    """``model = model.float()`` or such a cast of each parameter, in place, before anything is trained."""
    module, statement, name = mention.module, mention.statement, mention.name
    cast = cast_of_each(module, statement, name)
    if isinstance(statement, ast.Assign) and name in map(ast.unparse, statement.targets):
        value = statement.value
        cast = value if isinstance(value, ast.Call) and is_cast(value, name) else None
    if cast is None or any(is_below(mention, module, call) for call in module.calls_by_name.get("backward", ())):
        return False
    return not any(isinstance(item.value, Dtype) and item.value != FP32 for item in cast_values(project, module, cast))


def _loaded(project: Project, made: Creation) -> Iterator[WeightChange]:
    given = _guards(project, made.module, made.call)
    if load_at(project, made.module, made.call) is None and not is_cast(made.call):
        inside = list(built_in(project, made.module, made.call))
        setter = setter_of(project, made) if not inside else None
        yield (
            _by_default(project, *setter, given) if setter else WeightChange(made.module, made.call, IN_FLOAT32, given)
        )
        for built in inside:
            there, call = built.module, built.call
            yield WeightChange(there, call, _asked(project, there, call), _guards(project, there, call), built.part)
    else:
        yield WeightChange(made.module, made.call, _asked(project, made.module, made.call), given)


def _by_default(
    project: Project, module: ModuleNames, setter: ast.Call, given: tuple[TextCondition, ...]
) -> WeightChange:
    """The default dtype, which all that is made later has."""
    values = scenarios_of(project, module, setter.args[0])
    return WeightChange(module, setter, tuple(map(_named, values)), (*given, *_guards(project, module, setter)))


def _asked(project: Project, module: ModuleNames, call: ast.Call) -> tuple[Scenario, ...]:
    """The dtypes that a load or a cast asks for."""
    load = load_at(project, module, call)
    if load is None:
        return layer_dtypes(project, module, call) or cast_values(project, module, call)
    load = as_read(project, load)
    if load.unsloth or may_be_quantized(project, load):
        return ()
    if (stored := stored_dtype(project, load)) is not None:
        return (Scenario(stored),)
    values = scenarios_of(project, module, load.node) if load.node is not None else IN_FLOAT32
    named = tuple(map(_named, values))
    unknown = load.node is not None and all(isinstance(item.value, Unknown) for item in named)
    return _written(project, module, load.node) or named if unknown and load.node is not None else named


def stored_dtype(project: Project, load: Load) -> Dtype | None:
    """The dtype that ``"auto"`` takes from a checkpoint; None for one that is not known."""
    asked = constants_of(project, load.module, load.node) if load.node is not None else set()
    names = constants_of(project, load.module, load.call.args[0]) if asked == {"auto"} and load.call.args else set()
    texts = [name for name in names if isinstance(name, str) and name.startswith(IN_BFLOAT16)]
    plain = [name for name in texts if not any(word in name.lower() for word in CONVERTED)]
    return BF16 if names and len(plain) == len(names) else None


def _written(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Scenario, ...]:
    """The one dtype that the project's files give a setting: ``getattr(torch, config["dtype"])``."""
    found = {as_dtype(item.value) for item in sources(project, module, node) if not item.is_guessed}
    only = found.pop() if len(found) == 1 else None
    return (Scenario(only),) if isinstance(only, Dtype) else ()


def is_cast(node: ast.expr | None, name: str = "") -> bool:
    """``x.to(...)``, ``x.cuda().half()`` and their like; with ``name`` of that object alone."""
    found = list(_chained(node))
    return any(receiver_of(call, *CASTS) is not None for call in found) and (
        not name or any(ast.unparse(owner) == name for call in found if (owner := receiver_of(call)) is not None)
    )


def _chained(node: ast.expr | None) -> Iterator[ast.Call]:
    """The calls of ``x.to(device).half()``, the last one first."""
    while isinstance(node, ast.Call) and (inner := receiver_of(node, *SAME_MODULE)) is not None:
        yield node
        node = inner


def _named(scenario: Scenario) -> Scenario:
    return Scenario(as_dtype(scenario.value), scenario.given)


def _guards(project: Project, module: ModuleNames, node: ast.AST) -> tuple[TextCondition, ...]:
    """The tests around a place, without those that end a program which does not pass them."""
    given = conditions_in(project, module).path_given(node)
    return tuple(item for item in given if not is_check(module, item.node))


def _of_call(project: Project, module: ModuleNames, call: ast.Call, picks: bool) -> WeightChange:
    """A call that gives the model back; ``picks``: the optimizer picks the adapters by their names."""
    given = _guards(project, module, call)
    name = (attribute_chain(call.func) or [""])[-1]
    adapts = mentions(call.func, WIDE_ADAPTERS) and not is_cast(call)
    if adapts and _keeps_adapters(call):
        return WeightChange(module, call, KEPT, given, is_adapter=True)
    if adapts and name == "get_peft_model" and not picks and _names_copies(project, module, call):
        return WeightChange(module, call, KEPT, given, part=COPIES, is_copying=True)
    if adapts or (name in MODEL_WRAPPERS and name not in KEEPING):
        return WeightChange(module, call, (), given, is_adapter=adapts)
    return WeightChange(module, call, cast_values(project, module, call), given)


def _names_copies(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """``LoraConfig(modules_to_save=["head"])``: PEFT 0.21.2 trains copies of these in their dtype."""
    config = argument(call, "peft_config", position=1)
    made_by = creations_of(project, module, config) if config is not None else ()
    named = [item.value for made in made_by for item in made.call.keywords if item.arg == COPIES]
    return len(made_by) == len(named) == 1 and bool(getattr(named[0], "elts", ()))


def _keeps_adapters(call: ast.Call) -> bool:
    """``autocast_adapter_dtype=False``: the adapters have the dtype of the weights."""
    asked = (item.value for item in call.keywords if item.arg == "autocast_adapter_dtype")
    return any(isinstance(item, ast.Constant) and item.value is False for item in asked)


def cast_values(project: Project, module: ModuleNames, call: ast.Call) -> tuple[Scenario, ...]:
    """The dtypes that ``x.half()`` or ``x.to(...)`` casts to; one without a dtype where it keeps that of before."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in WEIGHT_CASTS:
        return (Scenario(WEIGHT_CASTS[name]),)
    if name != "to":
        return () if _may_recast(call) else KEPT
    asked = [item.value for item in call.keywords if item.arg in LOAD_KEYS] or list(call.args)
    values = [item for node in asked for item in scenarios_of(project, module, node)]
    dtypes = tuple(item for item in values if isinstance(item.value, Dtype))
    if dtypes or not _may_recast(call) or all(_stays_none(project, module, node) for node in asked):
        return dtypes or KEPT
    return next((found for node in asked if (found := _written(project, module, node))), ())


def _stays_none(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether this is a parameter that is None by default, and that none of the known callers is seen to give."""
    bindings = module.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else []
    default = default_of(bindings[0]) if len(bindings) == 1 else None
    function = bindings[0].scope.node if isinstance(default, ast.Constant) and default.value is None else None
    sites = callers_of(project, module, function).sites if isinstance(function, FunctionNode) else ()
    given = [keyword.arg for site in sites for keyword in site.call.keywords] + [
        name for site in sites for name in site.target.arguments(site.call)
    ]
    return bool(sites) and None not in given and ast.unparse(node) not in given


def _may_recast(call: ast.Call) -> bool:
    """Whether a call may change the dtype, whatever the calls before it in a chain were given."""
    if not isinstance(call.func, ast.Attribute):
        return may_recast(call)
    return may_recast(ast.Call(ast.Name(call.func.attr, ast.Load()), call.args, call.keywords)) or (
        call.func.attr not in SAME_MODULE and may_recast(call.func)
    )


def _of_statement(project: Project, mention: Mention, made: Creation, known: set[ast.AST]) -> Iterator[WeightChange]:
    """What a statement that mentions the model does to it."""
    module, statement, name = mention.module, mention.statement, mention.name
    nodes = set(ast.walk(statement))
    if nodes & known:  # an assignment of what a cast gives back, which is counted already
        return
    for inner in _of_list(module, statement, name):
        yield from _of_statement(project, inner, made, known)
    given = _guards(project, module, statement)
    cast = statement.value if isinstance(statement, ast.Expr) else None
    each, state = cast_of_each(module, statement, name), assigned_state(statement, name)
    if each is not None:
        yield WeightChange(
            module, statement, cast_values(project, module, each), given, is_of_adapters=is_of_adapters(statement)
        )
    elif state is not None:
        inside = cast_of_state(module, state)
        every = (*given, *_guards(project, module, inside)) if inside else given
        yield WeightChange(module, statement, cast_values(project, module, inside) if inside else (), every)
    elif isinstance(cast, ast.Call) and is_cast(cast, name):
        asked = ((item, cast_values(project, module, item)) for item in _chained(cast))
        call, values = next((item for item in asked if item[1] != KEPT), (cast, KEPT))
        yield WeightChange(module, call, values, given)
    elif isinstance(cast, ast.Call) and part_cast(cast, name) and _lowers(project, module, made, cast):
        yield WeightChange(module, cast, cast_values(project, module, cast), given, part=part_cast(cast, name))
    elif mentions(statement, KEEPING_ADAPTERS):
        yield WeightChange(module, statement, KEPT, given, is_adapter=True)
    elif mentions(statement, WIDE_ADAPTERS) or may_change_back(statement, name) or is_new_part(statement, name):
        freezes = mentions(statement, FROZEN) and not mentions(statement, ("float", "to", "data"))
        yield _of_freezing(module, statement, given) if freezes else WeightChange(module, statement, (), given)
    elif mentions(statement, FROZEN):
        yield _of_freezing(module, statement, given)
    elif (applied := applied_inside(project, mention, made)) is not None:
        there, node, call, part = applied
        every = (*given, *_guards(project, there, node))
        lowers = _lowers(project, there, made, call)
        values = cast_values(project, there, call) if lowers else ()
        yield WeightChange(module, statement, values, every, part if lowers else "")
    elif any(recasts_inside(project, mention, made, item) for item in nodes if isinstance(item, ast.Call)):
        yield WeightChange(module, statement, (), given)


def _lowers(project: Project, module: ModuleNames, made: Creation, cast: ast.Call) -> bool:
    """Whether a cast of a part lowers it, and nothing near the model is seen to freeze parts."""
    near = (module, made.module, *(class_of(project, made.module, made.call.func) or ())[:1])
    lowers = any(item.value in HALVES for item in cast_values(project, module, cast))
    return lowers and not any(word in item.document.text for item in near for word in FROZEN)


def _of_list(module: ModuleNames, statement: ast.stmt, name: str) -> Iterator[Mention]:
    """What is done to all of ``models = [model, other]``."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.List | ast.Tuple) or not isinstance(target, ast.Name):
        return
    if any(ast.unparse(item) == name for item in value.elts):
        loads = (item for item in module.name_loads.get(target.id, ()) if module.scope_of(item).lookup(target.id))
        for load in loads:
            if module.scope_of(load) is module.scope_of(target):
                yield Mention(module, module.statement_of(load), target.id)


def _of_freezing(module: ModuleNames, statement: ast.stmt, given: tuple[TextCondition, ...]) -> WeightChange:
    """``model.requires_grad_(False)``, ``True`` for a part of it; a loop that says both trains what it picks."""
    constants = [item.value for item in ast.walk(statement) if isinstance(item, ast.Constant)]
    again, frozen = any(item is True for item in constants), any(item is False for item in constants)
    picks = again and frozen and isinstance(statement, ast.For)
    thaws = picks or not (frozen or mentions(statement, ("freeze",)))
    certain = again and not any(word in ast.unparse(statement).lower() for word in ("lora", "adapter"))
    return WeightChange(module, statement, KEPT, given, is_freezing=picks or not thaws, is_unfreezing=thaws and certain)
