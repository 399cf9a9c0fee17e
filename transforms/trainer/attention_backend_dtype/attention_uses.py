"""Where a model that was loaded in float32 certainly runs in float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.source.project import Project
from ....codemod.trainers.reading.loads import Load
from ....codemod.trainers.reading.precision import Compute
from ....codemod.trainers.reading.trained_loads import may_recast, names_in, trained_loads

LOWERING = (
    "autocast",
    "accelerator",
    "accelerate",
    "deepspeed",
    "fullyshardeddataparallel",
    "fully_shard",
    "set_default_dtype",
    "set_default_tensor_type",
    "trainer",
    "fabric",
    "precision",
)
"""Parts of names in files in which something may let a float32 model compute in 16 bits."""
LAUNCHED = ("accelerate", "fsdp", "deepspeed", "zero2", "zero3", "ds_config")
"""Parts of the names of files that set a trainer's precision from outside."""
RUNS = ("generate", "forward", "encode", "chat")
"""Methods that run the model."""


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A place where the model runs, and what is to be seen there."""

    module: ModuleNames
    node: ast.AST
    message: str


def is_cast_on_the_way(module: ModuleNames, call: ast.Call) -> bool:
    """Whether the load's result is cast before it gets a name: ``from_pretrained(...).to(torch.bfloat16)``."""
    node: ast.AST = call
    parent = module.parents.get(node)
    while isinstance(parent, ast.Attribute):
        outer = module.parents.get(parent)
        if not isinstance(outer, ast.Call) or outer.func is not parent or _casts(outer, parent.attr):
            return True
        node, parent = outer, module.parents.get(outer)
    return False


def _casts(call: ast.Call, method: str) -> bool:
    if method == "to":
        given = [*call.args, *(item.value for item in call.keywords)]
        return not all(_is_device(node) for node in given) or any(item.arg != "device" for item in call.keywords)
    return method not in ("cuda", "eval", "train", "cpu")


def _is_device(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | int)
    return "device" in (attribute_chain(node) or [""])[-1].lower()


def first_float32_use(project: Project, load: Load) -> Use | None:
    """Where the loaded model runs with nothing around that could lower its dtype; None when that is not certain."""
    runs = [run for run in trained_loads(project) if run.load.call is load.call]
    if runs:
        run = runs[0]
        plain = run.precision.compute is Compute.FP32 and not run.precision.partitioned and not run.recast
        outside = any(word in path.lower() for path in project.paths for word in LAUNCHED)
        return Use(run.module, run.trainer, "the trainer computes in float32") if plain and not outside else None
    if load.module.mentions(*LOWERING):
        return None
    return _first_call(load.module, load.call)


def _first_call(module: ModuleNames, load: ast.Call) -> Use | None:
    """The first call of the variable that holds the model; None where it is cast or recast anywhere in the file."""
    statement = module.statement_of(load)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    chain = attribute_chain(target) if target is not None else None
    if target is None or chain is None or len(chain) > 2:
        return None
    name = ast.unparse(target)
    mentions = list(_mentions(module, name))
    others = [other for node in mentions if (other := module.statement_of(node)) is not statement]
    if any(may_recast(other) or any("dtype" in name for name in names_in(other)) for other in others):
        return None
    for node in mentions:
        parent = module.parents.get(node)
        ran = isinstance(parent, ast.Call) and parent.func is node
        method = isinstance(parent, ast.Attribute) and parent.attr in RUNS
        if ran or method:
            return Use(module, node, "the model runs here, outside autocast")
    return None


def _mentions(module: ModuleNames, name: str) -> Iterator[ast.expr]:
    last = name.rpartition(".")[2]
    found: list[ast.Attribute] | list[ast.Name]
    found = module.attribute_loads.get(last, []) if "." in name else module.name_loads.get(last, [])
    for node in sorted(found, key=lambda item: item.lineno):
        if ast.unparse(node) == name:
            yield node
