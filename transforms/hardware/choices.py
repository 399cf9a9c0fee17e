"""What a yes-or-no question decides about precision: the dtypes where the answer is yes, and where it is no.

``torch.float16 if not QUESTION else torch.bfloat16``, ``TrainingArguments(bf16=QUESTION)``, an ``if`` whose branches
assign, or return, one dtype each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...codemod.python.bindings import reaching
from ...codemod.python.keywords import key_of
from ...codemod.python.names import ModuleNames, last_name, resolve
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import BF16, FP16, Constant, Dtype, as_dtype

FLAGS = {"fp16": FP16, "float16": FP16, "bf16": BF16, "bfloat16": BF16}
NOT_SWITCHED = ("not", "no", "non", "if", "is", "to", "from", "can", "has", "have", "ok", "check", "test", "eval")
ABOUT_MACHINES = ("supported", "supports", "support", "available", "capable", "native", "hardware", "gpu", "cuda")
ASIDE = frozenset((*NOT_SWITCHED, *ABOUT_MACHINES))
"""Words that say that a name is no plain switch of a precision (``bf16_supported``, ``no_fp16``)."""
NO_DTYPES: frozenset[Constant] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What a question decides: nothing is known of a side without dtypes."""

    node: ast.AST
    """The expression, argument or statement that decides."""
    yes: frozenset[Constant]
    no: frozenset[Constant]
    flag: ast.expr | None = None
    """The value of a switch, where the answer switches a precision on or off."""
    is_plain: bool = True
    """Whether nothing but the question decides."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """An expression that is true where the question is answered with ``holds``."""

    node: ast.expr
    holds: bool
    is_plain: bool


def choices_by(project: Project, module: ModuleNames, question: ast.expr) -> Iterator[Choice]:
    """Every choice of a precision that the answer to ``question`` makes, also through one variable."""
    answer = _whole(module, _Answer(question, True, True))
    if answer is None:
        return
    yield from _made_with(project, module, answer)
    for use in _reads(module, answer.node):
        read = _whole(module, _Answer(use, answer.holds, answer.is_plain))
        if read is not None:
            yield from _made_with(project, module, read)


def _whole(module: ModuleNames, answer: _Answer) -> _Answer | None:
    """The largest condition that the answer is a part of; None where it is a part of something else."""
    while True:
        above = module.parents.get(answer.node)
        if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
            answer = _Answer(above, not answer.holds, answer.is_plain)
        elif isinstance(above, ast.Compare):
            equal = _compared_with_truth(above, answer.node)
            if equal is None:
                return None
            answer = _Answer(above, answer.holds == equal, answer.is_plain)
        elif isinstance(above, ast.BoolOp):
            answer = _Answer(above, answer.holds, False)
            if isinstance(above.op, ast.Or):
                return None
        else:
            return answer


def _compared_with_truth(node: ast.Compare, asked: ast.expr) -> bool | None:
    """Whether ``asked == True`` (or ``is``, ``!=``) keeps the answer; None for other comparisons."""
    other = node.comparators[0]
    if len(node.ops) != 1 or node.left is not asked or not isinstance(other, ast.Constant):
        return None
    if not isinstance(other.value, bool) or not isinstance(node.ops[0], ast.Eq | ast.Is | ast.NotEq | ast.IsNot):
        return None
    return other.value == isinstance(node.ops[0], ast.Eq | ast.Is)


def _reads(module: ModuleNames, value: ast.expr) -> list[ast.Name]:
    """The reads of a variable that has ``value`` and nothing else."""
    above = module.parents.get(value)
    if not isinstance(above, ast.Assign) or len(above.targets) != 1 or not isinstance(above.targets[0], ast.Name):
        return []
    name = above.targets[0].id
    bindings = module.scope_of(above).lookup(name)
    if len(bindings) != 1:
        return []
    return [
        read
        for read in module.name_loads.get(name, [])
        if [item.node for item in reaching(module, module.scope_of(read).lookup(name), read)] == [above]
    ]


def _made_with(project: Project, module: ModuleNames, answer: _Answer) -> Iterator[Choice]:
    above = module.parents.get(answer.node)
    if isinstance(above, ast.IfExp) and above.test is answer.node:
        yield _choice(project, module, above, answer, [above.body], [above.orelse])
    elif isinstance(above, ast.If) and above.test is answer.node:
        taken, other = _outcome(module, above)
        if taken and other:
            yield _choice(project, module, above.test, answer, taken, other)
    elif above is not None:
        dtype = _switched(above, answer.node)
        if dtype is not None:
            on: frozenset[Constant] = frozenset({dtype})
            yes, no = (on, NO_DTYPES) if answer.holds else (NO_DTYPES, on)
            yield Choice(above, yes, no, answer.node, answer.is_plain)


def _choice(
    project: Project,
    module: ModuleNames,
    node: ast.AST,
    answer: _Answer,
    taken: Sequence[ast.expr],
    other: Sequence[ast.expr],
) -> Choice:
    sides = [_dtypes(project, module, values) for values in (taken, other)]
    yes, no = sides if answer.holds else reversed(sides)
    return Choice(node, yes, no, is_plain=answer.is_plain)


def _dtypes(project: Project, module: ModuleNames, values: Sequence[ast.expr]) -> frozenset[Constant]:
    """The dtypes that some expressions name; none where one of them may name anything else."""
    found = frozenset(as_dtype(value) for item in values for value in constants_of(project, module, item))
    return found if all(isinstance(value, Dtype) for value in found) else NO_DTYPES


def _outcome(module: ModuleNames, statement: ast.If) -> tuple[list[ast.expr], list[ast.expr]]:
    """What both branches assign to the same variable, or return; nothing where they do not."""
    taken, other = _results(statement.body), _results(statement.orelse or _rest(module, statement))
    for target, value in taken.items():
        if target in other:
            return [value], [other[target]]
    return [], []


def _rest(module: ModuleNames, statement: ast.If) -> list[ast.stmt]:
    """What stands below an ``if`` without ``else`` that leaves the function."""
    leaves = bool(statement.body) and isinstance(statement.body[-1], ast.Return)
    block = getattr(module.parents.get(statement), "body", [])
    if not leaves or not isinstance(block, list) or statement not in block:
        return []
    return list(block[block.index(statement) + 1 :])


def _results(block: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """The text of a target -> what a block assigns to it last; nothing for blocks that do more."""
    found: dict[str, ast.expr] = {}
    for statement in block:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            found[ast.unparse(statement.targets[0])] = statement.value
        elif isinstance(statement, ast.Return) and statement.value is not None:
            found["return"] = statement.value
        elif not isinstance(statement, ast.Expr):
            return {}
    return found


def _switched(above: ast.AST, value: ast.expr) -> Dtype | None:
    """The precision that ``value`` switches on: ``bf16=value``, ``{"bf16": value}``, ``use_bf16 = value``."""
    if isinstance(above, ast.keyword):
        return flag_dtype(above.arg or "")
    if isinstance(above, ast.Dict):
        return flag_dtype(key_of(above, value) or "")
    if isinstance(above, ast.Assign | ast.AnnAssign):
        target = above.targets[0] if isinstance(above, ast.Assign) else above.target
        if isinstance(target, ast.Name | ast.Attribute):
            return flag_dtype(target.id if isinstance(target, ast.Name) else target.attr)
    return None


def flag_dtype(name: str) -> Dtype | None:
    """The precision that a switch of this name is for; None where the name says more, or less."""
    words = name.lower().split("_")
    dtypes = {FLAGS[word] for word in words if word in FLAGS}
    return dtypes.pop() if len(dtypes) == 1 and ASIDE.isdisjoint(words) else None


# --- functions that ask for bfloat16 ----------------------------------------------------------------------------------


WORDS = ("is_bf16_supported", "is_bfloat16_supported", "is_bf16_available", "is_torch_bf16_")
"""What files hold that ask for bfloat16."""
NAMES = frozenset((*WORDS[:-1], "is_torch_bf16_available", "is_torch_bf16_gpu_available"))
LIBRARIES = frozenset({"torch", "unsloth", "accelerate", "transformers"})


def is_bf16_gate(project: Project, module: ModuleNames, function: ast.expr) -> bool:
    """Whether an expression names such a function of torch, accelerate, transformers or Unsloth."""
    last = last_name(function)
    if not isinstance(function, ast.Name | ast.Attribute) or module.is_ambiguous(function):
        return False
    if last not in NAMES and not module.qualified(function):
        return False
    qualified = resolve(project, module, function) or ""
    root, _, _ = qualified.partition(".")
    return root in LIBRARIES and qualified.rpartition(".")[2] in NAMES
