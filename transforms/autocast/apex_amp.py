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
choice that may be missing (`except ImportError`), in a project that has torch's own autocast or GradScaler as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...codemod.model import Finding, Rule
from ...codemod.python.names import ModuleNames, attribute_chain, names_of
from ...codemod.source.project import Project
from ...codemod.torch.autocast import autocasts
from ...codemod.torch.scalers import scalers

WORDS = ("apex",)
PREFIXES = ("apex.amp.", "apex.fp16_utils.")
OTHERS = ("apex.optimizers.FP16_Optimizer", "apex.contrib.optimizers.FP16_Optimizer")
MAX_EVIDENCE = 20


def check(project: Project) -> Iterator[Finding]:
    if not project.python_paths(WORDS) or project.python_path("apex") or project.python_path("apex.amp"):
        return
    for document in project.checked_documents(containing=WORDS):
        module = names_of(project, document)
        uses = [use for use in _uses(module) if not _is_one_choice(project, module, use[1])]
        if uses:
            yield _finding(module, uses)


def _uses(module: ModuleNames) -> list[tuple[str, ast.Name | ast.Attribute]]:
    """(qualified name, node) of every use of apex's AMP, in source order."""
    found = []
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            qualified = module.qualified(node)
            inner = isinstance(module.parents[node], ast.Attribute)
            ours = qualified is not None and not inner and qualified.startswith((*PREFIXES, *OTHERS))
            if qualified is not None and ours and not _is_imported_again(module, node):
                found.append((qualified, node))
    return sorted(found, key=lambda use: (use[1].lineno, use[1].col_offset))


def _is_imported_again(module: ModuleNames, node: ast.Name | ast.Attribute) -> bool:
    """Whether another import gives the same name to something else, such as ``import torch.cuda.amp as amp``."""
    chain = attribute_chain(node) or [""]
    imports = [item for item in module.scope_of(node).lookup(chain[0]) if item.kind == "import"]
    return any(not (item.qualified or "").startswith("apex") for item in imports)


def _is_one_choice(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether apex may be missing (its import is allowed to fail) and the project has torch's own AMP as well."""
    chain = attribute_chain(node) or [""]
    imports = [binding.node for binding in module.scope_of(node).lookup(chain[0]) if binding.kind == "import"]
    optional = bool(imports) and all(_may_fail(module, statement) for statement in imports)
    return optional and bool(autocasts(project) or any(item.api for item in scalers(project)))


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


def _finding(module: ModuleNames, uses: Sequence[tuple[str, ast.Name | ast.Attribute]]) -> Finding:
    name, node = next((use for use in uses if use[0] == "apex.amp.initialize"), uses[0])
    evidence = [
        module.place(other, f"{qualified} is used here")
        for qualified, other in uses[:MAX_EVIDENCE]
        if other is not node
    ]
    return rule.at(module, node, _message(module, name, node), evidence)


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
