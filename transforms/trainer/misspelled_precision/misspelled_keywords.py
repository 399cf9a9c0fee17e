"""Keywords for a precision that the called class or function does not have: each is a ``TypeError``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....codemod.model import Draft
from ....codemod.proof.needs import RAISES
from ....codemod.proof.proving import proved
from ....codemod.purpose.checked import checked_code
from ....codemod.python.caught import is_caught
from ....codemod.python.class_fields import declared_fields
from ....codemod.python.functions import all_bases, class_of, lineage
from ....codemod.python.names import ModuleNames, Scope, last_name, resolve
from ....codemod.python.precision_words import HALVES
from ....codemod.source.project import Project
from ....codemod.torch.autocast import APIS as AUTOCASTS
from ....codemod.torch.scalers import APIS as SCALERS
from ....codemod.trainers.reading.declarations import scope_of_call
from .misspellings import respelled
from .slips import SPELLING

MEANT = {
    "mixed_precision": ("precision", "mix_precision", "mixedprecision", "mixed_prec", "mixed_precison"),
    "precision": ("percision",),
    "bf16": ("bf_16", "bfp16", "bfloat16", "b_f16"),
    "fp16": ("fp_16", "float16", "f16"),
}
"""Right keyword -> what people write for it, beside slips of the hand."""
WORDS = frozenset({*HALVES, "precision", "dtype", "amp", "autocast", "tf32"})
CALLED = ("Accelerator(", "Fabric(", "Trainer(", "Config(", "Arguments(", "Args(", "Settings(", "Options(", "Plugin(")
"""Ends of the names of classes that hold settings; a file without any is not read."""
OF_SCALING = ("caler(", "ScalerKwargs(", "autocast(")
SCALING = ("torch.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.GradScaler")
HANDLERS = ("accelerate.GradScalerKwargs", "accelerate.utils.GradScalerKwargs")
ENTERED = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")
SIGNATURES = {
    **{name: SCALERS[name].names for name in SCALING},
    **dict.fromkeys(HANDLERS, SCALERS["torch.cuda.amp.GradScaler"].names),
    **{name: ("device_type", *AUTOCASTS[name].names) for name in ENTERED},
    **{name: ("device", "device_type", *AUTOCASTS[name].names) for name in ENTERED[:2]},
}
"""The keywords of each; a device in any form is PF303's."""
SIMPLE = (ast.AnnAssign, ast.Expr, ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign, ast.Pass)
"""Statements of a class body that add no field unseen."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    """What the project's own class takes, and where that is written."""

    module: ModuleNames
    node: ast.AST
    names: frozenset[str]


def unknown_keywords(project: Project) -> Iterator[Draft]:
    """Keywords for a precision that nothing accepts."""
    for module in checked_code(project, ("precision", "fp16", "bf16", "float16"), CALLED):
        for call in module.calls:
            for item in call.keywords:
                if item.arg is not None and _is_about_precision(item.arg):
                    yield from _of_library(project, module, call, item)
                    yield from _of_project(project, module, call, item)


def unknown_to_torch(project: Project) -> Iterator[Draft]:
    """``GradScaler(backoff=0.5)``, ``torch.autocast("cuda", enable=True)``: keywords that these do not have."""
    for module in checked_code(project, ("GradScaler", "autocast"), OF_SCALING):
        for call in module.calls:
            named = isinstance(call.func, ast.Name | ast.Attribute) and not module.is_ambiguous(call.func)
            known = SIGNATURES.get(resolve(project, module, call.func) or "") if named else None
            wrong = [item for item in call.keywords if known is not None and item.arg not in (None, *known)]
            if wrong and not is_caught(module, call, "TypeError"):
                yield from (_unknown(module, call, item, known or ()) for item in wrong)


def _unknown(module: ModuleNames, call: ast.Call, item: ast.keyword, known: Sequence[str]) -> Draft:
    name = item.arg or ""
    near = [other for other in known if other.split("_")[0] == name.split("_")[0]]
    ends = f"; did you mean {near[0]}?" if len(near) == 1 else ""
    return Draft.at(module, item, f"{last_name(call.func)} has no keyword {name} (TypeError){ends}")


def _is_about_precision(name: str) -> bool:
    meant = respelled(name) or name
    return not WORDS.isdisjoint(meant.lower().split("_")) or any(name in wrong for wrong in MEANT.values())


def _of_library(project: Project, module: ModuleNames, call: ast.Call, item: ast.keyword) -> Iterator[Draft]:
    scope, name = scope_of_call(project, call), item.arg or ""
    leading = [key for key in scope.framework.keys if key.means] if scope is not None else []
    taken = [argument for key in leading for argument in key.arguments]
    for right in taken if name not in taken else ():
        if right in MEANT and (respelled(name) == right or name in MEANT[right]):
            what = ast.unparse(call.func).rpartition(".")[2]
            yield _slip(
                project, module, call, item, right, f"{what} has no keyword {name} (TypeError); did you mean {right}?"
            )


def _slip(project: Project, module: ModuleNames, call: ast.Call, item: ast.keyword, right: str, message: str) -> Draft:
    fixes = []
    if not any(other.arg in (right, None) for other in call.keywords):
        edit = module.name_argument(call, item.arg or "", right)
        fixes.append(proved(project, SPELLING, f"pass {right}=", [edit], RAISES))
    return Draft.at(module, item, message, fixes=fixes)


# --- the project's own dataclasses ------------------------------------------------------------------------------------


def _of_project(project: Project, module: ModuleNames, call: ast.Call, item: ast.keyword) -> Iterator[Draft]:
    name = item.arg or ""
    if isinstance(call.func, ast.Name | ast.Attribute) and not last_name(call.func)[:1].isupper():
        return
    accepted = _accepted(project, module, call.func)
    if accepted is None or name in accepted.names:
        return
    near = [other for other in accepted.names if respelled(name) == other]
    what = ast.unparse(call.func)
    message = f"{what} has no field {name} (TypeError)"
    place = accepted.module.place(accepted.node, f"the fields of {what}")
    if len(near) == 1:
        slip = _slip(project, module, call, item, near[0], f"{message}; did you mean {near[0]}?")
        yield slip._replace(evidence=(place,))
    else:
        yield Draft.at(module, item, message, [place])


def _accepted(project: Project, module: ModuleNames, func: ast.expr) -> _Accepted | None:
    """The fields of a dataclass of the project whose bases are all dataclasses of the project."""
    found = class_of(project, module, func)
    classes = list(lineage(project, *found)) if found is not None else []
    if found is None or len(list(all_bases(project, *found))) >= len(classes):
        return None
    if not all(_only_has_fields(*item) for item in classes):
        return None
    names = frozenset(name for _, owner in classes for name in declared_fields(owner.node))
    return _Accepted(found[0], found[1].node, names)


def _only_has_fields(module: ModuleNames, owner: Scope) -> bool:
    node = owner.node
    if not isinstance(node, ast.ClassDef) or node.keywords or not _is_dataclass(module, node):
        return False
    return not {"__init__", "__new__"} & set(owner.bindings) and all(isinstance(item, SIMPLE) for item in node.body)


def _is_dataclass(module: ModuleNames, node: ast.ClassDef) -> bool:
    if len(node.decorator_list) != 1:
        return False
    decorator = node.decorator_list[0]
    if isinstance(decorator, ast.Call):
        if any(item.arg == "init" for item in decorator.keywords):
            return False
        decorator = decorator.func
    return module.qualified(decorator) == "dataclasses.dataclass"
