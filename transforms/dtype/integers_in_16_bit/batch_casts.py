"""Casts of every tensor of a batch to 16 bits, ids and labels included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.purpose.files import is_test
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import receiver_of
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import constants_of, scenarios_of
from ....codemod.torch.dtypes import BF16, FP16, Dtype
from ....codemod.torch.tables.libraries import TOKEN_IDS
from ....codemod.torch.weights import cast_dtype, given_for_dtype

ENTRIES = (*TOKEN_IDS, "token_type_ids", "position_ids", "labels")
"""Entries of a batch that hold integers; those that index an embedding first."""
TOKENIZERS = ("tokenizer", "tok")
_MAX_CHAIN = 5
LAST_EXACT = {BF16: 256, FP16: 2048}
"""The integers up to here are exact."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchCast:
    """One expression that casts whatever an entry holds."""

    module: ModuleNames
    cast: ast.expr
    value: ast.expr | None
    """The entry before the cast, where the cast is one call; None where it is a chain of calls."""
    without_dtype: str | None
    """Source text of the cast without its dtype (``v.to(device)``); None where nothing else is asked of it."""
    dtype: Dtype
    entry: str
    evidence: ast.AST
    there: ModuleNames
    """The file of the evidence."""
    is_passed: bool
    """Whether the batch is that of a call: others may pass integers that are to be cast."""

    @property
    def stops(self) -> bool:
        """Whether an embedding certainly refuses the entry; labels may be meant for a loss that takes floats."""
        widened = any(name in self.module.attribute_loads for name in ("long", "int"))
        return self.entry != "labels" and not widened and not self.is_passed


def batch_casts(project: Project, module: ModuleNames) -> Iterator[BatchCast]:
    """``{k: v.to(dtype) for k, v in batch.items()}``, and loops that write back what they cast."""
    for node in module.of_type(ast.DictComp):
        if len(node.generators) == 1 and not node.generators[0].ifs:
            generator = node.generators[0]
            table = _table(generator.iter)
            if table is not None:
                yield from _cast(project, module, node, node.value, generator.target, table)
    for loop in module.of_type(ast.For):
        table = _table(loop.iter)
        for statement in loop.body if table is not None else ():  # a nested ``if`` may ask what the entry is
            written = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)
            if written and table is not None and isinstance(statement, ast.Assign):
                yield from _cast(project, module, statement, statement.value, loop.target, table)


def _table(iterated: ast.expr) -> ast.expr | None:
    """``batch`` of ``batch.items()``, ``batch.keys()``, ``batch``."""
    held = receiver_of(iterated, "items", "keys") if not getattr(iterated, "args", ()) else None
    return held or (iterated if isinstance(iterated, ast.Name) else None)


def _cast(
    project: Project, module: ModuleNames, node: ast.AST, expression: ast.expr, target: ast.expr, table: ast.expr
) -> Iterator[BatchCast]:
    chain: list[ast.Call] = []
    inner = expression
    while isinstance(inner, ast.Call) and (owner := receiver_of(inner)) is not None and len(chain) < _MAX_CHAIN:
        chain.append(inner)
        inner = owner
    if not chain or not _is_entry(inner, target, table) or any(map(_asks_what_it_is, chain)):
        return
    dtypes = [dtype for call in chain if (dtype := _lowest(project, module, call)) is not None]
    if not dtypes or dtypes[0] not in LAST_EXACT:
        return
    own = _integer_entry(module, node, table)
    passed = _of_callers(project, module, node, table) if own is None else None
    found = (module, *own) if own is not None else passed
    if found is not None:
        simple = len(chain) == 1
        rest = _without_dtype(project, module, chain[0]) if simple else None
        there, entry, evidence = found
        value, is_passed = (inner if simple else None), passed is not None
        yield BatchCast(module, expression, value, rest, dtypes[0], entry, evidence, there, is_passed)


