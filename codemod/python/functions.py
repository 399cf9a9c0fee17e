"""Which of the project's own functions a call reaches, and which argument arrives at which parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..source.project import Project
from ..torch.api import SAME_MODULE
from .arguments import hides_arguments
from .bindings import default_of, self_stores
from .limits import MAX_BASES
from .names import (
    Binding,
    FunctionNode,
    ModuleNames,
    Scope,
    attribute_chain,
    definition_of,
    modules_with,
    parameters_of,
    positional,
)
from .scopes import is_none


@dataclass(slots=True, eq=False)  # never changed, like bindings
class FunctionTarget:
    """A function or method of the project, as reached by a call."""

    module: ModuleNames
    node: FunctionNode
    bound: bool
    """Whether the first parameter (``self``) is filled by the call's receiver."""

    def arguments(self, call: ast.Call) -> dict[str, ast.expr]:
        """Parameter name -> argument expression, for the arguments that can be matched (no ``*``/``**``)."""
        names = [parameter.arg for parameter in positional(self.node.args)]
        names = names[1:] if self.bound else names
        matched: dict[str, ast.expr] = {}
        for name, argument in zip(names, call.args, strict=False):
            if isinstance(argument, ast.Starred):
                break
            matched[name] = argument
        known = {parameter.arg for parameter in parameters_of(self.node)}
        matched.update({item.arg: item.value for item in call.keywords if item.arg in known and item.arg is not None})
        return matched

    def passed(self, call: ast.Call) -> list[tuple[str, ast.expr]]:
        """Parameter name and argument, also where ``*`` or ``**`` says only that it may arrive there."""
        matched = self.arguments(call)
        spread = [item.arg for item in parameters_of(self.node)[self.bound :] if item.arg not in matched]
        collecting = [item.arg for item in (self.node.args.vararg, self.node.args.kwarg) if item is not None]
        given = (*call.args, *(item.value for item in call.keywords))
        unpacked = {item.value for item in call.keywords if item.arg is None}
        rest = [item for item in given if item not in matched.values()]
        named = [(name, item) for item in rest for name in collecting]
        open_to = [item for item in rest if isinstance(item, ast.Starred) or item in unpacked]
        return [*matched.items(), *named, *((name, item) for item in open_to for name in spread)]

    def parameter_for(self, call: ast.Call, argument: ast.expr) -> str | None:
        """The parameter that receives ``argument``, or None when it cannot be told."""
        return next((name for name, value in self.arguments(call).items() if value is argument), None)

    @property
    def scope(self) -> Scope:
        return self.module.scopes[self.node]


def called_function(project: Project, module: ModuleNames, call: ast.Call) -> FunctionTarget | None:
    """The project function that ``call`` reaches: a function, ``self.method``, or a class's ``__init__``."""
    return named_function(project, module, call.func, module.scope_of(call))


def named_function(project: Project, module: ModuleNames, func: ast.expr, scope: Scope) -> FunctionTarget | None:
    chain = attribute_chain(func)
    if chain is None:
        return None
    if module.parents.get(func) is None:  # made up by who asks: it stands nowhere
        return _named(project, module, func, scope, chain)
    key = (_named, scope, ".".join(chain))  # a name means the same wherever it is read in one scope
    return project.once(key, lambda: _named(project, module, func, scope, chain))


def _named(
    project: Project, module: ModuleNames, func: ast.expr, scope: Scope, chain: list[str]
) -> FunctionTarget | None:
    if chain[0] in ("self", "cls") and len(chain) == 2 and scope.enclosing_class is not None:
        return method_of(project, module, scope.enclosing_class, chain[1])
    if len(chain) == 1:
        for binding in scope.lookup(chain[0]):
            if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef):
                return FunctionTarget(module, binding.node, bound=False)
            if isinstance(binding.node, ast.ClassDef):
                return method_of(project, module, module.scopes[binding.node], "__init__")
        return (
            None
            if scope.lookup(chain[0]) and module.qualified(func) is None
            else _imported_function(project, module, func)
        )
    return _imported_function(project, module, func) or _method_of_object(project, module, func, chain)


def _method_of_object(project: Project, module: ModuleNames, func: ast.expr, chain: list[str]) -> FunctionTarget | None:
    """``trainer.fit(...)``, ``self.trainer.fit(...)``: the method of the object's class, where one class is known."""
    if not isinstance(func, ast.Attribute):
        return None
    found = class_of_object(project, module, func.value, chain[:-1])
    return method_of(project, found[0], found[1], chain[-1]) if found is not None else None


