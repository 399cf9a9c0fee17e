"""Dtypes that are chosen and do not arrive: a choice forgets bfloat16, or the 4-bit weights compute in float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.purpose.files import is_test
from ....codemod.python.bound import is_bound_at
from ....codemod.python.creations import creations_of
from ....codemod.python.keywords import keywords_of
from ....codemod.python.names import ModuleNames, attribute_chain, names_of
from ....codemod.python.paths import guard_facts
from ....codemod.python.visible import means_the_same
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import BF16, Dtype, as_dtype
from ....codemod.trainers.reading.loads import Load, literal_of, load_at

DTYPE_NAMES = ("dtype", "torch_dtype", "weight_dtype", "model_dtype", "load_dtype")
"""How the dtype of weights is called; ``compute_dtype`` is that of a calculation."""
BF16_NAMES = ("bf16", "use_bf16", "bfloat16", "use_bfloat16", "is_bf16")


def forgotten_dtypes(project: Project) -> Iterator[Draft]:
    for document in project.checked_documents(LOADERS, ("dtype",), ("16",)):
        if is_test(document.path):
            continue
        module = names_of(project, document)
        yield from _forgetful_choices(module)
        for name in LOADERS:
            for call in module.calls_by_name.get(name, []):
                load = load_at(project, module, call)
                if load is not None:
                    yield from _compute_dtypes(project, load)


# --- torch.float16 if fp16 or bf16 else torch.float32 -----------------------------------------------------------------


def _forgetful_choices(module: ModuleNames) -> Iterator[Draft]:
    if not module.mentions("bf16", "bfloat16"):
        return
    for node in module.nodes:
        if isinstance(node, ast.IfExp) and _names_dtype(module, node):
            asked = _asked_for(node.test)
            if asked is not None and _is_half(module, node.body) and _is_open(module, node, asked):
                yield _forgetful(module, node.body, asked, "()")
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_half(module, node.value):
            branch = module.parents[node]
            asked = _asked_for(branch.test) if isinstance(branch, ast.If) and node in branch.body else None
            if asked is not None and _is_dtype_target(node.targets[0]) and _is_open(module, branch, asked):
                yield _forgetful(module, node.value, asked, "  ")


def _forgetful(module: ModuleNames, half: ast.expr, asked: ast.expr, around: str) -> Draft:
    """``around``: the parentheses that the choice needs where ``half`` stands."""
    text, span = ast.unparse(asked), module.document.span(half)
    fixes: tuple[Fix, ...] = ()
    if isinstance(half, ast.Attribute) and ast.unparse(half.value) == "torch":
        message = f"choose bfloat16 where {text} asks for it"
        parts = (f"{around[0]}torch.bfloat16 if {text} else ".lstrip(" "), span, around[1].strip())
        edits = (module.replace(span, *parts),)
        fixes = (Fix.unsafe("bfloat16-too", message, *edits),)
    evidence = (module.place(asked, "this asks for bfloat16"),)
    return Draft.at(module, half, f"float16 is chosen although {text} asks for bfloat16", evidence, fixes)


def _asked_for(test: ast.expr) -> ast.expr | None:
    """The part of a condition that alone makes it true and is called like bfloat16's switch, beside others that do."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.Or):
        return None
    return next((item for item in test.values if (attribute_chain(item) or [""])[-1] in BF16_NAMES), None)


def _is_half(module: ModuleNames, node: ast.expr) -> bool:
    return module.qualified(node) in ("torch.float16", "torch.half")


def _is_open(module: ModuleNames, node: ast.AST, asked: ast.expr) -> bool:
    """Whether the switch can still be on where ``node`` runs."""
    return (ast.unparse(asked), False) not in guard_facts(module, node)


def _names_dtype(module: ModuleNames, node: ast.IfExp) -> bool:
    parent = module.parents[node]
    if isinstance(parent, ast.keyword):
        return parent.arg in ("torch_dtype", "dtype")
    return isinstance(parent, ast.Assign) and len(parent.targets) == 1 and _is_dtype_target(parent.targets[0])


def _is_dtype_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in ("torch_dtype", "dtype")
    return (attribute_chain(node) or [""])[-1] in DTYPE_NAMES


# --- a dtype chosen at run time, and weights in four bits that compute in float16 -------------------------------------


def _compute_dtypes(project: Project, load: Load) -> Iterator[Draft]:
    chosen, config = load.node, load.given.values.get("quantization_config")
    if config is None or not isinstance(chosen, ast.Name) or not load.module.mentions("train"):
        return
    made_by = creations_of(project, load.module, config)
    if len(made_by) != 1 or made_by[0].module is not load.module:
        return
    compute = keywords_of(load.module, made_by[0].call).values.get("bnb_4bit_compute_dtype")
    if compute is None or literal_of(load.module, compute) is not compute or not _is_half(load.module, compute):
        return
    found = _dtypes(project, load.module, chosen)
    if BF16 not in found or len(found) < 2:
        return
    message = f"the 4-bit weights compute in float16 whatever {chosen.id} is, which can be bfloat16"
    evidence = (load.module.place(chosen, f"the rest of the model is loaded in {chosen.id}"),)
    yield Draft.at(load.module, compute, message, evidence, _forwarded(load.module, compute, chosen))


def _forwarded(module: ModuleNames, compute: ast.expr, chosen: ast.Name) -> tuple[Fix, ...]:
    same_scope = module.scope_of(chosen) is module.scope_of(compute)
    if not means_the_same(module, chosen, compute) and not (same_scope and is_bound_at(module, chosen.id, compute)):
        return ()
    edit = module.replace(compute, chosen.id)
    return (Fix.unsafe("computed-dtype", f"compute in {chosen.id} too", edit),)


def _dtypes(project: Project, module: ModuleNames, node: ast.expr) -> set[Dtype]:
    found = {as_dtype(value) for value in constants_of(project, module, node)}
    return {item for item in found if isinstance(item, Dtype)}
