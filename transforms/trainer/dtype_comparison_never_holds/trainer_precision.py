"""Comparisons of a Lightning Trainer's ``precision`` with the names that Lightning 1 had for it.

From 2.0 on ``trainer.precision`` is the new name, whatever the Trainer was given: ``"16-mixed"`` for ``precision=16``
(``_convert_precision_to_unified_args``; checked with 2.6).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.python.creations import creations_of
from ....codemod.python.functions import all_bases
from ....codemod.python.names import ModuleNames, last_name, modules_with, resolve
from ....codemod.releases.pins import allowed, certainly_has
from ....codemod.source.project import Project
from ....codemod.torch.api import LIGHTNING

NEW_NAMES = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}
SINCE = "2.0"
HOLDERS = ("LightningModule", "Callback", "LightningDataModule")
"""Classes of Lightning whose ``self.trainer``, or whose methods' ``trainer``, is the Trainer."""


def old_names_of_precision(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``trainer.precision not in [16, "bf16"]`` under Lightning 2."""
    compared = [item for item in module.of_type(ast.Compare) if _precision_of(item) is not None]
    if any(word in _words(item) for item in compared for word in NEW_NAMES.values()):
        return  # the file knows both
    for node in compared:
        trainer, words = _precision_of(node), _words(node)
        if trainer is None or not words or not NEW_NAMES.keys() >= set(words):
            continue
        if _is_trainer(project, module, trainer) and _is_new(project, module):
            verb = "is always true" if isinstance(node.ops[0], ast.NotEq | ast.NotIn) else "is never true"
            named = ", ".join(dict.fromkeys(repr(NEW_NAMES[word]) for word in words))
            message = f"since Lightning {SINCE} a Trainer calls its precision {named}: this {verb}"
            yield Draft.at(module, node, message, fixes=[_renamed(module, node)])


def _precision_of(node: ast.Compare) -> ast.expr | None:
    """The Trainer whose precision one comparison asks for."""
    owner = node.left.value if isinstance(node.left, ast.Attribute) and node.left.attr == "precision" else None
    while isinstance(owner, ast.Attribute) and owner.attr in ("precision_plugin", "strategy"):
        owner = owner.value
    return owner if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn) else None


def _compared(node: ast.Compare) -> list[ast.expr]:
    other = node.comparators[0]
    if isinstance(other, ast.List | ast.Tuple | ast.Set):
        return other.elts
    return [other] if isinstance(node.ops[0], ast.Eq | ast.NotEq) else []


def _words(node: ast.Compare) -> list[str]:
    """What is compared with, as text; an empty one for anything but names of precisions."""
    return [str(item.value) if isinstance(item, ast.Constant) else "" for item in _compared(node)]


def _is_new(project: Project, module: ModuleNames) -> bool:
    """Whether no older Lightning is allowed, or none is named and a Trainer has a name that those refuse."""
    used, path = module.imported_packages.intersection(LIGHTNING), module.document.path
    unknown = all(allowed(project, name, path) is None for name in used) and project.fact(_gives_new_name)
    return bool(used) and (unknown or all(certainly_has(project, name, SINCE, path) for name in used))


def _gives_new_name(project: Project) -> bool:
    modules = modules_with(project, NEW_NAMES.values())
    calls = ((module, call) for module in modules for call in module.calls_by_name.get("Trainer", ()))
    given = [(module, call, item.value) for module, call in calls for item in call.keywords if item.arg == "precision"]
    return any(
        isinstance(value, ast.Constant)
        and value.value in NEW_NAMES.values()
        and _is_of_lightning(resolve(project, module, call.func) or "", ("Trainer",))
        for module, call, value in given
    )


def _is_trainer(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    name = last_name(node)
    owner = module.scope_of(node).enclosing_class
    if name == "trainer" and owner is not None:
        bases = [resolve(project, *base) or "" for base in all_bases(project, module, owner)]
        if any(_is_of_lightning(base, HOLDERS) for base in bases):
            return True
    made = creations_of(project, module, node)
    called = [resolve(project, item.module, item.call.func) or "" for item in made]
    return bool(called) and all(_is_of_lightning(item, ("Trainer",)) for item in called)


def _is_of_lightning(qualified: str, names: tuple[str, ...]) -> bool:
    return qualified.partition(".")[0] in LIGHTNING and qualified.rpartition(".")[2] in names


def _renamed(module: ModuleNames, node: ast.Compare) -> Fix:
    edits = [
        module.replace(item, f'"{NEW_NAMES[word]}"') for item, word in zip(_compared(node), _words(node), strict=True)
    ]
    return Fix.unsafe("name", "compare with the new name; what never ran begins to run", *edits)
