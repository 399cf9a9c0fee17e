"""PyTorch's old, per-device AMP interface is used: `torch.cuda.amp` and `torch.cpu.amp` are deprecated.

## What goes wrong

Every call warns, and a run that turns warnings into errors stops:
`FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cuda', args...)`
instead.` The same holds for `autocast`, `custom_fwd`, `custom_bwd`, for `torch.cpu.amp`, and (a `DeprecationWarning`)
for `torch.get_autocast_gpu_dtype()` and its like.

## Why

Since PyTorch 2.4 one interface serves all devices: `torch.amp`, whose first argument is the device (pytorch#126527).
The order of arguments differs: the old `autocast(enabled, dtype, cache_enabled)` is the new
`autocast(device_type, dtype, enabled, cache_enabled)`, so a plain exchange of names breaks `autocast(False)`.

## Fix

`respell` [safe]: the same call through `torch.amp`, in the file's own style of import, with positional arguments turned
into keywords where the order changed. All uses that hang on one import are rewritten together or not at all. Safe
only where the manifest nearest to the file (`torch>=2.4`) excludes every release that lacks the new names.

`respell` [unsafe]: the same where no manifest names a release of PyTorch; and for an `autocast()` without a dtype that
may run inside a bfloat16 region: the old one is float16 (on CUDA) wherever it stands, the new one takes the dtype of
the region around it.

`respell` [display-only]: the same where the project's own pins allow a release of PyTorch that lacks the new spelling
(`torch.amp.autocast` 1.12, `torch.amp.GradScaler` 2.3, `torch.amp.custom_fwd` and `torch.get_autocast_dtype` 2.4).

No fix where a name is passed on before it is called, comes through another file, is used in `isinstance` or as a key,
where the project replaces parts of `torch.cuda.amp`, or where `*args` hide what is passed.

## Not flagged

A project whose pins (or the install line of its README) stay below torch 2.4, which does not warn; those of the root
count for nested packages too, and what `requirements-inference.txt` allows says nothing of
code that trains. A file that imports `torch._six` (gone since 2.0), itself or through others. A project
without pins that pins a `cudatoolkit` up to 11.7 or a sibling (`torchaudio==0.8.0`), is built in an image with an older
torch (of any vendor, with the tag in an `ARG`), or names only older releases in its README.
Code that only older releases reach: version tests, `hasattr(torch.amp, "GradScaler")`, `except AttributeError`.
Annotations, `isinstance`, base classes: naming an old class does not warn. Local classes of the same names. A module
that is no program and that only asks `torch.get_autocast_gpu_dtype()` and its like: Python hides a DeprecationWarning
outside of the file that is started. A call with arguments that it does not take (see autocast-arguments).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from packaging.version import Version

from ....codemod.model import Finding, Fix, Place, Rule
from ....codemod.proof.needs import Known, Release
from ....codemod.proof.proving import proved
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.given import is_run, is_used
from ....codemod.purpose.imports import importers_of, reached_from
from ....codemod.purpose.training import reached_modules, training_modules
from ....codemod.purpose.words import AFTER_TRAINING, Purpose
from ....codemod.python.arguments import bind
from ....codemod.python.keywords import keywords_of
from ....codemod.python.names import ModuleNames, checked_modules, modules_with, string_of
from ....codemod.python.scopes import is_off
from ....codemod.releases.pins import allowed, excludes
from ....codemod.source.project import Project
from ....codemod.torch.autocast import DEFAULT_DTYPE, Autocast, autocasts, changes_default, dtype_scenarios
from ....codemod.torch.scalers import scalers
from ....codemod.trainers.reading.programs_started import is_program
from .deprecated_uses import OLD_AUTOCAST, WORDS, DeprecatedUse, class_tests, replacements_of_torch, uses_in
from .import_groups import Group, groups_of, import_edits
from .older_releases import broken_since, runs_older

MAX_EVIDENCE = 40
MAX_REACHED = 80
"""Modules that are looked at for what a file needs to run."""
DEPRECATED_SINCE = "2.4"
"""A project that pins an older release never sees the warning."""
INHERITS = (
    "without a dtype the old autocast is always float16 on CUDA and bfloat16 on a CPU, the new one takes the dtype of "
    "the autocast around it: give the dtype where this may run inside a region of the other one"
)
LOOPS_OF_OTHERS = ("lightning", "pytorch_lightning", "accelerate", "transformers", "composer", "deepspeed", "trl")
"""Libraries that open an autocast region around the project's code, with a dtype from a configuration."""
_BF16_WORDS = ("bf16", "bfloat16")


