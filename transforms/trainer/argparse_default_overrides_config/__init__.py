"""The default of a script's own option beats the precision that accelerate is configured for.

## What goes wrong

Nothing is reported: `accelerate launch --mixed_precision bf16 train.py` trains in float32, because the script hands
its own `--mixed_precision`, whose default is `"no"`, to `Accelerator(mixed_precision=args.mixed_precision)`.

## Why

`accelerate launch` and the files of `accelerate config` reach the script through the environment variable
`ACCELERATE_MIXED_PRECISION`. `Accelerator` reads it only when its own argument is None (accelerate 1.15,
`AcceleratorState.__init__`). What is decided then is known to `accelerator.mixed_precision`, not to the option.

## Fix

`default-none` [unsafe]: the option's default becomes None, and tests of the option become tests of
`accelerator.mixed_precision` where the accelerator exists by then. The run changes to the precision that was asked
for.

`default-none` [display-only]: the option is read in other ways as well, and these places must be changed by hand.

## Not flagged

Options without a default; precisions that no launch line states, itself or by the file it names; launch lines that
pass the option; options that the script changes itself; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.model import Applicability, Finding, Fix, Place, Rule
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.imports import connected_modules
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.options import Option
from ....codemod.source.project import Project
from ....codemod.torch.accelerators import accelerator_at
from ....codemod.trainers.framework import Key
from ....codemod.trainers.reading.command_options import declared_options
from ....codemod.trainers.reading.declarations import calls_of
from ....codemod.trainers.reading.scopes import Scope, Setting
from .launch_precisions import stated_for, value_of

HARMLESS = ("print", "info", "debug", "warning", "log")
"""Calls that only show a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Forwarded:
    """An option that becomes the precision of an Accelerator."""

    module: ModuleNames
    value: ast.Attribute
    key: Key
    option: Option
    default: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A test of the option, and how the decided precision is called there; empty where it is not known."""

    module: ModuleNames
    node: ast.Attribute
    decided: str


def check(project: Project) -> Iterator[Finding]:
    for scope in calls_of(project, "accelerate"):
        forwarded = _forwarded(project, scope) if not purpose_of(scope.path).is_foreign else None
        if forwarded is not None and forwarded.default is not None:
            yield from _checked(project, forwarded)


def _forwarded(project: Project, scope: Scope) -> Forwarded | None:
    setting = scope.last("mixed_precision")
    module, value = scope.argument(setting) or (None, None)
    if setting is None or module is None or not isinstance(value, ast.Attribute):
        return None
    options = declared_options(project, module, value.attr)
    if len(options) != 1 or len(attribute_chain(value) or ()) != 2:
        return None
    default = _default(options[0])
    return Forwarded(module, value, setting.key, options[0], default) if setting.key.accepts(default or "no") else None


def _default(option: Option) -> str | None:
    """The default; "?" for one that is not written down, or is not used."""
    if isinstance(option.node, ast.Call) and any(item.arg in ("required", "action") for item in option.node.keywords):
        return "?"
    if option.default is None:
        return None if isinstance(option.node, ast.Call) else "?"
    value = option.default.value if isinstance(option.default, ast.Constant) else "?"
    return value if isinstance(value, str) or value is None else "?"


def _checked(project: Project, forwarded: Forwarded) -> Iterator[Finding]:
    modules = connected_modules(project, forwarded.module)
    stated = stated_for(project, forwarded.module.document.path, forwarded.option.flags)
    if stated is not None and value_of(stated) != forwarded.default and not _is_changed(modules, forwarded):
        yield _overridden(forwarded, stated, *_reads(project, modules, forwarded))


def _is_changed(modules: tuple[ModuleNames, ...], forwarded: Forwarded) -> bool:
    """Whether the script gives the option a value itself (``args.mixed_precision = accelerator.mixed_precision``)."""
    name = forwarded.value.attr
    return any(receiver is not None for module in modules for receiver, _, _ in module.attribute_stores.get(name, []))


# --- reads ------------------------------------------------------------------------------------------------------------


def _reads(project: Project, modules: tuple[ModuleNames, ...], forwarded: Forwarded) -> tuple[list[Read], list[Place]]:
    """The tests of the option, and the places that need its value for something else."""
    tests: list[Read] = []
    others: list[Place] = []
    root = (attribute_chain(forwarded.value) or [""])[0]
    for module in modules:
        for node in module.attribute_loads.get(forwarded.value.attr, []):
            chain = attribute_chain(node) or []
            if node is forwarded.value or chain[:1] != [root] or len(chain) != 2 or _is_shown(module, node):
                continue
            accelerator = accelerator_at(project, module, node) if _is_tested(module, node, forwarded.key) else None
            decided = f"{accelerator.text}.mixed_precision" if accelerator is not None and accelerator.made_by else ""
            if decided:
                tests.append(Read(module, node, decided))
            else:
                others.append(module.place(node, "reads the option"))
    return tests, others


def _is_tested(module: ModuleNames, node: ast.Attribute, key: Key) -> bool:
    """Whether the option is compared with the name of a precision."""
    test = module.parents.get(node)
    if not isinstance(test, ast.Compare):
        return False
    return any(
        isinstance(item, ast.Constant) and key.accepts(str(item.value))
        for side in (test.left, *test.comparators)
        for item in ast.walk(side)
    )


def _is_shown(module: ModuleNames, node: ast.Attribute) -> bool:
    for parent in module.ancestors(node):
        if isinstance(parent, ast.stmt):
            return False
        if isinstance(parent, ast.Call):
            return (attribute_chain(parent.func) or [""])[-1] in HARMLESS
    return False


# --- findings ---------------------------------------------------------------------------------------------------------


def _overridden(forwarded: Forwarded, stated: Setting, tests: list[Read], others: list[Place]) -> Finding:
    option, default = forwarded.option, forwarded.default
    message = f'{option.name} is "{default}" unless it is given, which beats the {value_of(stated)} asked of accelerate'
    passed = forwarded.module.place(forwarded.value, "passed to the Accelerator")
    at = option.node if option.default is None else option.default
    return rule.at(option.module, at, message, (stated.place, passed, *others), _fixes(forwarded, tests, others))


def _fixes(forwarded: Forwarded, tests: list[Read], others: list[Place]) -> list[Fix]:
    option = forwarded.option
    if option.default is None:
        return []
    edits = [option.module.replace(option.default, "None")]
    edits += [test.module.replace(test.node, test.decided) for test in tests]
    message = "default None: accelerate decides unless the option is given, and the run changes its precision"
    if others:
        listed = ", ".join(f"{place.path}:{place.span.row}" for place in others[:3])
        message += f"; {listed} must then ask accelerator.mixed_precision"
    applicability = Applicability.DISPLAY_ONLY if others else Applicability.UNSAFE
    return [Fix.of("default-none", applicability, message, *edits)]


rule = Rule.of("PF405", check)
