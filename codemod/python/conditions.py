"""What the tests around a place say, and whether a test holds when something is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..source.project import Project
from ..torch.dtypes import DTYPE_WORDS, TORCH_DTYPES, Constant, Dtype, TextCondition, as_dtype
from .bindings import values_at
from .names import FunctionNode, ModuleNames, Scope, attribute_chain
from .paths import guards

MAX_DEPTH = 10
SWITCHES = ("enabled", "enable", "active", "on", "use")
"""How settings are called that switch something on, whatever it is."""


LONGEST_WORD = 40
OF_WORDS = ("precision", "dtype")
"""How the names of settings end whose value is a word for a dtype."""


class Conditions:
    """Reads the conditions of one module. Nothing is executed, and undecided is always an allowed answer."""

    def __init__(self, project: Project, module: ModuleNames) -> None:
        self.project = project
        self.module = module

    def path_given(self, node: ast.AST) -> tuple[TextCondition, ...]:
        """What must hold for ``node`` to be reached inside its function, what stands nearest first."""
        around = [*reversed(guards(self.module, node))]
        told = tuple(item for guard in around for item in self.given(guard.test, guard.holds))
        found = (*told, *(item for case in self._cases_around(node) for item in self._matched(case)))
        left = (item for guard in around for item in self.left_by(guard.test, guard.holds, found))
        return (*found, *left) if found else ()

    def _cases_around(self, node: ast.AST) -> Iterator[ast.match_case]:
        """The cases of ``match`` statements that hold ``node`` in their bodies, innermost first."""
        child = node
        for parent in self.module.ancestors(node) if self.module.of_type(ast.Match) else ():
            if isinstance(parent, ast.match_case) and child in parent.body:
                yield parent
            if isinstance(parent, FunctionNode | ast.ClassDef):
                return
            child = parent

    def _matched(self, case: ast.match_case) -> Iterator[TextCondition]:
        """What a case says of the subject: one of its values, and none of those of the cases above it."""
        match = self.module.parents[case]
        assert isinstance(match, ast.Match)
        subject, text, scope = match.subject, ast.unparse(match.subject), self.module.scope_of(match)
        above = match.cases[: match.cases.index(case)]
        tests = [(item, False) for item in above if item.guard is None]
        for item, equal in [(case, True), *tests]:
            values = self._values_matched(item.pattern)
            if values:
                yield TextCondition(text, values, equal, subject, scope)
        yield from self.given(case.guard, True) if case.guard is not None else ()

    def _values_matched(self, pattern: ast.pattern) -> tuple[Constant, ...]:
        """The values that a pattern is made of; empty where it takes others, too."""
        parts = pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]
        if isinstance(pattern, ast.MatchSingleton):
            return (pattern.value,)
        each = [self.operand_values(item.value) if isinstance(item, ast.MatchValue) else () for item in parts]
        return tuple(value for values in each for value in values) if all(each) else ()

    def left_by(self, test: ast.expr, holds: bool, known: Sequence[TextCondition]) -> tuple[TextCondition, ...]:
        """What ``a and b`` says of ``b`` where it does not hold and ``a`` is known to; only what ``given`` does not."""
        if not isinstance(test, ast.BoolOp) or isinstance(test.op, ast.And) == holds or self.given(test, holds):
            return ()
        open_ones = [value for value in test.values if self.decide(value, known) is not (not holds)]
        return self.given(open_ones[0], holds) if len(open_ones) == 1 else ()

    def given(self, test: ast.expr, holds: bool) -> tuple[TextCondition, ...]:
        """What a test says about its operands when its outcome is ``holds``; empty where it says nothing certain."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.given(test.operand, not holds)
        if isinstance(test, ast.BoolOp):
            each = [self.given(value, holds) for value in test.values]
            decisive = isinstance(test.op, ast.And) == holds
            return tuple(item for found in each for item in found) if decisive else _any_of(each)
        scope = self.module.scope_of(test)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison(test, holds, scope)
        if isinstance(test, ast.Name | ast.Attribute | ast.Subscript) or _is_question(test):
            return (TextCondition(ast.unparse(test), (True,), holds, test, scope),)
        return ()

    def _comparison(self, test: ast.Compare, holds: bool, scope: Scope) -> tuple[TextCondition, ...]:
        operator, left, right = test.ops[0], test.left, test.comparators[0]
        if isinstance(left, ast.Constant) and isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            left, right = right, left
        if isinstance(operator, ast.Eq | ast.Is):
            values, equal = self.operand_values(right), holds
        elif isinstance(operator, ast.NotEq | ast.IsNot):
            values, equal = self.operand_values(right), not holds
        elif isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
            values = tuple(value for item in right.elts for value in self.operand_values(item))
            equal = isinstance(operator, ast.In) == holds
        elif isinstance(operator, ast.In | ast.NotIn) and isinstance(left, ast.Constant) and _is_word(right):
            values, equal = self._words_with(left.value), isinstance(operator, ast.In) == holds
            left = right
        else:
            return ()
        return (TextCondition(ast.unparse(left), values, equal, left, scope),) if values else ()

    def _words_with(self, part: object) -> tuple[Constant, ...]:
        """The words of the module, and those for dtypes, that hold a part: of ``"bf16" in args.precision``."""
        if not isinstance(part, str) or part not in DTYPE_WORDS:
            return ()
        strings = (node.value for node in self.module.of_type(ast.Constant) if isinstance(node.value, str))
        known = (word for word in (*strings, *DTYPE_WORDS) if part in word and len(word.split()) == 1)
        return tuple(dict.fromkeys(word for word in known if len(word) <= LONGEST_WORD))

    def operand_values(self, node: ast.expr) -> tuple[Constant, ...]:
        """The constant a comparison is made with: a literal, a torch dtype, or an enum member that names a dtype."""
        if isinstance(node, ast.Constant):
            value = node.value
            return (value,) if isinstance(value, str | bool | int | float) or value is None else ()
        chain = attribute_chain(node)
        if chain is None:
            return ()
        qualified = self.module.qualified(node)
        if qualified in TORCH_DTYPES:
            return (TORCH_DTYPES[qualified],)
        if len(chain) >= 2 and chain[-2][:1].isupper():
            named = as_dtype(chain[-1])
            return (named,) if isinstance(named, Dtype) else ()
        return ()

    def decide(self, test: ast.expr, givens: Sequence[TextCondition], depth: int = 0) -> bool | None:
        """Whether ``test`` holds under ``givens``; None when they do not settle it."""
        if depth > MAX_DEPTH:
            return None
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.decide(test.operand, givens, depth + 1)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            return self._decide_all(test, givens, depth)
        if isinstance(test, ast.IfExp):
            outcome = self.decide(test.test, givens, depth + 1)
            return None if outcome is None else self.decide(test.body if outcome else test.orelse, givens, depth + 1)
        for item in self.given(test, True):
            settled = _settle(item, givens)
            if settled is not None:
                return settled
        if isinstance(test, ast.Name | ast.Attribute):
            return self._decide_named(test, givens, depth)
        return None

    def _decide_all(self, test: ast.BoolOp, givens: Sequence[TextCondition], depth: int) -> bool | None:
        outcomes = [self.decide(value, givens, depth + 1) for value in test.values]
        stop = isinstance(test.op, ast.Or)
        if stop in outcomes:
            return stop
        return None if None in outcomes else not stop

    def _decide_named(self, test: ast.Name | ast.Attribute, givens: Sequence[TextCondition], depth: int) -> bool | None:
        values = self.assigned_values(test)
        outcomes = {self.decide(value, givens, depth + 1) for value in values}
        return outcomes.pop() if len(outcomes) == 1 else None

    def assigned_values(self, node: ast.Name | ast.Attribute) -> list[ast.expr]:
        """The expressions a variable or ``self`` attribute is assigned; empty when any of its values is hidden."""
        values = values_at(self.module, node)
        return [] if None in values else [value for value in values if value is not None]


