"""Models whose weights are float16 while they are trained: cast or loaded so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..python.creations import only_call
from ..python.names import ModuleNames, attribute_chain, names_of, root_name
from ..python.paths import Facts, function_of, guard_facts, loops, position
from ..source.project import Project
from .api import LOAD_KEYS, LOADERS, SAME_WEIGHTS
from .dtype_values import constants_of
from .dtypes import FP16, Dtype
from .weight_changes import may_change_back
from .weights import cast_dtype


@dataclass(frozen=True, slots=True, eq=False)
class HalfModel:
    """A model that is float16 (or bfloat16, where that was asked for) when an optimizer takes its parameters."""

    module: ModuleNames
    name: str
    cast: ast.Call
    optimizer: ast.Call


# --- cast models ------------------------------------------------------------------------------------------------------


def half_model_of(
    project: Project, module: ModuleNames, optimizer: ast.expr, dtype: Dtype = FP16, known: Facts = frozenset()
) -> HalfModel | None:
    """The model of 16-bit ``dtype`` behind ``optimizer`` (a variable or ``self`` attribute), when all is certain.

    A cast below the optimizer counts up to where this steps, since it changes the parameters in place. ``known`` are
    facts that hold wherever the optimizer steps; in another function only attributes are sure to be the same.
    """
    made = only_call(project, module, optimizer)
    if made is None:
        return None
    here = made in module.parents and function_of(module, made) is function_of(module, optimizer)
    known = known if here else frozenset(fact for fact in known if "." in fact[0])
    return half_model_made(project, module, made, dtype, optimizer if here else made, known)


def half_model_made(
    project: Project,
    module: ModuleNames,
    made: ast.Call,
    dtype: Dtype = FP16,
    until: ast.expr | None = None,
    known: Facts = frozenset(),
) -> HalfModel | None:
    """The model of 16-bit ``dtype`` whose parameters the call ``made`` gives to an optimizer, when all is certain."""
    model = model_of(module, made)
    if model is None or function_of(module, made) is not function_of(module, model):
        return None
    cast = half_cast(project, module, model, made, dtype, until or made, known)
    return HalfModel(module, ast.unparse(model), cast, made) if cast is not None else None


def model_of(module: ModuleNames, made: ast.Call) -> ast.expr | None:
    """``model`` of ``torch.optim.X(model.parameters(), ...)``."""
    if not (module.qualified(made.func) or "").startswith("torch.optim."):
        return None
    first = made.args[0] if made.args else next((item.value for item in made.keywords if item.arg == "params"), None)
    if not isinstance(first, ast.Call) or not isinstance(first.func, ast.Attribute) or first.args or first.keywords:
        return None
    receiver = first.func.value
    return receiver if first.func.attr == "parameters" and attribute_chain(receiver) is not None else None


def half_cast(
    project: Project,
    module: ModuleNames,
    model: ast.expr,
    before: ast.Call,
    dtype: Dtype = FP16,
    until: ast.expr | None = None,
    known: Facts = frozenset(),
) -> ast.Call | None:
    """The last call that certainly casts ``model`` before its parameters are taken, or stepped, and nothing after."""
    name, function = ast.unparse(model), function_of(module, before)
    found: ast.Call | None = None
    for statement in _statements_about(module, function, name):
        late = position(statement) > position(until or before)
        cast = None if late else _casts(project, module, statement, name, dtype)
        if cast is not None and position(statement) > position(before) and not isinstance(statement, ast.Expr):
            return None  # another object than the one whose parameters were taken, or a copy
        if cast is not None and not guard_facts(module, cast) <= guard_facts(module, before) | known:
            return None
        if cast is None and may_change_back(statement, name):
            return None
        found = cast or found
    return found


def _statements_about(module: ModuleNames, function: ast.AST, name: str) -> list[ast.stmt]:
    """Every simple statement or loop head of ``function`` that mentions the model, in source order."""
    last = name.rpartition(".")[2]
    found = {
        module.statement_of(node)
        for node in ast.walk(function)
        if (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and node.attr == last and ast.unparse(node) == name)
    }
    return sorted(found, key=position)


def stays_cast(module: ModuleNames, cast: ast.Call) -> bool:
    """Whether nothing below ``cast`` in its function gives the object (a name or attribute) another dtype."""
    later = _later_statements(module, cast)
    used = bool(later) or any(applied_at_once(module, cast))
    return used and not any(may_change_back(item, name) for name, items in later.items() for item in items)


def applications_of(project: Project, module: ModuleNames, cast: ast.Call) -> Iterator[tuple[str, ast.Call]]:
    """Where the file itself calls what ``cast`` casts, and which method (``forward`` for the object as a function)."""
    yield from applied_at_once(module, cast)
    for held in _held(module, cast):
        for name, call in project.memo(_calls_of_objects, module).get(ast.unparse(held), ()):
            if _is_same_object(module, held, call) and not _runs_before(module, call, cast):
                yield name, call


def _is_same_object(module: ModuleNames, held: ast.expr, call: ast.Call) -> bool:
    """Whether a name that reads alike where ``call`` stands is bound where the one of ``held`` is."""
    root, here, there = root_name(held), module.scope_of(held), module.scope_of(call)
    return here.enclosing_class is there.enclosing_class if root == "self" else here.lookup(root) is there.lookup(root)


def _runs_before(module: ModuleNames, call: ast.Call, cast: ast.Call) -> bool:
    """Whether a call comes before the cast in the same function, and no loop leads back to it."""
    same = module.scope_of(call).function is module.scope_of(cast).function
    return same and position(call) < position(cast) and set(loops(module, call)).isdisjoint(loops(module, cast))


def _calls_of_objects(_project: Project, module: ModuleNames) -> dict[str, list[tuple[str, ast.Call]]]:
    """What is called or whose method is called -> the methods and calls, ``forward`` for the object as a function."""
    found: dict[str, list[tuple[str, ast.Call]]] = {}
    for called, calls in module.calls_by_name.items():
        for call in calls:
            text = ast.unparse(call.func)
            found.setdefault(text, []).append(("forward", call))
            if isinstance(call.func, ast.Attribute):
                found.setdefault(text.removesuffix(f".{called}"), []).append((called, call))
    return found


def applied_at_once(module: ModuleNames, cast: ast.Call) -> Iterator[tuple[str, ast.Call]]:
    """``Net().half()(x)`` and ``Net().half().encode(x)``."""
    parent = module.parents.get(cast)
    name = parent.attr if isinstance(parent, ast.Attribute) else "forward"
    called = parent if isinstance(parent, ast.Attribute) else cast
    call = module.parents.get(called)
    if isinstance(call, ast.Call) and call.func is called:
        yield name, call


def _later_statements(module: ModuleNames, cast: ast.Call) -> dict[str, list[ast.stmt]]:
    """The statements below ``cast`` that mention what it casts, by each name that this has."""
    statement = module.statement_of(cast)
    return {
        name: [
            later
            for later in _statements_about(module, function_of(module, cast), name)
            if position(later) > position(statement)
        ]
        for name in map(ast.unparse, _held(module, cast))
    }


def _held(module: ModuleNames, cast: ast.Call) -> list[ast.expr]:
    """The names (attributes too) of the object that ``cast`` casts."""
    statement = module.statement_of(cast)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    held = [*targets, cast.func.value] if isinstance(cast.func, ast.Attribute) else targets
    return list({ast.unparse(item): item for item in held if isinstance(item, ast.Name | ast.Attribute)}.values())


def _casts(project: Project, module: ModuleNames, statement: ast.stmt, name: str, dtype: Dtype) -> ast.Call | None:
    value = getattr(statement, "value", None)
    assigned = isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == [name]
    if not assigned and not isinstance(statement, ast.Expr):
        return None
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if cast_dtype(project, module, value) == dtype:
            inner = value.func.value
            return value if (assigned and not _is_copy(inner)) or ast.unparse(_unmoved(inner)) == name else None
        if value.func.attr in LOADERS:
            return value if assigned and _loads(project, module, value, dtype) else None
        if value.func.attr not in SAME_WEIGHTS or cast_dtype(project, module, value) is not None:
            return None
        value = value.func.value
    return None


def _unmoved(node: ast.expr) -> ast.expr:
    """``model`` of ``model.cuda().train()``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_WEIGHTS:
        node = node.func.value
    return node


