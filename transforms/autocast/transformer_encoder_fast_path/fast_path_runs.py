"""One place that evaluates a model in mixed precision, on a device that may be another one than a CUDA GPU."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from packaging.version import InvalidVersion, Version

from ....codemod.model import Edit, Place
from ....codemod.profiles.profile import Profile, ProfiledDevice
from ....codemod.purpose.runs import starts_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.reach import Reached, reached
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project

OFF_CUDA = ("cpu", "xpu")
"""Devices whose fast path does not notice autocast. ``mps`` never takes it (PyTorch 1.13 to 2.15)."""
FACT = "encoder-fast-path"
"""What a profile calls the failure."""
HAS_FAST_PATH, HAS_SWITCH, NEEDS_PADDING = "1.12", "2.3", "2.6"
"""The first releases with a fast path, with its switch, and in which only padded input fails."""
NEVER_FAIL = ("cuda", "rocm", "mps")
"""Backends on which the fast path is skipped under autocast, or never taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Respelling:
    """One literal that asks for mixed precision, and the edit that asks for true 16-bit precision instead."""

    old: str
    new: str
    edit: Edit


@dataclass(frozen=True, eq=False)
class FastPathRun:
    """An entry point (a Lightning trainer, an autocast region) as far as this rule needs it."""

    module: ModuleNames
    anchor: ast.stmt
    """The statement that must find the fast path switched off."""
    node: ast.expr
    """What asks for the mixed precision."""
    what: str
    """What runs, in words: ``Lightning's precision="bf16-mixed"``."""
    find_devices: Callable[[], frozenset[str]]
    """What `devices` is: looked for at the end, as it is costly."""
    places: tuple[Place, ...]
    """Where else the precision is stated."""
    starts: tuple[tuple[ModuleNames, ast.AST], ...] = ()
    """Code that is used although nothing here names it (classes that a config file names)."""
    respellings: tuple[Respelling, ...] = ()
    """For Lightning: how to ask for 16-bit weights instead; empty where it cannot be told."""
    by_hand: bool = False
    """Whether the project itself calls ``eval()`` and switches gradients off (Lightning's Trainer does both)."""

    @cached_property
    def devices(self) -> frozenset[str]:
        """``cpu``, ``xpu``, or ``any`` (chosen when the program runs); empty where it is CUDA, or cannot be told."""
        return self.find_devices()

    def reached(self, project: Project) -> Reached:
        """The definitions that the file of this run uses."""
        return reached(project, [(self.module, self.module.tree), *self.starts])

    def reached_by_importers(self, project: Project) -> Reached:
        """The definitions that this file and the programs that import it use; costly."""
        return reached(project, [*((module, module.tree) for module in starts_of(project, self.module)), *self.starts])


def seen_on_machine(profile: Profile | None, kinds: Iterable[str]) -> tuple[bool | None, ProfiledDevice | None]:
    """Whether the profile says that the run fails, and on which device; None: it does not say."""
    if profile is None:
        return None, None
    devices = [device for kind in kinds for device in profile.meant(None if kind == "any" else kind)]
    for device in devices:
        if any(fact.name == FACT and fact.holds for fact in device.facts):
            return True, device
    fine = [_is_fine(device) for device in devices]
    return (False if devices and all(fine) else None), None


def _is_fine(device: ProfiledDevice) -> bool:
    tried = [fact.holds for fact in device.facts if fact.name == FACT and fact.holds is not None]
    return not any(tried) if tried else device.backend in NEVER_FAIL


def torch_may_reach(project: Project, run: FastPathRun, release: str) -> bool:
    exact = _exact_torch(project)
    if exact is not None:
        return exact >= Version(release)
    versions = allowed(project, "torch", near=run.module.document.path)
    return versions is None or versions.may_reach(release)


def torch_may_be_below(project: Project, run: FastPathRun, release: str, unpinned: bool = True) -> bool:
    """``unpinned`` is the answer where no manifest says anything."""
    exact = _exact_torch(project)
    if exact is not None:
        return exact < Version(release)
    versions = allowed(project, "torch", near=run.module.document.path)
    return unpinned if versions is None else versions.may_be_below(release)


def _exact_torch(project: Project) -> Version | None:
    """The release on the machine that the profile describes."""
    if project.profile is None or not project.profile.real:
        return None
    try:
        return Version(Version(project.profile.torch.version).base_version)
    except InvalidVersion:
        return None
