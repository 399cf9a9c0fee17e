"""Optimizers that step 16-bit weights and keep nothing of what rounding loses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.half.checkpoints import AUTO
from ...codemod.half.half_weights import HalfWeights, half_weights, models_of
from ...codemod.half.launchers import is_held
from ...codemod.purpose.decided import is_switched_off
from ...codemod.purpose.files import is_test
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.python.bound import is_replaced
from ...codemod.python.callers import callers_of
from ...codemod.python.functions import called_function
from ...codemod.python.keywords import keywords_of
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, names_of, resolve
from ...codemod.source.documents import Document
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from .benchmarks import only_measures
from .grids import loses_updates
from .optimizer_table import Row, row_of_optimizer
from .parameter_groups import rates_of_groups
from .stated_numbers import Stated, largest, stated_numbers

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
WRAPPERS = (
    *("FP16", "Fp16", "fp16", "BF16", "bf16", "initialize", "OSS", "ZeroRedundancy", "Mixed", "Distributed", "setup"),
    *("Master", "master", "wrap", "convert", "unscale_"),
)
"""Parts of the names of calls that may put a float32 copy of the weights under an optimizer they are given."""
SHARDED = ("deepspeed", "megatron.core", "megatron.training", "colossalai", "zero_stage")
"""Words of files in which a library may hold the weights instead of the model. FSDP shards the weights as they are."""

MAX_HOPS = 3
"""Names, tables and functions between a call and the optimizer's class."""


@dataclass(frozen=True, slots=True, eq=False)
class HalfOptimizer:
    """An optimizer over 16-bit weights."""

    module: ModuleNames
    call: ast.Call
    name: str
    row: Row
    weights: HalfWeights
    parameters: ast.expr
    given: dict[str, ast.expr]

    def loses_at(self, rate: float) -> bool:
        """Whether a learning rate leaves a part of the weights where they are."""
        return loses_updates(rate, self.weights.dtype, adapted=self.weights.adapted)

    def is_run(self, project: Project) -> bool:
        """Whether a run that the project gives makes it."""
        off = is_switched_off(project, self.module, self.call)
        return not off and is_reached(project, self.module, self.call)


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


def rate_of(project: Project, item: HalfOptimizer) -> Stated | None:
    """The learning rate of the run that loses least; of several runs that of one in which updates are lost at all."""
    node = item.given.get("lr") or (item.call.args[1] if len(item.call.args) > 1 else None)
    found = [_rates(project, item, each or node) for each in rates_of_groups(item.module, item.parameters)]
    rates = tuple(rate for each in found for rate in each) if all(found) else ()
    losing = tuple(rate for rate in rates if item.loses_at(rate.value))
    return largest(losing) or largest(rates)


def _rates(project: Project, item: HalfOptimizer, node: ast.expr | None) -> tuple[Stated, ...]:
    passed = _passed_there(project, item, node) if isinstance(node, ast.Name) else []
    asked = passed or ([(item.module, node)] if node is not None else [])
    found = [stated_numbers(project, module, value, "the learning rate") for module, value in asked]
    return tuple(rate for each in found for rate in each) if all(found) else ()


def _passed_there(project: Project, item: HalfOptimizer, node: ast.Name) -> list[tuple[ModuleNames, ast.expr]]:
    """What callers pass as the rate whose own file makes the weights 16-bit: several programs may share a function."""
    function = item.module.scope_of(item.call).function.node
    if not isinstance(function, FunctionNode) or len(item.module.scope_of(node).lookup(node.id)) > 1:
        return []
    sites = callers_of(project, item.module, function).sites
    near = [site for site in sites if site.module.path == item.weights.place.path]
    values = [(site.module, site.target.arguments(site.call).get(node.id)) for site in near]
    known = [(module, value) for module, value in values if value is not None]
    return known if len(known) == len(values) or item.module.path != item.weights.place.path else []


def _has_remedy(module: ModuleNames) -> bool:
    text = module.document.text
    return any(word in text for word in (*REMEDIES, *SHARDED))


def _optimizer(project: Project, module: ModuleNames, call: ast.Call) -> HalfOptimizer | None:
    named = _row(project, module, call.func)
    given = keywords_of(module, call) if named is not None else None
    if named is None or given is None or named[1].keeps not in ("nothing", "stochastic"):
        return None
    name, row = named
    if not given.complete and row.when:
        return None
    parameters = call.args[0] if call.args else given.values.get("params")
    weights = _weights(project, module, parameters, call) if parameters is not None else None
    if parameters is None or weights is None:
        return None
    if _is_wrapped(project, module, call) or only_measures(module, call) or _is_replaced(module, call):
        return None
    return HalfOptimizer(module, call, name, row, weights, parameters, given.values)


