"""Words of a program's own option that pick what a trainer is told: ``fp16=args.precision == "fp16"``.

A comparison, a choice, a table or a cascade of ifs: what each word picks is read off the code, and a place that gives
the option a word is a place that gives the trainer what the word picks.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import partial

from ...model import Edit, EditRefused
from ...python.conditions import conditions_in
from ...python.names import ModuleNames, Scope, names_of
from ...python.precision_words import CHOOSING
from ...source.facts import memo
from ...source.project import Project
from ...torch.dtype_values import scenarios_of
from ...torch.dtypes import FP32, UNKNOWN, Constant, Dtype, Scenario, TextCondition, Unknown, as_dtype
from .source import NUMBERS, ValueSource

FULL = ("no", "none", "off", "32", "32-true")
"""Other words for float32."""
OTHERS = ("fp32", "float32")
"""What is written where no word for float32 is known, and any word but those that are switches 16 bits off."""
TWINS = {"fp16": "bf16", "bf16": "fp16", "float16": "bfloat16", "bfloat16": "float16"}
"""How the two 16-bit types are spelled alike."""
SPELLINGS = ("lower", "upper", "strip")
"""Methods that give a word as another spelling of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """A setting whose words pick a value."""

    module: ModuleNames
    node: ast.expr
    """What reads the setting."""
    scenarios: tuple[Scenario, ...]

    def value(self, word: Constant) -> Constant:
        """What ``word`` picks; UNKNOWN where the code does not say."""
        read = self._read(word)
        asked = [item for item in self.scenarios if item.given and all(_holds(given, read) for given in item.given)]
        found = {item.value for item in asked or self.scenarios if bool(item.given) is bool(asked)}
        value = found.pop() if len(found) == 1 else UNKNOWN
        return str(value) if isinstance(value, int) and value in NUMBERS and not isinstance(value, bool) else value

    def _read(self, word: Constant) -> Constant:
        """The word as the code compares it: of ``args.precision.lower()``."""
        spelled = (
            self.node.func.attr if isinstance(self.node, ast.Call) and isinstance(self.node.func, ast.Attribute) else ""
        )
        return getattr(word, spelled)() if isinstance(word, str) and spelled in SPELLINGS else word

    @property
    def words(self) -> tuple[str, ...]:
        """The words that a test of the setting knows."""
        known = (word for item in self.scenarios for given in item.given for word in given.values)
        return tuple(dict.fromkeys(word for word in known if isinstance(word, str)))

    def as_picked(self, source: ValueSource) -> ValueSource:
        """A place that gives the setting a word, as one that gives what the word picks."""
        picked, respelling = self.value(source.value), partial(self._respelled, source)
        offered = tuple(dict.fromkeys(self.value(word) for word in self._words_for(source)))
        source = replace(source, option=None, word=str(source.value), offered=offered)
        return replace(source, value=picked, respelling=respelling)

    def _words_for(self, source: ValueSource) -> tuple[str, ...]:
        more = [*sorted(source.option.words)] if source.option is not None else []
        more += [word for word in source.offered if isinstance(word, str)]  # the members of an enumeration
        return tuple(dict.fromkeys((*self.words, *more)))

    def _respelled(self, source: ValueSource, value: Constant) -> Edit:
        known = [word for word in self._words_for(source) if self.value(word) == value]
        if value is False or as_dtype(value) == FP32 or value in FULL:
            known = [word for word in known if is_full(word)]
        else:
            known = [
                word for word in known if any(_tests(given, word) for each in self.scenarios for given in each.given)
            ]
        known.sort(key=lambda word: spelling(word) != spelling(source.value))
        if not known and value is False:  # any other word switches it off
            known = [word for word in OTHERS if spelling(word) == spelling(source.value).replace("16", "32")]
            known = [word for word in known if self.value(word) is False]
        if not known:
            raise EditRefused(f"no word of {source.key} is known to pick {value}")
        is_capital = (
            isinstance(source.value, str) and source.value.isupper() and self._read(known[0].upper()) == known[0]
        )
        return source.respelled(known[0].upper() if is_capital else known[0])


def is_full(word: str) -> bool:
    """Whether a word is one for float32."""
    return as_dtype(word) == FP32 or word.lower() in FULL


def _holds(given: TextCondition, word: Constant) -> bool:
    return _tests(given, word) is given.equal


def _tests(given: TextCondition, word: Constant) -> bool:
    """Whether a test names a word, or the dtype that it names: ``Precision.FP16``."""
    return word in given.values or (isinstance(word, str) and as_dtype(word) in given.values)


def spelling(value: Constant) -> str:
    """How a value names a dtype: ``fp16`` and ``bf16`` are alike, ``float16`` and ``bfloat16``."""
    if not isinstance(value, str):
        return type(value).__name__
    return value.lower().replace("bfloat", "float").replace("bf16", "fp16")


@memo
def pick_of(project: Project, module: ModuleNames, node: ast.expr) -> Pick | None:
    """The one setting whose words, some of them names of dtypes, decide an expression alone; None for other shapes."""
    if isinstance(node, ast.Compare):
        given = [(holds, conditions_in(project, module).given(node, holds)) for holds in (True, False)]
        scenarios = [Scenario(holds, said) for holds, said in given if said]
    else:
        scenarios = [*scenarios_of(project, module, node)]
    asked_for = {(item.text, item.scope.node): item for each in scenarios for item in each.given}
    if len(scenarios) < 2 or len(asked_for) != 1 or any(isinstance(each.value, Unknown) for each in scenarios):
        return None
    setting = next(iter(asked_for.values()))
    values = {value for each in scenarios for given in each.given for value in given.values}
    owner = module_of(project, module, setting.scope)
    is_setting = isinstance(setting.node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    if owner is None or not is_setting or setting.node is node or any(isinstance(value, bool) for value in values):
        return None
    names = [value for value in values if isinstance(value, Dtype) or isinstance(as_dtype(value), Dtype)]
    return Pick(owner, setting.node, tuple(scenarios)) if names else None


def module_of(project: Project, near: ModuleNames, scope: Scope) -> ModuleNames | None:
    while scope.parent is not None:
        scope = scope.parent
    if scope.node is near.tree:
        return near
    return project.fact(_by_tree).get(scope.node)


def _by_tree(project: Project) -> dict[ast.AST, ModuleNames]:
    documents = project.python_documents((*CHOOSING, "autocast"))
    return {document.tree: names_of(project, document) for document in documents}
