"""Arrays of what an autocast region computes, where nobody can tell that it is no bfloat16: NumPy lacks the type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.encounters import applications
from ....codemod.flow.frame import ASSUMED, OUTSIDE, Application
from ....codemod.flow.lattice import Kind, Value
from ....codemod.flow.roots import followed_modules
from ....codemod.flow.ways import are_all_ways, in_way, ways_into
from ....codemod.half.integer_words import speaks_of_integers
from ....codemod.model import Place
from ....codemod.purpose.files import is_test
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import function_of, name_parts
from ....codemod.python.reach import reached
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtypes import BF16, DTYPE_WORDS, HALVES, Dtype
from ....codemod.torch.tables.kernels import FLOAT16_ALONE
from .demanded_halves import demanded_float16, overflowing
from .region_results import (
    CONVERTING,
    StatementBlock,
    arrays_behind,
    arrays_inside,
    block_of,
    block_of_steps,
    block_of_trainers,
    is_conversion,
)
from .switches import tests_of_callers
from .unproved_results import unproved_use


def misfit(project: Project, region: Autocast, wanted: Dtype) -> Place | None:
    """What a region's tensors meet that may not fit the other 16-bit dtype: arrays of bfloat16, numbers above 65504.

    Or the test that calls the code around it for the dtype of today: ``if args.fp16: step_in_half(net)``.
    """
    for module, test in tests_of_callers(project, region):
        if any(DTYPE_WORDS.get(word) in {*HALVES} - {wanted} for word in name_parts(test)):
            return module.place(test, f"{ast.unparse(test)} calls it for another dtype")
    if wanted == BF16:
        return array_of_unknown(project, region)
    block = block_of(project, region)
    inside = arrays_inside(project, block[0][0], block).held if block else {}
    return overflowing(arrays_behind(project, block).held) or overflowing(inside)


def array_of_unknown(project: Project, region: Autocast) -> Place | None:
    """A ``x.numpy()`` in what a region runs, or of what it gives away, of a tensor whose dtype is not known."""
    return project.memo(_array, block_of(project, region))


def array_of_steps(project: Project, module: ModuleNames) -> Place | None:
    """The same of the steps of a LightningModule."""
    return project.memo(_array, block_of_steps(project, module))


def array_of_trainers(project: Project, module: ModuleNames) -> Place | None:
    """An array of what runs under ``accelerator.autocast()``, or of what FSDP gives in its own dtype."""
    return project.memo(_array_made, block_of_trainers(module))


def _array(project: Project, block: StatementBlock) -> Place | None:
    made = project.memo(_array_made, block) or _inside(project, block)
    return made or unproved_use(project, block, arrays_behind(project, block))


def _array_made(project: Project, block: StatementBlock) -> Place | None:
    """The first array of what a block computes or uses."""
    own = {statement for _, statement in block}
    used = (part for part in reached(project, block).parts if part not in own)
    arrays = arrays_behind(project, block)
    behind = arrays.conversions
    calls = {node for part in used for node in ast.walk(part) if is_conversion(node)} | behind.keys()
    for item in applications(project, CONVERTING, lambda module, call: call in calls and not is_test(module.path)):
        given, value = _converted(item)
        is_tensor = (
            item.operation == "numpy" or item.node in behind or (value is not None and value.kind is Kind.TENSOR)
        )
        if given is None or not is_tensor or (item.node not in behind and speaks_of_integers(given)):
            continue
        if any(_may_be_half(each) for each in _values(project, item, given, value)):
            return _place(item.module, given)
    followed = set(followed_modules(project))
    unseen = next(((module, call) for call, module in behind.items() if module not in followed), None)
    if unseen is not None:
        return _place(unseen[0], _array_of(unseen[1]) or unseen[1])
    passed = ((module, item) for item, module in arrays.passed.items())
    return next((_place(module, item) for module, item in passed if _is_half(project, module, item)), None)


def _array_of(call: ast.Call) -> ast.expr | None:
    """What becomes an array: ``x`` of ``x.numpy()`` and of ``np.asarray(x)``."""
    is_own = isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args
    return call.func.value if isinstance(call.func, ast.Attribute) and is_own else next(iter(call.args), None)


def _inside(project: Project, block: StatementBlock) -> Place | None:
    """An array that the modules make which a block calls, of what may be 16 bits wide under autocast."""
    arrays = arrays_inside(project, block[0][0], block) if block else None
    for call, module in arrays.conversions.items() if arrays is not None else ():
        given = _array_of(call)
        if given is not None and _may_be_under(project, module, given):
            return _place(module, given)
    passed = arrays.passed.items() if arrays is not None else ()
    taken = next((_place(module, item) for item, module in passed if _may_be_under(project, module, item)), None)
    return taken or demanded_float16(arrays.held if arrays is not None else {})


def _may_be_under(project: Project, module: ModuleNames, given: ast.expr) -> bool:
    return _may_be_half(flow_of(project).value_at(module, given, ASSUMED))


def _place(module: ModuleNames, given: ast.expr) -> Place:
    call = module.parents.get(given)
    taken = (module.qualified(call.func) or "") if isinstance(call, ast.Call) else ""
    lacking = f"for which {taken} has no kernel" if taken in FLOAT16_ALONE else "which NumPy lacks"
    return module.place(given, f"{ast.unparse(given)} may then be bfloat16, {lacking}")


def _is_half(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether a tensor that a library makes an array of may be 16 bits wide."""
    value = flow_of(project).value_at(module, node, OUTSIDE)
    return _is_unknown(value) or any(atom.dtype in HALVES for atom in value.atoms)


def _converted(item: Application) -> tuple[ast.expr | None, Value | None]:
    """What a call makes an array of, and what is known of it."""
    func, given = item.node.func, next(iter(item.node.args), None)
    if isinstance(func, ast.Attribute) and func.attr == "numpy":
        return func.value, item.receiver
    return given, next((value for node, value in item.arguments if node is given), None)


def _values(project: Project, item: Application, given: ast.expr, value: Value | None) -> Iterator[Value | None]:
    """What is known of a tensor: in its function, or, where that does not tell, on the ways into it."""
    function = function_of(item.module, item.node)
    if not _is_unknown(value) or not isinstance(function, FunctionNode):
        yield value
        return
    entered = [in_way(project, item.module, function, way) for way in ways_into(project, item.module, function)]
    known = [done.record.values.get(given) for done in entered]
    yield from known if known and are_all_ways(project, item.module, function) else [value]


def _may_be_half(value: Value | None) -> bool:
    """Whether a tensor may be 16 bits wide for all that is known; one that always is, is for the rule about arrays."""
    if value is None or _is_unknown(value):
        return True
    dtypes = {atom.dtype for atom in value.atoms} if value.kind is Kind.TENSOR else set()
    return len(dtypes) > 1 and not dtypes.isdisjoint(HALVES)


def _is_unknown(value: Value | None) -> bool:
    if value is None or value.kind is Kind.UNKNOWN:
        return True
    return value.kind is Kind.TENSOR and (not value.atoms or any(atom.dtype is None for atom in value.atoms))
