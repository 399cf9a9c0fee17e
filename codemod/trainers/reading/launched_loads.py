"""Models that a trainer trains in the precision that a launch line gives: ``--fp16`` read by ``HfArgumentParser``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ...purpose.files import is_test
from ...python.arguments import receiver_of
from ...python.bindings import values_at
from ...python.creations import PARSING, creations_of
from ...python.names import ModuleNames, names_of
from ...source.facts import fact
from ...source.project import Project
from ...torch.dtype_values import scenarios_of
from ...torch.dtypes import UNKNOWN, Constant, Dtype, TextCondition, as_dtype
from .links import sources
from .loads import Load
from .precision import Compute, Precision, precision_of
from .run_members import Run
from .runs import runs_of
from .scopes import FALSE, NULL, TextOrigin
from .trained_loads import OF_TRAINERS, TrainedLoad, loads_of_model, trainer_calls

FLAGS = {Compute.FP16: "fp16", Compute.BF16: "bf16"}
"""The attribute of the trainer's arguments that is true where it computes in a type."""
SHARDED = ("DEEPSPEED", "FSDP")
"""Values of ``distributed_type`` with which the weights are cast by what holds them."""
OFF = (None, NULL, FALSE, "")
"""Values of arguments that ask for no sharding, or do not tell."""


@fact
def launched_loads(project: Project) -> tuple[TrainedLoad, ...]:
    """Every model whose load is seen and whose trainer's precision a launch line of its program decides."""
    found: list[TrainedLoad] = []
    for document in project.python_documents(("HfArgumentParser", "TrlParser"), ("Trainer",)):
        precisions = [] if is_test(document.path) else list(_precisions(project, document.path))
        module = names_of(project, document)
        for call, model, arguments, lora in trainer_calls(project, module) if precisions else ():
            parsed = precisions if _is_parsed(project, module, arguments) else []
            for precision in parsed:
                for run in loads_of_model(project, module, model, precision, call):
                    load = replace(run.load, dtypes=_dtypes_in_run(project, run.load, precision))
                    found.append(replace(run, load=load, adapted=run.adapted or lora))
    return tuple(found)


def _precisions(project: Project, path: str) -> Iterator[Precision]:
    """What the launch lines of the programs that use a file ask for, where nothing else of the run says otherwise."""
    for run in runs_of(project):
        winner = run.winner if run.command is not None and path in run.modules else None
        if winner is None or winner.scope.kind != "command" or winner.scope.framework.id not in OF_TRAINERS:
            continue
        precision = precision_of(project, winner.scope)
        if not precision.partitioned and not is_sharded(run):
            yield precision


def is_sharded(run: Run) -> bool:
    """Whether DeepSpeed or FSDP has a part in the run: they cast the weights themselves."""
    words = run.command.words if run.command is not None else ()
    return any("deepspeed" in word or "fsdp" in word for word in words) or any(
        member.scope.framework.id == "deepspeed"
        or any(item.value in SHARDED for item in member.scope.of("distributed_type"))
        or any(item.value not in OFF for item in member.scope.of("sharding"))
        for member in run.members
    )


def _dtypes_in_run(project: Project, load: Load, precision: Precision) -> frozenset[Dtype]:
    """What the load takes with the flags of the launch line: ``float16 if args.fp16 else float32``, ``args.dtype``."""
    given, node = _flags(precision), load.node
    if isinstance(node, ast.Attribute) and _is_parsed(project, load.module, node.value):
        said = as_dtype((_defaults(project, load, [node], given) | given).get(node.attr, UNKNOWN))
        return frozenset({said}) if isinstance(said, Dtype) else frozenset()
    if node is None or len(load.dtypes) == 1:
        return load.dtypes
    kept: set[Dtype] = set()
    for scenario in scenarios_of(project, load.module, node):
        flags = given | _defaults(project, load, [item.node for item in scenario.given], given)
        value = as_dtype(scenario.value)
        if any(is_ruled_out(item, flags) for item in scenario.given):
            continue
        if not isinstance(value, Dtype):
            return load.dtypes
        kept.add(value)
    return frozenset(kept)


def _defaults(
    project: Project, load: Load, asked: Iterable[ast.AST], flags: Mapping[str, Constant]
) -> dict[str, Constant]:
    """What the parser's options are that the launch line leaves out: their only default."""
    found: dict[str, Constant] = {}
    for node in asked:
        is_left_out = isinstance(node, ast.Attribute) and node.attr not in flags and node in load.module.parents
        if isinstance(node, ast.Attribute) and is_left_out and _is_parsed(project, load.module, node.value):
            values = {item.value for item in sources(project, load.module, node) if not item.is_of_line}
            found |= dict.fromkeys([node.attr], values.pop()) if len(values) == 1 else {}
    return found


def _flags(precision: Precision) -> dict[str, Constant]:
    """The options that the launch line gives, and the switches for 16 bits that it leaves off."""
    origin, on = precision.scope.origin, FLAGS.get(precision.compute)
    entries = origin.config.text.entries if isinstance(origin, TextOrigin) else ()
    given = {
        item.name.lstrip("-"): item.value for item in entries if isinstance(origin, TextOrigin) and origin.holds(item)
    }
    switches: dict[str, Constant] = {name: name == on for name in FLAGS.values()} if on is not None else {}
    return {name: value for name, value in given.items() if isinstance(value, str)} | switches


def is_ruled_out(item: TextCondition, flags: dict[str, Constant]) -> bool:
    """Whether a test about an option does not hold on the launch line."""
    name = item.text.rpartition(".")[2]
    return name in flags and (as_dtype(flags[name]) in map(as_dtype, item.values)) != item.equal


def _is_parsed(project: Project, module: ModuleNames, arguments: ast.expr) -> bool:
    """Whether the program's parser made the arguments, or the first of several: ``parser.parse(...)[0]``."""
    made = [item.call for item in creations_of(project, module, arguments)]
    firsts = (item.value for item in values_at(module, arguments) if isinstance(item, ast.Subscript))
    return (bool(made) and all(receiver_of(item, *PARSING) for item in made)) or any(
        receiver_of(item, *PARSING) for item in firsts
    )
