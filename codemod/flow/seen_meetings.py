"""Where a rehearsal saw dtypes meet that do not go together, as meetings of the dtype flow.

What raised needs no analysis to be believed. The flow adds what the run cannot tell: how a dtype is said at the place,
and what is known of the module that is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..model import Place, Span
from ..python.names import FunctionNode, ModuleNames, attribute_chain, last_name, modules_at
from ..python.seen import Seen, expressions_of, seen_of
from ..source.project import Project
from ..torch.dtypes import Dtype
from ..torch.tables.layers import LAYERS
from ..torch.tables.operations import operation
from .analysis import flow_of
from .classes import TorchLayer
from .frame import OUTSIDE, Autocasting, FlowRecord, Frame, Meeting, Operand
from .lattice import Atom, DtypeSource, Kind, MadeHow, Value
from .meetings import METHODS, dtype_of, weights_dtype
from .seen_operands import OperandPair, TakenOperand, operation_at, pairs_of

if TYPE_CHECKING:
    from ..observed.observation import Birth, Failure, SeenOperand

MISMATCH = "dtype_mismatch"
MADE_FLOAT32 = ("float", "double")


def seen_meetings(project: Project) -> tuple[Meeting, ...]:
    """What a rehearsal saw raise for dtypes, in the files that have not changed; nothing where none is known."""
    return project.fact(_all) if project.observation is not None else ()


def explained(project: Project) -> frozenset[Failure]:
    """The failures of which a meeting is known."""
    return frozenset(each.seen for each in seen_meetings(project) if each.seen is not None)


def place_seen(project: Project, meeting: Meeting) -> Place:
    """Where the rehearsal raised, and what."""
    seen = seen_of(project)
    assert seen is not None, "a meeting was seen"
    assert meeting.seen is not None, "asked of what was only read"
    return seen.place_of(meeting.seen)


def _all(project: Project) -> tuple[Meeting, ...]:
    seen = seen_of(project)
    if seen is None or not seen.observation.has_columns:
        return ()
    wanted = [each for each in seen.failures if each.kind.value == MISMATCH]
    return tuple(meeting for failure in wanted for meeting in _of_failure(project, seen, failure))


def _of_failure(project: Project, seen: Seen, failure: Failure) -> Iterator[Meeting]:
    module = seen.module_of(failure)
    node = project.memo(_expressions, module).get(failure.span) if module is not None else None
    if module is None or node is None:
        return
    for pair in pairs_of(seen, module, node, failure):
        meeting = _meeting(project, module, node, failure, pair)
        if meeting is not None:
            yield meeting


def _expressions(_: Project, module: ModuleNames) -> dict[Span, ast.expr]:
    return expressions_of(module)


def _meeting(
    project: Project, module: ModuleNames, node: ast.expr, failure: Failure, pair: OperandPair
) -> Meeting | None:
    known = operation_at(module, node, failure)
    frame = _frame(project, module, node)
    applied = _applied(frame, node, failure) if known is None and isinstance(node, ast.Call) else None
    text = dtype_of(pair.meant.node) if pair.meant is not None else _weights_text(frame, node, applied)
    if pair.meant is None and known is None and applied is None:
        return None  # what is called may be a function, which has no weights to be asked for
    mix = "raises-destination" if isinstance(node, ast.Subscript) else known.mix if known is not None else "raises"
    name = "index_put" if isinstance(node, ast.Subscript) else known.name if known is not None else "module"
    meant = pair.meant.node if pair.meant is not None else node.func if isinstance(node, ast.Call) else node
    state = Autocasting.ON if failure.autocast else Autocasting.OFF
    odd = Operand(pair.odd.node, _atom(project, pair.odd, is_module=name == "module"))
    other = Operand(meant, Atom(Dtype(pair.dtype), made=MadeHow.PLAIN))
    return Meeting(
        module,
        node,
        name,
        mix,
        odd,
        other,
        text,
        state,
        frame.function,
        applied,
        certain=True,
        seen=failure,
        is_only_seen=True,
    )


def _frame(project: Project, module: ModuleNames, node: ast.expr) -> Frame:
    holder = module.scope_of(node).function.node
    function = holder if isinstance(holder, FunctionNode) else None
    return Frame(flow_of(project), module, function, FlowRecord(), OUTSIDE)


def _applied(frame: Frame, node: ast.Call, failure: Failure) -> Value | None:
    """The module that is called: as its class says, else as it was seen."""
    held = _attribute_of_self(frame, node)
    if held is not None and held.kind is Kind.MODULE and held.detail is not None:
        return held
    if not _is_called(frame, node, failure):
        return None
    root, _, name = failure.module_class.rpartition(".")
    layer = TorchLayer(name) if root.startswith("torch.nn.") and name in LAYERS else None
    return Value(Kind.MODULE, label=ast.unparse(node.func), detail=layer)


def _attribute_of_self(frame: Frame, node: ast.Call) -> Value | None:
    owner = frame.analysis.owner(frame.module, frame.function) if frame.function is not None else None
    chain = attribute_chain(_called(node)) or []
    if owner is None or len(chain) != 2 or chain[0] != "self":
        return None
    return frame.analysis.attributes(owner).get(chain[1])


def _is_called(frame: Frame, node: ast.Call, failure: Failure) -> bool:
    """Whether a module of a library is called: it was running, and weights were an operand."""
    root = failure.module_class.rpartition(".")[0]
    is_own = root in ("", "__main__") or frame.project.python_path(root, frame.module.path) is not None
    return not is_own and any(each.is_owned for each in failure.operands) and _is_sayable(_called(node))


def _called(node: ast.Call) -> ast.expr:
    """``vae`` of ``vae.encode(x)``."""
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
    return node.func.value if is_method and isinstance(node.func, ast.Attribute) else node.func


def _is_sayable(node: ast.expr) -> bool:
    """Whether an expression can be written a second time: it calls nothing."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant | ast.Name) and _is_sayable(node.value)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_sayable(node.value))


