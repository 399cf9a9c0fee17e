"""Which values an expression can have, and under which conditions: what stands behind ``autocast(dtype=...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..source.project import Project
from ..torch.dtypes import BF16, FP16, FP32, TORCH_DTYPES, UNKNOWN, Given, Scenario, Unknown
from .bindings import default_of, reaching, self_stores
from .callers import callers_of
from .conditions import MAX_DEPTH, Conditions
from .functions import FunctionTarget, called_function, method_of, returns_of
from .names import (
    Binding,
    FunctionNode,
    ModuleNames,
    Scope,
    attribute_chain,
    definition_of,
    names_of,
    project_module,
    resolve,
)
from .options import options_named

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

    def scenarios_of(self, binding: Binding) -> tuple[Scenario, ...]:
        """All values that one binding of a name gives it."""
        return tuple(dict.fromkeys(self._binding(binding, 0))) or (Scenario(UNKNOWN),)

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
            kept = self._given_that_it_stays(binding, bindings)
            for scenario in self._binding(binding, depth):
                yield scenario.under(*kept)

    def _given_that_it_stays(self, binding: Binding, bindings: list[Binding]) -> tuple[Given, ...]:
        """What must hold for a first value to be seen although later ``if`` s overwrite it: that none of them ran."""
        if len(bindings) < 2 or binding is not bindings[0] or not isinstance(binding.node, ast.stmt):
            return ()
        known = {(ast.unparse(test), holds) for test, holds in self.path_tests(binding.node, binding.scope)}
        found: list[Given] = []
        for later in bindings[1:]:
            tests = [(test, holds) for test, holds in self.path_tests(later.node, later.scope)]
            open_tests = [(test, holds) for test, holds in tests if (ast.unparse(test), holds) not in known]
            if len(open_tests) == 1 and later.scope is binding.scope:
                test, holds = open_tests[0]
                known.add((ast.unparse(test), not holds))
                found.extend(self.given(test, not holds))
        return tuple(found)

    def _binding(self, binding: Binding, depth: int) -> Iterator[Scenario]:
        if binding.kind == "import":
            yield from self._imported(binding.node, binding.qualified, depth)
        elif binding.kind == "parameter":
            yield from self._parameter(binding, depth)
        elif binding.kind == "unpacked":
            yield from self._unpacked(binding, depth)
        elif binding.value is None:
            yield Scenario(UNKNOWN)
        else:
            given = self.path_given(binding.node, binding.scope)
            told = [item for item in given if item.text != binding.name]  # a test of the value it had before
            for scenario in self.scenarios(binding.value, depth):
                yield scenario.under(*told)

    def _imported(self, node: ast.AST, qualified: str | None, depth: int) -> Iterator[Scenario]:
        module_name, _, name = (qualified or "").rpartition(".")
        document = project_module(self.project, module_name, self.module.document.path)
        bindings = names_of(self.project, document).module_scope.lookup(name) if document else []
        assigned = [binding for binding in bindings if binding.value is not None]
        if document is None or not assigned or depth > MAX_DEPTH:
            yield Scenario(UNKNOWN)
            return
        other = DtypeValues(self.project, names_of(self.project, document))
        for binding in assigned:
            yield from other._binding(binding, depth + 1)

    def _unpacked(self, binding: Binding, depth: int) -> Iterator[Scenario]:
        """``device, dtype = choose(...)``: what stands at that place in the tuples the function returns."""
        node = binding.node
        call = node.value if isinstance(node, ast.Assign) else None
        position = position_in_targets(node, binding.name)
        target = called_function(self.project, self.module, call) if isinstance(call, ast.Call) else None
        if target is None or position is None or not isinstance(call, ast.Call):
            yield Scenario(UNKNOWN)
            return
        yield from self._returned(target, call, depth, position)

    def _parameter(self, binding: Binding, depth: int) -> Iterator[Scenario]:
        function = binding.scope.node
        default = default_of(binding)
        own = self.scenarios(default, depth) if default is not None and not is_none(default) else ()
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or depth > MAX_DEPTH - 4:
            yield Scenario(UNKNOWN)
            yield from own
            return
        callers = callers_of(self.project, self.module, function)
        if not callers.complete:
            yield Scenario(UNKNOWN)
        relies_on_default = not callers.sites
        for site in callers.sites:
            arguments = site.target.arguments(site.call)
            passed = arguments.get(binding.name)
            if passed is not None:
                yield from DtypeValues(self.project, site.module).scenarios(passed, depth + 2)
            elif any(isinstance(item, ast.Starred) for item in site.call.args) or None in _keywords(site.call):
                yield Scenario(UNKNOWN)
            else:
                relies_on_default = True
        if relies_on_default:
            yield from own

    def _attribute(self, node: ast.Attribute, depth: int) -> Iterator[Scenario]:
        chain = attribute_chain(node)
        owner = self.module.scope_of(node).enclosing_class
        if chain is not None and len(chain) == 2 and chain[0] == "self" and owner is not None:
            stores = self_stores(self.module, owner, chain[1])
            if stores:
                yield from self._stored(f"self.{chain[1]}", stores, depth)
                return
            method = method_of(self.project, self.module, owner, chain[1])
            if method is not None and is_property(method.node):
                yield from self._returned(method, None, depth)
                return
        qualified = self.module.qualified(node)
        if qualified is not None and not qualified.startswith("torch."):
            yield from self._imported(node, qualified, depth)
            return
        yield from self._option(node, depth)

    def _stored(self, name: str, stores: list[tuple[ast.expr | None, ast.stmt]], depth: int) -> Iterator[Scenario]:
        """The values a class gives one of its attributes; the first one only as long as no later ``if`` replaces it."""
        bindings = [
            Binding(name, "assign", statement, value, self.module.scope_of(statement)) for value, statement in stores
        ]
        for binding in bindings:
            kept = self._given_that_it_stays(binding, bindings)
            for scenario in self._binding(binding, depth):
                yield scenario.under(*kept)

    def _option(self, node: ast.Attribute, depth: int) -> Iterator[Scenario]:
        """``args.amp_dtype``: its choices where they are declared, else its default and anything else."""
        options = options_named(self.project, self.module, node.attr)
        if not options or not all(option.choices for option in options):
            yield Scenario(UNKNOWN)
        text, scope = ast.unparse(node), self.module.scope_of(node)
        for option in options:
            values = DtypeValues(self.project, option.module)
            stated = option.choices or ((option.default,) if option.default is not None else ())
            for expression in stated:
                for scenario in values.scenarios(expression, depth + 1):
                    known = not isinstance(scenario.value, Unknown)
                    yield Scenario(
                        scenario.value, (Given(text, (scenario.value,), True, node, scope),) if known else ()
                    )

    def _lookup(self, table: ast.expr, key: ast.expr, depth: int) -> Iterator[Scenario]:
        found = self._dictionary(table)
        if found is None:
            yield Scenario(UNKNOWN)
            return
        scope = self.module.scope_of(key)
        module, dictionary = found
        values = DtypeValues(self.project, module)
        for name, value in zip(dictionary.keys, dictionary.values, strict=True):
            if not isinstance(name, ast.Constant):
                yield Scenario(UNKNOWN)
                continue
            constant = name.value if isinstance(name.value, str | bool | int | float) or name.value is None else UNKNOWN
            given = Given(ast.unparse(key), (constant,), True, key, scope)
            for scenario in values.scenarios(value, depth):
                yield scenario.under(given)

    def _dictionary(self, node: ast.expr) -> tuple[ModuleNames, ast.Dict] | None:
        """The dict display that a table lookup reads: written in place, a constant, or imported from the project."""
        if isinstance(node, ast.Dict):
            return self.module, node
        chain = attribute_chain(node)
        owner = self.module.scope_of(node).enclosing_class
        if chain is None:
            return None
        if len(chain) == 2 and chain[0] in ("self", "cls") and owner is not None:
            stores = self_stores(self.module, owner, chain[1])
            only = stores[0][0] if len(stores) == 1 else None
            return (self.module, only) if isinstance(only, ast.Dict) else None
        module, bindings = self.module, self.module.scope_of(node).lookup(chain[0]) if len(chain) == 1 else []
        if not bindings or bindings[0].kind == "import":
            defined = definition_of(self.project, self.module, node)
            if defined is None:
                return None
            module, bindings = defined[0], defined[0].module_scope.lookup(defined[1])
        value = bindings[0].value if len(bindings) == 1 else None
        return (module, value) if isinstance(value, ast.Dict) else None

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
        scope = self.module.scope_of(node)
        for scenario in self.scenarios(key, depth):
            if isinstance(scenario.value, str):
                yield Scenario(TORCH_DTYPES.get(f"torch.{scenario.value}", UNKNOWN), scenario.given)
            elif isinstance(scenario.value, Unknown):
                for dtype in (BF16, FP16, FP32):
                    yield Scenario(dtype, (Given(ast.unparse(key), (dtype.name,), True, key, scope),))

    def _returned(
        self, target: FunctionTarget, call: ast.Call | None, depth: int, position: int | None = None
    ) -> Iterator[Scenario]:
        """What a call of the project's own function gives back (of a returned tuple: the element at ``position``)."""
        inner = DtypeValues(self.project, target.module)
        arguments = target.arguments(call) if call is not None else {}
        scope = self.module.scope_of(call) if call is not None else target.scope
        for returned in returns_of(target.node):
            value = returned.value
            if position is not None:
                value = value.elts[position] if isinstance(value, ast.Tuple) and position < len(value.elts) else None
                if value is None:
                    yield Scenario(UNKNOWN)
            if value is None:
                continue
            given = inner.path_given(returned, target.module.scope_of(returned))
            for scenario in inner.scenarios(value, depth + 1):
                outer = tuple(renamed(item, arguments, scope) for item in (*scenario.given, *given))
                yield Scenario(scenario.value, outer)


