"""Dtypes that are written down, and how they are written where the machine chooses them."""

from __future__ import annotations

import ast

from ....codemod.model import Edit, EditRefused
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16, HALVES, Constant, Dtype
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.source import ValueSource
from ....codemod.trainers.writing.machine_choice import MachineQuestion, question

WORDS = tuple(dtype.name for dtype in HALVES)


def half_of(value: Constant) -> Dtype | None:
    """The 16-bit type that ``torch.float16`` or ``"float16"`` is; None for others."""
    if isinstance(value, str):
        return Dtype(value) if value in WORDS else None
    return value if isinstance(value, Dtype) and value in HALVES else None


def either_half(asked: MachineQuestion, like: Constant = BF16) -> str:
    """``torch.bfloat16 if USE_BF16 else torch.float16``; of texts where ``like`` is one."""
    if isinstance(like, str):
        return asked.choice(f'"{BF16.name}"', f'"{FP16.name}"')
    return asked.choice(f"{asked.torch}.{BF16.name}", f"{asked.torch}.{FP16.name}")


def edits_at_sources(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Edit, ...]:
    """The edits that let the machine choose wherever ``node`` has its 16-bit type from. Raises EditRefused."""
    found = [item for item in sources(project, module, node) if half_of(item.value) is not None]
    if not found:
        raise EditRefused(f"{ast.unparse(node)} is decided elsewhere")
    edits: list[Edit] = []
    for source in found:
        other, literal = _literal_at(project, source)
        asked = question(project, other, [literal], exact=False)
        edits += [module.replace(source.span, either_half(asked, source.value)), *asked.edits]
    return tuple(dict.fromkeys(edits))


def _literal_at(project: Project, source: ValueSource) -> tuple[ModuleNames, ast.expr]:
    document = project.document(source.path) if source.config is None and not source.quote else None
    if document is not None:
        module = names_of(project, document)
        for node in module.nodes:
            if isinstance(node, ast.expr) and document.span(node) == source.span:
                return module, node
    raise EditRefused(f"{source.key} is written where the machine cannot be queried")
