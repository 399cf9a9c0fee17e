"""Where a tensor got its 16-bit dtype: an explicit cast, or an operation that autocast computes in 16 bits.

A tensor is followed backwards inside its function through everything that keeps a dtype. What is not certain (a
parameter, a module's output, a sum with a tensor of unknown dtype) has no origin.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ...codemod.python.bindings import reaching, self_stores
from ...codemod.python.functions import called_function, returns_of
from ...codemod.python.names import Binding, ModuleNames
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import BF16, FP16, Dtype
from ...codemod.torch.weights import cast_dtype
from .keeps_dtype import (
    AUTOCAST_FUNCTIONS,
    AUTOCAST_LAYERS,
    AUTOCAST_METHODS,
    FACTORIES,
    KEEPING_ATTRIBUTES,
    KEEPING_FUNCTIONS,
    KEEPING_LAYERS,
    KEEPING_METHODS,
    LIKE,
    NEW,
)
from .scalars import is_scalar

_MAX_DEPTH = 14
_MAX_STEPS = 600
"""How many expressions are looked at before the answer is "not certain"."""
METHODS = KEEPING_METHODS | AUTOCAST_METHODS | NEW | {"half", "bfloat16", "to", "type_as"}


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Why a tensor is 16-bit."""

    node: ast.expr
    """The cast, or the operation."""
    dtype: Dtype | None
    """What the cast casts to; None for an operation, whose dtype is that of the autocast around it."""


def origin_of(project: Project, module: ModuleNames, node: ast.expr) -> Origin | None:
    """The origin of the tensor that ``node`` evaluates to; None when it is not certainly of a 16-bit one."""
    return _Trace(project, module).of(node, 0)


