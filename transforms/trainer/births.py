"""Where an object comes from: the calls that made it, back through variables, functions and wrappers.

Followed: assignments, attributes of ``self``, both branches of a conditional expression, returns of the project's own
functions, parameters (their callers), and calls that give back the object they are given (``get_peft_model(model)``,
``model.to(device)``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.python.bindings import position_in_targets, reaching, self_stores
from ...codemod.python.callers import callers_of
from ...codemod.python.functions import called_function, returns_of
from ...codemod.python.names import Binding, ModuleNames, attribute_chain
from ...codemod.source.project import Project

MAX_STEPS = 12
MAX_BIRTHS = 8
WRAPPERS = (
    "compile",
    "prepare",
    "prepare_model",
    "prepare_model_for_kbit_training",
    "prepare_model_for_int8_training",
    "get_peft_model",
    "for_training",
)
"""Functions and methods that give back the model that is their first argument."""
ADAPTERS = ("PeftModel", "PeftModelForCausalLM", "PeftModelForSeq2SeqLM")
SAME_OBJECT = ("to", "cuda", "train", "half", "bfloat16", "float")
"""Methods that give back the object they are called on."""


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """A name the object has, and the function (or class, for attributes of ``self``) in which it has it."""

    module: ModuleNames
    container: ast.AST
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Birth:
    """A call that makes the object, the calls it went through since, and the names it had on the way."""

    module: ModuleNames
    call: ast.Call
    through: tuple[ast.Call, ...] = ()
    sights: tuple[Sight, ...] = ()


def births_of(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Birth, ...]:
    """The calls that can have made the object that ``node`` is; empty when some part of the way is not known."""
    found: list[Birth] = []
    for birth in _Search(project).of(module, node, (), (), 0):
        if birth is None or len(found) >= MAX_BIRTHS:
            return ()
        if all(birth.call is not other.call or birth.through != other.through for other in found):
            found.append(birth)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Search:
    project: Project

    def of(
        self, module: ModuleNames, node: ast.expr, through: tuple[ast.Call, ...], sights: tuple[Sight, ...], steps: int
    ) -> Iterator[Birth | None]:
        if steps > MAX_STEPS:
            yield None
        elif isinstance(node, ast.IfExp):
            for branch in (node.body, node.orelse):
                yield from self.of(module, branch, through, sights, steps + 1)
        elif isinstance(node, ast.Name):
            yield from self._name(module, node, through, sights, steps)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(module, node, through, sights, steps)
        elif isinstance(node, ast.Call):
            yield from self._call(module, node, through, sights, steps)
        else:
            yield None

    def _name(
        self, module: ModuleNames, node: ast.Name, through: tuple[ast.Call, ...], sights: tuple[Sight, ...], steps: int
    ) -> Iterator[Birth | None]:
        scope = module.scope_of(node)
        others = [item for item in scope.lookup(node.id) if not _is_inside(node, item.node)]
        bindings = reaching(module, others, node)
        if not bindings:
            yield None
        for binding in bindings:
            seen = (*sights, Sight(module, binding.scope.node, node.id))
            if binding.kind == "parameter":
                yield from self._parameter(module, binding, through, seen, steps)
            elif binding.value is not None:
                yield from self.of(module, binding.value, through, seen, steps + 1)
            else:
                yield from self._unpacked(module, binding, through, seen, steps)

    def _parameter(
        self, module: ModuleNames, binding: Binding, through: tuple[ast.Call, ...], seen: tuple[Sight, ...], steps: int
    ) -> Iterator[Birth | None]:
        function = binding.scope.node
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield None
            return
        callers = callers_of(self.project, module, function)
        passed = [(site.module, site.target.arguments(site.call).get(binding.name)) for site in callers.sites]
        if not passed:
            yield None
        for other, argument in passed:
            if argument is None:
                yield None
            else:
                yield from self.of(other, argument, through, seen, steps + 2)

    def _unpacked(
        self, module: ModuleNames, binding: Binding, through: tuple[ast.Call, ...], seen: tuple[Sight, ...], steps: int
    ) -> Iterator[Birth | None]:
        """``model, tokenizer = load(...)``: a library's call makes it, or what the project's function returns."""
        statement = binding.node
        call = statement.value if isinstance(statement, ast.Assign) else None
        position = position_in_targets(statement, binding.name)
        if not isinstance(call, ast.Call) or position is None:
            yield None
            return
        target = called_function(self.project, module, call)
        if target is not None:
            yield from self._returned(target.module, target.node, position, through, seen, steps)
        elif _last_name(call) == "prepare" and position < len(call.args):
            yield from self.of(module, call.args[position], (*through, call), seen, steps + 1)
        elif position == 0:
            yield Birth(module, call, through, seen)
        else:
            yield None

    def _attribute(
        self,
        module: ModuleNames,
        node: ast.Attribute,
        through: tuple[ast.Call, ...],
        sights: tuple[Sight, ...],
        steps: int,
    ) -> Iterator[Birth | None]:
        owner = module.scope_of(node).enclosing_class
        if attribute_chain(node) != ["self", node.attr] or owner is None:
            yield None
            return
        stores = self_stores(module, owner, node.attr)
        seen = (*sights, Sight(module, owner.node, f"self.{node.attr}"))
        if not stores:
            yield None
        for value, _ in stores:
            if value is None:
                yield None
            elif not (isinstance(value, ast.Constant) and value.value is None) and not _mentions(value, node):
                yield from self.of(module, value, through, seen, steps + 1)

    def _call(
        self, module: ModuleNames, call: ast.Call, through: tuple[ast.Call, ...], sights: tuple[Sight, ...], steps: int
    ) -> Iterator[Birth | None]:
        inner = wrapped_by(call)
        if inner is not None:
            yield from self.of(module, inner, (*through, call), sights, steps + 1)
            return
        target = called_function(self.project, module, call)
        if target is not None and target.node.name not in ("__init__", "from_pretrained", "from_config"):
            yield from self._returned(target.module, target.node, None, through, sights, steps)
        else:
            yield Birth(module, call, through, sights)

    def _returned(
        self,
        module: ModuleNames,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        position: int | None,
        through: tuple[ast.Call, ...],
        sights: tuple[Sight, ...],
        steps: int,
    ) -> Iterator[Birth | None]:
        returned = returns_of(function)
        if not returned:
            yield None
        for statement in returned:
            value = statement.value
            if position is not None:
                many = value.elts if isinstance(value, ast.Tuple) else []
                value = many[position] if position < len(many) else None
            if value is None:
                yield None
            else:
                yield from self.of(module, value, through, sights, steps + 2)


def wrapped_by(call: ast.Call) -> ast.expr | None:
    """The object that ``call`` gives back wrapped or moved; None for other calls."""
    name = _last_name(call)
    first = call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None
    if name in WRAPPERS:
        return first if first is not None else next((item.value for item in call.keywords if item.arg == "model"), None)
    if isinstance(call.func, ast.Attribute):
        chain = attribute_chain(call.func) or []
        if name == "from_pretrained" and chain[-2:-1] and chain[-2] in ADAPTERS:
            return first
        if name in SAME_OBJECT:
            return call.func.value
    return None


def _last_name(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _is_inside(node: ast.AST, tree: ast.AST) -> bool:
    """Whether ``node`` is read by the statement ``tree`` itself (the old value in ``x = f(x)``)."""
    return isinstance(tree, ast.Assign | ast.AnnAssign) and any(item is node for item in ast.walk(tree))


def _mentions(value: ast.expr, node: ast.expr) -> bool:
    text = ast.unparse(node)
    return any(isinstance(item, ast.Attribute) and ast.unparse(item) == text for item in ast.walk(value))
