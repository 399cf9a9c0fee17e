"""Comparisons of a command-line option with a spelling that its declared choices leave out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Draft
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with
from ....codemod.python.options import SETTINGS, Option, options_read
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import Dtype, as_dtype
from .known_dtypes import comparisons_with_words


def words_not_offered(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``args.dtype == "bf16"`` where ``--dtype`` accepts ``float16`` and ``bfloat16`` only."""
    for node, left, words in comparisons_with_words(module):
        chain = attribute_chain(left)
        if not isinstance(left, ast.Attribute) or chain is None or SETTINGS.isdisjoint(chain[-2].lower().split("_")):
            continue
        options = options_read(project, module, left)
        offered = _offered(options)
        meant = {_same_dtype(str(word.value), offered) for word in words}
        if not offered or "" in meant or _is_handled(module, meant) or is_stored(project, left.attr):
            continue
        wrong = ", ".join(repr(word.value) for word in words)
        message = f"{ast.unparse(left)} is never {wrong}: {options[0].flags[0]} accepts {', '.join(map(repr, offered))}"
        evidence = [option.module.place(option.node, "the choices") for option in options]
        yield Draft.at(module, node, message, evidence)


def _offered(options: Sequence[Option]) -> list[str]:
    """The strings that every declaration of an option accepts together; none where one accepts anything."""
    found: dict[str, None] = {}
    for option in options:
        values = [
            item.value for item in option.choices if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]
        if option.kind != "option" or not option.flags or not values or len(values) != len(option.choices):
            return []
        default = option.default
        if default is not None and not (isinstance(default, ast.Constant) and default.value in (None, *values)):
            return []
        found.update(dict.fromkeys(values))
    return list(found)


def _same_dtype(word: str, offered: list[str]) -> str:
    """The other spelling of a dtype that is offered; empty where the word itself is, or nothing like it."""
    dtype = as_dtype(word)
    if word in offered or not isinstance(dtype, Dtype):
        return ""
    return next((choice for choice in offered if as_dtype(choice) == dtype), "")


def _is_handled(module: ModuleNames, meant: set[str]) -> bool:
    """Whether the file speaks of the offered spelling too, beside the declaration."""
    for node in module.of_type(ast.Constant):
        if isinstance(node.value, str) and node.value in meant and not is_declared(module, node):
            return True
    return False


def is_declared(module: ModuleNames, node: ast.AST) -> bool:
    calls = (item for item in module.ancestors(node) if isinstance(item, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" for call in calls)


def is_stored(project: Project, name: str) -> bool:
    """Whether an attribute of this name is assigned anywhere, set by its name, or filled in with all others."""
    for other in modules_with(project, (name,)):
        if other.attribute_stores.get(name) or other.calls_by_name.get("setattr"):
            return True
        if other.calls_by_name.get("set_defaults") or other.calls_by_name.get("parse_known_args"):
            return True
        by_vars = other.calls_by_name.get("vars") or other.attribute_loads.get("__dict__")
        if other.calls_by_name.get("Namespace") or (other.calls_by_name.get("update") and by_vars):
            return True  # ``vars(args).update(loaded)``, ``Namespace(**loaded)``
    return False
