"""Whether a tensor is what a model returned, followed backwards through everything that keeps its dtype."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from ...codemod.flow.attributes import OUTPUT_ATTRIBUTES, SAME_DTYPE_ATTRIBUTES
from ...codemod.python.bindings import reaching
from ...codemod.python.names import Binding, ModuleNames, attribute_chain
from ...codemod.source.project import Project
from ...codemod.torch.tables.operations import Operation, operation

_MAX_DEPTH = 16
_KEEPING = ("first", "first-float", "softmax-like", "max-like")
"""Results (of `operation.RESULTS`) that have the dtype of operand 0."""
_PROMOTING = ("promote", "promote-float")
"""The same, where every other operand is a number."""
_JOINING = ("cat", "concat", "stack", "hstack", "vstack")
_MAKES_FLOAT = ("first-float", "softmax-like")
_MODEL_WORDS = (
    "model", "net", "network", "unet", "vae", "transformer", "generator", "decoder", "encoder", "backbone", "module",
)  # fmt: skip
"""The last word of names under which code keeps modules that it was given."""
_MODULE_METHODS = ("eval", "train", "parameters", "named_parameters", "state_dict", "load_state_dict", "requires_grad_")
_FORWARD = ("forward", "encode", "decode", "module", "sample")
_OUTPUTS = OUTPUT_ATTRIBUTES | {"embeddings", "hidden_states", "reconstruction", "pred", "prediction_logits"}
_FLOATS = {"logits", "last_hidden_state", "pooler_output", "image_embeds", "text_embeds", "sample", "hidden_states"}
_RESULTS = (
    "logit", "logits", "pred", "preds", "prediction", "predictions", "out", "output", "outputs", "prob", "probs",
    "score", "scores", "embedding", "embeddings", "feature", "features", "hat", "recon", "reconstruction", "hidden",
)  # fmt: skip
"""Words in the names of what a model is asked for, as opposed to what it computed on the way."""
_INTEGRAL = ("id", "ids", "idx", "index", "indices", "label", "labels", "len", "length", "lengths", "token", "tokens",
             "mask", "loss", "code", "codes", "class", "classes", "seq", "sequences")  # fmt: skip
"""Words in a key or name that make it unlikely that the model's own floating result is meant."""


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A value that a model returned, or a part of it."""

    module: ModuleNames
    call: ast.Call
    """The call of the model."""
    model: ast.expr
    """What is called, without ``.forward``."""
    floating: bool = False
    """Whether it is a floating tensor for certain."""
    steps: tuple[ast.Call, ...] = ()
    """The operations it went through, last one first."""


def output_of(project: Project, module: ModuleNames, node: ast.expr) -> Output | None:
    """The model's call that made the tensor ``node``; None where that is not certain, or its dtype was changed."""
    return _Trace(project, module).of(node, 0)


