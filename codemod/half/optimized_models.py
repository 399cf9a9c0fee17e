"""Which models an optimizer is given the parameters of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from ..python.arguments import receiver_of
from ..python.bindings import names_given
from ..python.functions import called_function, class_of
from ..python.indexes import ByPart
from ..python.names import FunctionNode, ModuleNames, attribute_chain
from ..python.paths import position
from ..source.project import Project

MAX_MODELS = 200
"""Groups of parameters that are followed in one optimizer."""
MAX_HOPS = 12
"""How many names and calls stand between an optimizer and the model whose parameters it is given."""
SELECTING = ("list", "tuple", "filter", "iter", "chain", "set", "sorted", "dict")
COPYING = ("16", "half", "mixed", "precision", "master", "scal", "copy", "deepspeed")
"""Parts of calls of optimizers that may step copies of the parameters."""
COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp)
PARAMS = "params"
FILLING = ("append", "extend", "add", "update")
KEEPING_ITEMS = (*SELECTING, "requires_grad_")
"""Calls that give back the very parameters that they are given."""


def models_of_optimizer(
    module: ModuleNames, made: ast.Call, project: Project | None = None, *, of_any: bool = False
) -> list[ast.expr | None]:
    """The models of ``torch.optim.X(model.parameters(), ...)``; None for what is not known.

    ``of_any``: of the classes of other packages, too, unless they speak of copies in another precision.
    """
    name = module.qualified(made.func) or ""
    of_package = of_any and project is not None and class_of(project, module, made.func) is None
    is_plain = name.rpartition(".")[2][:1].isupper() and not any(word in ast.unparse(made).lower() for word in COPYING)
    if not name.startswith("torch.optim.") and not (of_package and is_plain):
        return []
    given = made.args[:1] or [item.value for item in made.keywords if item.arg == "params"]
    return models_of(module, given[0], project) if given else []


def models_of(module: ModuleNames, parameters: ast.expr, project: Project | None = None) -> list[ast.expr | None]:
    """The models whose parameters an optimizer (or an average) is given; None for what is not known.

    With a project also through its functions that make groups of the parameters of a model that they are passed.
    """
    found = list(islice(_models_of(project, module, parameters, frozenset()), MAX_MODELS))
    return found if 0 < len(found) < MAX_MODELS else [None]


def _models_of(
    project: Project | None, module: ModuleNames, node: ast.expr, above: frozenset[ast.expr]
) -> Iterator[ast.expr | None]:
    receiver = owner_of_parameters(node)
    inner = _inside(module, node) if len(above) < MAX_HOPS else None
    if receiver is not None:
        yield receiver
    elif inner is not None:  # a name that is made anew of itself, ``named = {... named.items() ...}``, adds nothing
        for item in (item for item in inner if item not in above):
            yield from _models_of(project, module, item, above | {node})
    elif project is not None and isinstance(node, ast.Call) and len(above) < MAX_HOPS and node not in above:
        yield from _of_helper(project, module, node, above | {node})
    else:
        yield None


def _of_helper(
    project: Project, module: ModuleNames, call: ast.Call, above: frozenset[ast.expr]
) -> Iterator[ast.expr | None]:
    """``model`` of ``groups(model)``, whose function returns groups of its parameters, without rates of their own."""
    target = called_function(project, module, call)
    returned = target.module.returns_of(target.node) if target is not None else ()
    if target is None or not returned:
        yield None
        return
    arguments, found = target.arguments(call), list[ast.expr | None]()
    for item in returned:
        for model in _models_of(project, target.module, item.value, above) if item.value is not None else (None,):
            bindings = target.scope.bindings.get(model.id, ()) if isinstance(model, ast.Name) else ()
            passed = [each.kind for each in bindings] == ["parameter"]
            found.append(arguments.get(model.id) if passed and isinstance(model, ast.Name) else None)
    yield from found if not any(found) or not _says_rate(target.node) else [None]


def _says_rate(function: FunctionNode) -> bool:
    """Whether a function gives groups learning rates: ``{"params": p, "lr": 1e-5}``, ``dict(params=p, lr=rate)``."""
    named = (item for item in ast.walk(function) if isinstance(item, ast.Constant | ast.keyword))
    return any((item.value if isinstance(item, ast.Constant) else item.arg) == "lr" for item in named)


def owner_of_parameters(node: ast.expr) -> ast.expr | None:
    """``model`` of ``model.parameters()``."""
    plain = isinstance(node, ast.Call) and not node.args and not node.keywords
    return receiver_of(node, "parameters", "named_parameters") if plain else None


def _inside(module: ModuleNames, node: ast.expr) -> list[ast.expr] | None:
    """What a selection of parameters is taken from: ``filter(f, x)``, ``[p for p in x]``, ``{"params": x}``, a name."""
    if isinstance(node, ast.Call):
        held = receiver_of(node, "items", "values") if not node.args else None
        if held is not None:
            return [held]
        name = (attribute_chain(node.func) or [""])[-1]
        taken = node.args if name == "chain" else node.args[-1:]
        if name == "dict" and not taken:
            return [item.value for item in node.keywords if item.arg == PARAMS] or None
        return taken if name in SELECTING and taken and not node.keywords else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [node.left, node.right]
    if isinstance(node, COMPREHENSIONS) and len(node.generators) == 1:
        return (_looked_up(node) or [node.generators[0].iter]) if _keeps_items(node) else None
    if isinstance(node, ast.Dict | ast.List | ast.Tuple):
        return (_params(node) or node.values if isinstance(node, ast.Dict) else node.elts) or None
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Subscript):
        return [node.value]
    return listed(module, node) or None if isinstance(node, ast.Name) else None


def _looked_up(node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> list[ast.expr]:
    """``named`` of ``[named[name] for name in chosen]``: where the items come from, whatever is gone through."""
    return [item.value for item in _items(node) if isinstance(item, ast.Subscript)]


def _items(node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> list[ast.expr]:
    """The parameters of one round, those of a group where it makes groups."""
    item = node.value if isinstance(node, ast.DictComp) else node.elt
    parts = _params(item) if isinstance(item, ast.Dict) else [item]
    return [inner for part in parts for inner in (part.elts if isinstance(part, ast.List | ast.Tuple) else [part])]


def _keeps_items(node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> bool:
    """Whether its items are the parameters themselves: ``p.detach().float()`` is another tensor."""
    calls = (call for part in _items(node) for call in ast.walk(part) if isinstance(call, ast.Call))
    return all((attribute_chain(call.func) or [""])[-1] in KEEPING_ITEMS for call in calls)


def _params(node: ast.Dict) -> list[ast.expr]:
    pairs = zip(node.keys, node.values, strict=True)
    return [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == PARAMS]


def listed(module: ModuleNames, node: ast.Name, *, empty: bool = False) -> list[ast.expr]:
    """What a name of parameters stands for: its values, what it is filled with, what a loop goes through.

    ``empty``: what starts without parameters, too, as its groups may say a rate.
    """
    found, scope = list[ast.expr](), module.scope_of(node)
    for binding in scope.lookup(node.id):
        if binding.kind == "for" and isinstance(binding.node, ast.For):
            found.append(binding.node.iter)
        elif binding.kind == "assign" and binding.value is not None and (empty or not _is_empty(binding.value)):
            found.append(binding.value)
    found += module.of_parts(_filled).get((scope.node, node.id), [])
    return [] if any(_copies(item, node.id) for item in found) else found


def _copies(node: ast.expr, name: str) -> bool:
    """``[p.clone() for p in x]``, and ``x[i].float()``, which is put into ``x`` itself."""
    if isinstance(node, COMPREHENSIONS):
        return not _keeps_items(node)
    keeping = ("items", "values", *KEEPING_ITEMS)
    calls = (item for item in ast.walk(node) if receiver_of(item) is not None)
    is_another = receiver_of(node) is not None and any(receiver_of(item, *keeping) is None for item in calls)
    return is_another and any(isinstance(item, ast.Name) and item.id == name for item in ast.walk(node))


def _is_empty(node: ast.expr) -> bool:
    """``[]``, ``{}``, ``set()``, ``{"decay": [], "rest": []}``, ``{"decay": {"params": [], "weight_decay": 0.1}}``."""
    if isinstance(node, ast.Dict):
        return all(_is_empty(value) for value in _params(node) or node.values)
    if isinstance(node, ast.Call):
        return not node.keywords and all(isinstance(item, ast.Name) for item in node.args) and _makes_empty(node)
    return not getattr(node, "elts", True)


def _makes_empty(node: ast.Call) -> bool:
    """``dict()``, ``defaultdict(list)``."""
    name = (attribute_chain(node.func) or [""])[-1]
    return (name in SELECTING and not node.args) or name == "defaultdict"


def _filled(module: ModuleNames) -> dict[tuple[ast.AST, str], list[ast.expr]]:
    """What lists, sets and dictionaries are filled with, by the scope in which that is written and their name."""
    found: dict[tuple[ast.AST, str], list[ast.expr]] = {}
    for call in (call for name in FILLING for call in module.calls_by_name.get(name, []) if call.args):
        lists = receiver_of(call)
        for item in (lists.body, lists.orelse) if isinstance(lists, ast.IfExp) else (lists,):
            _fill(module, found, item, call.args[0])
    for grown in module.of_type(ast.AugAssign):
        _fill(module, found, grown.target, grown.value)
    for store in module.of_type(ast.Assign):
        for target in (item for item in store.targets if isinstance(item, ast.Subscript)):
            _fill(module, found, target, store.value)
    return ByPart(module.document, found)


def _fill(
    module: ModuleNames, found: dict[tuple[ast.AST, str], list[ast.expr]], holder: ast.expr | None, value: ast.expr
) -> None:
    """``holder`` (a name, ``groups["decay"]["params"]``) gets ``value``."""
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    if isinstance(holder, ast.Name) and not isinstance(value, ast.Constant):
        items = found.setdefault((module.scope_of(holder).node, holder.id), [])
        items += [value] if value not in items else []


def is_used_below(module: ModuleNames, optimizer: ast.Call, statement: ast.stmt) -> bool:
    """Whether the optimizer may still step when a statement of its function has run: it is named further down.

    What is stored in an attribute, or has no name, may be used anywhere; ``optimizer.state_dict()`` is no use of it.
    """
    names = names_given(module.statement_of(optimizer))
    if not names or any("." in name for name in names):
        return True
    loops = {item for item in module.ancestors(statement) if isinstance(item, ast.For | ast.While)}
    own = module.scope_of(optimizer).function
    loads = (load for name in names for load in module.name_loads.get(name, ()))
    used = [item for item in loads if getattr(module.parents[item], "attr", "") != "state_dict"]
    return any(
        position(item) > position(statement) or not loops.isdisjoint(module.ancestors(item))
        if module.scope_of(item).function is own
        else any(binding.scope is own for binding in module.scope_of(item).lookup(item.id))
        for item in used
    )
