"""What an autocast region is for: a training step or an evaluation, on its own or one of several to pick from."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..python.arguments import receiver_of
from ..python.glimpses import contexts_seen
from ..python.names import FunctionNode, ModuleNames, Scope, attribute_chain
from ..python.paths import LoopNode, exclusive, guards, loops, name_parts, parts_of
from ..source.project import Project
from ..torch.api import SAME_WEIGHTS, WALKS
from ..torch.autocast import Autocast, autocasts_in, is_without_gradients, runs_without_gradients

EVALUATION_NAMES = ("eval", "valid", "test", "infer", "predict", "sample", "generate")
"""How the names of functions begin that evaluate, or words in them after an underscore."""
VALIDATION = ("eval", "valid")
"""How words begin of names of functions that look at what was learned, between steps or after them."""
CONTEXT_WORDS = frozenset({"amp", "precision", "context", "ctx", "half", "fp16", "bf16"})
"""Words in the names of contexts, and of functions that make them, that may open an autocast region."""
MAX_OTHERS = 100
"""In a function with more regions all count as picked from: comparing each with each takes too long, and nobody wrote
it."""
DRAWN = frozenset({"torch.randint", "torch.randn", "torch.rand", "torch.randperm"})
PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile"})
KEEPING = ("save", "save_pretrained", "save_model", "save_file", "state_dict", "push_to_hub", "save_checkpoint")
TABLES = (ast.Dict, ast.List, ast.Tuple, ast.Lambda)


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """A ``with`` statement that enters an autocast made in place, or kept in a variable or attribute."""

    autocast: Autocast
    block: ast.With | ast.AsyncWith
    context: ast.expr
    """What is entered: ``torch.autocast(...)``, ``ctx``, ``self.amp_context()``."""


def function_scope(module: ModuleNames, node: ast.AST) -> Scope:
    """The function (or module) that ``node`` runs in; lambdas and class bodies belong to it."""
    return module.scope_of(node).function


def calls_beside(module: ModuleNames, node: ast.AST, name: str) -> bool:
    """Whether the function that ``node`` runs in calls something called ``name``: ``backward`` in a training step."""
    return (function_scope(module, node).node, name) in module.calls_inside


def is_beside_training(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether all loops of its function that run backward passes end before ``node``, or begin behind its statement."""
    holding = project.memo(_loops_with_backward, (module, function_scope(module, node).node))
    return bool(holding) and all(loop is not None and _is_apart(module.statement_of(node), loop) for loop in holding)


def _is_apart(statement: ast.stmt, loop: ast.stmt) -> bool:
    """Whether one of two statements ends before the other begins."""
    return (loop.end_lineno or 0) < statement.lineno or (statement.end_lineno or 0) < loop.lineno


def _loops_with_backward(_: Project, asked: tuple[ModuleNames, ast.AST]) -> frozenset[LoopNode | None]:
    """The loops of a function that run backward passes; None for a pass outside of all loops."""
    module, function = asked
    calls = module.calls_inside.get((function, "backward"), [])
    return frozenset(loop for call in calls for loop in loops(module, call) or (None,))


def says_evaluation(scope: Scope) -> bool:
    """Whether a function is called like one that evaluates."""
    name = getattr(scope.node, "name", "").lower()
    return any(name.startswith(word) or f"_{word}" in name for word in EVALUATION_NAMES) and "train" not in name


def is_evaluation(item: Autocast) -> bool:
    """Whether a region evaluates: no gradients, a function that is called so, or every so many steps only."""
    module, node = item.module, item.node
    return runs_without_gradients(item) or says_evaluation(function_scope(module, node)) or _is_interlude(module, node)


def _is_interlude(module: ModuleNames, node: ast.AST) -> bool:
    """``if step % args.eval_steps == 0``: what runs between training steps, to evaluate."""
    tests = [part for guard in guards(module, node) if guard.holds for part in ast.walk(guard.test)]
    counted = [part.right for part in tests if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)]
    return any(part.startswith(EVALUATION_NAMES) for each in counted for part in name_parts(each))


def contexts_around(module: ModuleNames, node: ast.AST) -> Iterator[ast.expr]:
    """What is entered around ``node`` in its function, innermost first, then the function's decorators."""
    below = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.With | ast.AsyncWith):
            outer = parent.items[: parent.items.index(below)] if isinstance(below, ast.withitem) else parent.items
            yield from (item.context_expr for item in reversed(outer))
        elif isinstance(parent, FunctionNode):
            yield from parent.decorator_list if below not in parent.decorator_list else ()
            return
        below = parent


def may_be_autocast(context: ast.expr) -> bool:
    """Whether the names in what is entered speak of autocast, or leave it open."""
    return _speaks(name_parts(context))


def may_enter_autocast(text: str) -> bool:
    """Whether a file may hold a ``with`` whose names speak of autocast, or leave it open."""
    return any(names is None or _speaks(parts_of(names)) for names in contexts_seen(text))


