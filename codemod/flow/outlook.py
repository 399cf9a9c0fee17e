"""What a look at a function's text tells before anything is interpreted: whether something wide can get anywhere.

A function is worth interpreting where a tensor that is not of the model's dtype (``.float()``, a factory without dtype,
an item of a batch) can reach an operation that does not promote, a module, or a function that is not known. The look
errs on the side of "it can"; it takes a small part of what an interpretation with all its calls takes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..python.functions import FunctionTarget, called_function, class_of
from ..python.names import Binding, FunctionNode, ModuleNames, attribute_chain, parameters_of, root_name
from ..source.project import Project
from ..torch.tables.layers import LAYERS
from ..torch.tables.libraries import MODEL_NAMES, MODEL_PARAMETERS
from .analysis import FlowAnalysis
from .classes import ProjectClass
from .contexts import OWN_METHODS, autocasts_by_node, decorated
from .frame import Autocasting
from .lattice import Kind
from .outlook_state import BATCH, MODULE, WIDE, Names, Outlook, Sources
from .outlook_values import OWNERS, add, bind, element_of, value_of
from .parameters import annotation_of

DEFINITIONS = ("import", "function", "class")


class Outlooks:
    """The looks at the functions of a project."""

    def __init__(self, analysis: FlowAnalysis) -> None:
        self._analysis = analysis
        self._taking: dict[FunctionNode, bool] = {}
        self._ends: tuple[Sources, dict[FunctionNode, Names]] = (Sources(), {})
        """What the names of functions that hold others are in the end, for the sources that were asked for last."""

    def of(self, module: ModuleNames, function: FunctionNode | None, sources: Sources) -> Outlook:
        """Look at a function, or (None) at the statements of a script."""
        seen = self._start(module, function, sources)
        seen.names.update(self._closed_over(module, function, sources))
        if function is not None and "batch" in {item.arg for item in parameters_of(function)}:
            seen.names["batch"] = BATCH
        _run(seen, function.body if function is not None else module.tree.body)
        return seen

    def takes(self, target: FunctionTarget) -> bool:
        """Whether a function can apply weights to what it is given."""
        function = target.node
        if function not in self._taking:
            self._taking[function] = True  # a recursive call finds this
            seen = self._start(target.module, function, Sources())
            seen.names.update({item.arg: WIDE for item in parameters_of(function) if item.arg not in OWNERS})
            _run(seen, function.body)
            self._taking[function] = seen.enters
        return self._taking[function]

    def _closed_over(self, module: ModuleNames, function: FunctionNode | None, sources: Sources) -> Names:
        """What the names of the enclosing function hold when it ends."""
        parent = module.scopes[function].parent if function is not None else None
        outer = parent.node if parent is not None else None
        if not isinstance(outer, FunctionNode):
            return {}
        if self._ends[0] is not sources:
            self._ends = (sources, {})
        ends = self._ends[1]
        if outer not in ends:
            ends[outer] = self.of(module, outer, sources).names
        return ends[outer]

    def _start(self, module: ModuleNames, function: FunctionNode | None, sources: Sources) -> Outlook:
        scope = module.scopes[function if function is not None else module.tree]
        parameters = {item.arg for item in parameters_of(function)} if function is not None else set()
        owner = self._analysis.owner(module, function) if function is not None else None
        seen = Outlook(
            sources,
            frozenset(parameters | set(scope.bindings)),
            _unlike_models(self._analysis.project, function),
            lambda seen, call: self._applies(seen, module, owner, call),
            lambda call: self._builds(module, call),
            lambda call: is_of_torch(module, call),
        )
        project = self._analysis.project
        seen.regions = bool(autocasts_by_node(project, module))
        decorated_so = function is not None and decorated(project, module, function).state is not Autocasting.MAYBE
        seen.meets = decorated_so
        return seen

    def _applies(self, seen: Outlook, module: ModuleNames, owner: ProjectClass | None, call: ast.Call) -> bool:
        chain = attribute_chain(call.func)
        if chain is None:
            return not _is_of_super(call.func)
        if chain[0] in OWNERS:
            return self._of_self(seen, owner, chain) if owner is not None else True
        if _is_named_as_model(chain[1:]):
            return True
        if chain[0] in seen.own and (chain[0] not in seen.parameters or chain[0] in seen.bound):
            return True
        bindings = module.scope_of(call).lookup(chain[0])
        if chain[0] not in seen.own and any(item.kind not in DEFINITIONS for item in bindings):
            return True
        target = called_function(self._analysis.project, module, call)
        return target is not None and target.node.name != "__init__" and self.takes(target)

    def _builds(self, module: ModuleNames, call: ast.Call) -> bool:
        chain = attribute_chain(call.func)
        if chain is not None and chain[-1] in LAYERS:
            return True
        found = class_of(self._analysis.project, module, call.func)
        return found is not None and self._analysis.is_module(ProjectClass(*found))

    def _of_self(self, seen: Outlook, owner: ProjectClass, chain: list[str]) -> bool:
        """``self.part(x)``, ``self.method(x)``, ``self.model.encode(x)``."""
        if len(chain) == 1 or f"{chain[0]}.{chain[1]}" in seen.names:
            return True
        target = self._analysis.method(owner, chain[1]) if len(chain) == 2 else None
        if target is not None:
            return self.takes(target)
        if self._analysis.is_module(owner) or _is_named_as_model(chain[1:]):
            return True
        part = self._analysis.attributes(owner).get(chain[1])
        return part is not None and part.kind is Kind.MODULE


def is_of_torch(module: ModuleNames, call: ast.Call) -> bool:
    """``torch.matmul(q, k)``, ``nn.functional.softmax(x)``: no function of the project, whatever it is called."""
    name = root_name(call.func)
    bindings = module.scope_of(call).lookup(name) if name else ()
    return bool(bindings) and all(_is_import_of_torch(item) for item in bindings)


def _is_import_of_torch(binding: Binding) -> bool:
    return binding.kind == "import" and (binding.qualified or "").partition(".")[0] == "torch"


def _is_of_super(func: ast.expr) -> bool:
    """``super().forward(x)``, which is not followed."""
    called = func.value if isinstance(func, ast.Attribute) else func
    return isinstance(called, ast.Call) and isinstance(called.func, ast.Name) and called.func.id == "super"


def _is_named_as_model(names: Sequence[str]) -> bool:
    return any(name.lstrip("_").rstrip("_0123456789") in MODEL_NAMES for name in names)


def _unlike_models(project: Project, function: FunctionNode | None) -> frozenset[str]:
    """The parameters that the flow takes for no model."""
    found = []
    for item in parameters_of(function) if function is not None else ():
        if item.arg in MODEL_PARAMETERS or item.arg in MODEL_NAMES:
            continue
        if "Module" not in annotation_of(project, item):
            found.append(item.arg)
    return frozenset(found)


def _run(seen: Outlook, body: Sequence[ast.stmt]) -> None:
    for statement in body:
        handler = _STATEMENTS.get(type(statement))
        if handler is not None:
            handler(seen, statement)


def _can_autocast(seen: Outlook, node: ast.expr) -> bool:
    """Whether a context can be an open region, in which float32 results are not made by what is written here."""
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in OWN_METHODS or (seen.regions and ("autocast" in name or isinstance(called, ast.Name)))


# --- statements -------------------------------------------------------------------------------------------------------


def _assign(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.Assign)
    held = value_of(seen, node.value)
    for target in node.targets:
        if (
            isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(target.elts) == len(node.value.elts)
        ):
            for item, value in zip(target.elts, [value_of(seen, each) for each in node.value.elts], strict=True):
                bind(seen, item, value)
        else:
            bind(seen, target, held)


def _annotated(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.AnnAssign)
    if node.value is not None:
        bind(seen, node.target, value_of(seen, node.value))


def _augmented(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.AugAssign)
    add(seen, node.target, value_of(seen, node.value) | value_of(seen, node.target))


def _return(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.Return)
    if node.value is not None and value_of(seen, node.value) & (WIDE | MODULE):
        seen.gives = True


def _expression(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.Expr)
    value_of(seen, node.value)


def _if(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.If)
    value_of(seen, node.test)
    _branches(seen, (node.body, node.orelse))


def _branches(seen: Outlook, bodies: Sequence[Sequence[ast.stmt]]) -> None:
    before, after = seen.names, []
    for body in bodies:
        seen.names = dict(before)
        _run(seen, body)
        after.append(seen.names)
    seen.names = _either(after)


def _either(branches: Sequence[Names]) -> Names:
    result = dict(branches[0])
    for names in branches[1:]:
        if names == result:
            continue
        for name, held in names.items():
            result[name] = result.get(name, 0) | held
    return result


def _repeat(seen: Outlook, body: Sequence[ast.stmt]) -> None:
    for _ in range(2):
        before = dict(seen.names)
        _run(seen, body)
        seen.names = _either((before, seen.names))
        if seen.names == before:
            return


def _loop(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.For | ast.AsyncFor)
    bind(seen, node.target, element_of(seen, node.iter))
    _repeat(seen, node.body)
    _run(seen, node.orelse)


def _while(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.While)
    value_of(seen, node.test)
    _repeat(seen, node.body)
    _run(seen, node.orelse)


def _with(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.With | ast.AsyncWith)
    for item in node.items:
        value_of(seen, item.context_expr)
        seen.meets |= _can_autocast(seen, item.context_expr)
    _run(seen, node.body)


def _try(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.Try)
    _run(seen, node.body)
    _branches(seen, [[], *(handler.body for handler in node.handlers)])
    _run(seen, node.orelse)
    _run(seen, node.finalbody)


def _match(seen: Outlook, node: ast.stmt) -> None:
    assert isinstance(node, ast.Match)
    value_of(seen, node.subject)
    _branches(seen, [[], *(case.body for case in node.cases)])


_STATEMENTS: dict[type[ast.stmt], Callable[[Outlook, ast.stmt], None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Expr: _expression,
    ast.If: _if,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
}
