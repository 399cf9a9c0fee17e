"""Which binding of a name is seen where: defaults, attributes of ``self``, the assignments that reach a use."""

from __future__ import annotations

import ast
import sys
from bisect import bisect_left
from collections.abc import Collection

from .exits import after
from .names import Binding, ModuleNames, Scope, attribute_chain, defaults_in


def default_of(binding: Binding) -> ast.expr | None:
    """The default value of a parameter binding, or None."""
    node = binding.scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return None
    return defaults_in(node.args).get(binding.name)


def default_at(module: ModuleNames, node: ast.expr | None) -> ast.expr | None:
    """The default of the parameter that ``node`` reads; None where it is no parameter, or has none."""
    bindings = module.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else []
    return default_of(bindings[0]) if len(bindings) == 1 and bindings[0].kind == "parameter" else None


def self_stores(module: ModuleNames, owner: Scope, name: str) -> list[tuple[ast.expr | None, ast.stmt]]:
    """Every ``self.<name> = value`` in the class and ``<name> = value`` in its body, with its statement; the value is
    None where no single expression gives it (unpacking, loops)."""
    return [(value, statement) for _, value, statement in module.stores_by_class.get((owner, name), [])]


def reaching(module: ModuleNames, bindings: list[Binding], use: ast.AST, enough: int = sys.maxsize) -> list[Binding]:
    """The bindings of a name that may be seen at ``use``: those before the last one that certainly runs are dropped.

    Of more than ``enough`` in the scope of the use itself at least that many are told, not all. A function sees of an
    outer scope what its definition sees, and whatever is bound below that. What stands below ``use`` in a loop around
    it is seen in the next round.
    """
    if not bindings:
        return bindings
    if bindings[0].scope is not module.scope_of(use):
        return _from_outside(module, bindings, use)
    line, path = getattr(use, "lineno", 0), [use, *module.ancestors(use)]
    around = set(path[1:])
    lines, ordered = _in_order(bindings)
    kept, last = _above(module, ordered[: bisect_left(lines, line)], path, around, enough)
    repeated = {loop for loop in around if isinstance(loop, LOOPS) and (last is None or not _holds(module, loop, last))}
    below = ordered[bisect_left(lines, line) :] if repeated else []
    seen = {*kept, *(item for item in below if not repeated.isdisjoint(module.ancestors(item.node)))}
    found = [item for item in bindings if item in seen]
    if found or bindings[0].scope is not module.module_scope or line in lines:
        return found or bindings
    return [item for item in bindings if item.scope is not module.module_scope]  # a module runs from above, only once


def _above(
    module: ModuleNames, ordered: list[Binding], path: list[ast.AST], around: set[ast.AST], enough: int
) -> tuple[list[Binding], Binding | None]:
    """Of the bindings above a use those that it may see, and the last one that certainly runs."""
    kept: list[Binding] = []
    last: Binding | None = None
    floor, tried = 0, set[ast.If]()
    for item in reversed(ordered):  # from the use upwards: what stands above the last certain one is not looked at
        if (last is not None and _line(item) < _line(last)) or _line(item) < floor:
            break
        if len(kept) >= enough and _line(item) < _line(kept[enough - 1]):
            break
        is_elsewhere = _is_in_other_arm(module, item.node, path)
        if is_elsewhere and not _is_repeated(module, item.node):
            continue
        if item.kind == "parameter" or (not is_elsewhere and module.parents.get(item.node) in around):
            last = item
        elif last is None and not _is_overwritten(module, item, kept):
            kept.append(item)
            choice = None if floor or is_elsewhere else _choice_around(module, item.node, around)
            if choice is not None and choice not in tried:
                tried.add(choice)
                floor = choice.lineno if _binds_always([choice], {each.node for each in ordered}) else 0
    return (kept if last is None else [*(each for each in kept if _line(each) > _line(last)), last]), last


def _is_overwritten(module: ModuleNames, binding: Binding, later: list[Binding]) -> bool:
    """Whether a plain assignment further down in the same block certainly replaces what a statement gives a name."""
    block, around = after(module.parents[binding.node], binding.node), module.ancestors(binding.node)
    plain = {item.node for item in later if isinstance(item.node, ast.Assign)}
    index = next((index for index, item in enumerate(block) if item in plain), None)
    if index is None or any(isinstance(item, ast.Try) for item in around):
        return False
    return not any(isinstance(item, LEAVING) for between in block[:index] for item in ast.walk(between))


def _choice_around(module: ModuleNames, node: ast.AST, around: set[ast.AST]) -> ast.If | None:
    """The outermost ``if`` around a binding, where that certainly runs before the use."""
    choice, above = module.parents.get(node), None
    while isinstance(choice, ast.If) and choice not in around:
        above, choice = choice, module.parents.get(choice)
    return above if choice in around else None