def _speaks(parts: Collection[str]) -> bool:
    return not CONTEXT_WORDS.isdisjoint(parts) or any("autocast" in part for part in parts)


def is_in_context(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a ``with`` or decorator around ``node`` enters autocast, or may."""
    return any(map(may_be_autocast, contexts_around(module, node)))


def regions_beside(project: Project, item: Autocast) -> Sequence[Autocast]:
    """All regions of the function (or of the top level of the file) that holds ``item``, itself as well."""
    return project.memo(_by_function, item.module)[function_scope(item.module, item.node)]


def _by_function(project: Project, module: ModuleNames) -> dict[Scope, list[Autocast]]:
    found: dict[Scope, list[Autocast]] = {}
    for item in autocasts_in(project, module):
        found.setdefault(function_scope(module, item.node), []).append(item)
    return found


def is_crowded(project: Project, item: Autocast) -> bool:
    """Whether a function has too many regions to tell which the code picks from."""
    return len(regions_beside(project, item)) > MAX_OTHERS


def alternatives(project: Project, item: Autocast) -> Iterator[Autocast]:
    """The regions that the code can enter instead: other branches, other entries of a table."""
    for other in regions_beside(project, item)[:MAX_OTHERS]:
        if other.node is not item.node and (
            _share_table(item.module, item.node, other.node) or exclusive(item.module, other.node, item.node)
        ):
            yield other


def _share_table(module: ModuleNames, first: ast.expr, second: ast.expr) -> bool:
    mine = {parent for parent in module.ancestors(first) if isinstance(parent, TABLES)}
    return any(parent in mine for parent in module.ancestors(second))


def entered(autocast: Autocast) -> Iterator[Entered]:
    """The ``with`` statements of its file that enter an autocast."""
    module, made = autocast.module, autocast.node
    while isinstance(choice := module.parents[made], ast.IfExp):
        made = choice
    statement = module.statement_of(made)
    if isinstance(statement, ast.With | ast.AsyncWith) and isinstance(choice, ast.withitem):
        yield Entered(autocast, statement, made)
    target = _target(statement) if autocast.form in ("value", "partial") else None
    name = module.name_at(target) if target is not None else None
    for block, context in module.contexts_by_name.get(name, []) if name is not None else ():
        if isinstance(context, ast.Call) == (autocast.form == "partial"):
            yield Entered(autocast, block, context)


def _target(statement: ast.stmt) -> ast.expr | None:
    """The variable or attribute that keeps the context."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    chain = attribute_chain(statement.targets[0])
    return statement.targets[0] if chain is not None and (len(chain) == 1 or chain[0] == "self") else None


def is_named_validation(name: str) -> bool:
    """Whether a function of this name validates between steps, or after them."""
    return any(part.startswith(VALIDATION) for part in name.lower().split("_")) and "train" not in name.lower()


def validates(item: Autocast) -> bool:
    """Whether the function around a region is called like one that validates, and trains nothing itself."""
    function = function_scope(item.module, item.node).node
    return is_named_validation(getattr(function, "name", "")) and not item.module.calls_inside.get(
        (function, "backward")
    )


def carries_nothing_back(item: Autocast) -> bool:
    """Whether no block that enters a region, or nothing in it, keeps gradients: a backward pass follows none of it."""
    blocks = [each.block for each in entered(item)]
    return runs_without_gradients(item) or (bool(blocks) and all(_keeps_none(item.module, each) for each in blocks))


def _keeps_none(module: ModuleNames, block: ast.With | ast.AsyncWith) -> bool:
    bodies = [each.body[0] if isinstance(each, ast.With | ast.AsyncWith) else each for each in block.body]
    return all(is_without_gradients(module, each) for each in bodies)


def only_measures(module: ModuleNames, optimizer: ast.Call) -> bool:
    """Whether a file saves nothing, and the function of the optimizer opens a profiler, or only counts steps on tensors
    that it draws itself. Loops that prepare models go over no data either."""
    holder = module.scope_of(optimizer).function
    called = {module.qualified(call.func) for call in module.calls if module.scope_of(call).function is holder}
    looped = [loop for loop in module.of_type(ast.For) if module.scope_of(loop).function is holder]
    counts = all(_counts(loop.iter) or _prepares(loop) for loop in looped)
    keeps = any(name in module.calls_by_name for name in KEEPING)
    return not keeps and bool(called & PROFILERS or (counts and called & DRAWN))


def _counts(iterated: ast.expr) -> bool:
    return isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "range"


def _prepares(statement: ast.stmt) -> bool:
    """``for p in reference.parameters(): ...``, ``for model in (reference, judge): model.eval()``."""
    if isinstance(statement, ast.For):
        return receiver_of(statement.iter, *WALKS) is not None or all(map(_prepares, statement.body))
    return isinstance(statement, ast.Expr) and receiver_of(statement.value, *SAME_WEIGHTS) is not None
