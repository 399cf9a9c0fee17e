"""Comparisons of a command-line option with a number where it is a string, or with a string where it is a number."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Draft, Fix
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.options import SETTINGS, Option, options_read
from ....codemod.source.project import Project
from .choices_of_options import is_stored

NAMES = frozenset({"precision", "dtype", "fp16", "bf16", "amp"})
"""Words in the name of an option that chooses a precision."""
OPERATORS = ast.Eq | ast.NotEq | ast.In | ast.NotIn
NUMBERS = ("int", "float")
READ_OTHERWISE = ("action", "nargs", "const")
"""Arguments of a declaration that make more of a word than its type says."""


def values_of_another_kind(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``args.precision == "16"`` where ``--precision`` is read with ``type=int``; ``== 16`` where it is a string."""
    for node in module.of_type(ast.Compare):
        left, compared = node.left, _constants(node)
        if not compared or not isinstance(left, ast.Attribute) or NAMES.isdisjoint(left.attr.lower().split("_")):
            continue
        chain = attribute_chain(left)
        if chain is None or SETTINGS.isdisjoint(chain[-2].lower().split("_")):
            continue
        options = options_read(project, module, left)
        kinds = {_is_number(option) for option in options}
        if kinds not in ({True}, {False}) or is_stored(project, left.attr):
            continue
        is_number = kinds == {True}
        if any(isinstance(item.value, str) != is_number for item in compared):
            continue
        verb = "always" if isinstance(node.ops[0], ast.NotEq | ast.NotIn) else "never"
        what = "a number" if is_number else "a string"
        message = f"{ast.unparse(left)} is {what}, as {options[0].flags[0]} is read: this is {verb} true"
        evidence = [option.module.place(option.node, f"it is read as {what}") for option in options]
        yield Draft.at(module, node, message, evidence, fixes=[_converted(module, compared, is_number)])


def _constants(node: ast.Compare) -> Sequence[ast.Constant]:
    """The strings and numbers that something is compared with; none where it is compared with anything else."""
    other = node.comparators[0]
    if len(node.ops) != 1 or not isinstance(node.ops[0], OPERATORS):
        return ()
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        parts = other.elts if isinstance(other, ast.List | ast.Tuple | ast.Set) else []
    else:
        parts = [other]
    found = [item for item in parts if isinstance(item, ast.Constant) and isinstance(item.value, str | int | float)]
    return found if len(found) == len(parts) else ()


def _is_number(option: Option) -> bool | None:
    """Whether an option is a number (true) or a string (false) in each run; None where it may be either."""
    call = option.node
    if option.kind != "option" or not option.flags or not isinstance(call, ast.Call):
        return None
    given = {item.arg: item.value for item in call.keywords}
    if None in given or not given.keys().isdisjoint(READ_OTHERWISE):
        return None
    kind, default = given.get("type"), option.default
    name = "str" if kind is None else kind.id if isinstance(kind, ast.Name) else ""
    if name in NUMBERS:
        return True
    is_text = default is None or (isinstance(default, ast.Constant) and isinstance(default.value, str | None))
    return False if name == "str" and is_text else None


def _converted(module: ModuleNames, compared: Sequence[ast.Constant], is_number: bool) -> Fix | None:
    if any(isinstance(item.value, bool) or (is_number and not str(item.value).isdigit()) for item in compared):
        return None
    edits = [module.replace(item, str(item.value) if is_number else '"' + str(item.value) + '"') for item in compared]
    return Fix.unsafe("kind", "compare with what it is; what never ran begins to run", *edits)