def _of_callers(
    project: Project, module: ModuleNames, node: ast.AST, table: ast.expr
) -> tuple[ModuleNames, str, ast.AST] | None:
    """The same of a function that casts the batch it is passed and returns it, by the first call that tells."""
    function, above = function_of(module, node), module.parents[node]
    if not isinstance(function, FunctionNode) or not isinstance(above, ast.Return) or not isinstance(table, ast.Name):
        return None
    for site in callers_of(project, module, function).sites:
        passed = site.target.arguments(site.call).get(table.id)
        found = _integer_entry(site.module, site.call, passed) if passed is not None else None
        if found is not None and not is_test(site.module.path) and is_reached(project, site.module, site.call):
            return site.module, *found
    return None


def _asks_what_it_is(call: ast.Call) -> bool:
    """``v.to(dtype if v.is_floating_point() else v.dtype)``."""
    given = [*call.args, *(item.value for item in call.keywords)]
    return any(isinstance(node, ast.IfExp) for item in given for node in ast.walk(item))


def _lowest(project: Project, module: ModuleNames, call: ast.Call) -> Dtype | None:
    """What the cast certainly casts to, or the coarsest type that a setting can choose for it."""
    return cast_dtype(project, module, call) or coarsest(project, module, call)


def coarsest(project: Project, module: ModuleNames, call: ast.Call) -> Dtype | None:
    """The 16-bit type that the cast certainly has, or the coarsest one of those it can have by the project's choice."""
    certain = cast_dtype(project, module, call)
    if certain is not None or not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
        return certain if certain in LAST_EXACT else None
    found = {scenario.value for node in given_for_dtype(call) for scenario in scenarios_of(project, module, node)}
    return next((dtype for dtype in LAST_EXACT if dtype in found), None)


def _is_entry(inner: ast.expr, target: ast.expr, table: ast.expr) -> bool:
    """Whether ``inner`` is the loop's value, or ``batch[key]`` with the loop's key."""
    if isinstance(target, ast.Tuple) and len(target.elts) == 2:
        return ast.unparse(inner) == ast.unparse(target.elts[1])
    return ast.unparse(inner) == f"{ast.unparse(table)}[{ast.unparse(target)}]"


def _without_dtype(project: Project, module: ModuleNames, call: ast.Call) -> str | None:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
        return None

    def is_dtype(node: ast.expr) -> bool:
        return any(isinstance(value, Dtype) for value in constants_of(project, module, node))

    document = module.document
    kept = [document.source(document.span(item)) for item in call.args if not is_dtype(item)]
    kept += [
        f"{item.arg}={document.source(document.span(item.value))}"
        for item in call.keywords
        if item.arg and item.arg != "dtype"
    ]
    return f"{document.source(document.span(call.func))}({', '.join(kept)})" if kept else None


def _integer_entry(module: ModuleNames, node: ast.AST, table: ast.expr) -> tuple[str, ast.AST] | None:
    """An integer entry that the batch is known to have: read by its key around here, or made by a tokenizer."""
    parent = module.parents[node]
    stored = parent.targets if isinstance(parent, ast.Assign) else []
    names = set(map(ast.unparse, [table, *stored]))
    function = function_of(module, node)
    read: dict[str, ast.AST] = {}
    for other in module.of_type(ast.Subscript):
        if isinstance(other.slice, ast.Constant):
            same = other.slice.value in ENTRIES and function_of(module, other) is function
            if same and ast.unparse(other.value) in names:
                read.setdefault(str(other.slice.value), other)
    known = next(((entry, read[entry]) for entry in ENTRIES if entry in read), None)
    return known or _tokenized(module, table)


def _tokenized(module: ModuleNames, table: ast.expr) -> tuple[str, ast.AST] | None:
    bindings = module.bindings_of(table)
    for binding in bindings:
        value: ast.expr | None = binding.value
        while isinstance(value, ast.Call):
            name = (attribute_chain(value.func) or [""])[-1]
            if name in TOKENIZERS or name.endswith("_tokenizer"):
                return "input_ids", value
            value = receiver_of(value)
    return None
