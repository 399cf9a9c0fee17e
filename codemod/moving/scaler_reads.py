"""Reads of what a trainer has for the type of today alone: its scaler, its switches."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..model import Place
from ..outcome import RunReport
from ..python.functions import all_bases, attribute_bindings, called_function, lineage
from ..python.names import ModuleNames, modules_at, modules_with, resolve
from ..python.paths import guards
from ..python.scopes import last_name
from ..source.project import Project
from ..torch.dtypes import DTYPE_WORDS, HALVES, Dtype
from ..trainers.reading.declarations import scope_of_call
from ..trainers.reading.stated_words import speaks
from .pairs import UNKNOWN

SCALER = "scaler"
OF_TRAINERS = ("accelerator", "precision_plugin")
"""What has the scaler of a trainer (accelerate, Lightning), whatever else a project calls one."""
OF_SCALERS = (
    *("get_scale", "scale", "step", "unscale_", "update", "is_enabled"),
    *("get_growth_factor", "get_growth_interval", "get_backoff_factor"),
)
"""Methods of a GradScaler."""
NO_SCALER = "reads the scaler, which the trainer makes for fp16-mixed only"
NONE_INHERITED = "reads the scaler, which the Trainer has in some 16-bit runs only"
TRAINER = "trainer"
OF_TRANSFORMERS = ("transformers.", "trl.", "sentence_transformers.")
SWITCHES = ("use_cuda_amp", "use_amp", "do_grad_scaling")
HOLDING = ("dict", "Namespace", "print")
"""What computes nothing with what it is passed."""
OF_RELEASES = "is a switch of the Trainer, which bfloat16 turns on in some releases only"
SCALED = ("fp16-mixed", UNKNOWN)
"""What a run can compute in that has a scaler."""


def old_switches(project: Project, paths: Sequence[str], before: RunReport, wanted: Dtype | None) -> Iterator[Place]:
    """Where the code of a run passes on the switch that has gone off, alone: ``GradCache(fp16=self.args.fp16)``.

    And where it reads the switches of a Trainer of transformers, which bfloat16 turns on in some releases only.
    """
    wins = [entry.declaration.key for entry in before.entries if entry.status == "wins"]
    names = {key.rpartition(".")[2].lstrip("-").replace("-", "_") for key in wins}
    names = {name for name in names if name in DTYPE_WORDS and DTYPE_WORDS[name] != wanted}
    for module in modules_at(project, paths) if paths and wanted in HALVES else ():
        for node in (node for name in names for node in module.attribute_loads.get(name, ())):
            keyword = module.parents.get(node)
            call = module.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
            if not isinstance(keyword, ast.keyword) or not isinstance(call, ast.Call) or not speaks(keyword.arg or ""):
                continue
            if scope_of_call(project, call) is not None or last_name(call.func) in HOLDING:
                continue
            others = (DTYPE_WORDS.get(last_name(item)) for each in call.keywords for item in ast.walk(each.value))
            if wanted not in others and called_function(project, module, call) is None:
                yield module.place(keyword.value, f"{ast.unparse(keyword)} passes on a switch that goes off")
        for name in SWITCHES:
            for node in module.attribute_loads.get(name, ()):
                if _is_inherited(project, module, node):
                    yield module.place(node, f"{ast.unparse(node)} {OF_RELEASES}")


def scaler_reads(project: Project, paths: Sequence[str], before: str) -> Iterator[Place]:
    """Where the code of a run uses ``accelerator.scaler``, with no test of it or of the precision around.

    A Trainer of transformers has no such attribute at all where it needs none, in some releases also under bfloat16.
    """
    for module in modules_at(project, paths) if paths else ():
        for node in module.of_type(ast.Attribute) if SCALER in module.document.text else ():
            if node.attr != SCALER or not isinstance(node.ctx, ast.Load):
                continue
            inherited = _is_inherited(project, module, node)
            uses = [node] if inherited else _uses(module, node) if before in SCALED else ()
            used = any(not _is_guarded(module, item) for item in uses)
            if used and (inherited or _is_made_elsewhere(project, node)):
                yield module.place(node, f"{ast.unparse(node)} {NONE_INHERITED if inherited else NO_SCALER}")


def _is_inherited(project: Project, module: ModuleNames, node: ast.Attribute) -> bool:
    """Whether it is read of a subclass of a Trainer of transformers that stores none, or of ``trainer``."""
    if not isinstance(node.value, ast.Name):
        return last_name(node.value) == TRAINER and not project.fact(_gives_scalers)
    owner = next((item for item in module.ancestors(node) if isinstance(item, ast.ClassDef)), None)
    if node.value.id != "self" or owner is None:
        return node.value.id == TRAINER and not project.fact(_gives_scalers)
    scope = module.scopes[owner]
    if attribute_bindings(project, module, scope, node.attr)[1] or any(
        node.attr in each.bindings for _, each in lineage(project, module, scope)
    ):
        return False
    named = (resolve(project, *base) or "" for base in all_bases(project, module, scope))
    return any(name.startswith(OF_TRANSFORMERS) and name.endswith("Trainer") for name in named)


def _uses(module: ModuleNames, node: ast.Attribute) -> Iterator[ast.expr]:
    """Where a method of it is called: right there, or of the variable that it is given to."""
    above = module.parents.get(node)
    held: list[ast.expr] = [node]
    if isinstance(above, ast.Assign | ast.NamedExpr):
        targets = above.targets if isinstance(above, ast.Assign) else [above.target]
        for target in (item for item in targets if isinstance(item, ast.Name)):
            bound = module.bindings_of(target)
            loads = module.name_loads.get(target.id, ())
            held += [item for item in loads if module.scope_of(item).lookup(target.id) is bound]
    for item in held:
        method = module.parents.get(item)
        if isinstance(method, ast.Attribute) and method.attr in OF_SCALERS:
            yield item


def _is_guarded(module: ModuleNames, used: ast.expr) -> bool:
    tests = [item.test for item in guards(module, used)]
    tried = any(isinstance(above, ast.Try) for above in module.ancestors(used))
    names = {SCALER, last_name(used)}
    asked = (last_name(item) for test in tests for item in ast.walk(test))
    return tried or any(name in names for name in asked) or any(speaks(ast.unparse(test)) for test in tests)


def _is_made_elsewhere(project: Project, node: ast.Attribute) -> bool:
    """Whether a trainer makes the scaler: it is known to, or no code of the project gives anything one."""
    return last_name(node.value) in OF_TRAINERS or not project.fact(_gives_scalers)


def _gives_scalers(project: Project) -> bool:
    modules = [*modules_with(project, (SCALER,))]
    stored = (item for module in modules for item in module.of_type(ast.Attribute))
    held = (module.scopes[node] for module in modules for node in module.scopes if isinstance(node, ast.ClassDef))
    return any(item.attr == SCALER and isinstance(item.ctx, ast.Store) for item in stored) or any(
        SCALER in scope.bindings for scope in held
    )
