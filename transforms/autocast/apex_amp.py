"""Mixed precision comes from apex.amp, which is no longer maintained.

## What goes wrong

`apex.amp` (`amp.initialize`, `amp.scale_loss`, `FP16_Optimizer`, `apex.fp16_utils`) needs an extension built for one
release of PyTorch and CUDA. It knows float16 only, patches functions of PyTorch when it is initialized, and current
releases of apex warn or no longer build.

## Why

NVIDIA's apex marks its amp as deprecated in favor of `torch.amp`, which has been part of PyTorch since 1.6.

## Fix

None is written. `O1` with one loss becomes `torch.autocast("cuda")` around forward pass and loss, with
`torch.amp.GradScaler` for `scale`, `unscale_` (before clipping `amp.master_params`), `step`, `update`. `O2` and `O3`
keep the model itself in float16, and several losses have a scaler each (`num_losses`, `loss_id`): these must be ported
by hand, and so must checkpoints that hold `amp.state_dict()`.

## Not flagged

`apex.optimizers`, `apex.normalization`, `apex.parallel`; a package of the project that is called apex; apex as one
choice that may be missing (`except ImportError`), in a project that has torch's own autocast or GradScaler as well;
apex behind a setting, in a file that takes torch's own AMP where that setting says otherwise. One finding for each
project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...codemod.model import Finding, Rule
from ...codemod.purpose.runs import project_folder
from ...codemod.python.names import ModuleNames, attribute_chain, names_of
from ...codemod.python.paths import guard_facts
from ...codemod.source.project import Project
from ...codemod.torch.autocast import autocasts, autocasts_in
from ...codemod.torch.scalers import scalers

WORDS = ("apex",)
PREFIXES = ("apex.amp.", "apex.fp16_utils.")
OTHERS = ("apex.optimizers.FP16_Optimizer", "apex.contrib.optimizers.FP16_Optimizer")
MAX_EVIDENCE = 20


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One use of apex's AMP."""

    name: str
    """The qualified name of what is used."""
    module: ModuleNames
    node: ast.Name | ast.Attribute


def check(project: Project) -> Iterator[Finding]:
    if not project.python_paths(WORDS) or project.python_path("apex") or project.python_path("apex.amp"):
        return
    found: dict[str, list[Use]] = {}
    for document in project.checked_documents(containing=WORDS):
        module = names_of(project, document)
        uses = [use for use in _uses(module) if not _is_one_choice(project, use)]
        found.setdefault(project_folder(project, document.path), []).extend(uses)
    for folder in sorted(found):
        uses = sorted(found[folder], key=lambda use: (use.module.path, use.node.lineno, use.node.col_offset))
        if uses and not any(_stands_beside(project, use) for use in uses):
            yield _finding(uses)


def _uses(module: ModuleNames) -> Iterator[Use]:
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            qualified = module.qualified(node)
            inner = isinstance(module.parents[node], ast.Attribute)
            ours = qualified is not None and not inner and qualified.startswith((*PREFIXES, *OTHERS))
            if qualified is not None and ours and not _is_imported_again(module, node):
                yield Use(qualified, module, node)


def _is_imported_again(module: ModuleNames, node: ast.Name | ast.Attribute) -> bool:
    """Whether another import gives the same name to something else, such as ``import torch.cuda.amp as amp``."""
    chain = attribute_chain(node) or [""]
    imports = [item for item in module.scope_of(node).lookup(chain[0]) if item.kind == "import"]
    return any(not (item.qualified or "").startswith("apex") for item in imports)


def _is_one_choice(project: Project, use: Use) -> bool:
    """Whether apex may be missing (its import is allowed to fail) and the project has torch's own AMP as well."""
    chain = attribute_chain(use.node) or [""]
    bindings = use.module.scope_of(use.node).lookup(chain[0])
    imports = [binding.node for binding in bindings if binding.kind == "import"]
    optional = bool(imports) and all(_may_fail(use.module, statement) for statement in imports)
    return optional and bool(autocasts(project) or any(item.api for item in scalers(project)))


def _stands_beside(project: Project, use: Use) -> bool:
    """Whether the file has torch's own AMP where what asks for apex does not hold: a setting picks one of the two."""
    asked = guard_facts(use.module, use.node)
    ours: list[ast.AST] = [item.node for item in autocasts_in(project, use.module)]
    ours += [item.call for item in scalers(project) if item.api and item.module is use.module]
    return bool(asked) and any(not asked <= guard_facts(use.module, node) for node in ours)


def _may_fail(module: ModuleNames, statement: ast.AST) -> bool:
    child = statement
    for parent in module.ancestors(statement):
        if isinstance(parent, ast.Try) and child in parent.body:
            return not any(isinstance(item, ast.Raise) for handler in parent.handlers for item in ast.walk(handler))
        if isinstance(parent, ast.If) and any("apex" in name for name in _names(parent.test)):
            return True
        child = parent
    return False


def _names(test: ast.expr) -> Iterator[str]:
    for node in ast.walk(test):
        if isinstance(node, ast.Name | ast.Attribute):
            yield (node.id if isinstance(node, ast.Name) else node.attr).lower()


def _finding(uses: Sequence[Use]) -> Finding:
    """One port for all of a project: told where its first file, by path, sets apex up."""
    here = [use for use in uses if use.module is uses[0].module]
    told = next((use for use in here if use.name == "apex.amp.initialize"), here[0])
    others = [use for use in uses if use is not told]
    evidence = [use.module.place(use.node, f"{use.name} is used here") for use in others[:MAX_EVIDENCE]]
    return rule.at(told.module, told.node, _message(told.module, told.name, told.node), evidence)


def _message(module: ModuleNames, name: str, node: ast.expr) -> str:
    advice = "torch.amp (autocast and GradScaler) replaces it"
    hard = _hard_to_port(module.parents[node])
    if hard:
        advice += f"; {hard} must be ported by hand"
    return f"{name} comes from apex, whose amp is no longer maintained: {advice}"


def _hard_to_port(call: ast.AST) -> str:
    """What of an ``amp.initialize`` call has no simple counterpart."""
    if not isinstance(call, ast.Call):
        return "O2 and several losses"
    given = {item.arg: item.value for item in call.keywords}
    level = given.get("opt_level")
    text = level.value if isinstance(level, ast.Constant) and isinstance(level.value, str) else None
    parts = [] if text in ("O0", "O1") else [f"opt_level {text}" if text else "an opt_level of O2"]
    return " and ".join([*parts, *(["several losses"] if "num_losses" in given or text is None else [])])


rule = Rule.of("PF307", check)
