"""Comparisons of a setting with another spelling of the dtype than the project's own files and defaults give it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with
from ....codemod.python.options import SETTINGS
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import Dtype, as_dtype
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.source import GIVEN
from .choices_of_options import is_declared, is_stored
from .known_dtypes import comparisons_with_words


def spellings_never_given(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``cfg.precision == "bfloat16"`` where each configuration says ``bf16``, and no code does."""
    for node, left, words in comparisons_with_words(module):
        chain = attribute_chain(left)
        if not isinstance(left, ast.Attribute) or chain is None or SETTINGS.isdisjoint(chain[-2].lower().split("_")):
            continue
        asked = {str(word.value) for word in words}
        found = [item for item in sources(project, module, left) if not item.is_guessed]
        given = {item.value for item in found if isinstance(item.value, str)}
        wrong = next((item for item in found if _is_same_dtype(item.value, asked)), None)
        strong = [item for item in found if item.kind in (*GIVEN, "option")]
        if wrong is None or wrong not in strong or not asked.isdisjoint(given) or len(given) < len(found):
            continue
        if is_stored(project, left.attr) or _is_named(project, given):
            continue
        verb = "always true" if isinstance(node.ops[0], ast.NotEq | ast.NotIn) else "never true"
        what = f"{ast.unparse(left)} is {wrong.value!r} where the project gives it"
        message = f"{what}: this is {verb}, though both name one dtype"
        yield Draft.at(module, node, message, [wrong.place("the value is given here")])


def _is_same_dtype(value: object, asked: set[str]) -> bool:
    """Whether a word is another spelling of a dtype that is asked for."""
    dtype = as_dtype(value) if isinstance(value, str) else None
    return isinstance(dtype, Dtype) and value not in asked and any(as_dtype(word) == dtype for word in asked)


def _is_named(project: Project, given: set[str]) -> bool:
    """Whether code of the project names one of the words that are given, but to declare an option."""
    for module in modules_with(project, given):
        for node in module.of_type(ast.Constant):
            if isinstance(node.value, str) and node.value in given and not is_declared(module, node):
                return True
    return False
