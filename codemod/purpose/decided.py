"""Whether a condition holds with the values that a project states: defaults of options, launch lines, files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..model import Place
from ..python.bindings import only_value, self_stores
from ..python.conditions import conditions_in, excludes, same_operand
from ..python.creations import known_creations
from ..python.names import ModuleNames, attribute_chain, last_name
from ..python.settings_objects import may_hold_settings
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import FromBinding, TraceStep
from ..source.documents import FileKind
from ..source.project import Project
from ..torch.accelerators import asked_of_accelerators
from ..torch.dtypes import Constant, Dtype, TextCondition, as_dtype
from ..torch.machine_tests import asks_machine
from ..trainers.reading.configs import config_files
from ..trainers.reading.links import sources
from ..trainers.reading.shown_lines import lines_leaving_out, shown_sources
from ..trainers.reading.source import GIVEN, ValueSource, literal_source
from .filled_in import as_filled_in
from .flag_sources import typed_flag
from .imports import connected_modules
from .set_elsewhere import given_elsewhere, holder_of
from .training_switches import is_taken_as_given

MAX_HOPS = 3
"""Truth values that are computed from others."""
DEVICES = frozenset(("cpu", "cuda", "mps", "xpu", "npu"))
GPU = ("cuda", "gpu")
"""Names of settings that are true on a machine with a GPU, with ``use_`` before them or not."""
SECTIONED = (FileKind.YAML, FileKind.JSON, FileKind.TOML)
OFF = ("false", "no", "0", "none", "off", "")


@dataclass(frozen=True, slots=True)
class Decided:
    """What holds in the runs that a finding speaks of."""

    given: tuple[TextCondition, ...] = ()
    places: tuple[Place, ...] = ()
    """Where the values are written that make it so."""
    open: bool = False
    """Whether a setting needs a value that no run which the project states gives it."""
    lines: frozenset[tuple[object, int]] = frozenset()
    """The command lines of these runs, where only some of them make it so."""
    by_default: bool = False
    """Whether only an option's default says so, and no launch line shows how the program is run."""

    def rules_out(self, givens: Iterable[TextCondition]) -> bool:
        """Whether these conditions cannot hold beside what is decided."""
        return any(_excluded(item, self.given) for item in givens)


CERTAIN = Decided()


def decided(
    project: Project, module: ModuleNames, givens: Sequence[TextCondition], known: Decided = CERTAIN
) -> Decided | None:
    """What must be set for all conditions to hold; None where that cannot be told, or they contradict what is known."""
    given, places, is_open, by_default = known.given, known.places, known.open, known.by_default
    lines = known.lines
    for item in givens:
        if _excluded(item, given):
            return None
        if not _is_settled(item, given):
            machine = item.equal if is_taken_as_given(project, module, item) else of_machine(project, module, item)
            if machine is False:
                return None
            found = [] if machine else stated_values(project, module, item) or []
            if not found and not machine:
                return None
            fitting = [source for source in found if fits(source.value, item)] or documented(project, module, item)
            fitting = fitting or [line for source in found for line in _shown_of(project, item, source)]
            if all(source.kind == "option" for source in fitting):
                fitting = [line for source in fitting for line in _left_out(project, module, item, source)] or fitting
            if fitting and all(source.lines for source in fitting):
                near = [source for source in fitting if source.lines & lines] if lines else fitting
                is_open, fitting = is_open or not near, near or fitting  # no run gives both
                every = frozenset(line for source in fitting for line in source.lines)
                lines = every & lines or every
            place = fitting[0].place(f"{item.text} is {_shown(fitting[0].value)} here") if fitting else None
            places = (*places, place) if place is not None and place not in places else places
            if not (fitting or machine or typed_flag(project, item, found)):
                is_open, by_default = True, by_default or all(source.kind == "option" for source in found)
            given = (*given, item)
    return Decided(given, places, is_open, lines, by_default)