def _row(project: Project, module: ModuleNames, func: ast.expr) -> tuple[str, Row] | None:
    """The optimizer that is called; of classes that it can stand for the last one, where none keeps anything."""
    found = list(_rows(project, module, func, 0))
    known = [item for item in found if item is not None]
    if len(known) != len(found) or not known:
        return None
    losing = len(known) == 1 or all(item[1].keeps == "nothing" and item[1].by_lr for item in known)
    return known[-1] if losing else None


def _rows(project: Project, module: ModuleNames, func: ast.expr, hops: int) -> Iterator[tuple[str, Row] | None]:
    """The optimizers that a name, a table, a function or ``getattr(torch.optim, name)`` can stand for."""
    names = list(_qualified(project, module, func))
    found = [(name.rpartition(".")[2], row) for name in names if (row := row_of_optimizer(name)) is not None]
    picked = list(_picked(project, module, func)) if not found and hops < MAX_HOPS else []
    yield from found if len(found) == len(names) else ()
    if len(found) != len(names) or not (found or picked):
        yield None
    for there, value in picked:
        yield from _rows(project, there, value, hops + 1)


def _qualified(project: Project, module: ModuleNames, func: ast.expr) -> Iterator[str]:
    """The full names of what ``optim.AdamW`` and ``getattr(optim, name)`` are."""
    if isinstance(func, ast.Call) and ast.unparse(func.func) == "getattr" and len(func.args) == 2:
        owner = resolve(project, module, func.args[0])
        yield from (f"{owner}.{value}" for value in constants_of(project, module, func.args[1]) if owner is not None)
    elif attribute_chain(func):
        yield from filter(None, (resolve(project, module, func),))


def _picked(project: Project, module: ModuleNames, func: ast.expr) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """What an expression for a class may be."""
    if isinstance(func, ast.Name):
        bindings = module.scope_of(func).lookup(func.id)
        values = [item.value for item in bindings if item.value is not None]
        yield from ((module, value) for value in values if len(values) == len(bindings))
    elif isinstance(func, ast.Subscript) and isinstance(func.value, ast.Name):
        bindings = module.scope_of(func).lookup(func.value.id)
        table = bindings[0].value if len(bindings) == 1 else None
        yield from _entries(project, module, table, func.slice) if isinstance(table, ast.Dict) else ()
    elif isinstance(func, ast.IfExp):
        yield from ((module, func.body), (module, func.orelse))
    elif isinstance(func, ast.Call):
        target = called_function(project, module, func)
        returned = target.module.returns_of(target.node) if target is not None else []
        yield from ((target.module, item.value) for item in returned if target is not None and item.value is not None)


def _entries(
    project: Project, module: ModuleNames, table: ast.Dict, key: ast.expr
) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """The values of a table; of a key that is known those of that key."""
    asked = constants_of(project, module, key)
    for each, value in zip(table.keys, table.values, strict=True):
        known = isinstance(each, ast.Constant) and all(isinstance(item, str) for item in asked)
        if not known or each.value in asked:  # type: ignore[union-attr]
            yield module, value


def _weights(project: Project, module: ModuleNames, parameters: ast.expr, call: ast.Call) -> HalfWeights | None:
    """The first 16-bit weights among those that the optimizer is given."""
    models = models_of(module, parameters)
    known = {ast.unparse(item): item for item in models if item is not None}
    found = (half_weights(project, module, item, call, later=True) for item in known.values())
    return next((item for item in found if item is not None), None)


def _is_wrapped(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether the optimizer may be given to a library that keeps float32 copies of the parameters.

    Accelerate does where a launch line or a file asks for DeepSpeed or FSDP.
    """
    statement = module.statement_of(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {ast.unparse(item) for item in targets if isinstance(item, ast.Name | ast.Attribute)}
    for other in module.calls:
        last = (attribute_chain(other.func) or [""])[-1]
        arguments = [*other.args, *(item.value for item in other.keywords)]
        named = (item for item in arguments if isinstance(item, ast.Name | ast.Attribute))
        held = call in arguments or any(ast.unparse(item) in names for item in named)
        wraps = any(word in last for word in WRAPPERS) and not _is_of_fabric(other)
        if held and (wraps or (last == "prepare" and is_held(project, module))):
            return True
    return False


def _is_replaced(module: ModuleNames, call: ast.Call) -> bool:
    """Whether another optimizer takes the name before anything uses this one."""
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return isinstance(target, ast.Name) and is_replaced(module, statement, target.id)


def _is_of_fabric(call: ast.Call) -> bool:
    """``fabric.setup(model, optimizer)``, which keeps the weights; DeepSpeed would be named in the file."""
    return "fabric" in (attribute_chain(call.func) or [""])[0].lower() or "fabric" in ast.unparse(call.func).lower()
