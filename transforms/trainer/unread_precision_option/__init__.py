"""A precision can be chosen, and nothing reads the choice.

## What goes wrong

`python train.py --fp16` trains in float32 as before: the option is declared and `args.fp16` is read nowhere.
`train(..., use_amp=True)` does the same where `train` never looks at `use_amp`, and `--fp16` where it only switches a
GradScaler: without autocast that scales a loss in float32. A key of the project's own configuration (`fp16: true`) that
no code of the program names has no effect either, nor has what is only printed, or kept in an attribute that nothing
reads. Nothing is raised; the run needs the memory and the time of float32, and comparisons of precisions compare a run
with itself.

## Why

The option came with copied code, or what read it was removed. `use_amp = args.use_amp` followed by `use_amp = False` on
the next line is usually left over from a search for an error.

## Fix

Reported only: whether the option should have an effect or go away is for the author to say.

## Not flagged

Options of which an attribute is read anywhere in the program (but for what a class stores itself), or that a string
asks for; namespaces that are passed to other libraries, or turned into a dictionary that goes there (what is printed,
logged or saved still reads nothing); options that are off by default and that no launch line or read-me shows; TF32,
which only makes a run faster; options whose help says that they have no effect; parsers of the project's own classes;
what asks for mixed precision where an autocast without a switch gives it anyway, in the type
that is asked for; what belongs to a precision that the
code refuses (`assert not use_fp16`). Parameters of functions that only raise or do nothing, that override or
implement something, that have namesakes with the same parameter, that are passed on as values, or that nobody in the
project passes a precision for (what options are when nothing sets them counts); functions that delete the parameter,
or read `locals()` or click's context; attributes of classes that hold settings. Keys that are off, of files that no
program is seen to load, or one that uses a trainer or another library that may read them. Tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeGuard

from ....codemod.model import Draft, Finding, Rule
from ....codemod.purpose.checked import checked_code
from ....codemod.python.exits import blocks_of
from ....codemod.python.indexes import HOLDING
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from .keys import unread_keys
from .options import unread_options
from .parameters import unread_commands, unread_parameters
from .words import WORDS, names_precision


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS):
        for kind in KINDS:
            for draft in kind(project, module):
                yield rule.found(*draft)
    for draft in unread_keys(project):
        yield rule.found(*draft)


# --- options that are overwritten -------------------------------------------------------------------------------------


def overwritten_settings(_project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``use_amp = args.use_amp`` with ``use_amp = False`` on the next line."""
    for kind in HOLDING:
        for holder in module.of_type(kind):
            for block in blocks_of(holder):
                for first, second in pairwise(block):
                    if _replaces(first, second):
                        message = f"{ast.unparse(first.targets[0])} is overwritten on the next line"
                        yield Draft.at(module, first, message, [module.place(second, "by this")])


def _replaces(first: ast.stmt, second: ast.stmt) -> TypeGuard[ast.Assign]:
    """Whether both assign the same setting, the first one what was chosen, and the second does not look at it."""
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
        return False
    target = first.targets[0]
    if len(first.targets) != 1 or len(second.targets) != 1 or not isinstance(target, ast.Name | ast.Attribute):
        return False
    name = target.id if isinstance(target, ast.Name) else target.attr
    text = ast.unparse(target) if names_precision(name, True) else ""
    if not text or text != ast.unparse(second.targets[0]):
        return False
    reads = any(isinstance(node, ast.Name | ast.Attribute) for node in ast.walk(first.value))
    calls = any(isinstance(node, ast.Call) for node in ast.walk(second.value))
    named = (node for node in ast.walk(second.value) if isinstance(node, ast.Name | ast.Attribute))
    looks = any(ast.unparse(node) == text for node in named)
    return reads and not calls and not looks


KINDS = (unread_options, unread_parameters, unread_commands, overwritten_settings)

rule = Rule.of("PF407", check)
