"""Code that knows one 16-bit precision only: ``dtype = float16 if cfg.mixed_precision == "fp16" else float32``.

With the other word, or the other switch, such code silently takes its last branch: a run whose setting moves alone
would compute beside weights and inputs of another dtype.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.python.functions import called_function
from ....codemod.python.names import ModuleNames, last_name, modules_at, string_of
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS
from ....codemod.torch.dtypes import BF16, FP16, FP32, HALVES, Dtype, as_dtype
from ....codemod.trainers.framework import FAMILIES
from ....codemod.trainers.reading.run_members import Run
from ....codemod.trainers.reading.runs import runs_of
from ....codemod.trainers.writing.moves import Move
from .half_kernels import used_by_runs
from .training_autocasts import training_regions

FAMILY = {BF16: "bf16", FP16: "fp16"}
SINGLE = ("32", "no")
"""How trainers' words for float32 begin that name no dtype."""
PRESENT = {"bf16": BF16, "fp16": FP16}
OF_CHECKPOINT = "loads the weights without a dtype: in float32, or as their checkpoint has them"
_Choice: TypeAlias = ast.If | ast.IfExp
SPELLED = {"torch.float16": FP16, "torch.half": FP16, "torch.bfloat16": BF16}


def moves(project: Project) -> Iterator[Move]:
    """A report for each such choice of a run that computes in the other 16-bit dtype today."""
    wanted = compute_dtype(project.target)
    if wanted is None:
        return
    seen: set[ast.expr] = set()
    for region in training_regions(project):
        known = {_plain(source.key) for knob in region.knobs for source in knob.sources(project)}
        other = next((item for item in region.values if item in HALVES and item != wanted), None)
        if known and isinstance(other, Dtype):
            yield from _refused(project, used_by_runs(project, region.module), known, (other, wanted), seen)
    for run in runs_of(project):
        present = PRESENT.get(FAMILIES[run.winner.regime or ""]) if run.winner is not None else None
        if present is None or present == wanted:
            continue
        names = _names_moved(run)
        modules = [*modules_at(project, run.modules)]
        yield from _refused(project, modules, names, (present, wanted), seen)
        for module in modules if wanted in HALVES else ():
            if purpose_of(module.path).is_left_alone:
                continue
            for choice, text in _choices(module, names, present, wanted):
                if choice.test not in seen and not _knows(module, text, wanted):
                    seen.add(choice.test)
                    yield _move(project, module, choice, text, wanted, run)


def _names_moved(run: Run) -> set[str]:
    """The last parts of the names that the settings have which decide this run."""
    member = run.winner
    assert member is not None
    names = {setting.name for setting in member.scope.settings if setting.key.means}
    names |= {setting.key.name for setting in member.scope.settings if setting.key.means}
    names |= {item.source.key for item in member.handed}
    return {_plain(name) for name in names}


def _plain(name: str) -> str:
    return name.rpartition(".")[2].lstrip("-").replace("-", "_")


def _refused(
    project: Project, modules: Sequence[ModuleNames], names: set[str], dtypes: tuple[Dtype, Dtype], seen: set[ast.expr]
) -> Iterator[Move]:
    """A report for each check that lets the present value through and stops at the new one."""
    passed = _parameters(project, modules, names)
    for module in modules:
        for node in module.of_type(ast.Subscript):
            table = _table_at(module, node) if _last(node.slice) in names and node.slice not in seen else None
            told = _meant(table.keys) if table is not None else []
            if dtypes[0] in told and dtypes[1] not in told and None not in told:
                seen.add(node.slice)
                message = f"{ast.unparse(node)} has no entry for {dtypes[1].name}; the target is {project.target}"
                yield Move(module.path, module.document.span(node), message)
        raising = [(item.test, False) for item in module.of_type(ast.If) if isinstance(item.body[0], ast.Raise)]
        asserted = [(item.test, True) for item in module.of_type(ast.Assert)]
        for test, goes_on in (*raising, *asserted):
            known = names | passed.get(module.scope_of(test).function.node, set())
            before, after = (_outcome(test, known, dtype) for dtype in dtypes)
            if before is goes_on and after is (not goes_on) and test not in seen:
                seen.add(test)
                message = f"{ast.unparse(test)} stops a run in {dtypes[1].name}; the target is {project.target}"
                yield Move(module.path, module.document.span(test), message)


def _parameters(project: Project, modules: Sequence[ModuleNames], names: set[str]) -> dict[ast.AST, set[str]]:
    """The parameters of functions that are passed one of these settings."""
    found: dict[ast.AST, set[str]] = {}
    for module in modules:
        for call in module.calls:
            given = [*call.args, *(item.value for item in call.keywords)]
            if not any(_last(item) in names for item in given):
                continue
            target = called_function(project, module, call)
            for name, value in target.arguments(call).items() if target is not None else ():
                if target is not None and _last(value) in names:
                    found.setdefault(target.node, set()).add(name)
    return found


