"""``scalar`` written for ``scaler``: an attribute or variable that nobody ever makes, or nobody ever reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Draft, Fix
from ...codemod.python.bindings import self_stores
from ...codemod.python.names import ModuleNames, Scope, attribute_chain, names_of
from ...codemod.source.project import Project
from .slips import SPELLING, renamed_attribute

WRONG, RIGHT = "scalar", "scaler"
METHODS = ("scale", "step", "update", "unscale_", "state_dict", "load_state_dict", "get_scale", "is_enabled")
MAKERS = ("GradScaler", "ShardedGradScaler", "NativeScaler", "ClosureGradScaler")


def misspelt_scalers(project: Project) -> Iterator[Draft]:
    """Every ``self.scalar`` and ``scalar`` that must be the class's, or the function's, ``scaler``."""
    for document in project.python_documents(("scaler",), where=lambda text: WRONG in text and RIGHT in text):
        module = names_of(project, document)
        for owner in module.scopes.values():
            if isinstance(owner.node, ast.ClassDef):
                yield from _read_but_never_made(module, owner)
                yield from _made_but_never_read(module, owner)
        yield from _plain_names(module)


def _read_but_never_made(module: ModuleNames, owner: Scope) -> Iterator[Draft]:
    """``self.scalar.step(optimizer)`` in a class that only has ``self.scaler``."""
    if module.attribute_stores.get(WRONG) or _defines(module, owner):
        return
    births = [value for value, _ in self_stores(module, owner, RIGHT) if _makes_scaler(value)]
    for node in module.attribute_loads.get(WRONG, []):
        if births and births[0] is not None and _of(module, owner, node) and _uses_method(module, node):
            fix = Fix.safe(SPELLING, f"read self.{RIGHT}", renamed_attribute(module, node, RIGHT))
            message = f"self.{WRONG} is never assigned (AttributeError); the gradient scaler is self.{RIGHT}"
            place = module.place(births[0], f"self.{RIGHT} is made here")
            yield Draft.at(module, node, message, [place], [fix])


def _made_but_never_read(module: ModuleNames, owner: Scope) -> Iterator[Draft]:
    """``self.scalar = GradScaler()`` in a class that only ever uses ``self.scaler``."""
    if module.attribute_loads.get(WRONG) or _defines(module, owner):
        return
    reads = [node for node in module.attribute_loads.get(RIGHT, []) if _of(module, owner, node)]
    if not any(_uses_method(module, node) for node in reads):
        return
    others = self_stores(module, owner, RIGHT)
    for value, statement in self_stores(module, owner, WRONG):
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(target, ast.Attribute) or not _makes_scaler(value):
            continue
        fix = Fix.unsafe(
            SPELLING,
            f"assign self.{RIGHT}: the losses of this branch are scaled from now on",
            renamed_attribute(module, target, RIGHT),
        )
        rest = "keeps the value it had" if others else "does not exist"
        message = f"this scaler is put into self.{WRONG}, which nothing reads; self.{RIGHT} {rest}"
        yield Draft.at(module, target, message, [module.place(reads[0], f"self.{RIGHT} is read here")], [fix])


def _plain_names(module: ModuleNames) -> Iterator[Draft]:
    """``scalar.step(optimizer)`` where no such name is bound and a local ``scaler`` is a GradScaler."""
    for node in module.name_loads.get(WRONG, []):
        scope = module.scope_of(node)
        births = [item.value for item in scope.lookup(RIGHT) if _makes_scaler(item.value)]
        if births and births[0] and not scope.lookup(WRONG) and not module.star_imports and _uses_method(module, node):
            operation = module.replace(node, RIGHT)
            fix = Fix.safe(SPELLING, f"read {RIGHT}", operation)
            message = f"{WRONG} is never assigned (NameError); the gradient scaler is {RIGHT}"
            yield Draft.at(module, node, message, [module.place(births[0], f"{RIGHT} is made here")], [fix])


def _defines(module: ModuleNames, owner: Scope) -> bool:
    """Whether the class has a ``scalar`` of another kind: a method, a property, ``setattr``."""
    if WRONG in owner.bindings or module.calls_by_name.get("setattr"):
        return True
    return any(method in owner.bindings for method in ("__getattr__", "__getattribute__", "__setattr__"))


def _of(module: ModuleNames, owner: Scope, node: ast.Attribute) -> bool:
    return attribute_chain(node.value) == ["self"] and module.scope_of(node).enclosing_class is owner


def _uses_method(module: ModuleNames, node: ast.expr) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, ast.Attribute) and parent.attr in METHODS


def _makes_scaler(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and (attribute_chain(value.func) or [""])[-1] in MAKERS