def values_of(project: Project, module: ModuleNames) -> DtypeValues:
    """The evaluator for one module of ``project``."""
    return DtypeValues(project, module)


def renamed(item: Given, arguments: dict[str, ast.expr], scope: Scope) -> Given:
    """``item`` as the caller sees it: a parameter's name replaced by the argument passed for it."""
    root, dot, rest = item.text.partition(".")
    argument = arguments.get(root)
    if argument is None:
        return item
    return Given(ast.unparse(argument) + dot + rest, item.values, item.equal, argument if not dot else item.node, scope)


def is_none(node: ast.expr) -> bool:
    """Whether the expression is a literal None."""
    return isinstance(node, ast.Constant) and node.value is None


def is_property(node: FunctionNode) -> bool:
    """Whether a method is read like an attribute."""
    return any((attribute_chain(item) or [""])[-1] in ("property", "cached_property") for item in node.decorator_list)


def position_in_targets(node: ast.AST, name: str) -> int | None:
    """The place of ``name`` in ``a, b, name = ...``; None for other shapes."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(item, ast.Starred) for item in target.elts):
        return None
    places = [index for index, item in enumerate(target.elts) if isinstance(item, ast.Name) and item.id == name]
    return places[0] if places else None


def _keywords(call: ast.Call) -> list[str | None]:
    return [item.arg for item in call.keywords]
