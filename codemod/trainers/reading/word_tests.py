"""Regions that a word of a setting switches: ``if args.precision == "amp":`` around one, or before another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...python.names import ModuleNames, last_name
from ...python.paths import guards
from ...source.project import Project
from ...torch.autocast import Autocast
from ...torch.dtypes import Constant
from .links import sources
from .setting_reads import read_of
from .source import ValueSource
from .stated_words import speaks


@dataclass(frozen=True, slots=True, eq=False)
class WordTests:
    """The tests around a region that all ask for the word of one setting."""

    node: ast.expr
    """What they ask."""
    tests: tuple[tuple[frozenset[Constant], bool], ...]
    """Words, and whether it has to be one of them."""
    found: tuple[ValueSource, ...]
    """Where it has its word from."""
    text: str

    @property
    def words(self) -> frozenset[Constant]:
        """Those with which the region is entered, as far as the tests or the options say them."""
        taken = [item.option.words for item in self.found if item.option is not None]
        known = {word for words, is_one in self.tests if is_one for word in words}.union(*taken)
        return frozenset(word for word in known if self.opens(word))

    def opens(self, word: Constant) -> bool:
        """Whether the region is entered with this word."""
        return all((word in words) is is_one for words, is_one in self.tests)


def word_tests(project: Project, region: Autocast) -> WordTests | None:
    """None where a region has none, or where nobody knows what gives it the word."""
    module = region.module
    asked = [item for guard in guards(module, region.node) for item in _asked(module, guard.test, guard.holds)]
    node = asked[-1][0] if asked and region.enabled_node is None else None
    found = sources(project, module, node) if node is not None else ()
    if node is None or not any(isinstance(item.value, str) for item in found):
        return None
    own = [item for item in asked if ast.unparse(item[0]) == ast.unparse(node)]
    return WordTests(node, tuple(item[1:3] for item in own), found, " and ".join(item[3] for item in own))


def _asked(
    module: ModuleNames, test: ast.expr, holds: bool
) -> Iterator[tuple[ast.expr, frozenset[Constant], bool, str]]:
    """What a comparison asks, of which words, whether it has to be one of them, and how that is written."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not _is_word(module, test.left):
        return
    listed = getattr(test.comparators[0], "elts", [test.comparators[0]])
    words = frozenset(item.value for item in listed if isinstance(item, ast.Constant) and isinstance(item.value, str))
    is_plain = isinstance(test.ops[0], ast.Eq | ast.In | ast.NotEq | ast.NotIn)
    if is_plain and words and len(words) == len(listed):
        is_one = isinstance(test.ops[0], ast.Eq | ast.In) is holds
        text = ast.unparse(test)
        yield test.left, words, is_one, text if holds else f"not {text}"


def _is_word(module: ModuleNames, node: ast.expr) -> bool:
    read = read_of(module, node)
    return speaks(read.name if read is not None else last_name(node))
