"""What code makes depend on the device: guards that ask for it, and statements that need CUDA in any case.

The judgment is generous: what may ask for the device counts as asking.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ..python.bindings import default_of, reaching
from ..python.callers import callers_of
from ..python.functions import FunctionTarget, called_function, method_of, returns_of
from ..python.names import ModuleNames, attribute_chain, names_of
from ..python.paths import calls_of, function_of, guards
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


def asks_for_device(project: Project, module: ModuleNames, node: ast.expr, hops: int = MAX_HOPS) -> bool:
    """Whether an expression, or what its names are assigned, speaks of the device."""
    for part in _parts(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _speaks(part.value):
            return True
        if isinstance(part, ast.Attribute) and (_speaks(part.attr) or _is_set_by_device(project, module, part, hops)):
            return True
        if isinstance(part, ast.Call) and _answers_by_device(project, module, part, hops):
            return True
        if isinstance(part, ast.Name) and (_speaks(part.id) or _is_assigned_by_device(project, module, part, hops)):
            return True
    return False


def _speaks(name: str) -> bool:
    """Whether a word of an identifier, in ``snake_case`` or ``camelCase``, is about devices."""
    humps = (f" {after}" if before.islower() and after.isupper() else after for before, after in pairwise(f"_{name}"))
    return not WORDS.isdisjoint("".join(each if each.isalpha() else " " for each in "".join(humps).lower()).split())


def _parts(node: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression; the names of the AMP classes, which hold ``cuda`` as well, are left out."""
    stack: list[ast.AST] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Call) and (attribute_chain(part.func) or [""])[-1] in _AMP:
            stack += [item.value for item in part.keywords if item.arg == "enabled"]
            continue
        yield part
        stack += ast.iter_child_nodes(part)


def _is_assigned_by_device(project: Project, module: ModuleNames, name: ast.Name, hops: int) -> bool:
    if hops <= 0:
        return False
    for binding in reaching(module, module.scope_of(name).lookup(name.id), name):
        if binding.kind == "parameter":
            if _is_passed_by_device(project, module, binding.scope.node, name.id, default_of(binding), hops):
                return True
            continue
        if binding.value is not None and asks_for_device(project, module, binding.value, hops - 1):
            return True
        if isinstance(binding.node, ast.stmt) and _has_device_guard(project, module, binding.node, hops - 1):
            return True
    return False


def _is_passed_by_device(
    project: Project, module: ModuleNames, function: ast.AST, name: str, default: ast.expr | None, hops: int
) -> bool:
    if default is not None and asks_for_device(project, module, default, hops - 1):
        return True
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    for site in callers_of(project, module, function).sites:
        passed = site.target.arguments(site.call).get(name)
        if passed is not None and asks_for_device(project, site.module, passed, hops - 1):
            return True
    return False


def _answers_by_device(project: Project, module: ModuleNames, call: ast.Call, hops: int) -> bool:
    """Whether a function of the project returns what depends on the device."""
    target = called_function(project, module, call) if hops > 0 else None
    return target is not None and _returns_by_device(project, target, hops)


def _returns_by_device(project: Project, target: FunctionTarget, hops: int) -> bool:
    returned = [item for item in returns_of(target.node) if item.value is not None]
    return any(
        asks_for_device(project, target.module, item.value, hops - 1)
        or _has_device_guard(project, target.module, item, hops - 1)
        for item in returned
        if item.value is not None
    )


def _has_device_guard(project: Project, module: ModuleNames, statement: ast.stmt, hops: int) -> bool:
    return hops > 0 and any(asks_for_device(project, module, guard.test, hops) for guard in guards(module, statement))


def _is_set_by_device(project: Project, module: ModuleNames, node: ast.Attribute, hops: int) -> bool:
    """``args.amp = args.amp and device.type == "cuda"``, here or in another file of the project."""
    chain = attribute_chain(node)
    if hops <= 0 or chain is None or (module.qualified(node) or "").startswith("torch"):
        return False
    owner = module.scope_of(node).enclosing_class
    method = method_of(project, module, owner, chain[1]) if owner and chain[0] == "self" and len(chain) == 2 else None
    if method is not None and _returns_by_device(project, method, hops):
        return True
    if _stores_by_device(project, module, node.attr, hops):
        return True
    documents = project.python_documents(containing=(f".{node.attr}",))
    for count, document in enumerate(documents):
        if count >= MAX_DOCUMENTS:
            break
        other = names_of(project, document)
        if other is not module and _stores_by_device(project, other, node.attr, hops):
            return True
    return False


def _stores_by_device(project: Project, module: ModuleNames, name: str, hops: int) -> bool:
    for _, value, statement in module.attribute_stores.get(name, []):
        if value is not None and asks_for_device(project, module, value, hops - 1):
            return True
        if _has_device_guard(project, module, statement, hops - 1):
            return True
    return False


def is_compared_with_kinds(module: ModuleNames, text: str) -> bool:
    """Whether the module compares the device that ``text`` names: ``self.device == "cpu"``, ``"cuda" in device``."""
    names = {text, f"{text}.type", f"str({text})"}
    for node in module.nodes:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        sides = (node.left, node.comparators[0])
        told = any(isinstance(side, ast.Constant) and side.value in ("cpu", "cuda", "mps", "xpu") for side in sides)
        if told and any(ast.unparse(side) in names for side in sides if not isinstance(side, ast.Constant)):
            return True
    return False


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
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        if receiver is not None and module.qualified(receiver) != "torch":
            yield call
    for call in module.calls_by_name.get("to", []):
        if any(_is_cuda(node) for node in [*call.args[:1], *_keyword(call, "device")]):
            yield call
    for name in _NEED_CUDA_NAMES:
        yield from (call for call in module.calls_by_name.get(name, []) if module.qualified(call.func) in NEED_CUDA)
    for call in module.calls_by_name.get("init_process_group", []):
        values = [*call.args[:1], *_keyword(call, "backend")]
        if any(isinstance(node, ast.Constant) and node.value == "nccl" for node in values):
            yield call


def _keyword(call: ast.Call, name: str) -> list[ast.expr]:
    return [item.value for item in call.keywords if item.arg == name]


def _is_cuda(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.partition(":")[0] == "cuda"
