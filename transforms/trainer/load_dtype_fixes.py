"""What can be written instead of the dtype that a model is loaded in."""

from __future__ import annotations

import ast

from ...codemod.model import Edit, Fix
from ...codemod.proof.needs import SameResult
from ...codemod.proof.proving import proved
from ...codemod.python.names import ModuleNames
from ...codemod.python.visible import means_the_same
from ...codemod.source.project import Project
from ...codemod.torch.api import LOAD_KEYS
from ...codemod.torch.dtypes import BF16, Dtype
from ...codemod.trainers.reading.loads import Load, literal_of


def place_of(module: ModuleNames, node: ast.expr) -> ast.expr:
    """Where a dtype is to be changed: where it is written out, if nothing else reads that variable; else ``node``."""
    literal = literal_of(module, node)
    if literal is None or not isinstance(node, ast.Name):
        return node
    bindings = module.bindings_of(node)
    reads = [load for load in module.name_loads.get(node.id, []) if module.scope_of(load).lookup(node.id) is bindings]
    return literal if len(reads) == 1 else node


def replaced(module: ModuleNames, node: ast.expr, text: str) -> Edit:
    """The edit that writes ``text`` where the dtype is to be changed."""
    return module.replace(place_of(module, node), text)


def retype(module: ModuleNames, node: ast.expr, dtype: Dtype) -> Edit | None:
    """The edit that makes a dtype that is written out another one, in the spelling it has; None where there is none."""
    literal = literal_of(module, node)
    if isinstance(literal, ast.Attribute):
        return replaced(module, node, f"{ast.unparse(literal.value)}.{dtype.name}")
    if not isinstance(literal, ast.Constant) or not isinstance(literal.value, str):
        return None
    prefix = "torch." if literal.value.startswith("torch.") else ""
    quote = "'" if module.source(literal).startswith("'") else '"'
    return replaced(module, node, f"{quote}{prefix}{dtype.name}{quote}")


def as_trained(module: ModuleNames, node: ast.expr, dtype: Dtype, message: str) -> tuple[Fix, ...]:
    """``trainer-dtype``: the load gets ``dtype``."""
    edit = retype(module, node, dtype)
    return (Fix.unsafe("trainer-dtype", message, edit),) if edit is not None else ()


def by_hardware(module: ModuleNames, node: ast.expr, asked: ast.expr) -> tuple[Fix, ...]:
    """``trainer-dtype`` where the trainer asks the machine: the load asks it too, and takes float32 without."""
    literal = literal_of(module, node)
    if not isinstance(literal, ast.Attribute) or not means_the_same(module, asked, place_of(module, node)):
        return ()
    torch = ast.unparse(literal.value)
    text = f"{torch}.bfloat16 if {ast.unparse(asked)} else {torch}.float32"
    message = "bfloat16 where the machine has it, as the trainer computes in, else float32"
    return (Fix.unsafe("trainer-dtype", message, replaced(module, node, text)),)


def let_unsloth_choose(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Fix, ...]:
    """``automatic`` for Unsloth: None takes bfloat16 where the GPU has it, else float16."""
    if literal_of(module, node) is None:
        return ()
    message = "let Unsloth choose: bfloat16 where the GPU has it, else float16, as the trainer does"
    why = SameResult("Unsloth raises where the two differ")
    return (proved(project, "automatic", message, [replaced(module, node, "None")], why),)


def to_bf16(load: Load) -> tuple[Edit, ...]:
    """The edits that make a load take bfloat16, whether or not it says a dtype; none where they cannot be written."""
    module = load.module
    if load.dtypes and load.node is not None:
        edit = retype(module, load.node, BF16)
        return (edit,) if edit is not None else ()
    known = module.scope_of(load.call).lookup("torch")
    if known and [item.qualified for item in known] != ["torch"]:
        return ()
    key = next((name for name in LOAD_KEYS if name in load.given.values), LOAD_KEYS[0])
    passed = module.set_argument(load.call, key, "torch.bfloat16")
    return (passed,) if known else (module.add_import("import torch"), passed)
