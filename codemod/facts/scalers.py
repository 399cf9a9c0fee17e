"""Where a gradient scaler is born, every way it flows, and every use of it.

A scaler is followed through variables, ``self`` attributes, parameters and returns of the project's own functions,
conditional expressions and containers. What cannot be followed is an *escape*, and an escape forbids removing it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ..project import Project
from .arguments import Signature, bind
from .functions import FunctionTarget, called_function, class_of, returns_of
from .names import FunctionNode, ModuleNames, Scope, attribute_chain, names_of, resolve

WORDS = ("GradScaler", "NativeScaler", "grad_scaler")
"""A file without any of these words makes no scaler."""

OF_CUDA = Signature(("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"))
GENERIC = Signature(("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"))
SHARDED = Signature(("device", "init_scale", "backoff_factor", "growth_factor", "growth_interval", "enabled"))
NO_SIGNATURE = Signature(())

APIS = {
    "torch.cuda.amp.GradScaler": OF_CUDA,
    "torch.cuda.amp.grad_scaler.GradScaler": OF_CUDA,
    "torch.cpu.amp.GradScaler": OF_CUDA,
    "torch.cpu.amp.grad_scaler.GradScaler": OF_CUDA,
    "torch.xpu.amp.GradScaler": OF_CUDA,
    "torch.npu.amp.GradScaler": OF_CUDA,
    "torch_npu.npu.amp.GradScaler": OF_CUDA,
    "torch.GradScaler": GENERIC,
    "torch.amp.GradScaler": GENERIC,
    "torch.amp.grad_scaler.GradScaler": GENERIC,
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": SHARDED,
    "fairscale.optim.grad_scaler.ShardedGradScaler": OF_CUDA,
    "fairscale.optim.ShardedGradScaler": OF_CUDA,
    "timm.utils.NativeScaler": NO_SIGNATURE,
    "timm.utils.cuda.NativeScaler": NO_SIGNATURE,
}
WRAPPERS = ("timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler")
METHODS = ("scale", "step", "unscale_", "update", "get_scale", "is_enabled", "state_dict", "load_state_dict")
HARMLESS_RECEIVERS = ("print", "isinstance", "id", "type", "repr", "str", "bool", "hasattr", "callable", "len")
MAX_ALIASES = 40


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One reference to a scaler and what is done with it."""

    kind: str
    """A method of METHODS; ``method`` (another one), ``bound-method`` (taken, not called), ``private``, ``none-test``,
    ``called`` (a wrapper object), ``assigned``, ``argument``, ``returned``, ``stored`` or ``escaped``."""
    module: ModuleNames
    node: ast.expr
    call: ast.Call | None = None


@dataclass(frozen=True, slots=True)
class NameAlias:
    """A variable or parameter of one scope."""

    module: ModuleNames
    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class AttributeAlias:
    """An attribute: of ``self`` in ``owner``, or (owner None) of some object in ``module``."""

    module: ModuleNames
    owner: Scope | None
    name: str


Alias: TypeAlias = NameAlias | AttributeAlias


@dataclass(slots=True, eq=False)
class Scaler:
    """One place that makes a scaler, with everything that is done to it."""

    module: ModuleNames
    call: ast.Call
    api: str
    kind: str
    """``direct``, ``subclass`` (of GradScaler, in the project) or ``wrapper`` (an object that holds one)."""
    arguments: dict[str, ast.expr] | None
    """Bound arguments of a direct scaler; None when ``*``/``**`` hide them."""
    inner: tuple[tuple[ModuleNames, ast.Call], ...] = ()
    """For a wrapper class of the project: the calls that make the scaler it holds."""
    aliases: list[Alias] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    routes: set[str] = field(default_factory=set)
    """How it travels: ``attribute``, ``parameter``, ``returned``, ``stored``, ``escaped``, ``none-test``,
    ``conditional``, ``shared-name`` (the name is bound elsewhere too), ``module-name``, ``other-file``."""

    @property
    def enabled_node(self) -> ast.expr | None:
        return (self.arguments or {}).get("enabled")

    @property
    def switched_off(self) -> bool:
        node = self.enabled_node
        return isinstance(node, ast.Constant) and not node.value

    @property
    def modules(self) -> list[ModuleNames]:
        """The modules in which the scaler is made or used."""
        found = [self.module]
        for use in self.uses:
            if use.module not in found:
                found.append(use.module)
        return found

    def uses_of(self, *kinds: str) -> list[Use]:
        return [use for use in self.uses if use.kind in kinds]

    @property
    def is_used(self) -> bool:
        """Whether anything is done with it but giving it a name."""
        return bool(self.routes - {"attribute", "module-name"}) or any(use.kind != "assigned" for use in self.uses)


def scalers(project: Project) -> tuple[Scaler, ...]:
    """Every scaler of the project, followed through its flow."""
    return project.fact(_all_scalers)


def _may_make_scaler(text: str) -> bool:
    return any(spelling in text for spelling in ("caler(", "caler (", "caler as "))


def _all_scalers(project: Project) -> tuple[Scaler, ...]:
    found = []
    for document in project.python_documents(WORDS, where=_may_make_scaler):
        module = names_of(project, document)
        for call in module.calls:
            scaler = _birth(project, module, call)
            if scaler is not None:
                _Flow(project, scaler).run()
                found.append(scaler)
    return tuple(found)


def scaler_api(project: Project, module: ModuleNames, node: ast.expr) -> str | None:
    """The qualified API when ``node`` names a scaler class; None otherwise."""
    chain = attribute_chain(node)
    if chain is None or "caler" not in (module.qualified(node) or chain[-1]):
        return None
    resolved = resolve(project, module, node)
    return resolved if resolved in APIS else None