def _binds_always(block: list[ast.stmt], binds: Collection[ast.AST]) -> bool:
    """Whether each branch of a choice gives the name another value: nothing above is seen below it."""
    return any(
        (item in binds and not isinstance(item, ast.AugAssign))
        or (isinstance(item, ast.If) and _binds_always(item.body, binds) and _binds_always(item.orelse, binds))
        for item in block
    )


def _in_order(bindings: list[Binding]) -> tuple[list[int], list[Binding]]:
    """Bindings by their lines, with these; made once for all bindings of a name in a scope."""
    scope, name = bindings[0].scope, bindings[0].name
    if scope.bindings.get(name) is not bindings:
        return _sorted(bindings)
    if name not in scope.ordered:
        scope.ordered[name] = _sorted(bindings)
    return scope.ordered[name]


def _sorted(bindings: list[Binding]) -> tuple[list[int], list[Binding]]:
    ordered = sorted(bindings, key=_line)
    return [_line(item) for item in ordered], ordered


def _from_outside(module: ModuleNames, bindings: list[Binding], use: ast.AST) -> list[Binding]:
    """The bindings of an outer scope that a function may see: it cannot run before it is defined."""
    scope = bindings[0].scope
    above = (item for item in module.ancestors(use) if isinstance(item, INNER))
    definition = next((item for item in above if module.scope_of(item) is scope), None)
    if definition is None:
        return bindings
    own = [item for item in bindings if item.scope is scope]  # no function's ``global``, which may run at any time
    seen = {*reaching(module, own, definition), *(item for item in own if _line(item) >= definition.lineno)}
    return [item for item in bindings if item in seen or item.scope is not scope]


INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
LEAVING = (ast.Break, ast.Continue)


def _is_in_other_arm(module: ModuleNames, statement: ast.AST, path: list[ast.AST]) -> bool:
    """Whether a statement stands in one branch of an ``if`` of which the other branch, or the test, holds the use."""
    parent = module.parents.get(statement)
    if not isinstance(parent, ast.If) or parent not in path[1:]:
        return False
    branch = path[path.index(parent) - 1]
    return branch is parent.test or (statement in parent.body) != (branch in parent.body)


def _is_repeated(module: ModuleNames, statement: ast.AST) -> bool:
    """Whether a loop runs a statement again: what it binds is seen everywhere in the next round."""
    return any(isinstance(item, LOOPS) for item in module.ancestors(statement))


def _line(binding: Binding) -> int:
    """The line after which the name is bound: a use inside an assignment over several lines sees the old value."""
    ends_late = isinstance(binding.node, ast.Assign | ast.AnnAssign)
    line: int = getattr(binding.node, "end_lineno" if ends_late else "lineno", None) or 0
    return 0 if binding.kind == "parameter" else line


def _holds(module: ModuleNames, loop: ast.AST, binding: Binding) -> bool:
    return loop is binding.node or loop in module.ancestors(binding.node)


def values_at(module: ModuleNames, node: ast.expr, enough: int = sys.maxsize) -> list[ast.expr | None]:
    """What a name or an attribute of ``self`` is given, as far as ``node`` sees it; None: by no single one.

    ``enough`` is that of ``reaching``.
    """
    if isinstance(node, ast.Name):
        return [item.value for item in reaching(module, module.scope_of(node).lookup(node.id), node, enough)]
    chain, owner = attribute_chain(node), module.scope_of(node).enclosing_class
    if chain is None or len(chain) != 2 or chain[0] != "self" or owner is None:
        return []
    return [value for value, _ in self_stores(module, owner, chain[1])]


def only_value(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """The one expression that a name or an attribute of ``self`` has its value from; None for anything else."""
    values = values_at(module, node, enough=2)
    return values[0] if len(values) == 1 else None


def only_target(node: ast.AST | None) -> ast.expr | None:
    """``x`` of ``x = ...``; None for several targets, and for anything but a plain assignment."""
    return node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None


def names_given(node: ast.AST) -> set[str]:
    """The names and attributes that an assignment gives its value, as they are written."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {ast.unparse(item) for item in targets if isinstance(item, ast.Name | ast.Attribute)}


def position_in_targets(node: ast.AST, name: str) -> int | None:
    """The place of ``name`` (or ``self.name``) in ``a, b, name = ...``; None for other shapes."""
    target = only_target(node)
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(item, ast.Starred) for item in target.elts):
        return None
    places = [index for index, item in enumerate(target.elts) if ".".join(attribute_chain(item) or ()) == name]
    return places[0] if places else None
