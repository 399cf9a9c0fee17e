"""What the results of an autocast region reach of which nobody knows that it takes bfloat16.

Not a list of what does not: every use of a result has to be one that is known, else the move needs leave.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.flow.lattice import Kind
from ....codemod.model import Place
from ....codemod.python.functions import called_function, class_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import function_of, name_parts
from ....codemod.python.scopes import last_name
from ....codemod.source.project import Project
from ....codemod.torch.api import CASTS
from ....codemod.torch.dtypes import HALVES, TORCH_DTYPES
from ....codemod.torch.tables.operations import operation
from .demanded_halves import counts_far
from .differentiated import is_differentiated
from .known_callables import followed_call, has_methods, is_of_python, is_replaced, returns_in_sight
from .narrowed import LOSING, LOST, is_narrowed
from .region_results import KEEPING, Behind, StatementBlock, is_conversion, is_result, names_at
from .stored_names import COLLECTING
from .stored_results import Stores

RAW = frozenset({
    "__array__", "__dlpack__", "untyped_storage", "storage", "data_ptr", "numpy", "element_size", "nbytes",
    "itemsize", "register_hook",
})  # fmt: skip
"""Members of tensors that give their bits or how many there are, or hand a tensor of the same dtype to others."""
CLEARED = (LOSING - {"numpy", "type"}) | {"isnan", "isfinite", "id", "repr", "format", "hasattr", "callable"}
"""Calls that take a tensor of any dtype and give nothing of it on."""
SAYING = frozenset({
    "backward", "manual_backward", "set_postfix", "set_description", "info", "debug", "warning", "error",
})  # fmt: skip
"""Methods that only print or differentiate what they are given."""
WRAPPING = frozenset({
    "list", "tuple", "dict", "zip", "enumerate", "sum", "max", "min", "sorted", "reversed", "next", "iter", "abs",
    "round", "set", "copy", "deepcopy", "chain", "defaultdict", "OrderedDict", "tqdm",
})  # fmt: skip
"""Functions of Python whose result holds what they are given."""
TENSOR = frozenset({
    "scale", "gather", "gather_for_metrics", "reduce", "all_reduce", "all_gather", "eq", "ne", "mul", "add", "sub",
    "div", "matmul", "copy_", "view_as", "expand_as", "reshape_as", "type_as", "mul_", "add_", "sub_", "div_",
    "index_add_", "scatter_", "masked_fill", "masked_scatter", "where", "dot", "mm", "bmm", "cross",
})  # fmt: skip
"""Methods of tensors, scalers and accelerators that take a tensor and give one."""
PACKAGES = ("torch.", "einops.")
"""Packages whose functions compute with bfloat16 as they do with float16."""
HANDED_OVER = (
    *("torch.utils", "torch.ops", "torch.library", "torch.to_dlpack", "torch.save", "torch.from_numpy"),
    *("torch.Tensor.numpy", "torch.ByteStorage", "einops.asnumpy"),
)
"""What of them hands a tensor to others, or makes an array of it."""
METHODS = KEEPING | TENSOR | LOSING | {*CASTS, "type_as", "copy", "setdefault", "popitem", "split", "chunk", "unbind"}
"""Methods of tensors, lists and dictionaries."""
THROUGH = (
    ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Starred | ast.Await | ast.UnaryOp | ast.BoolOp | ast.IfExp
    | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.NamedExpr | ast.keyword
)  # fmt: skip
"""Nodes whose value holds what stands in them."""
ENDING = (
    ast.Compare | ast.FormattedValue | ast.comprehension | ast.For | ast.AsyncFor | ast.Expr | ast.Assert | ast.If
    | ast.While | ast.Raise | ast.Delete | ast.Slice | ast.withitem
)  # fmt: skip
"""Nodes that end the way of a value, or where it is followed by its name."""


def unproved_use(project: Project, block: StatementBlock, behind: Behind) -> Place | None:
    """The first use of a region's result of which it is not known that it takes bfloat16."""
    return next(_Uses(project, block, behind).found(), None)


