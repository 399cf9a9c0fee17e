"""Follows a scaler from where it is made: its names, and what is done under each of them.

A scaler is followed through variables, ``self`` attributes, parameters and returns of the project's own functions,
conditional expressions and containers. What cannot be followed is an *escape*, and an escape forbids removing it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.class_fields import declared_fields
from ..python.functions import FunctionTarget, called_function, class_of, lineage, named_function
from ..python.names import FunctionNode, ModuleNames, Scope, attribute_chain, modules_with, names_of
from ..python.scopes import last_name
from ..source.project import Project
from .accelerators import accelerator_at
from .autocast import PARTIALS
from .scaler import METHODS, WORDS, Alias, AttributeAlias, KeyAlias, NameAlias, Scaler, ScalerUse, UseKind

HARMLESS_RECEIVERS = ("print", "isinstance", "id", "type", "repr", "str", "bool", "hasattr", "callable", "len")
NAMESPACES = ("SimpleNamespace", "Namespace")
LOGGING = ("debug", "info", "warning", "error")
MAX_ALIASES = 40
USING = (*WORDS, "autocast", "scaler")
"""A file without any of these words neither makes nor uses a scaler under its usual name."""


def follow(project: Project, scaler: Scaler) -> None:
    """Fill in the aliases, uses and routes of ``scaler``."""
    _Flow(project, scaler).run()


def _reads_by_scope(_: Project, named: tuple[ModuleNames, str]) -> dict[Scope, list[ast.Name]]:
    """The reads of a name in a file, by the scope that binds it."""
    module, name = named
    found: dict[Scope, list[ast.Name]] = {}
    for node in module.name_loads.get(name, []):
        if bindings := module.scope_of(node).lookup(name):
            found.setdefault(bindings[0].scope, []).append(node)
    return found


class _Flow:
    """Follows one scaler until no new alias turns up (bounded)."""

    def __init__(self, project: Project, scaler: Scaler) -> None:
        self.project = project
        self.scaler = scaler
        self.seen: set[ast.expr] = set()
        self.returning: set[ast.AST] = set()

    def run(self) -> None:
        self._place(self.scaler.module, self.scaler.call)
        position = 0
        while position < len(self.scaler.aliases):
            if position >= MAX_ALIASES:
                self._escape(self.scaler.module, self.scaler.call)
                return
            for module, node in self._references(self.scaler.aliases[position]):
                if node not in self.seen:
                    self.seen.add(node)
                    self._reference(module, node)
            position += 1
        self.scaler.uses.sort(key=lambda use: (use.module.document.path, use.node.lineno, use.node.col_offset))

    def _references(self, alias: Alias) -> Iterator[tuple[ModuleNames, ast.expr]]:
        if isinstance(alias, AttributeAlias):
            yield from self._attribute_references(alias)
            return
        if isinstance(alias, KeyAlias):
            yield from self._values_under(alias.name)
            return
        for node in self.project.memo(_reads_by_scope, (alias.module, alias.name)).get(alias.scope, ()):
            yield alias.module, node
        if isinstance(alias.scope.node, ast.Module):
            yield from self._imports_of(alias)

    def _imports_of(self, alias: NameAlias) -> Iterator[tuple[ModuleNames, ast.expr]]:
        for document in self.project.python_documents((*WORDS, "scaler"), (alias.name,)):
            if document is alias.module.document:
                continue
            other = names_of(self.project, document)
            for node in other.name_loads.get(alias.name, []):
                found = other.qualified(node)
                if found and found.rpartition(".")[2] == alias.name and self._is_module(found, other, alias.module):
                    self.scaler.routes.add("other-file")
                    yield other, node

    def _is_module(self, qualified: str, importer: ModuleNames, module: ModuleNames) -> bool:
        path = self.project.python_path(qualified.rpartition(".")[0], importer.document.path)
        return path == module.document.path

    def _attribute_references(self, alias: AttributeAlias) -> Iterator[tuple[ModuleNames, ast.expr]]:
        member = f".{alias.name}"
        for module in modules_with(self.project, (*WORDS, "scaler"), (member,)):
            for node in module.attribute_loads.get(alias.name, []):
                if self._same_attribute(alias, module, node):
                    if module is not alias.module:
                        self.scaler.routes.add("other-file")
                    yield module, node

    def _values_under(self, key: str) -> Iterator[tuple[ModuleNames, ast.expr]]:
        """``state["scaler"]`` in files that scale with just this; a checkpoint has a state under such a key."""
        for module in modules_with(self.project, (*WORDS, "scaler"), (key,)):
            calls = [call for name in ("scale", "unscale_") for call in module.calls_by_name.get(name, ())]
            scaling = {ast.unparse(call.func.value) for call in calls if isinstance(call.func, ast.Attribute)}
            for node in module.of_type(ast.Subscript):
                is_key = isinstance(node.slice, ast.Constant) and node.slice.value == key
                if is_key and isinstance(node.ctx, ast.Load) and ast.unparse(node) in scaling:
                    yield module, node

    def _same_attribute(self, alias: AttributeAlias, module: ModuleNames, node: ast.Attribute) -> bool:
        receiver = attribute_chain(node.value)
        owner = module.scope_of(node).enclosing_class
        if receiver == ["self"]:
            return owner is not None and (owner is alias.owner or self._is_related(module, owner, alias))
        if alias.owner is None:
            return True
        return "scaler" in alias.name.lower() and receiver is not None

    def _is_related(self, module: ModuleNames, owner: Scope, alias: AttributeAlias) -> bool:
        """Whether ``owner`` inherits (inside the project) from the class that holds the attribute, or the reverse."""
        if alias.owner is None:
            return False
        return self._inherits(module, owner, alias.owner) or self._inherits(alias.module, alias.owner, owner)

    def _inherits(self, module: ModuleNames, owner: Scope, ancestor: Scope) -> bool:
        return any(scope is ancestor for _, scope in lineage(self.project, module, owner))

    # --- what is done with a reference ------------------------------------------------------------------------------

    def _use(self, kind: UseKind, module: ModuleNames, node: ast.expr, call: ast.Call | None = None) -> None:
        self.scaler.uses.append(ScalerUse(kind, module, node, call))

    def _reference(self, module: ModuleNames, node: ast.expr) -> None:
        parent = module.parents[node]
        if isinstance(parent, ast.Attribute):
            self._member(module, node, parent)
        elif isinstance(parent, ast.Call) and parent.func is node:
            self._use("called", module, node, parent)
        elif _is_test(parent, node):
            self.scaler.routes.add("none-test")
            self._use("none-test", module, node)
        else:
            self._place(module, node)

    def _member(self, module: ModuleNames, node: ast.expr, member: ast.Attribute) -> None:
        grand = module.parents[member]
        called = grand if isinstance(grand, ast.Call) and grand.func is member else None
        kind: UseKind
        if not isinstance(member.ctx, ast.Load) or member.attr.startswith("_"):
            kind = "private"
        elif called is None:
            kind = "bound-method"
        else:
            kind = next((method for method in METHODS if method == member.attr), "method")
        if kind in ("state_dict", "load_state_dict"):
            self.scaler.routes.add("stored")
        self._use(kind, module, node, called)

    def _place(self, module: ModuleNames, node: ast.expr) -> None:
        """Record where the value of ``node`` goes: it is the scaler itself."""
        parent = module.parents[node]
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr) and parent.value is node:
            self._use("assigned", module, node)
            for target in parent.targets if isinstance(parent, ast.Assign) else [parent.target]:
                self._target(module, target)
        elif isinstance(parent, ast.IfExp | ast.BoolOp):
            self.scaler.routes.add("conditional")
            self._place(module, parent)
        elif isinstance(parent, ast.Return):
            self._returned(module, parent)
        elif isinstance(parent, ast.keyword):
            self._argument(module, node, module.parents[parent])
        elif isinstance(parent, ast.Call):
            self._argument(module, node, parent)
        elif isinstance(parent, ast.Dict | ast.List | ast.Tuple | ast.Set):
            self._container(module, parent, node)
        elif isinstance(parent, ast.FormattedValue):
            self._escape(module, node, kind="kept")
        elif not isinstance(parent, ast.Expr):
            self._escape(module, node)

    def _target(self, module: ModuleNames, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            bindings = module.scope_of(target).lookup(target.id)
            scope = bindings[0].scope if bindings else module.module_scope
            self._add(NameAlias(module, scope, target.id))
            if isinstance(scope.node, ast.ClassDef):
                self.scaler.routes.add("attribute")
                self._add(AttributeAlias(module, scope, target.id))
            if isinstance(scope.node, ast.Module):
                self.scaler.routes.add("module-name")
        elif isinstance(target, ast.Attribute):
            self.scaler.routes.add("attribute")
            on_self = attribute_chain(target.value) == ["self"]
            owner = module.scope_of(target).enclosing_class if on_self else None
            self._add(AttributeAlias(module, owner, target.attr))
        else:
            self.scaler.routes.add("stored")
            self._use("item", module, target)
            if isinstance(target, ast.Subscript):
                self._under(target.slice)

    def _add(self, alias: Alias) -> None:
        if alias not in self.scaler.aliases:
            self.scaler.aliases.append(alias)

    def _under(self, key: ast.expr | None) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._add(KeyAlias(key.value))

    def _container(self, module: ModuleNames, container: ast.expr, node: ast.expr) -> None:
        parent = module.parents[container]
        unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)
        if isinstance(container, ast.Tuple) and isinstance(parent, ast.Assign) and unpacked:
            position = container.elts.index(node)
            targets = parent.targets[0]
            if isinstance(targets, ast.Tuple) and len(targets.elts) == len(container.elts):
                self._target(module, targets.elts[position])
                return
        if isinstance(parent, ast.Return) and isinstance(container, ast.Tuple):
            self._returned(module, parent, container.elts.index(node))
            return
        self._stored(module, node)
        if isinstance(container, ast.Dict) and node in container.values:
            self._under(container.keys[container.values.index(node)])

    def _stored(self, module: ModuleNames, node: ast.expr) -> None:
        self.scaler.routes.add("stored")
        self._use("stored", module, node)

    def _argument(self, module: ModuleNames, node: ast.expr, call: ast.AST) -> None:
        if not isinstance(call, ast.Call):
            self._escape(module, node)
            return
        chain = attribute_chain(call.func)
        if chain is not None and len(chain) == 1 and chain[0] in HARMLESS_RECEIVERS:
            self.scaler.routes.add("none-test")
            self._use("none-test", module, node)
            return
        target = called_function(self.project, module, call)
        parameter = target.parameter_for(call, node) if target is not None else None
        if target is None and module.qualified(call.func) in PARTIALS and call.args:
            rest = ast.Call(func=call.args[0], args=call.args[1:], keywords=call.keywords)
            target = named_function(self.project, module, call.args[0], module.scope_of(call))
            parameter = target.parameter_for(rest, node) if target is not None else None
        if target is not None and parameter is not None:
            self._parameter(module, node, call, target, parameter)
        elif not self._is_field(module, node, call):
            self._handed(module, node, call)

    def _is_field(self, module: ModuleNames, node: ast.expr, call: ast.Call) -> bool:
        """``dict(scaler=...)``, ``SimpleNamespace(scaler=...)``, or a class of the project whose fields are listed."""
        field = next((item.arg for item in call.keywords if item.value is node), None)
        found = class_of(self.project, module, call.func)
        alias: Alias | None = None
        if found is not None:
            names = list(declared_fields(found[1].node))
            field = names[call.args.index(node)] if node in call.args[: len(names)] else field
            alias = AttributeAlias(*found, field) if field is not None and field in names else None
        elif field is not None and last_name(call.func) in NAMESPACES:
            alias = AttributeAlias(module, None, field)
        elif field is not None and isinstance(call.func, ast.Name) and call.func.id == "dict":
            alias = KeyAlias(field)
        if alias is not None:
            self._stored(module, node)
            self._add(alias)
        return alias is not None

    def _handed(self, module: ModuleNames, node: ast.expr, call: ast.Call) -> None:
        """The scaler goes to code that is not read: some of it is known to scale nothing."""
        method = call.func if isinstance(call.func, ast.Attribute) else None
        holder = accelerator_at(self.project, module, call) if method is not None else None
        prepares = method is not None and holder is not None and ast.unparse(method.value) == holder.text
        logs = method is not None and method.attr in LOGGING
        is_kept = prepares or logs or module.qualified(call.func) == "torch.save"
        self._escape(module, node, call, "kept" if is_kept else "escaped")
        if prepares and node in call.args and len(call.args) > 1:
            self._unpacked(module, call, call.args.index(node))
        elif prepares:
            self._place(module, call)

    def _escape(
        self, module: ModuleNames, node: ast.expr, call: ast.Call | None = None, kind: UseKind = "escaped"
    ) -> None:
        self.scaler.routes.add("escaped")
        self._use(kind, module, node, call)

    def _parameter(
        self, module: ModuleNames, node: ast.expr, call: ast.Call, target: FunctionTarget, parameter: str
    ) -> None:
        self.scaler.routes.add("parameter")
        if target.module is not module:
            self.scaler.routes.add("other-file")
        self._use("argument", module, node, call)
        self._add(NameAlias(target.module, target.scope, parameter))

    def _returned(self, module: ModuleNames, statement: ast.Return, position: int | None = None) -> None:
        """The scaler is what a function returns, or (``position``) one element of the tuple it returns."""
        self.scaler.routes.add("returned")
        self._use("returned", module, statement.value or ast.Constant(None, lineno=statement.lineno, col_offset=0))
        function = next((item for item in module.ancestors(statement) if isinstance(item, FunctionNode)), None)
        if function is None or len(module.returns_of(function)) > 4:
            self._escape(module, self.scaler.uses[-1].node)
            return
        if function in self.returning:
            return
        self.returning.add(function)
        name = function.name
        for other in modules_with(self.project, USING, (name,)):
            for call in other.calls_by_name.get(function.name, []):
                if not self._reaches(other, call, function):
                    continue
                if position is None:
                    self._place(other, call)
                else:
                    self._unpacked(other, call, position)

    def _unpacked(self, module: ModuleNames, call: ast.Call, position: int) -> None:
        """``model, scaler = build()``: the target that receives the element at ``position``."""
        parent = module.parents[call]
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        if position < len(elements) and not any(isinstance(item, ast.Starred) for item in elements):
            self._target(module, elements[position])
        elif isinstance(parent, ast.Return):
            self._returned(module, parent, position)
        elif not isinstance(parent, ast.Expr):
            self._escape(module, call)

    def _reaches(self, module: ModuleNames, call: ast.Call, function: FunctionNode) -> bool:
        target = called_function(self.project, module, call)
        return target is not None and target.node is function


def _is_test(parent: ast.AST, node: ast.expr) -> bool:
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
        return parent.test is node
    if isinstance(parent, ast.Compare) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        return True
    return isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And)
