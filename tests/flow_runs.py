"""Interprets small functions by the dtype flow and says in words what they return and what met in them."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

from precfix.codemod.flow.analysis import Interpretation, flow_of
from precfix.codemod.flow.encounters import meetings as meetings_of
from precfix.codemod.flow.lattice import Atom, Kind, Value
from precfix.codemod.python.names import FunctionNode, names_of
from precfix.codemod.source.project import Project

from .rule_runs import written

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def opened(folder: Path, source: str, **others: str) -> Project:
    """A project with ``main.py`` (torch is imported for it) and other files by their module name."""
    files = {f"{name}.py": HEAD + dedent(text) for name, text in others.items()}
    return written(folder, {"main.py": HEAD + dedent(source), **files})


def interpreted(project: Project, name: str, path: str = "main.py") -> Interpretation:
    """The interpretation of the function called ``name``."""
    document = project.document(path)
    assert document is not None
    module = names_of(project, document)
    nodes = [node for node in ast.walk(module.tree) if isinstance(node, FunctionNode) and node.name == name]
    return flow_of(project).function(module, nodes[-1])


def returns(folder: Path, source: str, name: str = "f", **others: str) -> str:
    """What the function returns: the words for each way, joined by ``|``; ``unknown`` where nothing is known."""
    return told(interpreted(opened(folder, source, **others), name).returned)


def told(value: Value) -> str:
    """A value in words: dtypes, symbols, the kind of what is no tensor."""
    if value.kind not in (Kind.TENSOR, Kind.DTYPE, Kind.MODULE):
        return value.kind.value
    return "|".join(sorted(_word(atom) for atom in value.atoms)) or "unknown"


def _word(atom: Atom) -> str:
    if atom.dtype is not None:
        return atom.dtype.name
    word = atom.symbol.split(" of ")[0]
    return word.split(":")[-1] if atom.role is not None and atom.role.value == "data" else word


def meetings(folder: Path, source: str, **others: str) -> list[str]:
    """``<odd> meets <meant>`` for every meeting of the project."""
    found = meetings_of(opened(folder, source, **others))
    return [f"{ast.unparse(item.odd.node)} meets {ast.unparse(item.meant.node)}" for item in found]
