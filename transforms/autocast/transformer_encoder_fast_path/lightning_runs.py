"""Lightning trainers and fabrics in mixed precision that may run on another device than a CUDA GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ....codemod.model import EditRefused
from ....codemod.purpose.files import is_test
from ....codemod.python.bindings import reaching
from ....codemod.python.names import Binding, ModuleNames, attribute_chain, names_of, resolve
from ....codemod.python.trace import Domain, trace
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.torch.api import LIGHTNING
from ....codemod.torch.device_tests import asks_for_device, depends_on_device
from ....codemod.torch.dtype_values import constants_of, scenarios_of
from ....codemod.torch.dtypes import Constant, Unknown
from ....codemod.trainers.reading.configs import ConfigFile, Entry, config_files
from .fast_path_runs import OFF_CUDA, Respelling, Run

MAKERS = ("Trainer", "Fabric", "LightningCLI", "instantiate", "call")
BY_CONFIGURATION = ("hydra.utils.instantiate", "hydra.utils.call")
MIXED: dict[Constant, str] = {
    "bf16-mixed": "bf16-true",
    "bf16": "bf16-true",
    "16-mixed": "16-true",
    "16": "16-true",
    16: "16-true",
}
"""Spellings of mixed precision in Lightning 1 and 2 (``bf16`` is ``bf16-mixed``, 16 is ``16-mixed``), and what the same
type is called as the type of the weights (Lightning 2.1). On a CPU Lightning runs ``16-mixed`` as ``bf16-mixed``."""
OTHER_DEVICES = ("gpus", "tpu_cores", "ipus", "hpus")
"""Lightning 1: arguments that choose an accelerator."""
OTHER_LOOPS = ("deepspeed", "fsdp", "colossalai", "bagua", "horovod", "xla", "tpu", "modelparallel", "fully_sharded")
"""Strategies that need an accelerator, or use their own precision."""
STEPS = ("validation_step", "test_step", "predict_step")
LITERALS: Domain[tuple[ModuleNames, ast.Constant]] = Domain(
    leaf=lambda _question, module, node: ((module, node),) if isinstance(node, ast.Constant) else None,
    gap=lambda _question, _module, _node, _why: (),
)
"""Where a value is written."""


def lightning_runs(project: Project) -> Iterator[Run]:
    """Every Trainer, Fabric and LightningCLI whose precision is mixed and whose accelerator is not CUDA alone."""
    for module, call, maker in _makers(project):
        if maker in ("Trainer", "Fabric"):
            yield from _written(project, module, call, maker)
        if maker != "Fabric":
            yield from _configured(project, module, call, maker)


def _makers(project: Project) -> Iterator[tuple[ModuleNames, ast.Call, str]]:
    """The calls that make one of Lightning's objects, or an object that a configuration file describes."""
    documents = project.python_documents(tuple(f"{name}(" for name in MAKERS))
    for module in (names_of(project, document) for document in documents if not is_test(document.path)):
        for maker in MAKERS:
            for call in module.calls_by_name.get(maker, []):
                name = resolve(project, module, call.func) or ""
                if name in BY_CONFIGURATION or (name.partition(".")[0] in LIGHTNING and name.endswith(f".{maker}")):
                    yield module, call, maker


# --- written in Python ------------------------------------------------------------------------------------------------


def _written(project: Project, module: ModuleNames, call: ast.Call, maker: str) -> Iterator[Run]:
    given = {item.arg: item.value for item in call.keywords if item.arg is not None}
    precision = given.get("precision")
    if precision is None or "plugins" in given or _is_elsewhere(project, module, given):
        return
    found = scenarios_of(project, module, precision)
    mixed = [str(item.value) for item in found if _is_mixed(item.value)]
    devices = _devices(project, module, given, splat=len(given) != len(call.keywords))
    if not mixed or not devices:
        return
    literals = _literals(project, module, precision)
    places = [owner.place(node, "mixed precision is chosen here") for owner, node in literals]
    spelled = {str(node.value) for _, node in literals}
    yield Run(
        module,
        module.statement_of(call),
        _shown(module, precision),
        f"Lightning's precision={mixed[0]!r}",
        partial(_unless_for_gpus, project, module, call, precision, devices),
        (*places, module.place(call, f"the {maker} is built here")),
        respellings=tuple(map(_respelled, literals)) if spelled == set(mixed) else (),
        by_hand=maker == "Fabric",
    )


