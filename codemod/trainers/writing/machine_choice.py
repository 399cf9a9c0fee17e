"""The question that a portable program asks its machine once: whether to compute in bfloat16.

Yes where bfloat16 is native, and where there is no CUDA device at all (CPUs, XPUs and TPUs have it); no on CUDA devices
that only emulate it, which need float16 and a GradScaler. A module gets the question as one constant below its imports,
or uses the one that it has.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ...model import AddImport, Edit, EditRefused, InsertStatement, Operation
from ...python.names import ModuleNames, names_of
from ...releases.pins import certainly_has
from ...source.project import Project
from ...torch.imported import torch_of

NAMES = ("USE_BF16", "COMPUTE_IN_BF16", "BF16_IS_NATIVE")
"""What the constant is called: the first of these that is free."""
MEANING = "bfloat16 where it is native; float16, with loss scaling, on older CUDA GPUs"
ASKS = "is_bf16_supported(including_emulation=False)"
HAS_ARGUMENT = "2.4"
"""The torch from which on the question knows emulation from native support."""
NATIVE_SINCE = 8
"""The compute capability; what ROCm says there is never below."""
LATE_WORDS = ("cuda_visible_devices", "fork", "process(")
TOO_EARLY = (
    'environ["CUDA_VISIBLE_DEVICES"]',
    "environ['CUDA_VISIBLE_DEVICES']",
    'set_start_method("fork',
    "set_start_method('fork",
    'get_context("fork',
    "get_context('fork",
    "mp.Process(",
    "multiprocessing.Process(",
)
"""Signs in a project that the device must not be asked while modules are imported: devices are chosen, or processes
forked, after that."""


@dataclass(frozen=True, slots=True)
class MachineQuestion:
    """How one module asks."""

    text: str
    """Source that is true for bfloat16: a name, or the call of a function."""
    torch: str
    edits: tuple[Edit, ...]
    """What makes ``text`` mean that; none where it does."""

    def choice(self, bf16: str, fp16: str, neither: str | None = None) -> str:
        """One of these source texts, by the machine; ``neither`` (else ``bf16``) where there is no CUDA device."""
        cuda = f"{self.torch}.cuda.is_available()"
        if neither is None or neither == bf16:
            return {("True", "False"): self.text, ("False", "True"): f"not {self.text}"}.get(
                (bf16, fp16), f"{bf16} if {self.text} else {fp16}"
            )
        if (bf16, fp16, neither) == ("True", "False", "False"):
            return f"{self.text} and {cuda}"
        other = f"{bf16} if {cuda} else {neither}"
        return f"{fp16} if not {self.text} else {other}"


def question(project: Project, module: ModuleNames, uses: Sequence[ast.AST], exact: bool = True) -> MachineQuestion:
    """How the places ``uses`` of ``module`` can ask. Raises EditRefused where the question cannot be put there.

    Not ``exact``: a test of the project's own will do that says no where there is no CUDA device.
    """
    known = _known(project, module, exact)
    torch = torch_of(module) or "torch"
    if known is not None:
        return MachineQuestion(known, torch, ())
    name = next((item for item in NAMES if _is_free(module, item)), None)
    if name is None or not uses:
        raise EditRefused("the names for the machine's question are taken")
    lazy = project.fact(_must_ask_late)
    operations: list[Operation] = [_insertion(module, uses, _definition(project, module, name, torch, lazy))]
    if torch_of(module) is None:
        operations.append(AddImport("import torch"))
    path = module.document.path
    text = f"{name.lower()}()" if lazy else name
    return MachineQuestion(text, torch, tuple(Edit(path, item) for item in operations))


# --- a question that is there -----------------------------------------------------------------------------------------


def _known(project: Project, module: ModuleNames, exact: bool) -> str | None:
    """What this module, or one that it imports from, calls the answer."""
    for name, bindings in module.module_scope.bindings.items():
        owner, binding = module, bindings[0] if len(bindings) == 1 else None
        if binding is not None and binding.kind == "import":
            source, _, original = (binding.qualified or "").rpartition(".")
            document = project.python_module(source, module.document.path) if "bf" in original.lower() else None
            owner = names_of(project, document) if document is not None else module
            found = owner.module_scope.lookup(original) if document is not None else []
            binding = found[0] if len(found) == 1 else None
        if binding is None:
            continue
        if isinstance(binding.node, ast.FunctionDef):
            values = [item.value for item in owner.returns_of(binding.node) if item.value is not None]
            if len(values) == 1 and not binding.node.args.args and _is_exact(owner, values[0]):
                return f"{name}()"
        elif binding.value is not None and (
            _is_exact(owner, binding.value) or (not exact and _says_native(owner, binding.value))
        ):
            return name
    return None


def _is_exact(module: ModuleNames, node: ast.expr) -> bool:
    """``not torch.cuda.is_available() or <the machine has it>``"""
    if not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.Or) or len(node.values) != 2:
        return False
    first, second = node.values
    none_there = (
        isinstance(first, ast.UnaryOp) and isinstance(first.op, ast.Not) and _asks_for_cuda(module, first.operand)
    )
    return none_there and _says_native(module, second)


def _says_native(module: ModuleNames, node: ast.expr) -> bool:
    """A yes or no to whether bfloat16 is there, with or without a word on CUDA being there."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) and len(node.values) == 2:
        return _asks_for_cuda(module, node.values[0]) and _says_native(module, node.values[1])
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Subscript) and isinstance(node.ops[0], ast.GtE):
        bound = node.comparators[0]
        call = node.left.value
        asks = isinstance(call, ast.Call) and (module.qualified(call.func) or "").endswith("get_device_capability")
        return asks and isinstance(bound, ast.Constant) and bound.value == NATIVE_SINCE
    name = module.qualified(node.func) if isinstance(node, ast.Call) else None
    return name is not None and name.rpartition(".")[2] in ("is_bf16_supported", "is_bfloat16_supported")


