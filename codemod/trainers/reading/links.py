"""From an expression to the places that give it its value: options, fields, constants, configuration files, flags.

``args.amp_dtype`` leads to the default of ``--amp-dtype``, to the ``amp_dtype:`` of the YAML files that the program
reads, and to ``--amp-dtype fp16`` in its launch scripts. Names are followed through variables, attributes of
``self``, parameters and their callers. What cannot be followed is left out: no source is ever guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ...python.bindings import default_of, reaching, self_stores
from ...python.callers import callers_of
from ...python.names import Binding, ModuleNames, attribute_chain, definition_of, names_of, project_module
from ...source.project import Project
from .command_options import declared_options
from .setting_reads import Read, entries_read, read_of
from .source import Source, literal_source, tested_source

MAX_DEPTH = 8
SAME_VALUE = ("lower", "upper", "strip", "str", "bool")
"""Calls that give back what they are given, as far as settings go."""


def sources(project: Project, module: ModuleNames, expression: ast.expr) -> tuple[Source, ...]:
    """Every literal that ``expression`` of ``module`` can have its value from, by place; empty when none is known."""
    known = project.fact(_Links).known
    if expression not in known:
        known[expression] = ()  # what a question asks about itself
        found = {(item.path, item.span): item for item in _Tracer(project).follow(module, expression, "", 0)}
        known[expression] = tuple(found[place] for place in sorted(found))
    return known[expression]


class _Links:
    """The answers given so far; one per project."""

    def __init__(self, project: Project) -> None:
        self.known: dict[ast.expr, tuple[Source, ...]] = {}


class _Tracer:
    """Follows one expression; no node is followed twice."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._seen: set[tuple[ast.AST, str]] = set()

    def follow(
        self, module: ModuleNames, node: ast.expr, key: str, depth: int, kind: str = "constant"
    ) -> Iterator[Source]:
        """The sources of ``node``, asked for under the name ``key``; ``kind`` is what a literal here would be."""
        if depth > MAX_DEPTH or (node, key) in self._seen:
            return
        self._seen.add((node, key))
        literal = literal_source(kind, module, node, key)
        if literal is not None:
            yield literal
        elif isinstance(node, ast.Name):
            yield from self._name(module, node, depth)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(module, node, depth)
        elif isinstance(node, ast.Subscript):
            yield from self._setting(module, node, depth)
        elif isinstance(node, ast.Call):
            yield from self._call(module, node, key, depth)
        elif isinstance(node, ast.IfExp):
            yield from self._choice(module, node, key, depth, kind)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            for value in node.values:
                yield from self.follow(module, value, key, depth + 1)

    def _choice(self, module: ModuleNames, node: ast.IfExp, key: str, depth: int, kind: str) -> Iterator[Source]:
        """A choice by a setting leads to both branches; one by a test of the machine is a value of its own."""
        whole = tested_source(kind, module, node, key)
        if whole is not None:
            yield whole
        elif not isinstance(node.test, ast.BoolOp | ast.Call):
            test = "" if _is_fallback(node) else ast.unparse(node.test)
            for value in (node.body, node.orelse):
                for source in self.follow(module, value, key, depth + 1, kind):
                    is_branch = source.kind == kind and isinstance(value, ast.Constant | ast.Attribute | ast.IfExp)
                    yield replace(source, picked_by=source.picked_by or test) if is_branch else source

    def _call(self, module: ModuleNames, node: ast.Call, key: str, depth: int) -> Iterator[Source]:
        """``x.lower()``, ``str(x)``, ``getattr(args, "x", default)``, ``getattr(torch, x)``, ``config.get("x")``."""
        func, arguments = node.func, node.args
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        if name == "getattr" and len(arguments) >= 2 and module.qualified(arguments[0]) == "torch":
            yield from self.follow(module, arguments[1], key, depth + 1)
        elif name in ("getattr", "get", "getenv") and read_of(module, node) is not None:
            yield from self._setting(module, node, depth)
            for default in arguments[-1:] if len(arguments) >= (3 if name == "getattr" else 2) else []:
                yield from self.follow(module, default, key, depth + 1, "parameter")
        elif name in SAME_VALUE and isinstance(func, ast.Attribute) and not arguments:
            yield from self.follow(module, func.value, key, depth + 1)
        elif name in SAME_VALUE and isinstance(func, ast.Name) and len(arguments) == 1:
            yield from self.follow(module, arguments[0], key, depth + 1)

    # --- variables and parameters -------------------------------------------------------------------------------------

    def _name(self, module: ModuleNames, node: ast.Name, depth: int) -> Iterator[Source]:
        for binding in reaching(module, module.scope_of(node).lookup(node.id), node):
            yield from self._binding(module, binding, depth)

    def _binding(self, module: ModuleNames, binding: Binding, depth: int) -> Iterator[Source]:
        if binding.kind == "parameter":
            yield from self._parameter(module, binding, depth)
        elif binding.kind == "import":
            yield from self._imported(module, binding, depth)
        elif binding.value is not None:
            yield from self.follow(module, binding.value, binding.name, depth + 1)

    def _imported(self, module: ModuleNames, binding: Binding, depth: int) -> Iterator[Source]:
        owner, _, name = (binding.qualified or "").rpartition(".")
        document = project_module(self._project, owner, module.document.path)
        if document is not None and depth < MAX_DEPTH:
            other = names_of(self._project, document)
            for found in other.module_scope.lookup(name):
                yield from self._binding(other, found, depth + 1)

    def _parameter(self, module: ModuleNames, binding: Binding, depth: int) -> Iterator[Source]:
        default = default_of(binding)
        if default is not None:
            yield from self.follow(module, default, binding.name, depth + 1, "parameter")
        function = binding.scope.node
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        for option in declared_options(self._project, module, binding.name, function):
            yield from option.sources(self._project)
        for site in callers_of(self._project, module, function).sites:
            passed = site.target.arguments(site.call).get(binding.name)
            if passed is not None:
                yield from self.follow(site.module, passed, binding.name, depth + 1, "argument")

    # --- attributes and settings --------------------------------------------------------------------------------------

    def _attribute(self, module: ModuleNames, node: ast.Attribute, depth: int) -> Iterator[Source]:
        chain = attribute_chain(node)
        owner = module.scope_of(node).enclosing_class
        if chain is not None and chain[0] == "self" and len(chain) == 2 and owner is not None:
            stores = self_stores(module, owner, chain[1])
            for value, statement in stores:
                if value is not None:
                    kind = "field" if isinstance(module.scope_of(statement).node, ast.ClassDef) else "constant"
                    yield from self.follow(module, value, chain[1], depth + 1, kind)
            if stores:
                return
        defined = definition_of(self._project, module, node)
        if defined is not None:
            other, name = defined
            for binding in other.module_scope.lookup(name):
                yield from self._binding(other, binding, depth + 1)
            return
        yield from self._setting(module, node, depth)

    def _setting(self, module: ModuleNames, node: ast.expr, depth: int) -> Iterator[Source]:
        """What an option or configuration key that is read here is given anywhere."""
        read = read_of(module, node)
        if read is None:
            return
        yield from entries_read(self._project, read)
        if not read.of_environment:
            yield from self._declared(read, depth)

    def _declared(self, read: Read, depth: int) -> Iterator[Source]:
        for option in declared_options(self._project, read.module, read.name):
            yield from option.sources(self._project)
            if option.default is not None and option.switch is None:
                yield from self.follow(option.module, option.default, read.name, depth + 1, option.kind)


def _is_fallback(node: ast.IfExp) -> bool:
    """``x if x else "fp16"``, ``"fp16" if x is None else x``: no choice between two, but a default."""
    tested = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
    tested = tested.left if isinstance(tested, ast.Compare) else tested
    return ast.unparse(tested) in (ast.unparse(node.body), ast.unparse(node.orelse))
