"""Optimizers that step 16-bit weights and keep nothing of what rounding loses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ...codemod.half.half_weights import HalfWeights, half_weights
from ...codemod.half.launchers import is_held, says_held
from ...codemod.half.optimized_models import models_of
from ...codemod.half.weight_changes import AUTO
from ...codemod.purpose.decided import has_run
from ...codemod.purpose.files import is_test
from ...codemod.purpose.given import may_be_on
from ...codemod.purpose.steps import only_measures
from ...codemod.python.arguments import receiver_of
from ...codemod.python.bindings import names_given, only_target
from ...codemod.python.bound import is_replaced
from ...codemod.python.brought_entries import Brought, brought_keywords
from ...codemod.python.callers import callers_of
from ...codemod.python.creations import creations_of
from ...codemod.python.keywords import keywords_of
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, names_of, resolve
from ...codemod.python.trace import Domain, Trace, trace
from ...codemod.source.documents import Document
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.scalers import scalers
from .grids import loses_updates
from .learning_rates import rates_of_groups, rates_set, schedules_of, stated_peak
from .optimizer_table import OptimizerRow, row_of_optimizer
from .stated_numbers import Stated, stated_numbers

WORDS = ("bfloat16", "float16", ".half(", "bf16", "fp16", "getattr(torch", *AUTO)
OPTIMIZERS = ("optim", "Optim", "Adam", "adam", "Lion")
REMEDIES = (
    "stochastic",
    "kahan",
    "master_param",
    "master_weight",
    "main_param",
    "fp32_param",
    "param_fp32",
    "copy_stochastic",
)
"""Parts of names in code that keeps what rounding loses, by itself."""
UNSCALING = "unscale_"
"""What a scaler that is on refuses to do to 16-bit gradients."""
WRAPPERS = (
    *("FP16", "Fp16", "fp16", "BF16", "bf16", "initialize", "OSS", "ZeroRedundancy", "Mixed", "Distributed", "setup"),
    *("Master", "master", "wrap", "convert", UNSCALING),
)
"""Parts of the names of calls that may put a float32 copy of the weights under an optimizer they are given."""
SHARDED = ("megatron.core", "megatron.training", "colossalai", "zero_stage")
"""Words of files in which a library may hold the weights instead of the model. FSDP shards the weights as they are."""

Class: TypeAlias = "tuple[str, OptimizerRow] | None"


@dataclass(frozen=True, slots=True, eq=False)
class HalfOptimizer:
    """An optimizer over 16-bit weights."""

    module: ModuleNames
    call: ast.Call
    name: str
    row: OptimizerRow
    weights: HalfWeights
    parameters: ast.expr
    given: dict[str, ast.expr]
    uncertain: frozenset[str] = frozenset()
    """Keywords that it may be given, with values that are not known."""

    def loses_at(self, rate: float) -> bool:
        """Whether a learning rate leaves a part of the weights where they are."""
        return loses_updates(rate, self.weights.dtype, adapted=self.weights.adapted)


def half_optimizers(project: Project) -> Iterator[HalfOptimizer]:
    """The optimizers of files that are checked, whose weights are certainly 16-bit and that keep no wider copy."""
    if any(True for _ in project.python_documents(WORDS)):
        for document in project.checked_documents(OPTIMIZERS, ("param",)):
            yield from project.memo(_in_file, document)


def all_half_optimizers(project: Project) -> Iterator[HalfOptimizer]:
    """The same of all files."""
    for document in project.python_documents(OPTIMIZERS, ("param",)):
        yield from project.memo(_in_file, document)


def _in_file(project: Project, document: Document) -> tuple[HalfOptimizer, ...]:
    module = names_of(project, document)
    if is_test(document.path) or _has_remedy(module):
        return ()
    found = (_optimizer(project, module, call) for call in module.calls)
    return tuple(item for item in found if item is not None)


def rates_of(project: Project, item: HalfOptimizer, *, of_any: bool = False) -> tuple[Stated, ...]:
    """The learning rates of groups and runs; none where one of them is not known.

    ``of_any``: those that are known of the groups of the weights, where another group has one that is not.
    """
    peaks = stated_peak(project, item.module, list(schedules_of(item.module, item.call)))
    if peaks:
        found = [_rates(project, item, node) for node in peaks]
        return tuple(rate for each in found for rate in each) if all(found) else ()
    node = item.given.get("lr") or (item.call.args[1] if len(item.call.args) > 1 else None)
    groups, are_own = rates_of_groups(item.module, item.parameters, item.weights.name)
    found = [_rates(project, item, each or node) for each in groups]
    later = [rate for each in rates_set(item.module, item.call) for rate in _rates(project, item, each)]
    if not (all(found) or (of_any and are_own)) or not all(item.loses_at(rate.value) for rate in later):
        return ()
    known = tuple(rate for each in found for rate in each)
    if node is not None and item.module.scope_of(node).function is not item.module.scope_of(item.call).function:
        # A function that makes the keywords may be called for other optimizers, too.
        return known if all(item.loses_at(rate.value) for rate in known) else ()
    return known


def _rates(project: Project, item: HalfOptimizer, node: ast.expr | None) -> tuple[Stated, ...]:
    passed = _passed_there(project, item, node) if isinstance(node, ast.Name) else []
    asked = passed or ([(item.module, node)] if node is not None else [])
    found = [
        stated_numbers(project, module, value, "the learning rate", item.weights.decided, holds=item.loses_at)
        for module, value in asked
    ]
    return tuple(rate for each in found for rate in each) if all(found) else ()


def _passed_there(project: Project, item: HalfOptimizer, node: ast.Name) -> list[tuple[ModuleNames, ast.expr]]:
    """What callers pass as the rate whose own file makes the weights 16-bit: several programs may share a function."""
    function = item.module.scope_of(node).function.node
    if not isinstance(function, FunctionNode) or len(item.module.bindings_of(node)) > 1:
        return []
    sites = callers_of(project, item.module, function).sites
    near = [site for site in sites if site.module.path == item.weights.place.path]
    values = [(site.module, site.target.arguments(site.call).get(node.id)) for site in near]
    known = [(module, value) for module, value in values if value is not None]
    return known if len(known) == len(values) or item.module.path != item.weights.place.path else []


def _has_remedy(module: ModuleNames) -> bool:
    text = module.document.text
    return any(word in text for word in (*REMEDIES, *SHARDED)) or ("deepspeed" in text and says_held(module))


def _optimizer(project: Project, module: ModuleNames, call: ast.Call) -> HalfOptimizer | None:
    named = _row(project, module, call.func) if _may_take_parameters(project, module, call) else None
    if named is None or named[1].keeps not in ("nothing", "stochastic"):
        return None
    name, row = named
    written, brought = keywords_of(module, call), brought_keywords(project, module, call)
    if row.when and (row.when in brought.uncertain if brought is not None else not written.complete):
        return None
    given = brought or Brought(written.values)
    parameters = call.args[0] if call.args else given.values.get("params")
    weights = _weights(project, module, parameters, call) if parameters is not None else None
    if parameters is None or weights is None:
        return None
    if _is_wrapped(project, module, call) or only_measures(module, call) or _is_replaced(module, call):
        return None
    return HalfOptimizer(module, call, name, row, weights, parameters, given.values, given.uncertain)


def _may_take_parameters(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call is given the parameters of a model, as far as it tells by itself: most are not."""
    if not call.args:
        return bool(call.keywords)
    return any(item is not None for item in models_of(module, call.args[0], project))


