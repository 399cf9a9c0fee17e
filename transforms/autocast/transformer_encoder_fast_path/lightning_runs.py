"""Lightning trainers and fabrics in mixed precision that may run on another device than a CUDA GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ....codemod.model import EditRefused
from ....codemod.purpose.files import is_test
from ....codemod.python.bindings import reaching
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with, names_of, resolve
from ....codemod.source.project import Project
from ....codemod.torch.device_tests import asks_for_device, depends_on_device
from ....codemod.torch.dtypes import Constant
from ....codemod.trainers.reading.declarations import calls_of, scopes_of
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.precision import tokens_of
from ....codemod.trainers.reading.scopes import (
    FALSE,
    NULL,
    CodeOrigin,
    Setting,
    SettingScope,
    TextOrigin,
    token_of_constant,
)
from ....codemod.trainers.reading.source import ValueSource
from .fast_path_runs import OFF_CUDA, FastPathRun, Respelling

BY_CONFIGURATION = ("hydra.utils.instantiate", "hydra.utils.call")
TRUE = {"bf16-mixed": "bf16-true", "fp16-mixed": "16-true"}
"""What the type of a mixed precision is called as the type of the weights (Lightning 2.1). On a CPU Lightning runs
``16-mixed`` as ``bf16-mixed``."""
OTHER_DEVICES = ("gpus", "tpu_cores")
"""Lightning 1: arguments that choose an accelerator."""
OFF = (NULL, FALSE, "0", "")
OTHER_LOOPS = (
    *("deepspeed", "fsdp", "colossalai", "bagua", "horovod", "xla", "tpu", "modelparallel", "fully_sharded"),
    "apex",
)
"""Strategies that need an accelerator, or use their own precision."""
STEPS = ("validation_step", "test_step", "predict_step")
CHOSEN = "mixed precision is chosen here"


def lightning_runs(project: Project) -> Iterator[FastPathRun]:
    """Every Trainer, Fabric and LightningCLI whose precision is mixed and whose accelerator is not CUDA alone."""
    for scope in calls_of(project, "lightning"):
        setting = scope.last("precision")
        argument = scope.argument(setting)
        if setting is not None and setting.name == "precision" and argument is not None and not is_test(scope.path):
            yield from _written(project, scope, setting, *argument)
    for module, call in _configured(project):
        sections = [item for item in project.fact(_sections) if _devices(project, item[0])]
        if sections and not any(item.arg in ("precision", "accelerator") for item in call.keywords):
            yield _by_sections(project, module, call, sections)


def _true(setting: Setting, value: Constant) -> str | None:
    """The name of the 16-bit weights for a mixed precision; None for other precisions."""
    token = token_of_constant(value) if not isinstance(value, bool) else None
    return TRUE.get(setting.key.meaning(token) or "") if token is not None else None


def _devices(project: Project, scope: SettingScope) -> frozenset[str]:
    """The devices off CUDA that the accelerator can be; empty where none is known, or another loop is asked for."""
    old = (item for item in scope.of("of_release_1") if item.name.rpartition(".")[2] in OTHER_DEVICES)
    passed = {item.arg for item in scope.call.keywords} if scope.call is not None else set()
    others = [item for name in ("strategy", "amp_backend") for item in scope.of(name)]
    words = [word for item in others for word in (item.place.message, *tokens_of(project, scope, item))]
    elsewhere = any(item.value not in OFF for item in old) or scope.of("plugin") or "plugins" in passed
    if elsewhere or any(other in str(word).lower() for word in words for other in OTHER_LOOPS):
        return frozenset()
    asked = scope.of("accelerator")
    if asked:
        return _off_cuda(token for item in asked for token in tokens_of(project, scope, item) if token is not None)
    # unless other files are mixed in (Hydra's ``defaults``) the machine decides
    mixed_in = scope.is_open or (isinstance(scope.origin, TextOrigin) and scope.origin.config.text.find("defaults"))
    return frozenset() if mixed_in else frozenset({"any"})


def _off_cuda(tokens: Iterable[str]) -> frozenset[str]:
    """``auto``, None (Lightning 1 takes the CPU for it) and a choice of several are decided by the machine."""
    found = {"any" if token in ("auto", NULL) else token for token in tokens}
    off = found & {"any", *OFF_CUDA}
    return frozenset(off if off == found else {"any"} if off else ())


def _written(
    project: Project, scope: SettingScope, setting: Setting, module: ModuleNames, precision: ast.expr
) -> Iterator[FastPathRun]:
    call, devices = scope.call, _devices(project, scope)
    mixed = [token for token in tokens_of(project, scope, setting) if _true(setting, token)]
    if call is None or not mixed or not devices:
        return
    found = [item for item in sources(project, module, precision) if _true(setting, item.value)]
    maker = (attribute_chain(call.func) or [""])[-1]
    yield FastPathRun(
        module,
        module.statement_of(call),
        _shown(module, precision),
        f"Lightning's precision={str(found[0].value if found else mixed[0])!r}",
        partial(_unless_for_gpus, project, scope, setting, devices),
        (*(item.place(CHOSEN) for item in found), module.place(call, f"the {maker} is built here")),
        respellings=_respelled(setting, found) if {str(item.value) for item in found} == set(mixed) else (),
        by_hand=maker == "Fabric",
    )


def _unless_for_gpus(
    project: Project, scope: SettingScope, setting: Setting, devices: frozenset[str]
) -> frozenset[str]:
    """``devices``, unless a test of the device decides that this trainer is built, or that its precision is mixed."""
    argument = scope.argument(setting)
    if devices != {"any"} or argument is None or scope.call is None:
        return devices
    every = all(_true(setting, token) for token in tokens_of(project, scope, setting))
    decided = depends_on_device(project, argument[0], scope.call) or (not every and asks_for_device(project, *argument))
    return frozenset() if decided else devices


def _shown(module: ModuleNames, node: ast.expr) -> ast.expr:
    """Where the precision is decided: the value of the variable that is passed, or what is passed."""
    bindings = reaching(module, module.bindings_of(node), node) if isinstance(node, ast.Name) else []
    value = bindings[0].value if len(bindings) == 1 else None
    return value if value is not None and module.scope_of(value) is module.scope_of(node) else node


def _respelled(setting: Setting, found: Sequence[ValueSource]) -> tuple[Respelling, ...]:
    news = [_true(setting, item.value) or "" for item in found]
    try:
        return tuple(Respelling(item.text, new, item.respelled(new)) for item, new in zip(found, news, strict=True))
    except EditRefused:
        return ()


def _configured(project: Project) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """``LightningCLI(...)``, ``Trainer(**config["trainer"])``, ``instantiate(config.trainer)``."""
    for scope in calls_of(project, "lightning"):
        call, argument = scope.call, scope.origin
        passed = [item.value for item in call.keywords if item.arg is None] if call is not None else []
        if call is not None and isinstance(argument, CodeOrigin):
            name = (attribute_chain(call.func) or [""])[-1]
            if name == "LightningCLI" or (name == "Trainer" and any(_last_name(node) == "trainer" for node in passed)):
                yield argument.module, call
    for module in modules_with(project, ("instantiate(", "call("), ("hydra",)):
        for call in (*module.calls_by_name.get("instantiate", ()), *module.calls_by_name.get("call", ())):
            of_trainer = bool(call.args) and _last_name(call.args[0]) == "trainer"
            if of_trainer and resolve(project, module, call.func) in BY_CONFIGURATION:
                yield module, call


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value).lower()
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]  # OmegaConf.to_container(config.trainer), vars(...)
        return _last_name(node) if not isinstance(node, ast.Call) else ""
    return (attribute_chain(node) or [""])[-1].lower()


def _sections(project: Project) -> tuple[tuple[SettingScope, TextOrigin, Setting], ...]:
    """The files that ask a Lightning trainer for mixed precision, off CUDA too."""
    found = ((scope, scope.origin, scope.last("precision")) for scope in scopes_of(project))
    return tuple(
        (scope, origin, setting)
        for scope, origin, setting in found
        if scope.kind == "file" and scope.framework.id == "lightning" and isinstance(origin, TextOrigin)
        if setting is not None and _true(setting, setting.value)
    )


def _by_sections(
    project: Project, module: ModuleNames, call: ast.Call, sections: list[tuple[SettingScope, TextOrigin, Setting]]
) -> FastPathRun:
    return FastPathRun(
        module,
        module.statement_of(call),
        call,
        f"Lightning's precision={sections[0][2].value!r}",
        lambda: frozenset(device for item in sections for device in _devices(project, item[0])),
        tuple(setting.place.saying(CHOSEN) for _, _, setting in sections),
        project.fact(_stepping_classes),
        tuple(item for section in sections for item in _respelled_entry(*section)),
    )


def _respelled_entry(_: SettingScope, origin: TextOrigin, setting: Setting) -> Iterator[Respelling]:
    new = _true(setting, setting.value) or ""
    try:
        edit = origin.config.edit(origin.config.text.set(origin.config.text.entries[setting.index], new))
    except EditRefused:
        return
    yield Respelling(setting.value or "", new, edit)


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
