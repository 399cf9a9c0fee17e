"""Where tensors become NumPy arrays, and how a cast to float32 is put in front of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.encounters import applications
from ....codemod.flow.frame import Application, Autocasting, AutocastState
from ....codemod.flow.lattice import Atom, Kind, Made, Role, Value
from ....codemod.flow.ways import are_all_ways, in_way, ways_into
from ....codemod.half.half_runs import applied_in_runs
from ....codemod.model import Edit, Place
from ....codemod.purpose.files import is_test
from ....codemod.purpose.lightning import step_runs
from ....codemod.python.bindings import only_value
from ....codemod.python.caught import is_caught
from ....codemod.python.editing import PRIMARIES
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP64
from ....codemod.torch.tables.libraries import OUTPUT_ATTRIBUTES

_FUNCTIONS = ("asarray", "array")


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One ``tensor.numpy()``, ``np.asarray(tensor)`` or ``np.array(tensor)``."""

    module: ModuleNames
    call: ast.Call
    tensor: ast.expr
    value: Value
    """What the dtype flow knows of the tensor."""
    via: tuple[Place, ...] = ()
    """The calls on whose way it is known."""
    has_others: bool = False
    """Whether other calls may lead here with something else."""

    @property
    def text(self) -> str:
        """The reading as a message calls it."""
        text = ast.unparse(self.call)
        return text if len(text) <= 60 else f"{ast.unparse(self.call.func)[-40:]}(...)"


def readings(project: Project) -> Iterator[Reading]:
    """Every reading outside of tests that nothing protects, in source order of the files."""
    followed = applied_in_runs(project)
    for item in applications(project, ("numpy", *_FUNCTIONS), lambda module, _: not is_test(module.document.path)):
        reading = _reading(followed.get(item.node, item))
        if reading is None or not _is_told(reading.value):
            reading = _reading(item)
        if reading is not None and not is_caught(reading.module, reading.call, "TypeError"):
            yield _in_step(project, reading, item.function)


def _reading(item: Application) -> Reading | None:
    call = item.node
    if item.operation == "numpy" and isinstance(call.func, ast.Attribute) and item.receiver is not None:
        return Reading(item.module, call, call.func.value, item.receiver)
    if item.operation in _FUNCTIONS and item.receiver is None and item.arguments:
        tensor, value = item.arguments[0]
        is_tensor = value.kind in (Kind.TENSOR, Kind.UNKNOWN) and not isinstance(tensor, ast.Starred)
        return Reading(item.module, call, tensor, value) if is_tensor and call.args else None
    return None


def _in_step(project: Project, reading: Reading, function: FunctionNode | None) -> Reading:
    """In a step that Lightning's Trainer runs under bfloat16 autocast the tensor is what it is there."""
    runs = step_runs(project, reading.module, function) if function is not None else ()
    if not any(BF16 in run.dtypes for run in runs):
        return reading
    atom = Atom(symbol="autocast", role=Role.AUTOCAST, made=Made.AUTOCAST, candidates=frozenset({BF16}))
    state = AutocastState(Autocasting.ON, atom)
    return replace(reading, value=flow_of(project).value_at(reading.module, reading.tensor, state))


def entered(project: Project, reading: Reading) -> Iterator[Reading]:
    """The same reading as it is on the ways into its function, where the function alone does not tell the dtype."""
    function = reading.module.scope_of(reading.call).function.node
    if _is_told(reading.value) or not isinstance(function, FunctionNode):
        return
    ways = ways_into(project, reading.module, function)
    entries = [in_way(project, reading.module, function, way).record.values.get(reading.tensor) for way in ways]
    alike = are_all_ways(project, reading.module, function) and all(_is_floating(value) for value in entries)
    for way, value in zip(ways, entries, strict=True):
        if value is not None and value != reading.value:
            yield replace(reading, value=value, via=way.places, has_others=not alike)


def _is_told(value: Value) -> bool:
    return value.kind is Kind.TENSOR and bool(value.atoms) and all(atom.dtype is not None for atom in value.atoms)


def _is_floating(value: Value | None) -> bool:
    """Whether it is a floating tensor that a cast to float32 does not make narrower."""
    atoms = value.atoms if value is not None and value.kind is Kind.TENSOR else ()
    return bool(atoms) and all(atom.is_floating and atom.dtype != FP64 for atom in atoms)


def is_bf16_result(atom: Atom) -> bool:
    """Whether a model gave it in a region that can compute in bfloat16."""
    return atom.role is Role.RESULT and BF16 in atom.candidates


def is_named_part(module: ModuleNames, node: ast.expr) -> bool:
    """``model(x)["depth"].cpu()``: heads of models that return several things compute in float32 as often as not."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            key = node.slice.value
            return isinstance(key, str) and key not in OUTPUT_ATTRIBUTES
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.BinOp):
        return is_named_part(module, node.left) or is_named_part(module, node.right)
    value = only_value(module, node)
    return value is not None and value is not node and is_named_part(module, value)


# --- edits ------------------------------------------------------------------------------------------------------------


def float_edit(reading: Reading) -> Edit | None:
    """``.float()`` before ``.cpu()``, or before the reading."""
    document = reading.module.document
    target = _before_move(reading.tensor)
    span = document.span(target)
    if isinstance(target, PRIMARIES):
        return reading.module.replace(span, span, ".float()")
    if target is not reading.tensor or reading.call.keywords or len(reading.call.args) > 1:
        return None
    whole = document.span(reading.call)
    if isinstance(reading.call.func, ast.Attribute) and reading.call.func.value is target:
        return reading.module.replace(whole, "(", span, ").float().numpy()")
    return reading.module.replace(whole, f"{ast.unparse(reading.call.func)}((", span, ").float())")


def _before_move(tensor: ast.expr) -> ast.expr:
    """The tensor before it is moved to the CPU, where the cast is cheap and reads best."""
    if isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute) and tensor.func.attr == "cpu":
        inner = tensor.func.value
        return inner if isinstance(inner, PRIMARIES) else tensor
    return tensor
