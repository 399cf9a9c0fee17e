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

## Off by default

`extend-select = ["PF307"]` switches it on. Of the projects in which readers met it, most stand still on the releases
that apex was built for, or have torch's own AMP behind the next setting: nobody will port them.

## Not flagged

`apex.optimizers`, `apex.normalization`, `apex.parallel`; a package of the project that is called apex; a name that
another import takes over. One finding for each project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...codemod.model import Finding, Rule
from ...codemod.purpose.runs import project_folder
from ...codemod.python.names import ModuleNames, attribute_chain, names_of
from ...codemod.source.project import Project

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
        found.setdefault(project_folder(project, document.path), []).extend(_uses(module))
    for folder in sorted(found):
        uses = sorted(found[folder], key=lambda use: (use.module.path, use.node.lineno, use.node.col_offset))
        if uses:
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


def _finding(uses: Sequence[Use]) -> Finding:
    """One port for all of a project: told where its first file, by path, sets apex up."""
    here = [use for use in uses if use.module is uses[0].module]
    told = next((use for use in here if use.name == "apex.amp.initialize"), here[0])
    others = [use for use in uses if use is not told]
    evidence = [use.module.place(use.node, f"{use.name} is used here") for use in others[:MAX_EVIDENCE]]
    message = f"{told.name} comes from apex, whose amp is no longer maintained: torch.amp has autocast and GradScaler"
    return rule.at(told.module, told.node, message, evidence)


rule = Rule.of("PF307", check)
