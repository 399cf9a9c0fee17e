"""Tests that end a run on machines without the 16-bit type that it has left."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ..model import Place
from ..outcome import Target
from ..purpose.decided import of_machine
from ..purpose.targets import compute_dtype
from ..python.conditions import conditions_in
from ..python.names import ModuleNames, last_name, modules_at
from ..python.paths import guards, leaving_statement, name_parts
from ..source.project import Project
from ..torch.dtypes import BF16, FP16
from ..torch.machine_answers import machine_answers
from ..torch.machine_tests import tells_of_bf16
from ..trainers.reading.reach_of_runs import may_use
from ..trainers.reading.stated_words import speaks, text_of

WORDS = {BF16: "bf16|bfloat16", FP16: "fp16|float16"}
ABLE = "supported|supports?|available|capable|hw|hardware|test|check|require|requires|assert|ensure"


def asks_for_hardware(after: Project, target: Target, modules: Sequence[str]) -> Iterator[Place]:
    """Tests in the code of a run that demand what the target does not need: ``if not is_bf16_supported(): raise``."""
    left = FP16 if compute_dtype(target.regime) == BF16 else BF16
    word, able = f"(?:{WORDS[left]})", f"(?:{ABLE})"
    named = re.compile(rf"(?:^|_)(?:{able}_(?:\w+_)?{word}|{word}_(?:\w+_)?{able})(?:_|$)")
    for module in modules_at(after, modules):
        for test, is_demanded in _demands(module):
            asked = last_name(test.func) if isinstance(test, ast.Call) else last_name(test)
            is_asked = is_demanded and named.search(asked) is not None
            if not is_asked and left == BF16 and tells_of_bf16(ast.unparse(test)):
                is_asked = machine_answers(after, module, test) == (is_demanded, not is_demanded)
            if is_asked and not _is_chosen(module, test) and may_use(after, modules[0], module, test):
                yield module.place(test, f"still asks for {left.name} hardware: {text_of(test)}")


def _demands(module: ModuleNames) -> Iterator[tuple[ast.expr, bool]]:
    """What a run asks and ends at, with the answer that lets it go on; calls alone may raise themselves."""
    for statement in module.of_type(ast.Assert):
        yield statement.test, True
    for choice in module.of_type(ast.If):
        test = choice.test
        if isinstance(leaving_statement(module, choice.body), ast.Raise | ast.Expr):
            is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
            yield (test.operand, True) if isinstance(test, ast.UnaryOp) and is_not else (test, False)
    for expression in module.of_type(ast.Expr):
        if isinstance(expression.value, ast.Call):
            yield expression.value, True


def _is_chosen(module: ModuleNames, test: ast.expr) -> bool:
    """Whether a setting of the precision decides that it is asked: ``if args.bf16:``."""
    tests = (guard.test for guard in guards(module, test))
    return any(any(map(speaks, name_parts(item))) and not tells_of_bf16(ast.unparse(item)) for item in tests)


def is_of_gpu(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """``torch.bfloat16 if device.type == "cpu" else torch.float16``: the side that a GPU takes."""
    given = conditions_in(project, module).path_given(node) if isinstance(module.parents[node], ast.IfExp) else ()
    return any(of_machine(project, module, item) for item in given)
