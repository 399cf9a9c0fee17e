"""Mixed precision is written for a newer PyTorch than any that the manifests allow

## What goes wrong

Installed as the manifests say, the program ends at once: `from torch.amp import GradScaler` raises `ImportError: cannot
import name 'GradScaler' from 'torch.amp'` before PyTorch 2.3, `torch.amp.GradScaler("cuda")` `AttributeError: module
'torch.amp' has no attribute 'GradScaler'`.

## Why

`torch.amp` got its parts one by one: `torch.autocast` came with PyTorch 1.10, `torch.amp.GradScaler` with 2.3,
`torch.amp.custom_fwd` and `custom_bwd` with 2.4 (the wheels of each release). Code that was moved to the new names, or
copied from a newer project, keeps the old pin.

## Fix

Reported only: either the pin or the code is out of date, and only a run shows which. Before 2.3 the scaler is
`torch.cuda.amp.GradScaler()`, before 2.4 the decorators are those of `torch.cuda.amp`.

## Not flagged

Any manifest in the folder of the file, or in one above it, that allows a newer release, names no bound or an address;
no pin at all. Uses behind a test of the release or of the interface (`hasattr`), in a `try` that catches what a missing
name raises, or in a file or function that others come to only behind such a test. Tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.proof.needed_today import KEYWORDS_SINCE, TORCH_SINCE, WITH_DEVICE, since
from ...codemod.purpose.checked import checked_code
from ...codemod.purpose.imports import importers_of
from ...codemod.python.callers import callers_of
from ...codemod.python.names import FunctionNode, ModuleNames
from ...codemod.python.paths import function_of, guards
from ...codemod.releases.gates import guarding_try, is_gate, is_gated
from ...codemod.releases.pins import rules_out
from ...codemod.source.project import Project

OF_PRECISION = ("amp", "autocast", "bf16", "matmul_precision")
"""What is in the names of interfaces for the precision."""


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, ("torch",), OF_PRECISION):
        told: set[str] = set()
        uses = sorted(_uses(module), key=lambda use: (use[0].lineno, use[0].col_offset))
        pins = {release: rules_out(project, "torch", release, module.path) for release in {use[2] for use in uses}}
        for node, name, release in uses:
            pin = pins[release] if name not in told else None
            if pin is None or _depends(project, module, node):
                continue
            told.add(name)
            error = "TypeError" if "=" in name else "AttributeError"
            error = "ImportError" if isinstance(node, ast.ImportFrom) else error
            message = (
                f"{name} came with PyTorch {release}, and {pin.place.path} allows only older ones: this raises {error}"
            )
            yield rule.at(module, node, message, [pin.place.saying(f"torch{pin.specifiers} is what is installed")])


def _uses(module: ModuleNames) -> Iterator[tuple[ast.ImportFrom | ast.expr, str, str]]:
    """Each use of an interface for the precision, its name and its release."""
    for binding in module.imports:
        known = since(binding.qualified or "") if isinstance(binding.node, ast.ImportFrom) else None
        if known is not None and isinstance(binding.node, ast.ImportFrom):
            yield from ((binding.node, *item) for item in (known,) if _is_of_precision(item[0]))
    for name, release in TORCH_SINCE.items():
        for node in module.attribute_loads.get(name.rpartition(".")[2], ()) if _is_of_precision(name) else ():
            if module.qualified(node) == name:
                yield node, name, release
    for (name, keyword), release in KEYWORDS_SINCE.items():
        for call in module.calls_by_name.get(name.rpartition(".")[2], ()):
            if module.qualified(call.func) == name and any(item.arg == keyword for item in call.keywords):
                yield call, f"{keyword}= of {name}", release


def _is_of_precision(name: str) -> bool:
    return name not in WITH_DEVICE and any(word in name for word in OF_PRECISION)


def _depends(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test of the release, or an attempt, decides that a place is come to: here, or where it is called."""
    if _is_behind_test(module, node):
        return True
    function = function_of(module, node)
    sites = callers_of(project, module, function).sites if isinstance(function, FunctionNode) else ()
    if any(_is_behind_test(site.module, site.call) for site in sites):
        return True
    stem = module.path.rpartition("/")[2].removesuffix(".py")
    imports = ((other, item) for other in importers_of(project, module) for item in other.imports)
    mine = ((other, item.node) for other, item in imports if stem in (item.qualified or "").split("."))
    return any(_is_behind_test(other, statement) for other, statement in mine)


def _is_behind_test(module: ModuleNames, node: ast.AST) -> bool:
    tests = (guard.test for guard in guards(module, node))
    return is_gated(module, node) or guarding_try(module, node) is not None or any(is_gate(module, it) for it in tests)


rule = Rule.of("PF310", check)