def _row(project: Project, module: ModuleNames, func: ast.expr) -> tuple[str, OptimizerRow] | None:
    """The optimizer that is called; of classes that it can stand for the last one, where none keeps anything."""
    found = trace(project, module, func, CLASSES)
    known = [item for item in found if item is not None]
    if len(known) != len(found) or not known:
        return None
    losing = len(known) == 1 or all(item[1].keeps == "nothing" and item[1].by_lr for item in known)
    return known[-1] if losing else None


def _classes(question: Trace[Class], module: ModuleNames, node: ast.expr) -> Iterable[Class] | None:
    """The optimizers that ``optim.AdamW`` and ``getattr(optim, name)`` are; None for what is followed."""
    bindings = module.bindings_of(node)
    if len(bindings) > 1 and module.is_ambiguous(node):
        rows = [row_of_optimizer(item.qualified or "") if item.kind == "import" else None for item in bindings]
        names = [(item.qualified or item.name).rpartition(".")[2] for item in bindings]
        return [(name, row) if row is not None else None for name, row in zip(names, rows, strict=True)]
    named = [resolve(question.project, module, node)]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) == 2:
        owner = resolve(question.project, module, node.args[0])
        named = [f"{owner}.{value}" for value in constants_of(question.project, module, node.args[1])]
    found = [(name.rpartition(".")[2], row) for name in named if name and (row := row_of_optimizer(name)) is not None]
    return found if found and len(found) == len(named) else None


CLASSES: Domain[Class] = Domain(_classes, lambda _question, _module, _node, _why: (None,))
"""The class of an optimizer; None where the source does not say, or for another class."""


def _weights(project: Project, module: ModuleNames, parameters: ast.expr, call: ast.Call) -> HalfWeights | None:
    """The first 16-bit weights among those that the optimizer is given."""
    models = models_of(module, parameters, project)
    known = {ast.unparse(item): item for item in models if item is not None}
    for item in known.values():
        found = half_weights(project, module, item, call, later=True)
        if found is not None and has_run(project, module, item, found.decided):
            return found
    return None


def _is_wrapped(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether the optimizer may be given to a library that keeps float32 copies of the parameters.

    Accelerate does where a launch line or a file asks for DeepSpeed or FSDP.
    """
    names = names_given(module.statement_of(call))
    for other in module.calls:
        last = (attribute_chain(other.func) or [""])[-1]
        arguments = [*other.args, *(item.value for item in other.keywords)]
        named = (item for item in arguments if isinstance(item, ast.Name | ast.Attribute))
        held = call in arguments or any(ast.unparse(item) in names for item in named)
        # ``fabric.setup(model, optimizer)`` keeps the weights; DeepSpeed would be named in the file
        keeps = "fabric" in ast.unparse(other.func).lower() or _is_off(project, module, other)
        wraps = any(word in last for word in WRAPPERS) and not keeps
        if held and (wraps or (last == "prepare" and is_held(project, module))):
            return True
    return False


def _is_off(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """``scaler.unscale_(optimizer)`` of a scaler that is off in all runs that the project states."""
    scaler = receiver_of(call, UNSCALING)
    made_by = {made.call for made in creations_of(project, module, scaler)} if scaler is not None else set()
    known = [item for item in scalers(project) if item.call in made_by]
    return bool(known) and len(known) == len(made_by) and not any(may_be_on(project, item) for item in known)


def _is_replaced(module: ModuleNames, call: ast.Call) -> bool:
    """Whether another optimizer takes the name before anything uses this one."""
    statement = module.statement_of(call)
    target = only_target(statement)
    return isinstance(target, ast.Name) and is_replaced(module, statement, target.id)