def has_run(project: Project, module: ModuleNames, node: ast.AST, known: Decided = CERTAIN) -> bool:
    """Whether the settings around a place hold together, and with what is known, in a run that the project states."""
    for item in conditions_in(project, module).path_given(node):
        for asked in settings_asked(project, module, item):
            if isinstance(asked.node, ast.Attribute | ast.Subscript) and None not in asked.values:
                found = decided(project, module, [asked], known)
                if known.rules_out([asked]) or (found is not None and found.open and not known.open):
                    return False
                known = found or known
    return True


def is_ruled_out(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether the project states values for a setting, and a condition holds with none of them; tests of None aside."""
    found = stated_values(project, module, item) if None not in item.values else None
    is_out = bool(found) and not any(fits(source.value, item) for source in found or ())
    is_out = is_out and not (item.equal and is_taken_as_given(project, module, item))
    is_out = is_out and not typed_flag(project, item, found or ())
    is_out = is_out and not (_asks_for_section(project, item) and all(each.value is None for each in found or ()))
    return is_out and not _may_be_object(project, module, item)


def _asks_for_section(project: Project, item: TextCondition) -> bool:
    """Whether a truth is asked of a field that a configuration file fills with a section: ``if opt.train:``."""
    plain = item.equal and item.values == (True,) and isinstance(item.node, ast.Attribute)
    return plain and project.memo(_is_section, item.text.rpartition(".")[2])


def _is_section(project: Project, name: str) -> bool:
    entries = (entry for file in config_files(project, (name,), SECTIONED) for entry in file.text.entries)
    return any(name in entry.key[:-1] for entry in entries)


def _may_be_object(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether a truth is asked of what calls make besides None: ``self.scaler = GradScaler() if amp else None``."""
    node = item.node.args[0] if isinstance(item.node, ast.Call) and item.node.args else item.node
    plain = item.equal and item.values == (True,) and isinstance(node, ast.Name | ast.Attribute)
    holder = _holder(project, module, item) if plain else None
    made_by = known_creations(project, holder, node) if holder is not None else ()
    return any(has_run(project, made.module, made.call) for made in made_by)


def settings_asked(
    project: Project, module: ModuleNames, item: TextCondition, hops: int = MAX_HOPS
) -> Iterator[TextCondition]:
    """A condition; where a truth value is computed, ``args.amp = args.dtype in ("O1", "O2")``, what that asks."""
    holder = _holder(project, module, item) if hops and item.values == (True,) else None
    value = _computed(holder, item.node) if holder is not None else None
    behind = conditions_in(project, holder).given(value, item.equal) if holder is not None and value is not None else ()
    for each in behind:
        yield from settings_asked(project, module, each, hops - 1)
    if not behind:
        yield item


def _computed(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """The test whose outcome is all that a name or an attribute is ever given in its file."""
    value = only_value(module, node)
    chain = attribute_chain(node) or []
    if value is None and isinstance(node, ast.Attribute):
        stores = [item for owner, item, _ in module.attribute_stores.get(node.attr, ()) if owner == chain[:-1]]
        value = stores[0] if len(stores) == 1 else None
    value = _unwrapped(value)
    return value if isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp) else None


def of_machine(project: Project, module: ModuleNames, item: TextCondition) -> bool | None:
    """Whether a test of the machine holds on a GPU that has bfloat16; None for any other test."""
    named = set(item.values)
    if "device" in item.text.lower() and named and named <= DEVICES:
        return ("cuda" in named) == item.equal
    if item.text.rpartition(".")[2].lower().removeprefix("use_") in GPU and named <= {True}:
        return item.equal
    holder = _holder(project, module, item) if item.values == (True,) else None
    own = (attribute_chain(item.node) or [""])[:-1] == ["self"]  # others' attributes depend on settings besides
    asked = holder is not None and (own or isinstance(item.node, ast.Call | ast.Name))
    if not asked or holder is None or not asks_machine(project, holder, item.node):
        return None
    found = set(trace(project, holder, item.node, ON_MACHINE))
    given = {_is_on(source.value) for source in stated(sources(project, holder, item.node))}
    if given == found or None in found or len(found) != 1:
        return None  # ``args.amp and torch.cuda.is_available()``: what the project states decides
    return (True in found) == item.equal


def _on_machine(question: Trace[bool | None], module: ModuleNames, node: ast.expr) -> Iterable[bool | None] | None:
    """What a truth comes to on a GPU that has bfloat16, with what the project states; None where nobody knows."""
    inner, project = _unwrapped(node) or node, question.project
    if inner is not node:
        return question.of(module, inner)
    if isinstance(node, ast.Constant):
        return (_is_on(node.value),) if isinstance(node.value, bool | str | None) else (None,)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [None if each is None else not each for each in question.of(module, node.operand)]
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        each = [set(question.of(module, part)) for part in node.values]
        return (False,) if {False} in each else (True,) if all(part == {True} for part in each) else (None,)
    if isinstance(node, ast.Name):
        return None
    found = stated(sources(project, module, node)) if isinstance(node, ast.Attribute | ast.Subscript) else ()
    if found:
        on = TextCondition(ast.unparse(node), (True,), True, node, module.scope_of(node))
        return {_is_on(source.value) for source in found} if not documented(project, module, on) else (True,)
    return (True,) if asks_machine(project, module, node) else None if isinstance(node, ast.Attribute) else (None,)


def _taken(question: Trace[bool | None], step: TraceStep, found: Iterable[bool | None]) -> Iterable[bool | None]:
    """Nothing of a branch that no stated run takes."""
    if not isinstance(step, FromBinding) or len(step.rivals) < 2:
        return found
    asked = conditions_in(question.project, step.module).path_given(step.binding.node)
    held = decided(question.project, step.module, asked) if asked else CERTAIN
    return found if held is None or not held.open else ()


ON_MACHINE: Domain[bool | None] = Domain(_on_machine, lambda *_asked: (None,), _taken, follows_returns=False)


def _unwrapped(node: ast.expr | None) -> ast.expr | None:
    """``x`` of ``bool(x)``."""
    return node.args[0] if isinstance(node, ast.Call) and last_name(node.func) == "bool" and node.args else node


def stated_values(project: Project, module: ModuleNames, item: TextCondition) -> list[ValueSource] | None:
    """What the project states for a setting: what runs are given, else the defaults; None where nobody knows."""
    holder = _holder(project, module, item)
    if holder is None:
        return None
    asked = _asked(project, holder, item.node)
    found = as_filled_in(project, *asked, stated(sources(project, *asked))) or _of_class(project, holder, item)
    if any(source.is_reference for source in found):
        return None
    is_name = isinstance(item.node, ast.Name) and item.values == (True,)
    truths = set(trace(project, holder, item.node, ON_MACHINE)) if is_name and len(found) > 1 else set()
    if len(truths) != 1 or None in truths:
        return found
    taken = [source for source in found if _is_on(source.value) in truths]  # the others no stated run takes
    return taken or found  # where only a line of a read-me makes it so, none of these does


def _of_class(project: Project, module: ModuleNames, item: TextCondition) -> list[ValueSource]:
    """What a plain class of settings gives one of its names, where nothing else gives it another value."""
    is_own = isinstance(item.node, ast.Attribute) and attribute_chain(item.node.value) in (["self"], ["cls"])
    held = holder_of(project, module, item) if not is_own else None
    node = held[1].node if held is not None else None
    if held is None or not isinstance(node, ast.ClassDef) or node.decorator_list or given_elsewhere(project, *held):
        return []
    if any(ast.unparse(base) != "object" for base in (*node.bases, *node.keywords)):
        return []  # what is above may fill its fields: ``BaseModel``, ``NamedTuple``
    values = [value for value, _ in self_stores(*held)]
    found = [literal_source("field", held[0], value, held[2]) for value in values if value is not None]
    return [each for each in found if each is not None] if None not in found and len(found) == len(values) else []


def stated(found: Sequence[ValueSource]) -> list[ValueSource]:
    """Of what a setting can have its value from, what runs are given; else the defaults.

    What a read falls back to (``.get("mode", None)``) is no default where some file may hold the setting.
    """
    seen = [source for source in found if not source.is_guessed]
    defaults = seen if any(source.kind != "fallback" for source in seen) else []
    return [source for source in seen if source.kind in GIVEN] or defaults or list(found)


def documented(project: Project, module: ModuleNames, item: TextCondition) -> list[ValueSource]:
    """The launch lines of read-mes, and of the head of the file, that give an option what the test asks for."""
    name, node = item.text.rpartition(".")[2], item.node
    if not name.isidentifier() or (
        isinstance(node, ast.Attribute) and not may_hold_settings(project, module, node.value)
    ):
        return []
    return [source for source in shown_sources(project, module, name) if fits(source.value, item)]


def _shown_of(project: Project, item: TextCondition, default: ValueSource) -> Iterator[ValueSource]:
    """The launch lines that give the option which is read under another name: ``build(args.resume)``."""
    option = default.option if default.kind == "option" and not default.is_negated else None
    if option is not None and option.flags and item.values == (True,) and not _is_on(default.value):
        found = shown_sources(project, option.module, option.name)
        yield from (line for line in found if fits(line.value, item))


def _left_out(
    project: Project, module: ModuleNames, item: TextCondition, default: ValueSource
) -> Iterator[ValueSource]:
    """The launch lines of read-mes that leave an option to its default."""
    yield from lines_leaving_out(project, module, item.text.rpartition(".")[2], default.value)


def _holder(project: Project, module: ModuleNames, item: TextCondition) -> ModuleNames | None:
    """The module that a condition stands in."""
    return next((other for other in _near(project, module) if item.scope in other.scopes.values()), None)


def _asked(project: Project, module: ModuleNames, node: ast.expr) -> tuple[ModuleNames, ast.expr]:
    """What an Accelerator was given for its ``mixed_precision``; other expressions as they are."""
    return next(asked_of_accelerators(project, module, node), (module, node))


def _near(project: Project, module: ModuleNames) -> Iterator[ModuleNames]:
    yield module
    yield from (other for other in connected_modules(project, module) if other is not module)


def fits(value: Constant, item: TextCondition) -> bool:
    """Whether a condition holds with a value."""
    return any(_is_same(value, wanted, item.text) for wanted in item.values) == item.equal


def _is_same(value: Constant, wanted: Constant, text: str) -> bool:
    if isinstance(wanted, bool):
        return _is_on(value) == wanted
    if isinstance(wanted, Dtype):
        return as_dtype(value) == wanted
    if isinstance(value, str) and isinstance(wanted, str) and text.endswith(".lower()"):
        return value.lower() == wanted
    return value == wanted or (isinstance(value, str) and value == str(wanted))


def _is_on(value: Constant) -> bool:
    return value.lower() not in OFF if isinstance(value, str) else bool(value)


def _shown(value: Constant) -> str:
    return value.name if isinstance(value, Dtype) else str(value)


def _is_settled(item: TextCondition, known: Sequence[TextCondition]) -> bool:
    """Whether what is known says the same already."""
    return any(
        same_operand(item.text, other.text)
        and ((other.equal and item.equal and set(other.values) <= set(item.values)) or _keeps_out(item, other))
        for other in known
    )


def _keeps_out(item: TextCondition, other: TextCondition) -> bool:
    """``x == "bf16"`` says ``x != "fp16"``."""
    return other.equal and not item.equal and not set(other.values) & set(item.values) and True not in item.values


def _excluded(item: TextCondition, known: Sequence[TextCondition]) -> bool:
    return any(excludes(item, (_renamed(other, item.text),)) for other in known if same_operand(item.text, other.text))


def _renamed(item: TextCondition, text: str) -> TextCondition:
    return TextCondition(text, item.values, item.equal, item.node, item.scope)
