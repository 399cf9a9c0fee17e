"""Comparisons of what is certainly a ``torch.dtype``, or its string, with strings that it never equals."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Edit, Fix
from ....codemod.python.bindings import reaching, self_stores
from ....codemod.python.names import Binding, ModuleNames, attribute_chain, resolve, string_of
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import Dtype, as_dtype

FACTORIES = frozenset(
    (
        "zeros",
        "ones",
        "full",
        "empty",
        "rand",
        "randn",
        "tensor",
        "arange",
        "eye",
        "linspace",
        "as_tensor",
        "from_numpy",
    )
)
"""Functions of torch that give back a tensor."""
PARAMETERS = ("weight", "bias")
NOT_TORCH = frozenset(("paddle", "jittor", "tensorflow", "jax", "mxnet", "oneflow", "mindspore", "numpy", "pandas"))
"""Libraries whose dtypes are strings, or compare with them."""
Compared = tuple[ast.Compare, ast.expr, list[ast.Constant]]


def dtype_with_string(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``model.fc.weight.dtype == "float16"``, ``str(dtype) in ("float16", "bfloat16")``."""
    for node, left, words in comparisons_with_words(module):
        if _is_of_another_dtype(project, module, left, words):
            continue
        if _is_dtype(project, module, left):
            verb = "is always true" if isinstance(node.ops[0], ast.NotEq | ast.NotIn) else "is never true"
            message = f"a torch.dtype is equal to no string: this {verb}"
            yield Draft.at(module, node, message, fixes=[_as_dtypes(module, words)])
        elif _is_string_of_dtype(project, module, left) and not any("torch." in str(word.value) for word in words):
            verb = "is always true" if isinstance(node.ops[0], ast.NotEq | ast.NotIn) else "is never true"
            message = f'the string of a torch.dtype begins with "torch.": this {verb}'
            yield Draft.at(module, node, message, fixes=[_with_prefix(module, words)])