def _birth(project: Project, module: ModuleNames, call: ast.Call) -> Scaler | None:
    api = scaler_api(project, module, call.func)
    if api is not None:
        kind = "wrapper" if api in WRAPPERS else "direct"
        return Scaler(module, call, api, kind, bind(APIS[api], call))
    chain = attribute_chain(call.func)
    if chain is None or "caler" not in chain[-1]:
        return None
    owner = class_of(project, module, call.func)
    if owner is None:
        return None
    base = _base_api(project, *owner)
    if base is not None:
        keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
        return Scaler(module, call, base, "subclass", keywords)
    inner = tuple(_held_scalers(project, *owner))
    return Scaler(module, call, "", "wrapper", {}, inner) if inner else None


def _base_api(project: Project, module: ModuleNames, owner: Scope) -> str | None:
    bases = owner.node.bases if isinstance(owner.node, ast.ClassDef) else []
    return next((api for base in bases if (api := scaler_api(project, module, base)) is not None), None)


def _held_scalers(project: Project, module: ModuleNames, owner: Scope) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The scalers that a class makes for an attribute of its own."""
    for node in ast.walk(owner.node):
        if isinstance(node, ast.Assign) and any((attribute_chain(item) or [""])[0] == "self" for item in node.targets):
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and scaler_api(project, module, call.func) is not None:
                    yield module, call


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
                self.scaler.routes.add("escaped")
                return
            for module, node in self._references(self.scaler.aliases[position]):
                if node not in self.seen:
                    self.seen.add(node)
                    self._reference(module, node)
            position += 1
        self.scaler.uses.sort(key=lambda use: (use.module.document.path, use.node.lineno, use.node.col_offset))

    # --- references -------------------------------------------------------------------------------------------------

    def _references(self, alias: Alias) -> Iterator[tuple[ModuleNames, ast.expr]]:
        if isinstance(alias, AttributeAlias):
            yield from self._attribute_references(alias)
            return
        for node in alias.module.name_loads.get(alias.name, []):
            bindings = alias.module.scope_of(node).lookup(alias.name)
            if bindings and bindings[0].scope is alias.scope:
                yield alias.module, node
        if isinstance(alias.scope.node, ast.Module):
            yield from self._imports_of(alias)

    def _imports_of(self, alias: NameAlias) -> Iterator[tuple[ModuleNames, ast.expr]]:
        for document in self.project.python_documents((*WORDS, "scaler"), where=lambda text: alias.name in text):
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
        for document in self.project.python_documents((*WORDS, "scaler"), where=lambda text: member in text):
            module = names_of(self.project, document)
            for node in module.attribute_loads.get(alias.name, []):
                if self._same_attribute(alias, module, node):
                    if module is not alias.module:
                        self.scaler.routes.add("other-file")
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

    def _inherits(self, module: ModuleNames, owner: Scope, ancestor: Scope, hops: int = 0) -> bool:
        if hops > 6 or not isinstance(owner.node, ast.ClassDef):
            return False
        for base in owner.node.bases:
            found = class_of(self.project, module, base)
            if found and (found[1] is ancestor or self._inherits(found[0], found[1], ancestor, hops + 1)):
                return True
        return False

    # --- what is done with a reference ------------------------------------------------------------------------------

    def _use(self, kind: str, module: ModuleNames, node: ast.expr, call: ast.Call | None = None) -> None:
        self.scaler.uses.append(Use(kind, module, node, call))

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
        if not isinstance(member.ctx, ast.Load) or member.attr.startswith("_"):
            kind = "private"
        elif called is None:
            kind = "bound-method"
        else:
            kind = member.attr if member.attr in METHODS else "method"
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
        elif not isinstance(parent, ast.Expr):
            self.scaler.routes.add("escaped")
            self._use("escaped", module, node)

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

    def _add(self, alias: Alias) -> None:
        if alias not in self.scaler.aliases:
            self.scaler.aliases.append(alias)

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
        self.scaler.routes.add("stored")
        self._use("stored", module, node)

    def _argument(self, module: ModuleNames, node: ast.expr, call: ast.AST) -> None:
        if not isinstance(call, ast.Call):
            self.scaler.routes.add("escaped")
            self._use("escaped", module, node)
            return
        chain = attribute_chain(call.func)
        if chain is not None and len(chain) == 1 and chain[0] in HARMLESS_RECEIVERS:
            self.scaler.routes.add("none-test")
            self._use("none-test", module, node)
            return
        target = called_function(self.project, module, call)
        parameter = target.parameter_for(call, node) if target is not None else None
        if target is None or parameter is None:
            self.scaler.routes.add("escaped")
            self._use("escaped", module, node, call)
            return
        self._parameter(module, node, call, target, parameter)

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
        function = next((item for item in module.ancestors(statement) if isinstance(item, FunctionNodes)), None)
        if function is None or len(returns_of(function)) > 4:
            self.scaler.routes.add("escaped")
            return
        if function in self.returning:
            return
        self.returning.add(function)
        name = function.name
        for document in self.project.python_documents(WORDS, where=lambda text: name in text):
            other = names_of(self.project, document)
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
            self.scaler.routes.add("escaped")

    def _reaches(self, module: ModuleNames, call: ast.Call, function: FunctionNode) -> bool:
        target = called_function(self.project, module, call)
        return target is not None and target.node is function


FunctionNodes = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is_test(parent: ast.AST, node: ast.expr) -> bool:
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
        return parent.test is node
    if isinstance(parent, ast.Compare) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        return True
    return isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And)
