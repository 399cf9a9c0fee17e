"""Classes whose buffers are 16-bit in a training: the whole model is cast, or FSDP casts its buffers.

Whatever region is open around its calls: autocast lowers what it computes and never raises a buffer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.classes import ProjectClass
from ....codemod.flow.parts import all_parts
from ....codemod.half.half_classes import CASTS, made_model
from ....codemod.model import Place
from ....codemod.purpose.decided import has_run
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.training import training_modules
from ....codemod.python.arguments import argument
from ....codemod.python.creations import creations_of
from ....codemod.python.functions import called_function, class_of
from ....codemod.python.names import ModuleNames, attribute_chain, resolve
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from ....codemod.torch.api import CASTS as ALL_CASTS
from ....codemod.torch.cast_models import later_statements
from ....codemod.torch.dtype_values import only_half
from ....codemod.torch.dtypes import HALVES, Dtype
from ....codemod.torch.weight_changes import moves_only
from ....codemod.torch.weights import cast_dtype

MAX_HOPS = 2
SHARDING = "FullyShardedDataParallel"
IGNORING = ("ignored_modules", "ignored_states", None)
"""Arguments of FSDP that leave modules out, whose buffers it then leaves alone; None: ``**options``, which may."""


@dataclass(frozen=True, slots=True)
class HalfBuffers:
    """What casts the buffers of a class, and to what."""

    place: Place
    dtype: Dtype
    of_complex: bool
    """Whether complex numbers are cast, too, and lose their imaginary part: ``to`` does, ``half`` leaves them alone."""


@fact
def half_buffers(project: Project) -> Mapping[str, HalfBuffers]:
    """The symbols of the weights of such classes (`FlowAnalysis.own_weights`)."""
    found: dict[str, HalfBuffers] = {}
    for module in training_modules(project):
        for call in (call for name in CASTS for call in module.calls_by_name.get(name, [])):
            dtype = cast_dtype(project, module, call)
            owner, _ = (made_model(project, module, call) if dtype in HALVES else None) or (None, ())
            again = set(_cast_again(project, module, call)) if owner is not None else {None}
            if owner is None or dtype is None or None in again or not is_reached(project, module, call):
                continue
            kept = {part for item in again if item is not None for part in all_parts(project, item)}
            place = module.place(call, f"{owner.name} and its buffers are cast to {dtype.name} here")
            known = HalfBuffers(place, dtype, getattr(call.func, "attr", "") == "to")
            for part in all_parts(project, owner) if has_run(project, module, call) else ():
                if part not in kept:
                    found.setdefault(flow_of(project).own_weights(part).symbol, known)
        for owner, known in _sharded(project, module):
            for part in all_parts(project, owner):
                found.setdefault(flow_of(project).own_weights(part).symbol, known)
    return found


def _sharded(project: Project, module: ModuleNames) -> Iterator[tuple[ProjectClass, HalfBuffers]]:
    """The classes of models that FSDP wraps with a policy whose ``buffer_dtype`` is a 16-bit one."""
    wraps = module.calls if SHARDING in module.document.text else ()
    for call in (item for item in wraps if not any(keyword.arg in IGNORING for keyword in item.keywords)):
        is_fsdp = (resolve(project, module, call.func) or "").endswith(f".fsdp.{SHARDING}")
        policy = argument(call, "mixed_precision")
        made_by = creations_of(project, module, policy) if is_fsdp and policy is not None else ()
        dtypes = {_buffer_dtype(project, made.module, made.call) for made in made_by}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        models = creations_of(project, module, call.args[0]) if dtype and call.args else ()
        known = [class_of(project, made.module, made.call.func) for made in models]
        is_known = dtype is not None and bool(known) and None not in known
        if dtype and is_known and is_reached(project, module, call) and has_run(project, module, call):
            place = made_by[0].module.place(made_by[0].call, f"FSDP casts the buffers to {dtype.name} (buffer_dtype)")
            yield from ((ProjectClass(*item), HalfBuffers(place, dtype, False)) for item in known if item is not None)


def _buffer_dtype(project: Project, module: ModuleNames, policy: ast.Call) -> Dtype | None:
    """The 16-bit type that ``MixedPrecision(buffer_dtype=...)`` certainly names."""
    is_policy = (resolve(project, module, policy.func) or "").endswith(".MixedPrecision")
    return only_half(project, module, argument(policy, "buffer_dtype", position=2)) if is_policy else None


def _cast_again(project: Project, module: ModuleNames, cast: ast.Call) -> Iterator[ProjectClass | None]:
    """The classes whose modules later statements of the function cast again; None for what is not known."""
    for name, statements in later_statements(module, cast).items():
        for item in statements:
            yield from _by_statement(project, module, item, name, MAX_HOPS)


def _by_statement(
    project: Project, module: ModuleNames, statement: ast.stmt, name: str, hops: int
) -> Iterator[ProjectClass | None]:
    for call in (item for item in ast.walk(statement) if isinstance(item, ast.Call)):
        chain = attribute_chain(call.func) or [""]
        of_parameter = chain[-2:-1] == ["data"] and len(chain) < 4  # ``m.inv_freq.data.float()`` is of a buffer
        casts = chain[-1] in ALL_CASTS and not of_parameter and not (chain[-1] == "to" and moves_only(call))
        if casts and _is_of_model(module, call, chain[0], name):
            yield from _asked_for(project, module, call, chain[0]) if isinstance(statement, ast.For) else (None,)
        target = called_function(project, module, call) if hops else None
        if target is not None and target.node.name != "__init__":
            for key in (key for key, value in target.arguments(call).items() if ast.unparse(value) == name):
                for inner in target.node.body:
                    yield from _by_statement(project, target.module, inner, key, hops - 1)


def _is_of_model(module: ModuleNames, call: ast.Call, root: str, name: str) -> bool:
    """Whether a cast may be one of the model or its parts, not of a batch in the loop that calls it."""
    loops = (item for item in module.ancestors(call) if isinstance(item, ast.For))
    of_part = any(name in map(ast.unparse, ast.walk(item.iter)) for item in loops)
    return of_part or not root or root == name.partition(".")[0]


def _asked_for(project: Project, module: ModuleNames, cast: ast.Call, name: str) -> Iterator[ProjectClass | None]:
    """The classes of ``for m in model.modules(): if isinstance(m, Linear): m.float()``."""
    tests = (item.test for item in module.ancestors(cast) if isinstance(item, ast.If))
    asked = [item for item in tests if ast.unparse(item).startswith(f"isinstance({name}, ")]
    for test in asked[:1]:
        given = test.args[1] if isinstance(test, ast.Call) else test
        for node in given.elts if isinstance(given, ast.Tuple) else [given]:
            known = class_of(project, module, node)
            if known is not None or not (module.qualified(node) or "").startswith("torch.nn."):
                yield ProjectClass(*known) if known is not None else None
    if not asked:
        yield None
