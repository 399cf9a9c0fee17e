"""The variables that gradients lead from to what a statement computes."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from ..python.arguments import receiver_of
from ..python.bindings import reaching
from ..python.names import ModuleNames
from ..python.paths import exclusive, function_of, position
from ..source.project import Project
from .autocast import is_without_gradients

MAX_READERS = 20
"""How many later statements that read a variable are followed: a loss is made near its region."""
MAX_BINDINGS = 20
"""A name that is given more values than that is taken to hold what it is asked about."""
CUTS = ("detach", "item", "tolist", "numpy")
"""Methods behind which no gradient flows back."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientsMade:
    """Variables with gradients of what a statement computes, and the statements that give them that."""

    names: set[str]
    by: set[ast.AST]
    filled: set[str]
    """Those that only take it up: ``losses["main"] = loss``."""

    def holds(self, module: ModuleNames, node: ast.expr) -> bool:
        """Whether a variable has such a value where it is read: nothing gave it another one since."""
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return False
        bindings = module.scope_of(node).lookup(node.id)
        if node.id in self.filled or len(bindings) > MAX_BINDINGS:
            return True
        made = {item for item in bindings if self._gives(module, item.node)}
        replacing = [item for item in bindings if item in made or item.kind != "augmented"]
        return not made.isdisjoint(reaching(module, replacing, node))

    def _gives(self, module: ModuleNames, node: ast.AST) -> bool:
        around = (node, *module.ancestors(node))
        return not self.by.isdisjoint(around) and not is_without_gradients(module, node)


def made_of(project: Project, module: ModuleNames, function: ast.AST, block: ast.stmt) -> GradientsMade:
    """What a statement makes with gradients, and later ones of the function of it: ``loss = criterion(logits, y)``."""
    stored = (item for item in ast.walk(block) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))
    made = GradientsMade({item.id for item in stored if not is_without_gradients(module, item)}, {block}, set())
    readers, waiting = project.memo(_readers, module), list(made.names)
    while waiting:
        listed = readers.get((function, waiting.pop()), [])
        later = bisect_right(listed, position(block), key=position)
        for name in listed[later : later + MAX_READERS]:
            node = module.statement_of(name)
            if isinstance(node, ast.Assign) and made.holds(module, name) and not exclusive(module, node, block):
                targets = [item for each in node.targets for item in ast.walk(each) if isinstance(item, ast.Name)]
                made.by.add(node)
                made.filled.update(item.id for item in targets if not isinstance(item.ctx, ast.Store))
                waiting += {item.id for item in targets} - made.names
                made.names.update(item.id for item in targets)
    return made


def _readers(_: Project, module: ModuleNames) -> dict[tuple[ast.AST, str], list[ast.Name]]:
    """Where assignments read variables that gradients flow back to, by function and variable, from the top down."""
    found: dict[tuple[ast.AST, str], list[ast.Name]] = {}
    for node in sorted(module.of_type(ast.Assign), key=position):
        function = function_of(module, node)
        for name in (item for item in differentiated(node.value) if isinstance(item, ast.Name)):
            found.setdefault((function, name.id), []).append(name)
    return found


def differentiated(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that gradients flow back to."""
    if receiver_of(node, *CUTS) is not None:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from differentiated(child)