class _Uses:
    def __init__(self, project: Project, block: StatementBlock, behind: Behind) -> None:
        self._project, self._held, self._unread = project, behind.held, behind.unread
        self._stores = Stores(project, behind.held)
        self._entered = {statement for _, statement in block}

    def found(self) -> Iterator[Place]:
        for (module, function), names in self._held.items():
            for node in ast.walk(function):
                if self._is_held(module, node, names) or self._computes_here(module, node):
                    place = self._followed(module, node)
                    if place is not None:
                        yield place

    def _is_held(self, module: ModuleNames, node: ast.AST, names: set[str]) -> bool:
        if not is_result(node, names) or is_narrowed(module, node):
            return False
        return is_result(node, names_at(self._project, module, node, names))

    def _computes_here(self, module: ModuleNames, node: ast.AST) -> bool:
        """Whether a call of the block computes with a model: its result may have no name."""
        if not isinstance(node, ast.Call) or last_name(node.func) in CLEARED | WRAPPING | TENSOR | SAYING | KEEPING:
            return False
        if not self._is_entered(module, node):
            return False
        return not module.qualified(node.func) or self._kind(module, node.func) is Kind.MODULE

    def _is_entered(self, module: ModuleNames, node: ast.AST) -> bool:
        return not self._entered.isdisjoint(module.ancestors(node))

    def _followed(self, module: ModuleNames, node: ast.AST) -> Place | None:
        """Climb from a result to what takes it."""
        way = [node]
        while True:
            parent = module.parents.get(way[-1])
            step = self._step(module, way[-1], parent)
            if step is None:
                return None
            if step is way[-1]:
                return None if any(self._is_other(module, item) for item in way) else _place(module, way[-1])
            way.append(step)

    def _step(self, module: ModuleNames, node: ast.AST, parent: ast.AST | None) -> ast.AST | None:
        """The expression that holds the value next; None where it ends well; itself where nothing is known."""
        if isinstance(parent, ast.Return | ast.Yield | ast.YieldFrom):
            return node if function_of(module, node) in self._unread else None
        if parent is None or isinstance(parent, ENDING):
            return None
        if isinstance(parent, ast.Attribute):
            return self._of_attribute(module, node, parent)
        if isinstance(parent, ast.Subscript):
            return parent if node is parent.value and isinstance(parent.ctx, ast.Load) else None
        if isinstance(parent, ast.IfExp) and node is parent.test:
            return None
        if isinstance(parent, ast.keyword):
            call = module.parents.get(parent)
            return self._taken(module, call, node) if isinstance(call, ast.Call) else None
        if isinstance(parent, ast.Call):
            return self._taken(module, parent, node)
        if isinstance(parent, ast.BinOp):
            other = parent.right if node is parent.left else parent.left
            is_text = isinstance(other, ast.Constant) and isinstance(other.value, str)
            return None if is_text else node if self._stores.is_array(module, other) else parent
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return node if self._stores.loses(module, parent) else None
        return parent if isinstance(parent, THROUGH) else node

    def _of_attribute(self, module: ModuleNames, node: ast.AST, parent: ast.Attribute) -> ast.AST | None:
        call = module.parents.get(parent)
        if not isinstance(parent.ctx, ast.Load):
            return None
        if not isinstance(call, ast.Call) or call.func is not parent:
            if parent.attr in RAW:
                return node
            return (
                parent
                if parent.attr not in LOST
                else _of_dtype(module, node, parent)
                if parent.attr == "dtype"
                else None
            )
        if parent.attr == "numpy" or parent.attr in CLEARED or parent.attr in COLLECTING:
            return None
        dtypes = [
            TORCH_DTYPES.get(module.qualified(item) or "")
            for item in (*call.args, *(each.value for each in call.keywords))
        ]
        stated = next((item for item in dtypes if item is not None), None)
        if parent.attr in RAW or (parent.attr == "type" and not call.args) or _reinterprets(module, call):
            return node
        if stated is not None and stated not in HALVES:
            return None
        return call if self._is_known_method(module, call, parent) else node

    def _is_known_method(self, module: ModuleNames, call: ast.Call, method: ast.Attribute) -> bool:
        """Whether a method is one of tensors or containers, or computes with gradients; not of a class of its own."""
        is_own = called_function(self._project, module, call) is not None
        if is_own or method.attr in METHODS or operation(method.attr.removesuffix("_")) is not None:
            return True
        return is_differentiated(self._project, call)

    def _taken(self, module: ModuleNames, call: ast.Call, node: ast.AST) -> ast.AST | None:
        """What becomes of an argument."""
        name, qualified = last_name(call.func), module.qualified(call.func) or ""
        if call.func is node:
            return call
        if is_conversion(call):
            return None if self._kind(module, node) is Kind.TENSOR else node
        if qualified.startswith("numpy.") or qualified.startswith(HANDED_OVER):
            return node
        if qualified.startswith(PACKAGES):
            return call
        target = followed_call(self._project, module, call)
        if target is not None:
            is_followed = (
                any(node is value for _, value in target.passed(call)) and (target.module, target.node) in self._held
            )
            if not is_followed or is_replaced(target):
                return node
            return None if returns_in_sight(self._project, module, call) else call
        return self._taken_by_unknown(module, call, node, name, qualified)

    def _taken_by_unknown(
        self, module: ModuleNames, call: ast.Call, node: ast.AST, name: str, qualified: str
    ) -> ast.AST | None:
        is_logged = name == "log" and "loss" in _words(node)
        is_method = isinstance(call.func, ast.Attribute) and not qualified
        if is_logged or qualified.startswith(("logging.", "math.")) or (is_method and name in SAYING):
            return None
        if not is_method and is_of_python(module, call.func, qualified):
            return self._taken_by_python(call, node, name)
        if isinstance(call.func, ast.Attribute) and is_method:
            if name in COLLECTING or name in ("insert", "appendleft", "setdefault"):
                return None if self._stores.keeps(module, call.func.value, name) else node
            if self._kind(module, call.func.value) is Kind.TENSOR or (name in TENSOR and self._gives(module, call)):
                return call
        if self._kind(module, call.func) is Kind.MODULE or (not qualified and is_differentiated(self._project, call)):
            return call
        owner = class_of(self._project, module, call.func)
        return call if owner is not None and not has_methods(owner[1].node) else node

    def _taken_by_python(self, call: ast.Call, node: ast.AST, name: str) -> ast.AST | None:
        if name == "getattr":
            asked = call.args[1] if call.args[1:] else None
            return call if isinstance(asked, ast.Constant) and asked.value not in RAW else node
        is_tested = name in ("sorted", "max", "min") and any(item.arg == "key" for item in call.keywords)
        return None if name in CLEARED else call if name in WRAPPING and not is_tested else node

    def _gives(self, module: ModuleNames, call: ast.Call) -> bool:
        return not isinstance(module.parents.get(call), ast.Expr)

    def _kind(self, module: ModuleNames, node: ast.AST) -> Kind:
        return self._stores.value(module, node).kind if isinstance(node, ast.expr) else Kind.UNKNOWN

    def _is_other(self, module: ModuleNames, node: ast.AST) -> bool:
        """Whether a value is known to have another dtype than the region's, or not to be a tensor."""
        if not isinstance(node, ast.expr):
            return False
        value = self._stores.value(module, node)
        if value.kind in (Kind.NUMBER, Kind.DTYPE, Kind.MODULE):
            return True
        dtypes = {atom.dtype for atom in value.atoms} if value.kind is Kind.TENSOR else set()
        return bool(dtypes) and None not in dtypes and dtypes.isdisjoint(HALVES)


