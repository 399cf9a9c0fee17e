"""The state of one interpretation: what each name holds, which autocast region is open, what was met on the way."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Protocol

from ..python.functions import FunctionTarget
from ..python.names import FunctionNode, ModuleNames
from ..source.child_fields import within
from ..source.project import Project
from .lattice import Atom, DtypeSource, MadeHow, Role, Value, join
from .members import plainly

if TYPE_CHECKING:
    from ..observed.observation import Failure
    from .analysis import FlowAnalysis

PRECISION_TESTS = (
    "dtype", "precision", "fp16", "bf16", "fp32", "half", "float16", "float32", "is_floating_point", "autocast",
    "upcast",
)  # fmt: skip
MAX_NAMES = 400
"""A function that gives values to more places than this is not followed."""


@plainly
class Autocasting(Enum):
    """Whether operations run under autocast."""

    OFF = "off"
    MAYBE = "maybe"
    """The function can be called from within a region, or the context manager is not known."""
    ON = "on"


@dataclass(frozen=True, slots=True)
class AutocastState:
    """The innermost region around a statement."""

    state: Autocasting
    atom: Atom = field(default_factory=lambda: Atom(symbol="autocast", role=Role.AUTOCAST))
    """What ``lower`` operations compute in."""
    device: str = "cuda"
    region: DtypeSource | None = field(default=None, compare=False)
    """Where it was opened, if that is known."""


ASSUMED = AutocastState(
    Autocasting.ON, Atom(symbol="autocast of the callers", role=Role.AUTOCAST, made=MadeHow.AUTOCAST, can_be_half=True)
)
"""What a function runs in whose callers are taken to have opened a region."""
OUTSIDE = AutocastState(Autocasting.OFF)
"""What a backward pass runs in: ``loss.backward()`` belongs behind the region."""


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An operand of an operation: the expression, and the atom it brings."""

    node: ast.expr
    atom: Atom


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """Two operands of different dtype in one operation."""

    module: ModuleNames
    node: ast.expr
    """The operation: a call, a binary operation, the target of an indexed write."""
    operation: str
    """The operation's name in the tables; ``module`` for a module's forward, ``index_put`` for ``t[mask] = v``."""
    mix: str
    """What a mix does here, in the words of ``operation.MIXES``."""
    odd: Operand
    """The one that is too wide (or the data that was not cast)."""
    meant: Operand
    """The one whose dtype was meant."""
    meant_dtype: str
    """Source text that gives the dtype that was meant, where it can be said at this place; else empty."""
    autocast: Autocasting
    function: FunctionNode | None
    applied: Value | None = None
    """The module that ``node`` calls, where it calls one that is known."""
    certain: bool = False
    """Whether a model that is certainly 16-bit was followed to here."""
    seen: Failure | None = None
    """What a rehearsal saw here, where it raised."""
    is_only_seen: bool = False
    """Whether nothing but a rehearsal tells of it; what was read as well stands on its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """An operation that some rule asks about, with what was known of its operands."""

    module: ModuleNames
    node: ast.Call
    operation: str
    receiver: Value | None
    """For methods: the object; None for functions."""
    arguments: tuple[tuple[ast.expr, Value], ...]
    autocast: AutocastState
    function: FunctionNode | None


@dataclass(frozen=True, slots=True, eq=False)
class MixedProduct:
    """An operation whose operands must have one dtype, with what was known of them."""

    node: ast.expr
    operation: str
    operands: tuple[tuple[ast.expr, Value], ...]
    target: tuple[ast.expr, Value] | None
    """What is written into: the ``out=`` buffer, or the tensor that a sum in place adds to."""
    autocast: bool
    """Whether a region is open for certain."""

    @property
    def in_place(self) -> bool:
        return self.operation.endswith("_")


@dataclass(frozen=True, slots=True, eq=False)
class OfPart:
    """A meeting that a part in float32 causes, and the outermost call that leads to it."""

    meeting: Meeting
    module: ModuleNames
    call: ast.expr


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter that the function hands to weights as it is."""

    symbol: str
    weights: Atom
    takes_narrow: bool = False
    """Whether float32 weights take a 16-bit input: those of norms do."""


@dataclass(slots=True, eq=False)
class FlowRecord:
    """What one interpretation met, in source order; a place that is interpreted twice is recorded once."""

    meetings: list[Meeting] = field(default_factory=list)
    applications: dict[ast.AST, Application] = field(default_factory=dict)
    inputs: set[Input] = field(default_factory=set)
    saved: dict[ast.AST, tuple[Value, ...]] = field(default_factory=dict)
    """What each ``ctx.save_for_backward(...)`` saves."""
    observed: bool = False
    """Whether the next three are kept."""
    values: dict[ast.expr, Value] = field(default_factory=dict)
    """What each expression was, the last time it was evaluated."""
    products: dict[ast.AST, MixedProduct] = field(default_factory=dict)
    of_parts: list[OfPart] = field(default_factory=list)
    """The meetings of parts that were cast to float32 after their model, here and in what is called here."""
    states: dict[ast.expr, AutocastState] = field(default_factory=dict)
    """The region that was open at a call, for calls inside of one."""
    _seen: set[tuple[ast.AST, ast.AST, Atom, Atom]] = field(default_factory=set)

    def meet(self, meeting: Meeting) -> None:
        key = (meeting.node, meeting.odd.node, meeting.odd.atom, meeting.meant.atom)
        if key in self._seen:
            return
        self._seen.add(key)
        if meeting.odd.atom.is_of_part:
            self.of_parts.append(OfPart(meeting, meeting.module, meeting.node))
        else:
            self.meetings.append(meeting)

    def take_parts(self, done: FlowRecord, module: ModuleNames, call: ast.expr) -> None:
        """What was met in a function that ``call`` entered."""
        known = {(item.meeting.node, item.meeting.odd.atom) for item in self.of_parts}
        for item in done.of_parts:
            if (item.meeting.node, item.meeting.odd.atom) not in known:
                self.of_parts.append(OfPart(item.meeting, module, call))


