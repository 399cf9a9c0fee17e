"""Whether a project's weights can be 16-bit at all: then "the dtype of the weights" can be a 16-bit type."""

from __future__ import annotations

import ast

from ..python.names import ModuleNames, names_of
from ..source.facts import fact
from ..source.project import Project

METHODS = ("half", "bfloat16")
"""Casts of modules."""
NAMES = ("torch_dtype", "weight_dtype", "param_dtype", "16-true", "model_dtype")
"""Parts of names and texts that say in which dtype to load or keep weights."""
TYPES = ("torch.float16", "torch.bfloat16")


@fact
def weights_can_be_half(project: Project) -> bool:
    """Whether any Python file of the project speaks of 16-bit weights. Autocast alone leaves weights in float32.

    What docstrings and comments say does not count.
    """
    casting = project.python_documents((*(f".{name}()" for name in METHODS), *NAMES))
    if any(_casts(names_of(project, document)) for document in casting):
        return True
    named = project.python_documents(("float16",), TYPES, where=lambda text: "autocast" not in text)
    return any(_names_types(names_of(project, document)) for document in named)


def speaks_of_half_weights(module: ModuleNames) -> bool:
    """Whether a file casts to 16 bits, or says in which 16-bit type weights are loaded or kept."""
    return _casts(module) or _names_types(module)


def _casts(module: ModuleNames) -> bool:
    calls = (call for name in METHODS for call in module.calls_by_name.get(name, []))
    if any(isinstance(call.func, ast.Attribute) and not call.args for call in calls):
        return True
    return any(word in text for node in module.nodes for text in _texts(module, node) for word in NAMES)


def _texts(module: ModuleNames, node: ast.AST) -> tuple[str, ...]:
    """The names and strings that a node says; a docstring says nothing."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return (name.lower(),)
        case ast.keyword(arg=str(name)):
            return (name.lower(),)
        case ast.Constant(value=str(text)) if not isinstance(module.parents.get(node), ast.Expr):
            return (text.lower(),)
    return ()


def _names_types(module: ModuleNames) -> bool:
    return any(module.attribute_loads.get(name.rpartition(".")[2]) or _is_quoted(module, name) for name in TYPES)


def _is_quoted(module: ModuleNames, name: str) -> bool:
    return any(name in text for node in module.nodes if isinstance(node, ast.Constant) for text in _texts(module, node))