def _is_copy(node: ast.expr) -> bool:
    return any(isinstance(item, ast.Name | ast.Attribute) and "copy" in ast.unparse(item) for item in ast.walk(node))


def _loads(project: Project, module: ModuleNames, call: ast.Call, dtype: Dtype) -> bool:
    if any(item.arg is None or "quant" in item.arg or "load_in" in item.arg for item in call.keywords):
        return False
    given = [item.value for item in call.keywords if item.arg in LOAD_KEYS]
    return bool(given) and all(constants_of(project, module, node) == {dtype} for node in given)


# --- accelerate -------------------------------------------------------------------------------------------------------


def prepared_half_models(project: Project) -> Iterator[HalfModel]:
    """Float16 models that go through ``Accelerator(mixed_precision="fp16").prepare`` together with their optimizer."""
    spelled = (("prepare(",), ("Accelerator(",), ('"fp16"', "'fp16'"))
    for document in project.python_documents(("mixed_precision",), *spelled):
        module = names_of(project, document)
        for call in module.calls:
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "prepare"
                and _is_fp16(project, module, call.func.value)
            ):
                yield from _prepared(project, module, call)


def _is_fp16(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    made = only_call(project, module, node)
    if made is None or not (module.qualified(made.func) or "").startswith("accelerate."):
        return False
    return any(
        item.arg == "mixed_precision" and isinstance(item.value, ast.Constant) and item.value.value == "fp16"
        for item in made.keywords
    )


def _prepared(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[HalfModel]:
    given = {ast.unparse(argument) for argument in call.args}
    for argument in call.args:
        made = _value_before(module, argument, call)
        model = model_of(module, made) if made is not None else None
        if made is None or model is None or ast.unparse(model) not in given:
            continue
        cast = half_cast(project, module, model, made)
        if cast is not None:
            yield HalfModel(module, ast.unparse(model), cast, made)


def _value_before(module: ModuleNames, node: ast.expr, before: ast.Call) -> ast.Call | None:
    """The only value that a variable is given above ``before`` (``prepare`` rebinds it)."""
    if not isinstance(node, ast.Name):
        return None
    bindings = [item for item in module.scope_of(node).lookup(node.id) if position(item.node) < position(before)]
    bindings = [item for item in bindings if before not in set(ast.walk(item.node))]
    value = bindings[0].value if len(bindings) == 1 else None
    return value if isinstance(value, ast.Call) else None
