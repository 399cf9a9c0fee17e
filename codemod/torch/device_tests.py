"""What code makes depend on the device: guards that ask for it, and statements that need CUDA in any case.

The judgment is generous: what may ask for the device counts as asking.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice, pairwise

from ..python.arguments import argument, receiver_of
from ..python.callers import callers_of
from ..python.functions import called_function
from ..python.names import ModuleNames, attribute_chain, last_name, names_of, string_of
from ..python.paths import calls_of, function_of, guards
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import FromBinding, Returned, TraceStep
from ..source.project import Project

MAX_HOPS = 3
MAX_DOCUMENTS = 20
WORDS = frozenset(("cuda", "device", "devices", "gpu", "gpus", "ngpu", "ngpus", "cpu", "mps", "xpu", "rocm", "hip"))
"""Parts of names, and texts, that speak of the device."""
NEED_CUDA = {
    "torch.cuda.set_device",
    "torch.cuda.synchronize",
    "torch.cuda.Event",
    "torch.cuda.Stream",
    "torch.cuda.current_stream",
    "torch.cuda.get_device_name",
    "torch.cuda.get_device_properties",
    "torch.cuda.get_device_capability",
    "torch.cuda.current_device",
}
"""These raise where there is no CUDA GPU."""
_NEED_CUDA_NAMES = tuple(sorted(name.rpartition(".")[2] for name in NEED_CUDA))
_MANY_GPUS = ("dist", "ddp", "parallel", "worker", "rank")
_AMP = ("autocast", "GradScaler", "ShardedGradScaler")


def depends_on_device(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether ``node`` is only reached (in its function, or by its function's callers) after a test of the device."""
    return _is_guarded(project, module, node, MAX_HOPS)


def _is_guarded(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> bool:
    if any(asks_for_device(project, module, guard.test) for guard in guards(module, node)):
        return True
    if any(isinstance(parent, ast.match_case | ast.ExceptHandler) for parent in module.ancestors(node)):
        return True
    function = function_of(module, node)
    if hops <= 0 or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    if WORDS & set(function.name.lower().split("_")):
        return True
    sites = callers_of(project, module, function).sites
    return any(_is_guarded(project, site.module, site.call, hops - 2) for site in sites)


def asks_for_device(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether an expression, or what its names are assigned, speaks of the device."""
    return True in trace(project, module, node, SPEAKS_OF_DEVICE)


def speaking(says: Callable[[ast.expr], bool]) -> Domain[bool]:
    """Whether anything on the way to a value says something."""

    def leaf(question: Trace[bool], module: ModuleNames, node: ast.expr) -> Iterable[bool] | None:
        if says(node) or any(True in question.of(module, part) for part in _parts(node)):
            return (True,)
        return None if isinstance(node, ast.Name | ast.Attribute | ast.Call) else (False,)

    return Domain(leaf, lambda *_asked: (False,), every_default=True)


def _says(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _speaks(node.value)
    return _speaks(last_name(node))


def _speaks(name: str) -> bool:
    """Whether a word of an identifier, in ``snake_case`` or ``camelCase``, is about devices."""
    humps = (f" {after}" if before.islower() and after.isupper() else after for before, after in pairwise(f"_{name}"))
    return not WORDS.isdisjoint("".join(each if each.isalpha() else " " for each in "".join(humps).lower()).split())


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions in an expression; the names of the AMP classes, which hold ``cuda`` as well, are left out."""
    if isinstance(node, ast.Call) and (attribute_chain(node.func) or [""])[-1] in _AMP:
        yield from (item.value for item in node.keywords if item.arg == "enabled")
        return
    stack = list(ast.iter_child_nodes(node))
    while stack:
        part = stack.pop()
        if isinstance(part, ast.expr):
            yield part
        else:
            stack += ast.iter_child_nodes(part)


def _carried(question: Trace[bool], step: TraceStep, values: Iterable[bool]) -> Iterable[bool]:
    """What a test of the device decides depends on it."""
    if isinstance(step, FromBinding) and isinstance(step.binding.node, ast.stmt):
        module, statement = step.module, step.binding.node
    elif isinstance(step, Returned):
        module, statement = step.target.module, step.statement
    else:
        return values
    guarded = any(True in question.of(module, guard.test) for guard in guards(module, statement))
    return (True,) if guarded else values


def _set_anywhere(question: Trace[bool], module: ModuleNames, node: ast.Attribute) -> Iterator[bool]:
    """``args.amp = args.amp and device.type == "cuda"``, here or in another file of the project."""
    if attribute_chain(node) is None or (module.qualified(node) or "").startswith("torch"):
        return
    documents = question.project.python_documents((node.attr,), (f".{node.attr} =",))
    modules = (names_of(question.project, document) for document in islice(documents, MAX_DOCUMENTS))
    for other in dict.fromkeys((module, *modules)):
        for _, value, statement in other.attribute_stores.get(node.attr, []):
            yield from question.of(other, value) if value is not None else ()
            yield from (found for guard in guards(other, statement) for found in question.of(other, guard.test))


SPEAKS_OF_DEVICE = replace(speaking(_says), carried=_carried, setting=_set_anywhere)
"""Whether anything on the way to a value speaks of the device."""


# --- code that runs on CUDA alone -------------------------------------------------------------------------------------


def needs_cuda(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether the code around ``node`` runs on CUDA in any case: its file, a caller's, or a function it calls does."""
    function = function_of(module, node)
    if project.memo(_functions_on_cuda, module):
        return True
    called = (called_function(project, module, call) for call in calls_of(module, function))
    if any(target is not None and target.node in project.memo(_functions_on_cuda, target.module) for target in called):
        return True
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(project.memo(_functions_on_cuda, site.module) for site in callers_of(project, module, function).sites)


def _functions_on_cuda(project: Project, module: ModuleNames) -> list[ast.AST]:
    """The functions of ``module`` that move to CUDA, or ask for a GPU, where no test guards it."""
    return [function_of(module, call) for call in _cuda_calls(module) if not _is_conditional(module, call)]


def _is_conditional(module: ModuleNames, call: ast.Call) -> bool:
    """Behind an ``if`` (an early exit before it does not count), or in a function that sets up several GPUs."""
    if any(guard.leaving is None for guard in guards(module, call)):
        return True
    if any(isinstance(parent, ast.Try) for parent in module.ancestors(call)):
        return True
    name = getattr(function_of(module, call), "name", "").lower()
    return any(word in name for word in _MANY_GPUS)


def _cuda_calls(module: ModuleNames) -> Iterator[ast.Call]:
    for call in module.calls_by_name.get("cuda", []):
        receiver = receiver_of(call)
        if receiver is not None and module.qualified(receiver) != "torch":
            yield call
    for call in module.calls_by_name.get("to", []):
        given = (string_of(node) or "" for node in (*call.args[:1], argument(call, "device")))
        if any(text.partition(":")[0] == "cuda" for text in given):
            yield call
    for name in _NEED_CUDA_NAMES:
        yield from (call for call in module.calls_by_name.get(name, []) if module.qualified(call.func) in NEED_CUDA)
    for call in module.calls_by_name.get("init_process_group", []):
        if string_of(argument(call, "backend", position=0)) == "nccl":
            yield call
