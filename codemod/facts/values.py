"""Which values an expression can have, and under which conditions: what stands behind ``autocast(dtype=...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..project import Project
from .bindings import attribute_assignments, default_of, reaching
from .conditions import MAX_DEPTH, Conditions
from .dtypes import BF16, FP16, FP32, TORCH_DTYPES, UNKNOWN, Given, Scenario
from .functions import FunctionTarget, called_function, returns_of
from .names import Binding, ModuleNames, Scope, attribute_chain, names_of, project_module, resolve

MAX_SCENARIOS = 24


class DtypeValues(Conditions):
    """Evaluates expressions of one module; made per project through ``values_of``."""

    def scenarios(self, node: ast.expr, depth: int = 0) -> tuple[Scenario, ...]:
        """All values ``node`` can have; contains an unknown one where the source does not say."""
        if depth > MAX_DEPTH:
            return (Scenario(UNKNOWN),)
        found: list[Scenario] = []
        for scenario in self._scenarios(node, depth + 1):
            if scenario not in found:
                found.append(scenario)
            if len(found) > MAX_SCENARIOS:
                return (Scenario(UNKNOWN),)
        return tuple(found) or (Scenario(UNKNOWN),)

    def _scenarios(self, node: ast.expr, depth: int) -> Iterator[Scenario]:
        qualified = resolve(self.project, self.module, node) if isinstance(node, ast.Name | ast.Attribute) else None
        if qualified in TORCH_DTYPES:
            yield Scenario(TORCH_DTYPES[qualified])
        elif isinstance(node, ast.Constant):
            plain = isinstance(node.value, str | bool | int | float) or node.value is None
            yield Scenario(node.value if plain else UNKNOWN)  # type: ignore[arg-type]
        elif isinstance(node, ast.Name):
            yield from self._name(node, depth)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, depth)
        elif isinstance(node, ast.IfExp):
            for branch, holds in ((node.body, True), (node.orelse, False)):
                yield from self._branch(branch, node.test, holds, depth)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            for value in node.values:
                yield from self.scenarios(value, depth)
        elif isinstance(node, ast.NamedExpr):
            yield from self.scenarios(node.value, depth)
        elif isinstance(node, ast.Subscript):
            yield from self._lookup(node.value, node.slice, depth)
        elif isinstance(node, ast.Call):
            yield from self._call(node, depth)
        else:
            yield Scenario(UNKNOWN)

    def _branch(self, branch: ast.expr, test: ast.expr, holds: bool, depth: int) -> Iterator[Scenario]:
        given = self.given(test, holds)
        for scenario in self.scenarios(branch, depth):
            yield scenario.under(*given)

    def _name(self, node: ast.Name, depth: int) -> Iterator[Scenario]:
        scope = self.module.scope_of(node)
        bindings = reaching(self.module, scope.lookup(node.id), node)
        if not bindings:
            yield Scenario(UNKNOWN)
        for binding in bindings:
            yield from self._binding(binding, depth)

    def _binding(self, binding: Binding, depth: int) -> Iterator[Scenario]:
        if binding.kind == "import" and binding.qualified:
            yield from self._imported(binding.qualified, depth)
        elif binding.kind == "parameter":
            yield from self._parameter(binding, depth)
        elif binding.value is None:
            yield Scenario(UNKNOWN)
        else:
            given = self.path_given(binding.node, binding.scope)
            for scenario in self.scenarios(binding.value, depth):
                yield scenario.under(*given)

    def _imported(self, qualified: str, depth: int) -> Iterator[Scenario]:
        module_name, _, name = qualified.rpartition(".")
        document = project_module(self.project, module_name)
        bindings = names_of(self.project, document).module_scope.lookup(name) if document else []
        assigned = [binding for binding in bindings if binding.value is not None]
        if document is None or not assigned:
            yield Scenario(UNKNOWN)
            return
        other = DtypeValues(self.project, names_of(self.project, document))
        for binding in assigned:
            yield from other._binding(binding, depth)

    def _parameter(self, binding: Binding, depth: int) -> Iterator[Scenario]:
        yield Scenario(UNKNOWN)
        default = default_of(binding)
        if default is not None and not (isinstance(default, ast.Constant) and default.value is None):
            yield from self.scenarios(default, depth)

    def _attribute(self, node: ast.Attribute, depth: int) -> Iterator[Scenario]:
        chain = attribute_chain(node)
        scope = self.module.scope_of(node)
        if chain is not None and len(chain) == 2 and chain[0] == "self" and scope.enclosing_class is not None:
            found = False
            for value, statement in attribute_assignments(self.module, scope.enclosing_class, chain[1]):
                found = True
                given = self.path_given(statement, self.module.scope_of(statement))
                for scenario in self.scenarios(value, depth):
                    yield scenario.under(*given)
            if found:
                return
        qualified = self.module.qualified(node)
        if qualified is not None and not qualified.startswith("torch."):
            yield from self._imported(qualified, depth)
            return
        yield Scenario(UNKNOWN)

    def _lookup(self, table: ast.expr, key: ast.expr, depth: int) -> Iterator[Scenario]:
        dictionary = self._dictionary(table)
        if dictionary is None:
            yield Scenario(UNKNOWN)
            return
        scope = self.module.scope_of(key)
        for name, value in zip(dictionary.keys, dictionary.values, strict=True):
            if not isinstance(name, ast.Constant):
                yield Scenario(UNKNOWN)
                continue
            constant = name.value if isinstance(name.value, str | bool | int | float) or name.value is None else UNKNOWN
            given = Given(ast.unparse(key), (constant,), True, key, scope)
            for scenario in self.scenarios(value, depth):
                yield scenario.under(given)

    def _dictionary(self, node: ast.expr) -> ast.Dict | None:
        if isinstance(node, ast.Dict):
            return node
        if isinstance(node, ast.Name):
            bindings = self.module.scope_of(node).lookup(node.id)
            if len(bindings) == 1 and isinstance(bindings[0].value, ast.Dict):
                return bindings[0].value
        return None

    def _call(self, node: ast.Call, depth: int) -> Iterator[Scenario]:
        name = self.module.qualified(node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            yield from self._getattr(node, depth)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            yield from self._lookup(node.func.value, node.args[0], depth)
            if len(node.args) > 1:
                yield from self.scenarios(node.args[1], depth)
        elif name is not None and name.startswith("torch."):
            yield Scenario(UNKNOWN)
        else:
            target = called_function(self.project, self.module, node)
            yield from self._returned(target, node, depth) if target else (Scenario(UNKNOWN),)

    def _getattr(self, node: ast.Call, depth: int) -> Iterator[Scenario]:
        if self.module.qualified(node.args[0]) != "torch":
            yield Scenario(UNKNOWN)
            return
        key = node.args[1]
        for scenario in self.scenarios(key, depth):
            named = TORCH_DTYPES.get(f"torch.{scenario.value}") if isinstance(scenario.value, str) else None
            if named is not None:
                yield Scenario(named, scenario.given)
                continue
            scope = self.module.scope_of(node)
            for dtype in (BF16, FP16, FP32):
                yield Scenario(dtype, (Given(ast.unparse(key), (dtype.name,), True, key, scope),))

    def _returned(self, target: FunctionTarget, call: ast.Call, depth: int) -> Iterator[Scenario]:
        inner = DtypeValues(self.project, target.module)
        arguments = target.arguments(call)
        scope = self.module.scope_of(call)
        for returned in returns_of(target.node):
            if returned.value is None:
                continue
            given = inner.path_given(returned, target.module.scope_of(returned))
            for scenario in inner.scenarios(returned.value, depth):
                outer = tuple(_renamed(item, arguments, scope) for item in (*scenario.given, *given))
                yield Scenario(scenario.value, outer)


def values_of(project: Project, module: ModuleNames) -> DtypeValues:
    """The evaluator for one module of ``project``."""
    return DtypeValues(project, module)


def _renamed(item: Given, arguments: dict[str, ast.expr], scope: Scope) -> Given:
    """``item`` as the caller sees it: a parameter's name replaced by the argument passed for it."""
    root, dot, rest = item.text.partition(".")
    argument = arguments.get(root)
    if argument is None:
        return item
    return Given(ast.unparse(argument) + dot + rest, item.values, item.equal, argument if not dot else item.node, scope)