def _asks_for_cuda(module: ModuleNames, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and module.qualified(node.func) == "torch.cuda.is_available"


def _must_ask_late(project: Project) -> bool:
    return bool(project.python_paths(LATE_WORDS, TOO_EARLY))


def _definition(project: Project, module: ModuleNames, name: str, torch: str, lazy: bool) -> str:
    test = f"{torch}.cuda.get_device_capability()[0] >= {NATIVE_SINCE}"  # the same answer, in every release
    if certainly_has(project, "torch", HAS_ARGUMENT, module.document.path):
        test = f"{torch}.cuda.{ASKS}"
    asked = f"not {torch}.cuda.is_available() or {test}"
    if lazy:
        return f'\n\ndef {name.lower()}() -> bool:\n    """Choose {MEANING}."""\n    return {asked}'
    return f"\n# {MEANING}\n{name} = {asked}"


def _is_free(module: ModuleNames, name: str) -> bool:
    return not any(name in scope.bindings or name.lower() in scope.bindings for scope in module.scopes.values())


def _insertion(module: ModuleNames, uses: Sequence[ast.AST], text: str) -> InsertStatement:
    """Below the imports that open the module; the same place for every use. Raises EditRefused for a use above."""
    body = _body(module)
    tops = [body.index(top) for top in (_top(module, use) for use in uses) if isinstance(top, ast.stmt)]
    first_use = min(tops, default=0)
    anchor = _end_of_imports(body, torch_of(module) or "")
    if anchor is None:
        return InsertStatement(module.document.span(body[first_use]), text.lstrip("\n") + "\n")
    if anchor >= first_use:
        raise EditRefused("the precision is decided above the imports")
    return InsertStatement(module.document.span(body[anchor]), text, "after")


def _end_of_imports(body: list[ast.stmt], torch: str) -> int | None:
    """The last of the imports that open a module, torch's among them if it is there."""
    anchor: int | None = None
    waits = any(_imports(node, torch) for node in body)
    for index, node in enumerate(body):
        if isinstance(node, ast.Import | ast.ImportFrom) or (torch and _imports(node, torch)):
            anchor = index
            waits = waits and not _imports(node, torch)
        elif not waits and not _may_stand_between(node):
            break
    return anchor


def _imports(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.Try):
        return any(_imports(item, name) for item in node.body)
    names = node.names if isinstance(node, ast.Import) else []
    return any((item.asname or item.name.partition(".")[0]) == name for item in names)


def _may_stand_between(node: ast.stmt) -> bool:
    """``sys.path.append(...)``, ``os.environ[...] = ...``, ``try: import x``: imports follow."""
    if isinstance(node, ast.Try | ast.If):
        return any(isinstance(item, ast.Import | ast.ImportFrom) for item in node.body)
    if isinstance(node, ast.Assign):
        return not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    return isinstance(node, ast.Expr | ast.Pass)


def _body(module: ModuleNames) -> list[ast.stmt]:
    tree = module.module_scope.node
    return tree.body if isinstance(tree, ast.Module) else []


def _top(module: ModuleNames, node: ast.AST) -> ast.AST:
    """The statement of the module that ``node`` stands in."""
    last = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Module):
            break
        last = parent
    return last