def check(project: Project) -> Iterator[Finding]:
    for module in checked_modules(project, WORDS):
        if _never_warns(project, module):
            continue
        groups = list(groups_of(project, module, uses_in(project, module)))
        groups = [group for group in groups if not all(_raises(project, use) for use in group.warning)]
        if _is_hidden(groups) and not is_program(project, module.path):
            continue
        judged = [(_verdict(project, group), group) for group in groups]
        judged.sort(key=lambda pair: pair[0].key)
        for verdict, pairs in groupby(judged, key=lambda pair: pair[0]):
            yield _finding(project, verdict, [group for _, group in pairs])


def _is_hidden(groups: Sequence[Group]) -> bool:
    """Whether all warnings are DeprecationWarnings, which Python shows in the file that is started and nowhere else."""
    return all(use.entry.kind == "function" for group in groups for use in group.warning)


def _raises(project: Project, use: DeprecatedUse) -> bool:
    """Whether a run makes the call with a device, which the old interface does not take: PF303 calls the new one."""
    if use.form != "call" or use.call is None:
        return False
    if use.entry.kind == "autocast":
        return any(item.arg == "device_type" for item in use.call.keywords) and is_run(project, use.module, use.call)
    made = [scaler for scaler in scalers(project) if scaler.call is use.call and is_used(project, scaler)]
    return any(string_of((scaler.arguments or {}).get("init_scale")) is not None for scaler in made)


def _never_warns(project: Project, module: ModuleNames) -> bool:
    """Whether the file only runs with releases of PyTorch that do not warn."""
    path = module.path
    if excludes(project, "torch", DEPRECATED_SINCE, path, _served_by_others(project, module)):
        return True
    if allowed(project, "torch", path) is None and runs_older(project, DEPRECATED_SINCE, path) is not None:
        return True
    broken = broken_since(project, DEPRECATED_SINCE)
    users = (module, *importers_of(project, module)) if broken else ()
    return any(each.path in broken for each in reached_from(project, users, MAX_REACHED))


def _served_by_others(project: Project, module: ModuleNames) -> frozenset[Purpose]:
    """What training uses a file for none of: a manifest for that says nothing of the file."""
    if module in training_modules(project) or purpose_of(module.path) is Purpose.TRAINING:
        return AFTER_TRAINING
    users, reached = importers_of(project, module), reached_modules(project)
    is_known = module in reached and all(each in reached or purpose_of(each.path) in AFTER_TRAINING for each in users)
    return AFTER_TRAINING - {purpose_of(each.path) for each in users} if is_known else frozenset()


