"""A test of the precision that is always true, or compares less than it seems to.

## What goes wrong

`if precision == "bf16" or "fp16":` is true for every precision, float32 among them: autocast, a scaler or a 16-bit load
is switched on whatever was asked for. `if torch.cuda.is_bf16_supported:` is true on every machine: the function itself
is tested, not its answer, and a GPU without bfloat16 computes in it. `x != "fp16" or x != "bf16"` is true for every x.
`x == ("fp16" or "bf16")` never compares with the second word. `use_amp = precision == "bf16" or "fp16"` is never false.
`GradScaler(enabled=(args.dtype == args.dtype))` compares a precision with itself. `args.bf16 is not None` of a
`store_true` always holds, and `"16" in ("bf16")` does: parentheses around one string make no tuple.

## Why

`==` binds more tightly than `or`, so Python reads `(precision == "bf16") or "fp16"`, and a string that is not empty is
true. `a or b` is the first of the two that is true. A function is true.

## Fix

`call` [unsafe]: the function is called. `compare` [unsafe]: `x in ("bf16", "fp16")`; for `!=` joined by `or`,
`x not in (...)`. Code that ran in every case then runs in some: the run may change its precision.

## Not flagged

A default: `args.precision or "bf16"`, `precision = given == "x" and "bf16" or "no"`; words that are compared on both
sides; numbers that are compared with themselves to find NaN; flags whose default is None; words of which no run gives a
part; functions that are kept or passed on to be called later;
`if not torch.cuda.is_available: raise ...`, which decides about no precision; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import get_args

from ...codemod.model import Edit, Finding, Fix, Rule
from ...codemod.purpose.checked import checked_code
from ...codemod.python.bindings import only_value
from ...codemod.python.names import ModuleNames, attribute_chain, is_none, last_name, resolve
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import Dtype, as_dtype
from ...codemod.trainers.reading.command_options import declared_options
from ...codemod.trainers.reading.links import sources
from .choices import WORDS as GATE_WORDS
from .choices import is_bf16_gate

WORDS = ("bf16", "fp16", "float16", "bfloat16", *GATE_WORDS)
NAMES = frozenset({"dtype", "precision", "fp16", "bf16"})
"""Words in the name of what holds a precision."""
QUESTIONS = frozenset({"torch.is_autocast_enabled", "torch.cuda.is_available"})
"""Other functions whose uncalled name in a test decides about precision."""
SWITCHES = frozenset({"bf16", "fp16", "enabled", "use_amp", "use_fp16", "use_bf16"})
Tester = ast.If | ast.While | ast.IfExp | ast.Assert


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS):
        for node in module.of_type(ast.BoolOp):
            yield from _bare_word(module, node)
            yield from _unequal_to_all(module, node)
        for comparison in module.of_type(ast.Compare):
            yield from _word_or_word(module, comparison)
            yield from _with_itself(module, comparison)
            yield from _part_of_word(project, module, comparison)
            yield from _flag_and_none(project, module, comparison)
        yield from _uncalled(project, module)


def _bare_word(module: ModuleNames, node: ast.BoolOp) -> Iterator[Finding]:
    """``x == "bf16" or "fp16"``: as a test, and as a value of which nothing else is to be chosen."""
    words = [item for item in node.values if _is_precision(item)]
    plain = [item.operand if isinstance(item, ast.UnaryOp) else item for item in node.values]
    compared = [item for item in plain if isinstance(item, ast.Compare) and _word(item) is not None]
    chooses = not isinstance(node.op, ast.Or) or len(words) + len(compared) < len(node.values)
    if not words or not compared or plain[0] is not compared[0] or (chooses and not _is_test(module, node)):
        return
    joined = "or" if isinstance(node.op, ast.Or) else "and"
    effect = "the test always holds" if joined == "or" else f"`and {ast.unparse(words[0])}` changes nothing"
    message = f"{ast.unparse(words[0])} stands alone and is true, so {effect}"
    yield rule.at(module, node, message, fixes=[_compare_with_all(module, node, [*compared, *words])])


def _compare_with_all(module: ModuleNames, node: ast.BoolOp, parts: list[ast.expr]) -> Fix | None:
    first = node.values[0]
    is_equal = isinstance(first, ast.Compare) and isinstance(first.ops[0], ast.Eq)
    if not isinstance(node.op, ast.Or) or not is_equal or len(parts) != len(node.values):
        return None
    return _membership(module, node, parts, "in")


def _membership(module: ModuleNames, node: ast.BoolOp, parts: list[ast.expr], operator: str) -> Fix | None:
    left = {ast.unparse(part.left) for part in parts if isinstance(part, ast.Compare)}
    words = [_word(part) if isinstance(part, ast.Compare) else part for part in parts]
    if len(left) != 1 or any(word is None for word in words):
        return None
    listed = ", ".join(module.source(word) for word in words if word is not None)
    first = parts[0]
    assert isinstance(first, ast.Compare)
    edit: Edit = module.replace(node, f"{module.source(first.left)} {operator} ({listed})")
    return Fix.unsafe("compare", "compare with each word; what always ran now runs for these only", edit)


def _unequal_to_all(module: ModuleNames, node: ast.BoolOp) -> Iterator[Finding]:
    """``x != "fp16" or x != "bf16"``: one of the two always holds."""
    parts = [item for item in node.values if isinstance(item, ast.Compare) and _word(item) is not None]
    unequal = [item for item in parts if isinstance(item.ops[0], ast.NotEq) and _is_precision(_word(item))]
    words = {word.value for item in unequal if isinstance(word := _word(item), ast.Constant)}
    asked = {ast.unparse(item.left) for item in unequal}
    repeats = all(isinstance(item.left, ast.Name | ast.Attribute | ast.Subscript) for item in unequal)
    if isinstance(node.op, ast.Or) and len(words) > 1 and len(asked) == 1 and repeats:
        whole = len(unequal) == len(node.values)
        fix = _membership(module, node, list(unequal), "not in") if whole else None
        message = f"{asked.pop()} is always unequal to one of them, so the test always holds"
        yield rule.at(module, node, message, fixes=[fix])


def _word_or_word(module: ModuleNames, node: ast.Compare) -> Iterator[Finding]:
    """``x == ("fp16" or "bf16")``."""
    other = node.comparators[0]
    if len(node.ops) != 1 or not isinstance(other, ast.BoolOp) or not all(map(_is_precision, other.values)):
        return
    if isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        kept = other.values[0] if isinstance(other.op, ast.Or) else other.values[-1]
        yield rule.at(module, other, f"{ast.unparse(other)} is {ast.unparse(kept)}: nothing is compared with the rest")


def _with_itself(module: ModuleNames, node: ast.Compare) -> Iterator[Finding]:
    """``args.dtype == args.dtype``."""
    left, other = node.left, node.comparators[0]
    plain = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot)
    named = attribute_chain(left) if plain else None
    if named is not None and named == attribute_chain(other) and not NAMES.isdisjoint(named[-1].lower().split("_")):
        always = "always" if isinstance(node.ops[0], ast.Eq | ast.Is) else "never"
        yield rule.at(module, node, f"{ast.unparse(left)} is compared with itself: the test {always} holds")


def _part_of_word(project: Project, module: ModuleNames, node: ast.Compare) -> Iterator[Finding]:
    """``precision in ("bf16")`` with ``--precision 16``: parentheses make no tuple, and "16" is a part of the word."""
    word = node.comparators[0]
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn) or not _is_precision(word):
        return
    text = ast.literal_eval(word)
    for value in dict.fromkeys(item.value for item in sources(project, module, node.left)):
        if isinstance(value, str) and value in text and isinstance(as_dtype(value), Dtype) and value != text:
            message = f"{ast.unparse(node.left)} is {value!r} in some run, which is a part of {text!r}: it is in it"
            equal = "==" if isinstance(node.ops[0], ast.In) else "!="
            edit = module.replace(node, node.left, f" {equal} ", word)
            yield rule.at(module, node, message, fixes=[Fix.unsafe("compare", "compare with the whole word", edit)])
            return


def _flag_and_none(project: Project, module: ModuleNames, node: ast.Compare) -> Iterator[Finding]:
    """``args.bf16 is not None`` of a ``store_true``: True or False, and never None."""
    none, flag = node.comparators[0], node.left
    is_asked = isinstance(node.ops[0], ast.Is | ast.IsNot) and isinstance(none, ast.Constant) and none.value is None
    if not is_asked or not isinstance(flag, ast.Attribute) or flag.attr not in SWITCHES or not _is_test(module, node):
        return
    options = declared_options(project, module, flag.attr)
    switches = bool(options) and all(item.switch is not None and not is_none(item.default) for item in options)
    if switches and all(isinstance(item.value, bool) for item in sources(project, module, flag)):
        always = "always" if isinstance(node.ops[0], ast.IsNot) else "never"
        yield rule.at(module, node, f"{ast.unparse(flag)} is True or False and never None: the test {always} holds")


def _word(node: ast.Compare) -> ast.expr | None:
    """The string that a comparison of two things is with."""
    other = node.comparators[0]
    plain = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq)
    return other if plain and isinstance(other, ast.Constant) and isinstance(other.value, str) else None


def _is_precision(node: ast.expr | None) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and len(text) < 20 and isinstance(as_dtype(text), Dtype)


def _is_test(module: ModuleNames, node: ast.expr) -> bool:
    """Whether only the truth of an expression counts."""
    above = module.parents.get(node)
    if isinstance(above, ast.UnaryOp):
        return isinstance(above.op, ast.Not)
    if isinstance(above, ast.BoolOp):
        return _is_test(module, above)
    if isinstance(above, ast.keyword):
        return above.arg in SWITCHES
    return isinstance(above, Tester) and above.test is node


def _uncalled(project: Project, module: ModuleNames) -> Iterator[Finding]:
    for node in _tested_names(module):
        held = only_value(module, node)
        asked = held if isinstance(held, ast.Attribute) else node
        if is_bf16_gate(project, module, asked) or _asks_for_precision(project, module, asked):
            message = f"{ast.unparse(asked)} is a function, which is always true: it is not called"
            ran = "never" if isinstance(module.parents.get(node), ast.UnaryOp) else "always"
            fix = Fix.unsafe("call", f"call it; what {ran} ran now depends on the machine", module.append(node, "()"))
            yield rule.at(module, node, message, fixes=[fix])


def _tested_names(module: ModuleNames) -> Iterator[ast.Name | ast.Attribute]:
    """The names of which only the truth counts, as `_is_test` says."""
    tests: list[ast.expr] = [node.test for kind in get_args(Tester) for node in module.of_type(kind)]
    tests += [node.operand for node in module.of_type(ast.UnaryOp) if isinstance(node.op, ast.Not)]
    tests += [node.value for node in module.of_type(ast.keyword) if node.arg in SWITCHES]
    for test in tests:
        if isinstance(test, ast.BoolOp):
            tests += test.values
        elif isinstance(test, ast.Name | ast.Attribute):
            yield test


def _asks_for_precision(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """``enabled=torch.cuda.is_available``, ``torch.float16 if torch.cuda.is_available else torch.float32``."""
    last = last_name(node)
    if last not in ("is_available", "is_autocast_enabled") or module.is_ambiguous(node) or _only_raises(module, node):
        return False
    return resolve(project, module, node) in QUESTIONS


def _only_raises(module: ModuleNames, node: ast.expr) -> bool:
    """``if not torch.cuda.is_available: raise ...`` decides about no precision."""
    statement = module.statement_of(node)
    return isinstance(statement, ast.If) and all(isinstance(item, ast.Raise) for item in statement.body)


rule = Rule.of("PF606", check)