def _outcome(test: ast.expr, names: set[str], dtype: Dtype) -> bool | None:
    """How a test comes out where the settings say ``dtype``; None where something else decides."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _outcome(test.operand, names, dtype)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        ends = isinstance(test.op, ast.Or)
        parts = [_outcome(item, names, dtype) for item in test.values]
        return ends if ends in parts else None if None in parts else not ends
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _last(test.left) in names:
        return _comparison(test, dtype)
    family = PRESENT.get(_last(test) or "")
    return None if family is None or _last(test) not in names | set(PRESENT) else family == dtype


def _comparison(test: ast.Compare, dtype: Dtype) -> bool | None:
    """``args.precision not in ("fp16", "fp32")``, of words for dtypes."""
    other = test.comparators[0]
    words = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
    told = _meant(words)
    if not any(item in HALVES for item in told) or None in told:
        return None
    is_said = dtype in told
    return is_said if isinstance(test.ops[0], ast.Eq | ast.In) else not is_said


def _meant(words: Sequence[ast.expr | None]) -> list[object]:
    """The dtypes that words name; ``"32-true"`` and ``"no"`` are float32."""
    told = [as_dtype(item.value) if isinstance(item, ast.Constant) else None for item in words]  # type: ignore[arg-type]
    return [FP32 if isinstance(item, str) and item.startswith(SINGLE) else item for item in told]


def _table_at(module: ModuleNames, node: ast.Subscript) -> ast.Dict | None:
    """The dictionary that is written out under a name and is asked here."""
    bound = module.scope_of(node.value).lookup(node.value.id) if isinstance(node.value, ast.Name) else []
    value = bound[0].value if len(bound) == 1 else node.value
    return value if isinstance(value, ast.Dict) else None


def _choices(module: ModuleNames, names: set[str], present: Dtype, wanted: Dtype) -> Iterator[tuple[_Choice, str]]:
    """The choices by one of ``names`` that pick ``present``, where code never names ``wanted``; with what is tested."""
    for node in module.nodes:
        if not isinstance(node, ast.If | ast.IfExp):
            continue
        tested = _tested(node.test, present)
        body = node.body if isinstance(node.body, list) else [node.body]
        if tested is not None and _last(tested) in names and any(_is(module, part, present) for part in body):
            around = ast.walk(module.scope_of(node).node)
            if not any(_is(module, part, wanted) for part in around):
                yield node, ast.unparse(tested)


def _is(module: ModuleNames, part: ast.AST, dtype: Dtype) -> bool:
    """Whether a part is this dtype, or gives it to a name: a cast in a branch may as well be left out."""
    value = part.value if isinstance(part, ast.Assign | ast.Return) else part
    return value is not None and SPELLED.get(module.qualified(value) or "") == dtype


def _tested(test: ast.expr, dtype: Dtype) -> ast.expr | None:
    """``x`` of ``x == "fp16"``; ``args.fp16`` of the switch itself."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        words = test.comparators[0]
        return test.left if isinstance(words, ast.Constant) and as_dtype(words.value) == dtype else None  # type: ignore[arg-type]
    return test if _last(test) == FAMILY[dtype] else None


def _last(node: ast.expr) -> str | None:
    """``fp16`` of ``args.fp16`` and of ``cfg["fp16"]``."""
    return string_of(node.slice) if isinstance(node, ast.Subscript) else last_name(node) or None


def _knows(module: ModuleNames, text: str, wanted: Dtype) -> bool:
    """Whether the file asks for the other precision as well: by a word beside the same setting, or by its switch."""
    holder = text.rpartition(".")[0]
    for node in module.nodes:
        if isinstance(node, ast.Compare) and ast.unparse(node.left) == text:
            words = [item for other in node.comparators for item in ast.walk(other) if isinstance(item, ast.Constant)]
            if any(as_dtype(word.value) == wanted for word in words):  # type: ignore[arg-type]
                return True
        elif isinstance(node, ast.Name | ast.Attribute) and _last(node) == FAMILY[wanted]:
            of_another = isinstance(node, ast.Attribute) and holder not in ("", ast.unparse(node.value))
            if not of_another:
                return True
    return False


def _move(project: Project, module: ModuleNames, choice: _Choice, text: str, wanted: Dtype, run: Run) -> Move:
    test = choice.test
    message = (
        f"{ast.unparse(test)} picks a 16-bit dtype, and nothing here asks {text} for {wanted.name}: on the way to "
    )
    doubt = OF_CHECKPOINT if _is_of_checkpoint(module, choice) and (project.target or "").endswith("-mixed") else ""
    message += f"{project.target} the code " + (
        doubt or f"would take another branch; give it one for {wanted.name} first"
    )
    settings = run.winner.scope.settings if run.winner is not None else ()
    evidence = tuple(item.place.saying("this decides what the run computes in") for item in settings if item.key.means)
    return Move(module.document.path, module.document.span(test), message, evidence=evidence[:1], doubt=doubt)


def _is_of_checkpoint(module: ModuleNames, choice: _Choice) -> bool:
    """``from_pretrained(name, torch_dtype=torch.bfloat16 if args.bf16 else None)``: mixed precision needs no dtype."""
    keyword = module.parents.get(choice)
    is_none = isinstance(choice, ast.IfExp) and isinstance(choice.orelse, ast.Constant) and choice.orelse.value is None
    return is_none and isinstance(keyword, ast.keyword) and keyword.arg in LOAD_KEYS