def _unless_for_gpus(
    project: Project, module: ModuleNames, call: ast.Call, precision: ast.expr, devices: frozenset[str]
) -> frozenset[str]:
    """``devices``, unless a test of the device decides that this trainer is built, or that its precision is mixed."""
    if devices != {"any"}:
        return devices
    every = all(_is_mixed(item.value) for item in scenarios_of(project, module, precision))
    decided = depends_on_device(project, module, call) or (not every and asks_for_device(project, module, precision))
    return frozenset() if decided else devices


def _is_mixed(value: Constant) -> bool:
    return not isinstance(value, bool | float | Unknown) and value in MIXED


def _is_elsewhere(project: Project, module: ModuleNames, given: dict[str, ast.expr]) -> bool:
    """Whether another device, a strategy with its own precision or apex is asked for."""
    for name in OTHER_DEVICES:
        node = given.get(name)
        if node is not None and not (isinstance(node, ast.Constant) and not node.value):
            return True
    strategy, backend = given.get("strategy"), given.get("amp_backend")
    if backend is not None and constants_of(project, module, backend) == {"apex"}:
        return True
    if strategy is None:
        return False
    words = [str(item.value) for item in scenarios_of(project, module, strategy)]
    words += [(attribute_chain(node.func) or [""])[-1] for node in ast.walk(strategy) if isinstance(node, ast.Call)]
    return any(other in word.lower() for word in words for other in OTHER_LOOPS)


def _devices(project: Project, module: ModuleNames, given: dict[str, ast.expr], splat: bool) -> frozenset[str]:
    """The devices off CUDA that the accelerator can be; empty where none is known."""
    node = given.get("accelerator")
    if node is None:
        return frozenset() if splat else frozenset({"any"})
    return _off_cuda(item.value for item in scenarios_of(project, module, node))


def _off_cuda(values: Iterable[Constant]) -> frozenset[str]:
    """``auto``, None (Lightning 1 takes the CPU for it) and a choice of several are decided by the machine."""
    found = {"any" if value in ("auto", None) else str(value) for value in values if not isinstance(value, Unknown)}
    off = found & {"any", *OFF_CUDA}
    return frozenset(off if off == found else {"any"} if off else ())


def _shown(module: ModuleNames, node: ast.expr) -> ast.expr:
    """Where the precision is decided: the value of the variable that is passed, or what is passed."""
    bindings = _bindings(module, node)
    value = bindings[0].value if len(bindings) == 1 else None
    return value if value is not None and module.scope_of(value) is module.scope_of(node) else node


def _bindings(module: ModuleNames, node: ast.expr) -> list[Binding]:
    return reaching(module, module.scope_of(node).lookup(node.id), node) if isinstance(node, ast.Name) else []


def _literals(project: Project, module: ModuleNames, node: ast.expr) -> tuple[tuple[ModuleNames, ast.Constant], ...]:
    """The literals of mixed precision that ``node`` can be."""
    found = trace(project, module, node, LITERALS)
    choices = (ast.List, ast.Tuple, ast.Set)
    return tuple(
        (owner, item)
        for owner, item in found
        if isinstance(item.value, str | int) and _is_mixed(item.value) and not isinstance(owner.parents[item], choices)
    )