def class_of_object(
    project: Project, module: ModuleNames, node: ast.expr, chain: list[str]
) -> tuple[ModuleNames, Scope] | None:
    """The project's class of the object that ``node`` (a plain chain) names: assigned from one call, or annotated."""
    scope = module.scope_of(node)
    if len(chain) == 1:
        bindings = [item for item in scope.lookup(chain[0]) if not is_none(item.value)]
        bindings = [item for item in bindings if not _gives_back(item.value, chain[0])] or bindings
        if len(bindings) != 1:
            return None
        made = _unwrapped(bindings[0].value)
        if isinstance(bindings[0].node, ast.arg) and bindings[0].node.annotation is not None:
            return class_of(project, module, bindings[0].node.annotation)
        if isinstance(made, ast.Attribute):
            return _class_of_part(project, module, made)
    elif len(chain) == 2 and chain[0] == "self" and scope.enclosing_class is not None:
        stores = self_stores(module, scope.enclosing_class, chain[1])
        stored = [value for value, *_ in stores if not is_none(value)]
        made = stored[0] if len(stored) == 1 else None
    elif isinstance(node, ast.Attribute):
        return _class_of_part(project, module, node)
    else:
        return None
    return class_of(project, module, made.func) if isinstance(made, ast.Call) else None


STORING_ANY = ("setattr(", "__setattr__", "__getattr__", "__dict__", "vars(")
"""What code may store attributes with that it does not name."""


def stored_on_object(project: Project, module: ModuleNames, node: ast.Attribute) -> list[tuple[ModuleNames, ast.expr]]:
    """All that ``a.kind = ...`` stores in the project, for the attribute of an object of a plain class.

    Of a module of torch only what its constructor stores, where nothing else does.
    """
    chain = attribute_chain(node)
    found = class_of_object(project, module, node.value, chain[:-1]) if chain is not None else None
    bases = [found[0].qualified(item) for item in bases_of(found[1])] if found is not None else []
    if found is None or getattr(found[1].node, "decorator_list", []) or bases not in ([], ["torch.nn.Module"]):
        return []
    if any(True for _ in modules_with(project, STORING_ANY)):
        return []
    stores = [
        (other, store)
        for other in modules_with(project, (node.attr,))
        for store in other.attribute_stores.get(node.attr, ())
    ]
    if bases:
        outside = any(owner not in (None, ["self"]) for _, (owner, *_) in stores)
        return _stored_by_constructor(project, module, node, found) if not outside else []
    given = [(other, value) for other, (_, value, _) in stores if value is not None and not is_none(value)]
    return given if len(given) == len(stores) else []


def _stored_by_constructor(
    project: Project, module: ModuleNames, node: ast.Attribute, owner: tuple[ModuleNames, Scope]
) -> list[tuple[ModuleNames, ast.expr]]:
    """The one value that a class stores, as the call gives it that makes the object: ``Net(dtype=torch.bfloat16)``."""
    made, constructor = _call_behind(module, node.value), method_of(project, *owner, "__init__")
    stores = self_stores(*owner, node.attr)
    if made is None or constructor is None or len(stores) != 1:
        return []
    value, statement = stores[0]
    within = owner[0].scope_of(statement) is constructor.scope and not hides_arguments(made)
    if not within or not isinstance(value, ast.Name | ast.Attribute):
        return []
    bindings = constructor.scope.bindings.get(value.id, []) if isinstance(value, ast.Name) else []
    if not isinstance(value, ast.Name) or [item.kind for item in bindings] != ["parameter"]:
        return [(owner[0], value)]
    passed, default = constructor.arguments(made).get(value.id), default_of(bindings[0])
    return [(module, passed)] if passed is not None else [(owner[0], default)] if default is not None else []


def _class_of_part(project: Project, module: ModuleNames, node: ast.Attribute) -> tuple[ModuleNames, Scope] | None:
    """The class of ``net.agent`` for ``net = Net(Agent())``: what the constructor stores, or is given and stores."""
    holder = _call_behind(module, node.value)
    owner = class_of(project, module, holder.func) if holder is not None else None
    stores = self_stores(*owner, node.attr) if owner is not None else []
    stored = [value for value, *_ in stores if not is_none(value)]
    if holder is None or owner is None or len(stored) != 1:
        return None
    if isinstance(stored[0], ast.Call):
        return class_of(project, owner[0], stored[0].func)
    constructor = method_of(project, *owner, "__init__")
    named = stored[0].id if isinstance(stored[0], ast.Name) else ""
    if constructor is None or [item.kind for item in constructor.scope.bindings.get(named, ())] != ["parameter"]:
        return None
    made = _call_behind(module, constructor.arguments(holder).get(named))
    return class_of(project, module, made.func) if made is not None else None


