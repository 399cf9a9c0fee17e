"""Command-line switches that do the opposite of their name: ``store_false`` without ``dest=``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.purpose.files import is_test
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.python.options import SETTINGS, options_in
from ....codemod.python.scopes import attribute_chain
from ....codemod.source.project import Project
from ....codemod.trainers.reading.launch_flags import flags_given
from .boolean_flags import FLAG_WORDS, precision_flag

NEGATIONS = ("no", "not", "disable", "without")
SWAPPED = "store_true"


def inverted_switches(project: Project) -> Iterator[Draft]:
    """``--no_fp16`` that is true where it is left out, and ``--fp16`` that switches off what a launch line asks for."""
    for document in project.checked_documents((*FLAG_WORDS, "precision"), ("store_false",)):
        module = names_of(project, document)
        for call in module.calls_by_name.get("add_argument", []):
            flag, given = precision_flag(call), {item.arg: item.value for item in call.keywords}
            action = given.get("action")
            if flag is None or not isinstance(action, ast.Constant) or action.value != "store_false":
                continue
            if given.keys() & {None, "dest", "default"} or is_test(document.path):
                continue
            name = flag.lstrip("-").replace("-", "_")
            reads = set(_reads(project, name))
            if name.split("_")[0] in NEGATIONS and reads == {False}:
                yield _draft(module, call, f"{name} is True without {flag}, which switches on what it speaks against")
            elif not name.startswith(NEGATIONS) and reads == {True} and _is_launched_with(project, module, name):
                yield _draft(module, call, f"{flag} switches off what it names, and a launch line gives it")


def _draft(module: ModuleNames, call: ast.Call, message: str) -> Draft:
    action = next(item.value for item in call.keywords if item.arg == "action")
    changes = f"write {SWAPPED}: runs with the switch and without it change places"
    fix = Fix.unsafe("action", changes, module.replace(action, f'"{SWAPPED}"'))
    return Draft.at(module, action, message, fixes=[fix])


def _reads(project: Project, name: str) -> Iterator[bool]:
    """How each reader takes the option: as it is, or negated; a branch does not show which way it is meant."""
    for document in project.python_documents((name,)):
        module = names_of(project, document)
        for node in module.attribute_loads.get(name, ()):
            chain = attribute_chain(node)
            if chain is not None and len(chain) > 1 and not SETTINGS.isdisjoint(chain[-2].lower().split("_")):
                above = module.parents[node]
                negated = isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
                yield not negated or isinstance(module.parents[above], ast.If | ast.IfExp)


def _is_launched_with(project: Project, module: ModuleNames, name: str) -> bool:
    return any(next(iter(flags_given(project, option)), None) for option in options_in(project, module).get(name, ()))