class _Trace:
    def __init__(self, project: Project, module: ModuleNames) -> None:
        self._project = project
        self._module = module
        self._steps = 0

    def _is_too_much(self, depth: int) -> bool:
        self._steps += 1
        return depth > _MAX_DEPTH or self._steps > _MAX_STEPS

    def of(self, node: ast.expr, depth: int) -> Origin | None:
        if self._is_too_much(depth):
            return None
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node, depth)
        if isinstance(node, ast.Subscript):
            return self.of(node.value, depth + 1)
        if isinstance(node, ast.Attribute) and node.attr in KEEPING_ATTRIBUTES:
            return self.of(node.value, depth + 1)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.of(node.operand, depth + 1)
        if isinstance(node, ast.IfExp):
            return self._all([node.body, node.orelse], depth)
        return None

    def _all(self, nodes: list[ast.expr], depth: int) -> Origin | None:
        """The first origin, where all have one and agree on the dtype."""
        found = [self.of(node, depth + 1) for node in nodes]
        known = [item for item in found if item is not None]
        same = len({item.dtype for item in known}) == 1
        return known[0] if known and len(known) == len(found) and same else None

    def _name(self, node: ast.Name, depth: int) -> Origin | None:
        scope = self._module.scope_of(node)
        kept = [item for item in scope.lookup(node.id) if item.kind != "augmented"]  # += keeps the dtype of its left
        statement = self._module.statement_of(node)
        use = statement if self._module.scope_of(statement) is scope else node
        bindings = reaching(self._module, kept, use)
        values = [self._assigned(item) for item in bindings if getattr(item.node, "lineno", 0) < node.lineno]
        sources = [value for value in values if value is not None]
        return self._all(sources, depth) if len(sources) == len(bindings) else None

    @staticmethod
    def _assigned(binding: Binding) -> ast.expr | None:
        if binding.kind == "assign":
            return binding.value
        node = binding.node
        value = node.value if binding.kind == "unpacked" and isinstance(node, ast.Assign) else None
        parts = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
        return value if parts and value.func.attr in ("chunk", "split", "unbind", "tensor_split") else None  # type: ignore[union-attr]

    def _arithmetic(self, node: ast.BinOp, depth: int) -> Origin | None:
        if isinstance(node.op, ast.MatMult):
            return self._operation(node, [node.left, node.right], depth)
        if not isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
            return None
        tensors = [side for side in (node.left, node.right) if not is_scalar(self._project, self._module, side)]
        return self._all(tensors, depth) if tensors else None

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, depth: int) -> Origin | None:
        name = self._module.qualified(node.func) or ""
        last = name.rpartition(".")[2]
        if name.startswith("torch."):
            return self._function(node, last, depth)
        if last in ("rearrange", "repeat", "reduce") and name.startswith("einops") and node.args:
            return self.of(node.args[0], depth + 1)
        if isinstance(node.func, ast.Attribute):
            layer = self._layer(node.func)
            if layer is not None:
                return self._through_layer(node, layer, depth)
            if node.func.attr in METHODS:
                return self._method(node, node.func, depth)
        return self._own_function(node, depth)

    def _own_function(self, node: ast.Call, depth: int) -> Origin | None:
        """What a function of the project returns, where it has one ``return``; its origin is the call seen here."""
        target = called_function(self._project, self._module, node) if depth < _MAX_DEPTH // 2 else None
        returned = returns_of(target.node) if target is not None else []
        value = returned[0].value if len(returned) == 1 else None
        if target is None or value is None or target.node.decorator_list:
            return None
        inner = _Trace(self._project, target.module).of(value, depth + 4)  # its depth bounds the chain of calls
        return Origin(node, inner.dtype) if inner is not None and inner.dtype is None else None

    def _function(self, node: ast.Call, last: str, depth: int) -> Origin | None:
        if last in AUTOCAST_FUNCTIONS:
            return self._operation(node, node.args, depth)
        if last in FACTORIES or last in LIKE:
            return self._made(node, node.args[0] if last in LIKE and node.args else None, depth)
        if last in KEEPING_FUNCTIONS and node.args and not _has_dtype(node):
            others = [item for item in node.args[1:2] if last in ("add", "sub", "mul", "div")]
            if all(is_scalar(self._project, self._module, item) for item in others):
                return self.of(node.args[0], depth + 1)
        return None

    def _method(self, node: ast.Call, func: ast.Attribute, depth: int) -> Origin | None:
        if func.attr in AUTOCAST_METHODS:
            return self._operation(node, [func.value, *node.args], depth)
        if func.attr in ("half", "bfloat16", "to"):
            return self._cast(node, func, depth)
        if func.attr == "type_as" and node.args:
            return self.of(node.args[0], depth + 1)
        if func.attr in NEW:
            return self._made(node, func.value, depth)
        if func.attr in ("add", "sub", "mul", "div") and not all(
            is_scalar(self._project, self._module, item) for item in node.args
        ):
            return None
        return self.of(func.value, depth + 1) if func.attr in KEEPING_METHODS and not _has_dtype(node) else None

    def _cast(self, node: ast.Call, func: ast.Attribute, depth: int) -> Origin | None:
        dtype = cast_dtype(self._project, self._module, node)
        if dtype is not None:
            return Origin(node, dtype) if dtype in (FP16, BF16) else None
        arguments = [*node.args, *(item.value for item in node.keywords if item.arg in ("dtype", "other"))]
        for argument in arguments:
            of = argument.value if isinstance(argument, ast.Attribute) and argument.attr == "dtype" else None
            if of is not None:
                return self.of(of, depth + 1)
        moved = all(_names_device(item) for item in arguments)
        return self.of(func.value, depth + 1) if moved else None

    def _made(self, node: ast.Call, like: ast.expr | None, depth: int) -> Origin | None:
        """A tensor made with ``dtype=``, or like another one."""
        given = next((item.value for item in node.keywords if item.arg == "dtype"), None)
        if given is None:
            return self.of(like, depth + 1) if like is not None and None not in _names(node) else None
        if isinstance(given, ast.Attribute) and given.attr == "dtype":
            return self.of(given.value, depth + 1)
        found = constants_of(self._project, self._module, given)
        only = found.pop() if len(found) == 1 else None
        return Origin(node, only) if isinstance(only, Dtype) and only in (FP16, BF16) else None

    def _operation(self, node: ast.expr, operands: list[ast.expr], depth: int) -> Origin | None:
        """A product that autocast computes in 16 bits, unless an operand is float32 on purpose."""
        if any(self._is_raised(item, depth + 1) for item in operands):
            return None
        return Origin(node, None)

    def _is_raised(self, node: ast.expr, depth: int) -> bool:
        """Whether a float32 cast stands in what the operand is made of, inside this function."""
        if self._is_too_much(depth):
            return True
        for item in ast.walk(node):
            if isinstance(item, ast.Attribute) and item.attr in ("float", "double", "float32", "float64"):
                return True
            if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load):
                bindings = reaching(self._module, self._module.scope_of(item).lookup(item.id), item)
                values = [binding.node.value for binding in bindings if isinstance(binding.node, ast.Assign)]
                local = [value for value in values if value.lineno < item.lineno]
                if any(self._is_raised(value, depth + 3) for value in local):
                    return True
        return False

    # --- layers -------------------------------------------------------------------------------------------------------

    def _layer(self, func: ast.Attribute) -> ast.expr | None:
        """The class of ``self.<func>``, where it is made in one place by one call."""
        owner = self._module.scope_of(func).enclosing_class
        if owner is None or not isinstance(func.value, ast.Name) or func.value.id != "self":
            return None
        stores = self_stores(self._module, owner, func.attr)
        made = stores[0][0] if len(stores) == 1 else None
        return made.func if isinstance(made, ast.Call) else None

    def _through_layer(self, node: ast.Call, layer: ast.expr, depth: int) -> Origin | None:
        name = self._module.qualified(layer) or ""
        if not name.startswith("torch.nn."):
            return None
        last = name.rpartition(".")[2]
        if last in AUTOCAST_LAYERS:
            return self._operation(node, node.args, depth)
        return self.of(node.args[0], depth + 1) if last in KEEPING_LAYERS and node.args else None


def _has_dtype(node: ast.Call) -> bool:
    return "dtype" in _names(node) or None in _names(node)


def _names(node: ast.Call) -> list[str | None]:
    return [item.arg for item in node.keywords]


def _names_device(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bool)
    return "device" in ast.unparse(node)