class _Trace:
    def __init__(self, project: Project, module: ModuleNames) -> None:
        self._project = project
        self._module = module

    def of(self, node: ast.expr, depth: int) -> Output | None:
        if depth > _MAX_DEPTH:
            return None
        if isinstance(node, ast.Name):
            return self._name(node, depth + 1)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth + 1)
        if isinstance(node, ast.Subscript):
            return None if _speaks_of_integers(node.slice) else self.of(node.value, depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, depth + 1)
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node, depth + 1)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.of(node.operand, depth + 1)
        return None

    # --- names ----------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name, depth: int) -> Output | None:
        if _is_integral(node.id):
            return None
        scope = self._module.scope_of(node)
        bindings = [item for item in scope.lookup(node.id) if item.kind != "augmented"]
        if not bindings or bindings[0].scope.function is not scope.function:
            return None
        found = [self._bound(item, node, depth) for item in reaching(self._module, bindings, node)]
        known = [item for item in found if item is not None]
        return known[0] if known and len(known) == len(found) else None

    def _bound(self, binding: Binding, use: ast.Name, depth: int) -> Output | None:
        if binding.kind == "unpacked" and isinstance(binding.node, ast.Assign):
            return self._part(binding.node, binding.name, depth)
        if binding.kind == "for" and isinstance(binding.node, ast.For) and isinstance(binding.node.target, ast.Name):
            return self.of(binding.node.iter, depth)
        value = binding.value if binding.kind == "assign" else None
        if value is None or binding.node is self._module.statement_of(use):
            return None
        if isinstance(value, ast.List) and not value.elts:
            return self._appended(binding, depth)
        return self.of(value, depth)

    def _part(self, statement: ast.Assign, name: str, depth: int) -> Output | None:
        """``logits, attention = model(x)``: the first part, or one whose name says that it is the result."""
        first = statement.targets[0].elts[0] if isinstance(statement.targets[0], ast.Tuple | ast.List) else None
        is_first = isinstance(first, ast.Name) and first.id == name
        named = not set(name.lower().rstrip("0123456789").split("_")).isdisjoint(_RESULTS)
        parts = isinstance(statement.value, ast.Call) and (is_first or named)
        return self.of(statement.value, depth) if parts else None

    def _appended(self, binding: Binding, depth: int) -> Output | None:
        """``outputs = []`` and ``outputs.append(x)``."""
        found = [
            self.of(call.args[0], depth)
            for call in self._module.calls_by_name.get("append", [])
            if isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == binding.name
            and self._module.scope_of(call).function is binding.scope.function
            and len(call.args) == 1
        ]
        known = [item for item in found if item is not None]
        return known[0] if known and len(known) == len(found) else None

    def _attribute(self, node: ast.Attribute, depth: int) -> Output | None:
        if node.attr not in SAME_DTYPE_ATTRIBUTES and node.attr not in _OUTPUTS:
            return None
        found = self.of(node.value, depth)
        return replace(found, floating=True) if found is not None and node.attr in _FLOATS else found

    def _arithmetic(self, node: ast.BinOp, depth: int) -> Output | None:
        numbers = [side for side in (node.left, node.right) if _is_number(side)]
        others = [side for side in (node.left, node.right) if side not in numbers]
        if len(others) != 1 or not isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
            return None
        found = self.of(others[0], depth)
        floats = isinstance(node.op, ast.Div) or any(isinstance(item.value, float) for item in _constants(numbers[0]))
        return replace(found, floating=True) if found is not None and floats else found

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, depth: int) -> Output | None:
        model = self._model(node.func)
        if model is not None:
            return Output(self._module, node, model)
        if any(item.arg in ("dtype", None) for item in node.keywords):
            return None
        name = self._module.qualified(node.func) or ""
        if name.startswith("torch."):
            return self._operation(node, name, node.args, depth)
        if name.startswith("einops.") and node.args:
            return self.of(node.args[0], depth)
        if isinstance(node.func, ast.Attribute) and not name:
            return self._operation(node, node.func.attr, [node.func.value, *node.args], depth)
        return None

    def _operation(self, node: ast.Call, name: str, operands: list[ast.expr], depth: int) -> Output | None:
        known = operation(name)
        if known is None or not operands:
            return None
        others = [*operands[1:], *(item.value for item in node.keywords)]
        if known.name in _JOINING:
            found = self._joined(operands[0], depth)
        else:
            found = self.of(operands[0], depth) if _keeps_dtype(known, others) else None
        if found is None:
            return None
        return replace(found, floating=found.floating or known.result in _MAKES_FLOAT, steps=(*found.steps, node))

    def _joined(self, listed: ast.expr, depth: int) -> Output | None:
        parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) else [listed]
        found = [self.of(item, depth) for item in parts]
        known = [item for item in found if item is not None]
        return known[0] if known and len(known) == len(found) else None

    def _model(self, func: ast.expr) -> ast.expr | None:
        """The module that a call applies, where the callee is one."""
        while isinstance(func, ast.Attribute) and func.attr in _FORWARD:
            func = func.value
        chain = attribute_chain(func)
        if chain is None or self._module.qualified(func) is not None:
            return None
        if chain == ["self"]:
            return func if self._is_lightning(func) else None
        is_bound = chain[0] == "self" or bool(self._module.scope_of(func).lookup(chain[0]))
        return func if is_bound and (_is_named_model(chain[-1]) or self._is_used_as_module(chain)) else None

    def _is_lightning(self, node: ast.expr) -> bool:
        """``self(x)`` in a LightningModule, which ``forward`` answers."""
        owner = self._module.scope_of(node).enclosing_class
        bases = owner.node.bases if owner is not None and isinstance(owner.node, ast.ClassDef) else []
        return any((attribute_chain(base) or [""])[-1] == "LightningModule" for base in bases)

    def _is_used_as_module(self, chain: list[str]) -> bool:
        """``x.eval()``, ``x.parameters()``: what only modules have."""
        for method in _MODULE_METHODS:
            for node in self._module.attribute_loads.get(method, []):
                if attribute_chain(node.value) == chain:
                    return True
        return False


def _keeps_dtype(known: Operation, others: list[ast.expr]) -> bool:
    """Whether the result has the dtype of the operation's first operand."""
    if known.name == "to":
        return all(_names_device(item) for item in others)
    if known.name == "view":
        return not any("dtype" in text or "torch." in text for text in map(ast.unparse, others))
    if known.result in _PROMOTING:
        return all(_is_number(item) for item in others)
    return known.result in _KEEPING and not (known.result == "max-like" and others)


def _is_named_model(name: str) -> bool:
    return name.lower().rstrip("_0123456789").rpartition("_")[2] in _MODEL_WORDS


def _is_integral(name: str) -> bool:
    return not set(name.lower().split("_")).isdisjoint(_INTEGRAL)


def _speaks_of_integers(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_integral(node.value)


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _constants(node: ast.expr) -> list[ast.Constant]:
    return [item for item in ast.walk(node) if isinstance(item, ast.Constant)]


def _names_device(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bool)
    text = ast.unparse(node).lower()
    return any(word in text for word in ("device", "cuda", "rank", "cpu")) and "dtype" not in text
