"""``torch.float16 if fp16 or bf16 else torch.float32``: a choice of the weights' dtype that forgets bfloat16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.purpose.checked import checked_code
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import guard_facts
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS

DTYPE_NAMES = ("dtype", "torch_dtype", "weight_dtype", "model_dtype", "load_dtype")
"""How the dtype of weights is called; ``compute_dtype`` is that of a calculation."""
BF16_NAMES = ("bf16", "use_bf16", "bfloat16", "use_bfloat16", "is_bf16")


def forgotten_dtypes(project: Project) -> Iterator[Draft]:
    for module in checked_code(project, LOADERS, ("dtype",), ("16",)):
        yield from _forgetful_choices(module)


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
