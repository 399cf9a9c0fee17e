"""A tensor is cast to another dtype, and nothing takes what the cast gives back.

## What goes wrong

Nothing is cast. After `for p in model.parameters(): p = p.half()` the model is float32 as before: it takes the memory
and the time of float32, and raises where it is given 16-bit inputs (`mat1 and mat2 must have the same dtype`). A batch
whose tensors are cast so stays float32, too.

## Why

`half()`, `bfloat16()`, `float()` and `to(dtype)` of a tensor give back a new tensor (PyTorch 2.13; only those of
`torch.nn.Module` act in place). An assignment to the variable of a loop gives that name another value, for the rest of
the round; the model, list or batch that the loop goes through keeps what it has.

## Fix

`data` [unsafe]: parameters and buffers get the cast tensor, `p.data = p.data.half()`. The program then computes in
another dtype than it has so far. `assign` [unsafe]: a cast that stands alone is assigned to what it casts. Else
reported only.

## Not flagged

Casts of modules, which act in place; of anything that is not certainly a tensor (the encodings of tokenizers have a
`to` that acts in place); a variable that is read afterwards; casts that are tried (`try`), or that are timed in a loop
which does not make the tensor; moves to a device; files without a word of 16-bit types; casts to float32 in projects
whose weights are never 16-bit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.frame import OUTSIDE
from ...codemod.flow.lattice import Kind, Role
from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.files import purpose_of
from ...codemod.purpose.words import FOREIGN
from ...codemod.python.arguments import receiver_of
from ...codemod.python.bindings import only_target, reaching
from ...codemod.python.functions import called_function
from ...codemod.python.names import Binding, ModuleNames, attribute_chain, names_of, root_name
from ...codemod.python.paths import loops, tries
from ...codemod.source.project import Project
from ...codemod.torch.api import CASTS, SAME_WEIGHTS, WEIGHT_CASTS
from ...codemod.torch.half_words import weights_can_be_half
from ...codemod.torch.weight_changes import moves_only

WORDS = ("float16", ".half(", "fp16", "bf16")
OF_TENSORS = ("parameters", "buffers", "named_parameters", "named_buffers")
"""Methods of modules that go through tensors; with their names where they begin with ``named``."""


def check(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(WORDS, ("torch",)):
        module = names_of(project, document)
        if purpose_of(document.path) in FOREIGN:
            continue
        for call in (call for name in CASTS for call in module.calls_by_name.get(name, ())):
            needed = not _widens(call) or weights_can_be_half(project)
            found = _finding(project, module, call) if _casts(call) and needed else None
            if found is not None:
                yield found


def _casts(call: ast.Call) -> bool:
    """Whether a call is a cast of something that has a name: no move to a device."""
    if attribute_chain(_owner(call)) is None:
        return False
    plain = receiver_of(call, *WEIGHT_CASTS) is not None and not (call.args or call.keywords)
    return plain or (receiver_of(call, "to") is not None and not moves_only(call))


def _widens(call: ast.Call) -> bool:
    return receiver_of(call, "float", "double") is not None or "float32" in ast.unparse(call)


def _owner(call: ast.expr) -> ast.expr:
    """What is cast, also on its way to a device: ``x`` of ``x.cuda().half()``."""
    inner = receiver_of(call, *CASTS, *SAME_WEIGHTS)
    return _owner(inner) if inner is not None else call


def _finding(project: Project, module: ModuleNames, call: ast.Call) -> Finding | None:
    statement, owner = module.statement_of(call), _owner(call)
    if getattr(statement, "value", None) is not call or any(tries(module, call)):
        return None
    target, name = only_target(statement), ast.unparse(owner)
    loop = next(iter(loops(module, call)), None)
    if isinstance(target, ast.Name):
        if target.id != name or not _is_lost(module, loop, target):
            return None
        message = f"this cast has no effect: {name} is a name of the loop, and what it goes through keeps its dtype"
    elif isinstance(statement, ast.Expr) and (loop is None or _binds(module, loop, owner)):
        message = f"this cast has no effect: {name} keeps its dtype, as nothing takes the tensor that is given back"
    else:
        return None
    walked = isinstance(loop, ast.For) and _is_of_walk(project, module, loop, name)
    if not walked and not _is_tensor(project, module, owner, call):
        return None
    return rule.at(module, call, message, (), [_fix(module, statement, call, name, walked=walked)])


def _fix(module: ModuleNames, statement: ast.stmt, call: ast.Call, name: str, *, walked: bool) -> Fix | None:
    text = ast.unparse(call)
    if isinstance(statement, ast.Assign):
        names = [module.replace(item, f"{name}.data") for item in (statement.targets[0], _owner(call))]
        return Fix.unsafe("data", "the tensors of the module are cast", *names) if walked else None
    cast = f"{name}.data = {name}.data{text.removeprefix(name)}" if walked else f"{name} = {text}"
    done = ("data", "the tensors of the module are cast") if walked else ("assign", f"{name} is cast from here on")
    return Fix.unsafe(*done, module.insert(statement, cast), module.remove(statement))


# --- what nothing takes -----------------------------------------------------------------------------------------------


def _is_lost(module: ModuleNames, loop: ast.AST | None, target: ast.Name) -> bool:
    """Whether an assignment to the variable of a loop is read nowhere."""
    scope, statement = module.scope_of(target), module.statement_of(target)
    bindings = scope.lookup(target.id)
    if not isinstance(loop, ast.For) or not any(item.node is loop for item in bindings):
        return False
    loads = [load for load in module.name_loads.get(target.id, ()) if module.statement_of(load) is not statement]
    own = [item for item in bindings if item.node is statement]
    return bool(own) and not any(_reads(module, load, bindings, own) for load in loads)


def _reads(module: ModuleNames, load: ast.AST, bindings: list[Binding], own: list[Binding]) -> bool:
    if module.scope_of(load).lookup(getattr(load, "id", "")) is not bindings:
        return False
    return module.scope_of(load) is not bindings[0].scope or any(
        item in own for item in reaching(module, bindings, load)
    )


def _binds(module: ModuleNames, loop: ast.AST, owner: ast.expr) -> bool:
    """Whether a loop makes what is cast, or goes through it: else how long a cast takes may be measured."""
    bindings = module.scope_of(owner).lookup(root_name(owner) or "")
    return any(item.node is loop or loop in module.ancestors(item.node) for item in bindings)


# --- tensors ----------------------------------------------------------------------------------------------------------


def _is_of_walk(project: Project, module: ModuleNames, loop: ast.For, name: str) -> bool:
    """``for p in model.parameters()``, ``for name, p in model.named_buffers()``: the tensors of a module."""
    walk, target = loop.iter, loop.target
    named = receiver_of(walk, *OF_TENSORS[2:]) is not None
    if not isinstance(walk, ast.Call) or receiver_of(walk, *OF_TENSORS) is None:
        return False
    items = target.elts[1:] if isinstance(target, ast.Tuple) and named else [target]
    return list(map(ast.unparse, items)) == [name] and called_function(project, module, walk) is None


def _is_tensor(project: Project, module: ModuleNames, owner: ast.expr, call: ast.Call) -> bool:
    """Whether the flow knows a tensor; an item of a batch is one where it has the method of tensors and modules."""
    value = flow_of(project).value_at(module, owner, OUTSIDE)
    in_place = receiver_of(call, "to") is not None
    return (
        value.kind is Kind.TENSOR
        and bool(value.atoms)
        and all(
            atom.dtype is not None or (atom.role is Role.DATA and not in_place and not atom.guessed)
            for atom in value.atoms
        )
    )


rule = Rule.of("PF216", check)