def _call_behind(module: ModuleNames, node: ast.expr | None) -> ast.Call | None:
    """The call that makes what an expression is: itself, or the only value of a name."""
    bindings = module.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else []
    made = _unwrapped(bindings[0].value if len(bindings) == 1 else node)
    return made if isinstance(made, ast.Call) else None


def _gives_back(value: ast.expr | None, name: str) -> bool:
    """``net = torch.compile(net)``, ``net = net.to(device)``: the same object once more."""
    inner = _unwrapped(value)
    is_compiled = isinstance(inner, ast.Call) and attribute_chain(inner.func) == ["torch", "compile"]
    inner = inner.args[0] if isinstance(inner, ast.Call) and is_compiled and inner.args else inner
    return inner is not value and isinstance(inner, ast.Name) and inner.id == name


def _unwrapped(value: ast.expr | None) -> ast.expr | None:
    """``Net()`` of ``Net().cuda()``."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in SAME_MODULE:
        value = value.func.value
    return value


def _imported_function(project: Project, module: ModuleNames, func: ast.expr) -> FunctionTarget | None:
    found = definition_of(project, module, func)
    if found is None:
        return None
    other, name = found
    for binding in other.defined(name):
        if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return FunctionTarget(other, binding.node, bound=False)
        if isinstance(binding.node, ast.ClassDef):
            return method_of(project, other, other.scopes[binding.node], "__init__")
    return None


def method_of(project: Project, module: ModuleNames, owner: Scope, name: str) -> FunctionTarget | None:
    """Method ``name`` of a class or of its base classes inside the project."""
    for holder, scope in lineage(project, module, owner):
        for binding in scope.bindings.get(name, []):
            if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef):
                static = any(attribute_chain(item) == ["staticmethod"] for item in binding.node.decorator_list)
                return FunctionTarget(holder, binding.node, bound=not static)
    return None


def lineage(project: Project, module: ModuleNames, owner: Scope, hops: int = 0) -> Iterator[tuple[ModuleNames, Scope]]:
    """A class and those of its bases that are the project's, each before its own bases."""
    yield module, owner
    for base in bases_of(owner) if hops < MAX_BASES else ():
        found = class_of(project, module, base)
        if found is not None:
            yield from lineage(project, *found, hops + 1)


def all_bases(project: Project, module: ModuleNames, owner: Scope) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """The bases of a class, and those of its bases inside the project, as they are written."""
    return ((holder, base) for holder, scope in lineage(project, module, owner) for base in bases_of(scope))


def bases_of(owner: Scope | None) -> list[ast.expr]:
    """What a class names as its bases; nothing for other scopes."""
    return owner.node.bases if owner is not None and isinstance(owner.node, ast.ClassDef) else []


def class_of(project: Project, module: ModuleNames, node: ast.expr) -> tuple[ModuleNames, Scope] | None:
    """The project's class that an expression names, with its module; None for others."""
    chain = attribute_chain(node) if module.may_be_class(node) else None
    if chain is None:
        return None
    key = (_class_named, module.scope_of(node), ".".join(chain))
    return project.once(key, lambda: _class_named(project, module, node, chain))


def _class_named(
    project: Project, module: ModuleNames, node: ast.expr, chain: list[str]
) -> tuple[ModuleNames, Scope] | None:
    if len(chain) == 1:
        for binding in module.scope_of(node).lookup(chain[0]):
            if isinstance(binding.node, ast.ClassDef):
                return module, module.scopes[binding.node]
    defined = definition_of(project, module, node)
    if defined is None:
        return None
    other, name = defined
    for binding in other.defined(name):
        if isinstance(binding.node, ast.ClassDef):
            return other, other.scopes[binding.node]
    return None


def is_property(function: FunctionNode) -> bool:
    """Whether a method is read like an attribute."""
    names = [(attribute_chain(item) or [""])[-1] for item in function.decorator_list]
    return any(name in ("property", "cached_property") for name in names)


def attribute_bindings(
    project: Project, module: ModuleNames, owner: Scope, name: str
) -> tuple[ModuleNames, list[Binding]]:
    """What a class stores in ``self.<name>``, else what the nearest base class of the project does, and its module."""
    for holder, scope in lineage(project, module, owner):
        stores = self_stores(holder, scope, name)
        if stores:
            return holder, [
                Binding(f"self.{name}", "assign", statement, value, holder.scope_of(statement))
                for value, statement in stores
            ]
    return module, []
