"""Where results of a region are stored, and whether all that reads them there is seen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.frame import OUTSIDE
from ....codemod.flow.lattice import Kind, Value
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain, modules_with
from ....codemod.python.paths import function_of
from ....codemod.python.scopes import last_name
from ....codemod.source.project import Project
from .readers_of_results import chain
from .stored_names import holder_of

CONTAINERS = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.Tuple
MADE = ("collections.", "list", "dict", "set", "defaultdict", "deque", "torch.")
KNOWN = (Kind.TENSOR, Kind.SEQUENCE, Kind.RECORD)
METERING = ("update", "add")
"""Methods that what stands in a dictionary is likely to have of its own: ``meters["loss"].update(loss)``."""
StoredNames = dict[tuple[ModuleNames, ast.AST], set[str]]
"""The names in the functions that hold results of the region."""


class Stores:
    """What assignments and ``append`` do with a result."""

    def __init__(self, project: Project, held: StoredNames) -> None:
        self._project, self._held = project, held

    def loses(self, module: ModuleNames, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
        """Whether an assignment takes a result to where it is not followed."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(self._loses_sight(module, node, item) for item in targets)

    def keeps(self, module: ModuleNames, holder: ast.expr, method: str = "append") -> bool:
        """Whether something is a list, a dictionary or a tensor for all that is known of it, and read only in sight."""
        is_meter = method in METERING and isinstance(holder, ast.Subscript) and self._kind(module, holder) not in KNOWN
        return not is_meter and self._is_container(module, holder) and self._is_own(module, holder)

    def is_array(self, module: ModuleNames, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return self.is_array(module, node.left) or self.is_array(module, node.right)
        given = list(_made(module, node)) if isinstance(node, ast.Name | ast.Attribute) else []
        bound = module.bindings_of(node)
        if bound and all(isinstance(item.value, ast.Call) and _is_drawn(module, item.value) for item in bound):
            return False
        made = [node, *given]
        calls = (item for each in made for item in ast.walk(each) if isinstance(item, ast.Call))
        return self.value(module, node).kind is Kind.ARRAY or any(
            (module.qualified(item.func) or "").startswith("numpy.") for item in calls
        )

    def value(self, module: ModuleNames, node: ast.expr) -> Value:
        return flow_of(self._project).value_at(module, node, OUTSIDE)

    def _kind(self, module: ModuleNames, node: ast.expr) -> Kind:
        return self.value(module, node).kind

    def _loses_sight(self, module: ModuleNames, node: ast.stmt, target: ast.expr) -> bool:
        """Whether a target is an array, a variable of all functions, or what others hold or read."""
        if isinstance(target, ast.Starred):
            return self._loses_sight(module, node, target.value)
        if isinstance(target, ast.Tuple | ast.List):
            return any(self._loses_sight(module, node, item) for item in target.elts)
        if isinstance(target, ast.Subscript) and not _is_key(target.slice):
            return not self.keeps(module, target.value)
        if isinstance(node, ast.AugAssign) and self.is_array(module, target):
            return True
        if isinstance(target, ast.Name):
            return _is_shared(module, function_of(module, target), target)
        return not self._is_own(module, target)

    def _is_own(self, module: ModuleNames, stored: ast.expr) -> bool:
        """Whether nobody reads what is stored there but functions that are followed."""
        function, holder = function_of(module, stored), holder_of(stored)
        if isinstance(holder, ast.Name):
            return not _is_shared(module, function, holder) and _is_made_here(module, function, holder)
        if not isinstance(holder, ast.Attribute):
            return False
        is_seen = chain(holder).startswith("self.") or _is_made_here(module, function, holder)
        return is_seen and not self._is_read_elsewhere(holder)

    def _is_read_elsewhere(self, target: ast.Attribute) -> bool:
        name = chain(target)
        for other in modules_with(self._project, (target.attr,)):
            for load in other.attribute_loads.get(target.attr, ()):
                key = (other, function_of(other, load))
                if chain(load) != name or name not in self._held.get(key, ()):
                    return True
        return False

    def _is_container(self, module: ModuleNames, node: ast.expr) -> bool:
        if self._kind(module, node) in KNOWN:
            return True
        if isinstance(node, ast.Call | ast.Subscript):
            inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
            inner = node.value if isinstance(node, ast.Subscript) else inner
            return inner is not None and self._is_container(module, inner)
        made = list(_made(module, node))
        return bool(made) and all(
            isinstance(item, CONTAINERS)
            or (isinstance(item, ast.Call) and (module.qualified(item.func) or last_name(item.func)).startswith(MADE))
            for item in made
        )


def _is_shared(module: ModuleNames, function: ast.AST, holder: ast.Name) -> bool:
    """Whether functions beside this one read the variable."""
    if isinstance(function, FunctionNode):
        declared = (item for item in ast.walk(function) if isinstance(item, ast.Global | ast.Nonlocal))
        return any(holder.id in item.names for item in declared)
    loads = (item for item in module.name_loads.get(holder.id, ()) if function_of(module, item) is not function)
    return any(item.scope is module.module_scope for load in loads for item in module.scope_of(load).lookup(holder.id))


def _is_made_here(module: ModuleNames, function: ast.AST, holder: ast.expr) -> bool:
    """Whether the variable that an expression begins with is the function's own, and no other name of something."""
    while isinstance(holder, ast.Attribute):
        holder = holder.value
    if not isinstance(holder, ast.Name) or not isinstance(function, FunctionNode):
        return isinstance(holder, ast.Name)
    bound = module.scopes[function].bindings.get(holder.id, ())
    is_alias = any(isinstance(item.value, ast.Name | ast.Attribute | ast.Subscript) for item in bound)
    return bool(bound) and not is_alias and all(item.kind not in ("parameter", "global") for item in bound)


def _is_drawn(module: ModuleNames, call: ast.Call) -> bool:
    """``np.random.beta(a, a)``: one number, where no size is asked for."""
    name, keywords = module.qualified(call.func) or "", {item.arg for item in call.keywords}
    most = {"numpy.random.beta": 2, "numpy.random.uniform": 2, "numpy.random.normal": 2, "numpy.random.rand": 0}
    is_whole = not keywords & {"size", None} and not any(isinstance(item, ast.Starred) for item in call.args)
    return is_whole and len(call.args) <= most.get(name, -1)


def _is_key(index: ast.expr) -> bool:
    """``["loss"]``: what has such keys is a dictionary."""
    is_text = isinstance(index, ast.Constant | ast.JoinedStr)
    return is_text and not isinstance(getattr(index, "value", ""), int)


def _made(module: ModuleNames, node: ast.expr) -> Iterator[ast.expr]:
    """What a variable or an attribute is given."""
    named = attribute_chain(node) or []
    if len(named) == 1:
        yield from (item.value for item in module.scope_of(node).lookup(named[0]) if item.value is not None)
    elif len(named) == 2 and named[0] == "self":
        owner = module.scope_of(node).enclosing_class
        for item in ast.walk(owner.node) if owner is not None else ():
            if isinstance(item, ast.Assign) and any(attribute_chain(each) == named for each in item.targets):
                yield item.value