class Offer(Enum):
    """What is done with the new spelling."""

    WRITTEN = "written"
    SHOWN = "shown"
    NOT_POSSIBLE = "not possible"


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What may be done with a group, and the sentence that says why not more."""

    offer: Offer
    reason: str = ""
    places: tuple[Place, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.offer.value, self.reason


def _verdict(project: Project, group: Group) -> _Verdict:
    blocked = _blocked(project, group)
    if blocked is not None:
        return blocked
    too_old = _too_old(project, group)
    if too_old is not None:
        return too_old
    if any(may_differ(project, use) for use in group.warning):
        return _Verdict(Offer.WRITTEN, INHERITS)
    return _Verdict(Offer.WRITTEN, _release_of([group]).missing(project))


def _release_of(groups: Sequence[Group]) -> Release:
    """The release of torch that has the new names of all uses."""
    newest = max((_newest(group) for group in groups), key=Version)
    return Release("torch", newest, groups[0].module.path, "the new names")


def _newest(group: Group) -> str:
    """The release of torch that has the new names of all uses."""
    return max((use.entry.since for use in group.warning), key=Version)


def _blocked(project: Project, group: Group) -> _Verdict | None:
    kinds = {use.entry.kind for use in group.warning}
    for kind, use in class_tests(project).items():
        if kind in kinds:
            place = use.module.place(use.whole, "the old class is distinguished here")
            return _Verdict(
                Offer.NOT_POSSIBLE,
                f"instances of the old class are distinguished in {place.path}:{place.span.row}",
                (place,),
            )
    for module, node in replacements_of_torch(project):
        place = module.place(node, "the project replaces the old interface here")
        return _Verdict(Offer.NOT_POSSIBLE, f"the project replaces it in {place.path}:{place.span.row}", (place,))
    return _Verdict(Offer.NOT_POSSIBLE, group.refusal) if group.refusal else None


def _too_old(project: Project, group: Group) -> _Verdict | None:
    """Whether the project promises to run with a release that lacks the new spelling."""
    versions = allowed(project, "torch", near=group.module.document.path)
    newest = _newest(group)
    pin = versions.pin_below(newest) if versions is not None else None
    if pin is None:
        return None
    releases = f"torch {pin.specifiers}" if len(pin.specifiers) else "any torch"
    reason = f"{pin.place.path}:{pin.place.span.row} allows {releases}"
    return _Verdict(Offer.SHOWN, reason, (pin.place,))


def _finding(project: Project, verdict: _Verdict, groups: Sequence[Group]) -> Finding:
    uses = sorted((use for group in groups for use in group.warning), key=_position)
    evidence = [
        *verdict.places,
        *(use.module.place(use.whole, f"{use.api} is used here") for use in uses[:MAX_EVIDENCE]),
    ]
    fixes = [] if verdict.offer is Offer.NOT_POSSIBLE else [_fix(project, verdict, groups)]
    return rule.at(groups[0].module, uses[0].whole, _message(verdict, uses), evidence, fixes)


def _message(verdict: _Verdict, uses: Sequence[DeprecatedUse]) -> str:
    names = list(dict.fromkeys(use.api for use in uses))
    kind = "DeprecationWarning" if all(use.entry.kind == "function" for use in uses) else "FutureWarning"
    places = f" ({len(uses)} uses{' in all' if names[1:] else ''})" if len(uses) > 1 else ""
    others = f"; so {'is' if len(names) == 2 else 'are'} {_listed(names[1:])}" if names[1:] else ""
    warning = f"{kind} since torch 2.4: {uses[0].entry.warning.removesuffix('.')}{others}{places}"
    if verdict.offer is Offer.SHOWN:
        needs = dict.fromkeys(f"{use.entry.new_name} needs {use.entry.since}" for use in uses)
        return f"{warning} - not rewritten because {verdict.reason}, but {_listed(list(needs))}"
    if not verdict.reason:
        return warning
    return f"{warning} - {'not rewritten because ' if verdict.offer is Offer.NOT_POSSIBLE else ''}{verdict.reason}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _fix(project: Project, verdict: _Verdict, groups: Sequence[Group]) -> Fix:
    edits = [*(edit for group in groups for edit in group.edits), *import_edits(groups)]
    message = "call torch.amp with the device as an argument: same dtype, same settings"
    if verdict.reason == INHERITS:
        message = "call torch.amp with the device as an argument; inside another autocast region it inherits that dtype"
    same = Known(verdict.reason != INHERITS, "it may run inside a region of another dtype")
    if verdict.offer is Offer.SHOWN:
        return Fix.shown("respell", message, *edits)
    return proved(project, "respell", message, edits, _release_of(groups), same)


def _position(use: DeprecatedUse) -> tuple[int, int]:
    return use.whole.lineno, use.whole.col_offset


def may_differ(project: Project, use: DeprecatedUse) -> bool:
    """Whether ``use`` may run inside a region of another dtype than its own default."""
    if use.entry.kind != "autocast" or use.call is None or use.form not in ("call", "partial"):
        return False
    skip = 1 if use.form == "partial" else 0
    arguments = (bind(OLD_AUTOCAST, use.call, skip) or {}) | _unpacked(use.module, use.call)
    if "dtype" in arguments or is_off(arguments.get("enabled")) or _decorates(use):
        return False
    if changes_default(project):
        return True
    if _runs_the_loop(use):
        return False
    return project.fact(_loop_is_elsewhere) or any(
        region.call is not use.call and _may_differ_from_default(project, region, use.entry.device)
        for region in project.fact(_regions_with_dtype)
    )


def _unpacked(module: ModuleNames, call: ast.Call) -> dict[str, ast.expr]:
    """The keywords of a call, those of dictionaries among them that nothing else gets hold of, which might change them.

    Not those at the top of a file: whoever imports it may.
    """
    splats = [item.value for item in call.keywords if isinstance(item.value, ast.Name) and item.arg is None]
    around = [module.parents[load] for item in splats for load in _reads_of(module, item)]
    alone = all(isinstance(item, ast.keyword) and item.arg is None for item in around)
    is_own = not any(module.bindings_of(item) == module.defined(item.id) for item in splats)
    return keywords_of(module, call).values if alone and is_own else {}


def _reads_of(module: ModuleNames, node: ast.Name) -> Iterator[ast.Name]:
    """Where the variable is read that a name stands for."""
    known = module.bindings_of(node)
    return (load for load in module.name_loads.get(node.id, ()) if module.scope_of(load).lookup(node.id) is known)


def _decorates(use: DeprecatedUse) -> bool:
    """A decorator is made when its module is loaded, outside of any region."""
    return use.call in getattr(use.module.parents[use.whole], "decorator_list", ())


def _runs_the_loop(use: DeprecatedUse) -> bool:
    """Whether the function around it also calls ``backward``: it opens the outermost region itself."""
    if any(_is_autocast_with(use, parent) for parent in use.module.ancestors(use.whole)):
        return False
    scope = use.module.scope_of(use.whole).function
    return any(
        node.attr == "backward" and use.module.scope_of(node).function is scope
        for node in use.module.attribute_loads.get("backward", ())
    )


def _is_autocast_with(use: DeprecatedUse, parent: ast.AST) -> bool:
    if not isinstance(parent, ast.With | ast.AsyncWith):
        return False
    called = (item.context_expr.func for item in parent.items if isinstance(item.context_expr, ast.Call))
    names = [use.module.qualified(node) or "" for node in called if node is not use.node]
    return any(name.endswith("autocast") for name in names)


def _regions_with_dtype(project: Project) -> tuple[Autocast, ...]:
    return tuple(
        region
        for region in autocasts(project)
        if not region.switched_off and (region.dtype_node is not None or not region.understood)
    )


def _may_differ_from_default(project: Project, region: Autocast, device: str) -> bool:
    """Whether the region may set another default for ``device``: each device has its own."""
    if region.device not in (None, device):
        return False
    return any(scenario.value not in (DEFAULT_DTYPE[device], None) for scenario in dtype_scenarios(project, region))


def _loop_is_elsewhere(project: Project) -> bool:
    """Whether a library that is told a precision runs the project's code, and bfloat16 is spoken of at all."""
    for module in modules_with(project, _BF16_WORDS):
        bindings = module.module_scope.bindings.values()
        imported = {item.qualified or "" for group in bindings for item in group if item.kind == "import"}
        if any(name.partition(".")[0] in LOOPS_OF_OTHERS for name in imported):
            return True
    return False


rule = Rule.of("PF301", check, anywhere=True)