def _respelled(literal: tuple[ModuleNames, ast.Constant]) -> Respelling:
    module, node = literal
    document = module.document
    span = document.span(node)
    source = document.source(span)
    quote = source[0] if source[:1] in ("'", '"') else '"'
    new = MIXED[node.value if isinstance(node.value, str | int) else None]
    return Respelling(source, new, module.replace(span, f"{quote}{new}{quote}"))


# --- written in YAML --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """The ``precision`` of a ``trainer:`` section."""

    file: ConfigFile
    entry: Entry
    devices: frozenset[str]


def _configured(project: Project, module: ModuleNames, call: ast.Call, maker: str) -> Iterator[Run]:
    """``LightningCLI(...)``, ``Trainer(**config["trainer"])``, ``instantiate(config.trainer)``."""
    if maker in ("instantiate", "call") and not (call.args and _last_name(call.args[0]) == "trainer"):
        return
    splats = [item.value for item in call.keywords if item.arg is None]
    if maker == "Trainer" and not any(_last_name(node) == "trainer" for node in splats):
        return
    if any(item.arg in ("precision", "accelerator") for item in call.keywords):
        return
    sections = [item for item in project.fact(_sections) if item.devices]
    if not sections:
        return
    yield Run(
        module,
        module.statement_of(call),
        call,
        f"Lightning's precision={str(sections[0].entry.value)!r}",
        lambda: frozenset(device for item in sections for device in item.devices),
        tuple(item.file.place(item.entry, "mixed precision is chosen here") for item in sections),
        project.fact(_stepping_classes),
        tuple(item for section in sections for item in _respelled_entry(section)),
    )


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value).lower()
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]  # OmegaConf.to_container(config.trainer), vars(...)
        return _last_name(node) if not isinstance(node, ast.Call) else ""
    return (attribute_chain(node) or [""])[-1].lower()


def _sections(project: Project) -> tuple[_Section, ...]:
    found = []
    for file in config_files(project, ("precision",), (FileKind.YAML,)):
        for entry in file.text.entries:
            if entry.name == "precision" and entry.is_scalar and _is_mixed(entry.value) and _is_trainer(file, entry):
                found.append(_Section(file, entry, _section_devices(file, entry)))
    return tuple(found)


def _is_trainer(file: ConfigFile, entry: Entry) -> bool:
    if len(entry.key) > 1 and entry.key[-2] == "trainer":
        return True
    targets = file.text.find(*entry.key[:-1], "_target_")
    return any(str(item.value).partition(".")[0] in LIGHTNING for item in targets)


def _section_devices(file: ConfigFile, entry: Entry) -> frozenset[str]:
    """Where no accelerator is named: the machine decides, unless other files are mixed in (Hydra's ``defaults``)."""
    section = entry.key[:-1]
    if any(file.text.find(*section, name) for name in (*OTHER_DEVICES, "plugins")):
        return frozenset()
    strategies = [str(item.value).lower() for item in file.text.find(*section, "strategy")]
    if any(other in word for word in strategies for other in OTHER_LOOPS):
        return frozenset()
    accelerators = file.text.find(*section, "accelerator")
    if accelerators:
        return _off_cuda(item.value for item in accelerators if item.is_scalar and item.style != "template")
    return frozenset() if file.text.find("defaults") else frozenset({"any"})


def _respelled_entry(section: _Section) -> Iterator[Respelling]:
    value = section.entry.value
    new = MIXED[value]
    try:
        edit = section.file.edit(section.file.text.set(section.entry, new))
    except EditRefused:
        return
    yield Respelling(str(value), new, edit)


def _stepping_classes(project: Project) -> tuple[tuple[ModuleNames, ast.AST], ...]:
    """The classes that evaluate: config files name them by their path."""
    documents = project.python_documents(STEPS)
    modules = (names_of(project, document) for document in documents)
    return tuple(
        (module, node)
        for module in modules
        for node, scope in module.scopes.items()
        if isinstance(node, ast.ClassDef) and not scope.bindings.keys().isdisjoint(STEPS)
    )