class CallFollower(Protocol):
    """What follows the calls of a model with what they are really given (`half_runs`)."""

    @property
    def of_parts(self) -> bool:
        """Whether the model has parts that were cast to float32 (`recasts`)."""
        ...

    @property
    def models(self) -> Mapping[ast.Call, Value]:
        """The calls of the models that are followed."""
        ...

    @property
    def record(self) -> FlowRecord:
        """What is met on the way."""
        ...

    def applied(
        self,
        frame: Frame,
        node: ast.Call,
        target: FunctionTarget,
        given: dict[str, Value],
        receiver: Value | None,
    ) -> Value:
        """What a call of one of the project's functions returns."""
        ...

    def recording(self, record: FlowRecord) -> AbstractContextManager[None]:
        """Note what meets in ``record``, and nowhere else."""
        ...


class TooLarge(Exception):
    """The function holds more than is worth following: nothing is concluded from it."""


class Frame:
    """One function (or module body) being interpreted."""

    def __init__(
        self,
        analysis: FlowAnalysis,
        module: ModuleNames,
        function: FunctionNode | None,
        record: FlowRecord,
        autocast: AutocastState,
        names: dict[str, Value] | None = None,
        depth: int = 0,
    ) -> None:
        self.analysis = analysis
        self.project = analysis.project
        self.module = module
        self.function = function
        self.record = record
        self.autocast = self.entry = autocast
        self.names: dict[str, Value] = names if names is not None else {}
        """Places (``x``, ``self.mask``, ``batch['m']``) and what they hold."""
        self.returned: list[Value] = []
        self.yielded: list[Value] = []
        """What a generator brings, round after round."""
        self.depth = depth
        self.stopped = False
        """Set after ``return``, ``raise``, ``break``: the rest of the block is not reached."""
        self.own_weights: Atom | None = None
        """In a method of a module: the dtype of its weights."""
        self.touched: set[str] = set()
        """The places of models that something unknown may have changed."""
        self.run: CallFollower | None = None
        """Set while a model that is certainly 16-bit is followed."""
        self.loops = 0
        self._parts: dict[str, set[str]] = {}
        """Every place that is a part of another (``self.mask``), by each that it is a part of."""

    @property
    def is_special(self) -> bool:
        """Whether the function is followed for the very objects of one call (`recasts`)."""
        return self.run is not None and self.run.of_parts

    def get(self, place: str) -> Value | None:
        return self.names.get(place)

    def put(self, place: str, value: Value) -> None:
        """Give a place its value; what was known of its parts is forgotten."""
        for name in self._parts.get(place, ()):
            self.names.pop(name, None)
        for whole in _wholes(place):
            self._parts.setdefault(whole, set()).add(place)
        self.names[place] = value
        if len(self.names) > MAX_NAMES:
            raise TooLarge

    def source(self, node: ast.AST, text: str, before: DtypeSource | None = None) -> DtypeSource:
        return DtypeSource(self.module.document.path, node, text, before)


@cache
def _wholes(place: str) -> tuple[str, ...]:
    """What a place is a part of: ``self`` and ``self.masks`` of ``self.masks[0]``."""
    return tuple(place[:at] for at, character in enumerate(place) if character in ".[")


def asks_for_precision(_project: Project, test: ast.expr) -> bool:
    """Whether a condition asks for the precision itself, as others like it elsewhere may do; for `Project.memo`."""
    said = "\n".join(_texts(test))
    return any(word in said for word in PRECISION_TESTS)


def _texts(node: ast.expr) -> Iterator[str]:
    """The names and strings of an expression, in lower case."""
    for item in within(node):
        if isinstance(item, ast.Name):
            yield item.id.lower()
        elif isinstance(item, ast.Attribute):
            yield item.attr.lower()
        elif isinstance(item, ast.Constant):
            yield repr(item.value).lower() if isinstance(item.value, str | bytes) else ""
        elif isinstance(item, ast.keyword | ast.arg):
            yield (item.arg or "").lower()


def joined_names(branches: Iterable[dict[str, Value]]) -> dict[str, Value]:
    """What is known after branches meet: a place that one of them does not know is not known."""
    first, *others = branches
    result = dict(first)
    for other in others:
        for place in differing(result, other):
            value = other.get(place)
            if value is None:
                del result[place]
            else:
                result[place] = join(result[place], value)
    return result


def differing(names: dict[str, Value], others: dict[str, Value]) -> list[str]:
    """The places that do not hold the very same in others, in order: of hundreds most do."""
    return list(compress(names, map(is_not, names.values(), map(others.get, names))))


def place_of(node: ast.expr) -> str | None:
    """The key of a name, an attribute chain, or a constant subscript of one; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = place_of(node.value)
        return f"{base}.{node.attr}" if base is not None else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        base = place_of(node.value)
        return f"{base}[{node.slice.value!r}]" if base is not None else None
    return None
