"""Whether a condition means the same where the scaler is made, and how it is spelled there."""

from __future__ import annotations

import ast
import builtins

from ...proof.attributes import has_attribute
from ...python.bindings import reaching, self_stores
from ...python.bound import is_bound_at
from ...python.callers import CallSite, callers_of
from ...python.functions import lineage
from ...python.names import Binding, FunctionNode, ModuleNames, Scope, attribute_chain, last_name
from ...source.project import Project
from ..scalers import Scaler

MAX_HOPS = 3
ASKING = ("get", "lower", "upper", "strip", "is_bf16_supported", "is_available", "getattr")
"""What a condition may call: asked twice, these answer the same."""


def respelled(project: Project, scaler: Scaler, text: str, scope: Scope, node: ast.AST) -> str | None:
    """``text``, an expression of ``scope`` near ``node``, as it must be written where ``scaler`` is made; or None.

    None where a name is not bound there yet, can have another value there, or cannot be reached from there.
    """
    try:
        expression = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    return _Respelling(project, scaler).spelled(expression, scope, node, 0)


class _Respelling:
    def __init__(self, project: Project, scaler: Scaler) -> None:
        self.project = project
        self.scaler = scaler
        self.module = scaler.module
        self.here = scaler.module.scope_of(scaler.call)

    def spelled(self, expression: ast.expr, scope: Scope, node: ast.AST, hops: int) -> str | None:
        """The expression with every name in the words of the scaler's scope."""
        if not _can_be_asked_again(expression):
            return None
        names = {item.id for item in ast.walk(expression) if isinstance(item, ast.Name)}
        spelling: dict[str, str] = {}
        for name in names:
            found = self._name(name, expression, scope, node, hops)
            if found is None:
                return None
            spelling[name] = found
        return ast.unparse(_Renamed(spelling).visit(expression))

    def _name(self, name: str, expression: ast.expr, scope: Scope, node: ast.AST, hops: int) -> str | None:
        there, here = scope.lookup(name), self.here.lookup(name)
        if not there:
            return name if hasattr(builtins, name) and not here else None
        if name == "self" and _is_self(there[0]):
            return name if self._holds_on_self(expression, scope) else None
        if here is there or _are_same_import(here, there):
            return name if self._has_same_value(here, node) else None
        return self._passed(there[0], hops)

    def _has_same_value(self, bindings: list[Binding], node: ast.AST) -> bool:
        """Whether the name is bound when the scaler is made, and nothing gives it another value before ``node``."""
        if not is_bound_at(self.module, bindings[0].name, self.scaler.call):
            return False
        if bindings[0].kind == "import":
            return True
        made, used = (reaching(self.module, bindings, place) for place in (self.scaler.call, node))
        together = node in self.module.parents and self.module.scope_of(node).function is self.here.function
        return not together or {id(item) for item in made} == {id(item) for item in used}

    # --- a parameter, seen from the function that makes the scaler ----------------------------------------------------

    def _passed(self, parameter: Binding, hops: int) -> str | None:
        """What the scaler's function passes for a parameter of the function that enters the region."""
        function = parameter.scope.node
        if parameter.kind != "parameter" or hops >= MAX_HOPS or not isinstance(function, FunctionNode):
            return None
        module = self._module_of(function)
        sites = callers_of(self.project, module, function).sites if module is not None else ()
        texts = {self._argument(site, parameter.name, hops) for site in sites}
        return texts.pop() if len(texts) == 1 else None

    def _module_of(self, function: FunctionNode) -> ModuleNames | None:
        return next((module for module in self.scaler.modules if function in module.scopes), None)

    def _argument(self, site: CallSite, name: str, hops: int) -> str | None:
        argument = site.target.arguments(site.call).get(name)
        if argument is None or not isinstance(argument, ast.Name | ast.Attribute):
            return None
        return self.spelled(_copied(argument), site.module.scope_of(site.call), argument, hops + 1)

    # --- attributes of self -------------------------------------------------------------------------------------------

    def _holds_on_self(self, expression: ast.expr, scope: Scope) -> bool:
        owner = self.here.enclosing_class
        classes = lineage(self.project, self.module, owner) if owner is not None else ()
        if owner is None or all(item is not scope.enclosing_class for _, item in classes):
            return False
        attributes = {
            item.attr
            for item in ast.walk(expression)
            if isinstance(item, ast.Attribute) and attribute_chain(item.value) == ["self"]
        }
        uses = sum(isinstance(item, ast.Name) and item.id == "self" for item in ast.walk(expression))
        return bool(attributes) and uses >= len(attributes) and all(self._is_set(owner, name) for name in attributes)

    def _is_set(self, owner: Scope, name: str) -> bool:
        """Whether ``self.<name>`` has its value, and keeps it, when the scaler is made."""
        function = self.here.function.node
        places = [(self.module.scope_of(item).function.node, item) for _, item in self_stores(self.module, owner, name)]
        named = self.module.calls_by_name.get(getattr(function, "name", ""), [])
        calls = [(self.module.scope_of(call).function.node, call) for call in named]
        for place, item in places:
            above = item.lineno < self.scaler.call.lineno
            early = above if place is function else getattr(place, "name", "") == "__init__"
            if not early or any(caller is place and call.lineno < item.lineno for caller, call in calls):
                return False  # given later, or by a constructor that comes here first
        return bool(places) and has_attribute(self.module, name, self.scaler.call)


class _Renamed(ast.NodeTransformer):
    """Replaces names by the expressions that stand for them."""

    def __init__(self, spelling: dict[str, str]) -> None:
        self.spelling = spelling

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self.spelling.get(node.id, node.id), mode="eval").body


def _copied(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _is_self(binding: Binding) -> bool:
    return isinstance(binding.node, ast.arg) and binding.scope.enclosing_class is not None


def _are_same_import(here: list[Binding], there: list[Binding]) -> bool:
    names = {(item.kind, item.qualified) for item in (*here, *there)}
    return bool(here) and len(names) == 1 and here[0].kind == "import"


def _can_be_asked_again(expression: ast.expr) -> bool:
    """Whether evaluating the expression a second time has no effect and the same answer."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name not in ASKING:
                return False
        elif isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda | ast.comprehension):
            return False
    return True