def conditions_in(project: Project, module: ModuleNames) -> Conditions:
    """The conditions of one module."""
    return project.memo(Conditions, module)


def never_reached(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test that a constant decides keeps ``node`` from running: ``use_amp = False``, ``if use_amp:``."""
    conditions = conditions_in(project, module)
    return any(conditions.decide(guard.test, ()) is (not guard.holds) for guard in guards(module, node))


def _is_question(test: ast.expr) -> bool:
    """A short call that can be asked again with the same answer: ``torch.cuda.is_bf16_supported()``."""
    return isinstance(test, ast.Call) and len(test.args) + len(test.keywords) <= 2


def same_operand(left: str, right: str) -> bool:
    """Whether two expressions speak of the same setting: same text, or same last attribute (``args.x``, ``x``).

    Where that says nothing of what is switched (``cfg.amp.enabled``), the one before it has to be the same as well.
    """
    mine, theirs = left.split("."), right.split(".")
    if mine[-1] != theirs[-1] or left == right:
        return left == right
    return mine[-1] not in SWITCHES or mine[-2:-1] == theirs[-2:-1] != []


def _settle(item: TextCondition, givens: Sequence[TextCondition]) -> bool | None:
    """Whether ``item`` is true, false or open, seen from ``givens``."""
    wanted = {as_dtype(value) for value in item.values}
    for given in givens:
        if not same_operand(item.text, given.text):
            continue
        known = {as_dtype(value) for value in given.values}
        if given.equal and known <= wanted:
            return item.equal
        if given.equal and not known & wanted and not tells_truths(known | wanted):
            return not item.equal
        if not given.equal and wanted <= known:
            return not item.equal
    return None


def tells_truths(values: set[Constant]) -> bool:
    return any(isinstance(value, bool) for value in values)


def excludes(given: TextCondition, others: Sequence[TextCondition]) -> bool:
    """Whether ``given`` cannot hold together with ``others``."""
    for other in others:
        if other.text != given.text:
            continue
        mine, theirs = {as_dtype(value) for value in given.values}, {as_dtype(value) for value in other.values}
        if given.equal and other.equal and not mine & theirs:
            return True
        if given.equal != other.equal and mine == theirs:
            return True
    return False


def _is_word(node: ast.expr) -> bool:
    chain = attribute_chain(node)
    return chain is not None and chain[-1].endswith(OF_WORDS)


def _any_of(alternatives: Sequence[tuple[TextCondition, ...]]) -> tuple[TextCondition, ...]:
    """What at least one of several tests says: where all compare the same thing, that it is one of their values."""
    found = [item for group in alternatives for item in group]
    same = len({item.text for item in found}) == 1 and all(len(group) == 1 for group in alternatives)
    if not same or not all(item.equal for item in found):
        return ()
    values = tuple(dict.fromkeys(value for item in found for value in item.values))
    return (TextCondition(found[0].text, values, True, found[0].node, found[0].scope),)