def _weights_text(frame: Frame, node: ast.expr, applied: Value | None) -> str:
    """How the dtype of the weights is said."""
    if applied is None or not isinstance(node, ast.Call):
        return ""
    called = _called(node)
    if applied.detail is not None:
        text = weights_dtype(frame, node, applied)
        if text:
            return text
    return f"next({ast.unparse(called)}.parameters()).dtype" if _is_sayable(called) else ""


# --- where the operand came from --------------------------------------------------------------------------------------


def _atom(project: Project, taken: TakenOperand, *, is_module: bool) -> Atom:
    source = _source(project, taken.operand) if taken.operand is not None else None
    made = _made(_first(source)) if source is not None else MadeHow.PLAIN
    if made is MadeHow.PLAIN and not is_module:
        made = MadeHow.CAST
    return Atom(Dtype(taken.dtype), made=made, source=source)


def _source(project: Project, operand: SeenOperand) -> DtypeSource | None:
    source: DtypeSource | None = None
    for birth in operand.born:
        node = _born_at(project, birth)
        if node is not None:
            text = birth.message or f"the rehearsal saw {operand.dtype} come from here"
            source = DtypeSource(birth.path, node, text, source)
    return source


def _born_at(project: Project, birth: Birth) -> ast.expr | None:
    """The outermost expression that begins where something was born."""
    seen = seen_of(project)
    if seen is None or birth.path in seen.stale or birth.path not in project.paths:
        return None
    for module in modules_at(project, [birth.path]):
        known = project.memo(_expressions, module)
        return next((node for span, node in known.items() if _begins(span, birth)), None)
    return None


def _begins(span: Span, birth: Birth) -> bool:
    return (span.row, span.column) == (birth.row, birth.column)


def _first(source: DtypeSource) -> DtypeSource:
    while source.before is not None:
        source = source.before
    return source


def _made(source: DtypeSource) -> MadeHow:
    """How the tensor came by its dtype, as the place says where it was born."""
    node = source.node
    if not isinstance(node, ast.Call):
        return MadeHow.PLAIN
    name = last_name(node.func)
    if name in MADE_FLOAT32 or name == "to":
        return MadeHow.CAST
    known = operation(f"torch.{name}")
    makes = known is not None and known.result in ("factory", "arguments", "data")
    return MadeHow.FACTORY if makes and not any(item.arg == "dtype" for item in node.keywords) else MadeHow.PLAIN