def _of_dtype(module: ModuleNames, node: ast.AST, dtype: ast.Attribute) -> ast.AST | None:
    """What is made of a dtype: a tensor of the same one and a text fit, a comparison does not."""
    parent = module.parents.get(dtype)
    if isinstance(parent, ast.keyword | ast.FormattedValue):
        return node if counts_far(module.parents.get(parent)) else None
    if isinstance(parent, ast.Call):
        is_fitting = last_name(parent.func) in ("to", "type", "print", "finfo", "zeros", "ones", "tensor")
        return None if is_fitting and "numpy" not in (module.qualified(parent.func) or "") else node
    return node


def _reinterprets(module: ModuleNames, call: ast.Call) -> bool:
    """``out.view(torch.int16)``"""
    return last_name(call.func) == "view" and any(
        (module.qualified(item) or "").startswith("torch.") for item in call.args
    )


def _place(module: ModuleNames, node: ast.AST) -> Place:
    said = "what a result of the region reaches here is not known to take bfloat16"
    return module.place(node, f"{ast.unparse(node)}: {said}")


def _words(node: ast.AST) -> set[str]:
    """The words of the variables in an expression: what is called a loss is a single number."""
    names = (item for item in ast.walk(node) if isinstance(item, ast.Name | ast.Attribute))
    return {word for item in names for word in name_parts(item)}