def comparisons_with_words(module: ModuleNames) -> Iterator[Compared]:
    """What is compared with strings alone: by ``==`` and ``!=`` with one, by ``in`` with several."""
    for node in module.of_type(ast.Compare):
        if len(node.ops) != 1:
            continue
        other, operator = node.comparators[0], node.ops[0]
        if isinstance(operator, ast.Eq | ast.NotEq) and string_of(other) is not None:
            yield node, node.left, [other]  # type: ignore[list-item]
        elif isinstance(operator, ast.In | ast.NotIn) and isinstance(other, ast.List | ast.Tuple | ast.Set):
            words = [item for item in other.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            if words and len(words) == len(other.elts):
                yield node, node.left, words


def _is_of_another_dtype(project: Project, module: ModuleNames, left: ast.expr, words: list[ast.Constant]) -> bool:
    """Whether a variable holds none of the dtypes that are named: compared rightly it would come out the same."""
    if isinstance(left, ast.Call) and len(left.args) == 1:
        left = left.args[0]
    named = {as_dtype(str(word.value)) for word in words}
    found = constants_of(project, module, left) if isinstance(left, ast.Name) else set()
    return bool(found) and all(isinstance(value, Dtype) for value in (*found, *named)) and found.isdisjoint(named)


# --- what is a dtype --------------------------------------------------------------------------------------------------


def _is_dtype(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return resolve(project, module, node.func) == "torch.get_default_dtype"
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return _is_tensor(project, module, node.value)
    if not isinstance(node, ast.Name) or not module.bindings_of(node):
        return False
    bindings = reaching(module, module.bindings_of(node), node)
    if any(item.kind == "parameter" for item in module.bindings_of(node)):
        return False
    if bindings and all(isinstance(item.value, ast.Attribute) and item.value.attr == "dtype" for item in bindings):
        return all(_is_dtype(project, module, item.value) for item in bindings if item.value is not None)
    found = constants_of(project, module, node)
    return bool(found) and all(isinstance(value, Dtype) for value in found)


def _is_string_of_dtype(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return False
    is_str = isinstance(node.func, ast.Name) and node.func.id == "str" and not module.scope_of(node).lookup("str")
    return is_str and _is_dtype(project, module, node.args[0])


def _is_tensor(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _is_next_parameter(node) or _makes_tensor(project, module, node)
    if isinstance(node, ast.Name):
        return _is_tensor_name(project, module, node)
    if not isinstance(node, ast.Attribute) or not _uses_torch_only(module):
        return False
    return node.attr in PARAMETERS or _is_own_tensor(project, module, node)


def _is_next_parameter(node: ast.Call) -> bool:
    """``next(model.parameters())``."""
    inner = node.args[0] if isinstance(node.func, ast.Name) and node.func.id == "next" and node.args else None
    return isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "parameters"


def _makes_tensor(project: Project, module: ModuleNames, node: ast.Call) -> bool:
    root, _, name = (resolve(project, module, node.func) or "").rpartition(".")
    return root == "torch" and name in FACTORIES


def _is_tensor_name(project: Project, module: ModuleNames, node: ast.Name) -> bool:
    bindings = reaching(module, module.bindings_of(node), node)
    return bool(bindings) and all(_binds_tensor(project, module, binding) for binding in bindings)


def _binds_tensor(project: Project, module: ModuleNames, binding: Binding) -> bool:
    made, declared = binding.value, binding.node
    if isinstance(declared, ast.arg):
        return declared.annotation is not None and resolve(project, module, declared.annotation) == "torch.Tensor"
    if isinstance(declared, ast.For) and isinstance(declared.target, ast.Name):
        source = declared.iter.func if isinstance(declared.iter, ast.Call) else None
        return isinstance(source, ast.Attribute) and source.attr == "parameters"
    return isinstance(made, ast.Call) and (_is_next_parameter(made) or _makes_tensor(project, module, made))


def _is_own_tensor(project: Project, module: ModuleNames, node: ast.Attribute) -> bool:
    """``self.x`` that is a registered buffer or a parameter: a module lets neither become anything else, but None."""
    owner = module.scope_of(node).enclosing_class
    if attribute_chain(node.value) != ["self"] or owner is None:
        return False
    stored = [value for value, _ in self_stores(module, owner, node.attr)]
    if any(isinstance(value, ast.Call) and _is_parameter(project, module, value) for value in stored):
        return True
    return any(
        call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == node.attr
        for call in module.calls_by_name.get("register_buffer", [])
        if module.scope_of(call).enclosing_class is owner
    )


def _is_parameter(project: Project, module: ModuleNames, node: ast.Call) -> bool:
    return (resolve(project, module, node.func) or "").endswith("torch.nn.Parameter")


def _uses_torch_only(module: ModuleNames) -> bool:
    packages = module.imported_packages
    return "torch" in packages and packages.isdisjoint(NOT_TORCH)


def _as_dtypes(module: ModuleNames, words: list[ast.Constant]) -> Fix | None:
    named = any(item.kind == "import" and item.qualified == "torch" for item in module.module_scope.lookup("torch"))
    edits = _replaced(module, words, "torch.{}") if named else []
    if not edits:
        return None
    return Fix.unsafe("dtype", "compare with the dtype; what never ran begins to run", *edits)


def _with_prefix(module: ModuleNames, words: list[ast.Constant]) -> Fix | None:
    edits = _replaced(module, words, '"torch.{}"')
    return (
        Fix.unsafe("prefix", "compare with the whole string; what never ran begins to run", *edits) if edits else None
    )


def _replaced(module: ModuleNames, words: list[ast.Constant], spelling: str) -> list[Edit]:
    """Each word as the dtype that it names; nothing where it names none, or two of them name one."""
    known = [dtype for word in words if isinstance(dtype := as_dtype(str(word.value)), Dtype)]
    if len({*known}) != len(words):
        return []
    return [module.replace(word, spelling.format(dtype.name)) for word, dtype in zip(words, known, strict=True)]
