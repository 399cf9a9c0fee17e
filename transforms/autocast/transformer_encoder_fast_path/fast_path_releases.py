"""On which releases of PyTorch, and on which machine, the encoders' fast path fails under autocast."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from ....codemod.profiles.profile import Device, Profile
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from .fast_path_runs import Run

FACT = "encoder-fast-path"
"""What a profile calls the failure."""
HAS_FAST_PATH, HAS_SWITCH, NEEDS_PADDING = "1.12", "2.3", "2.6"
"""The first releases with a fast path, with its switch, and in which only padded input fails."""
NEVER_FAIL = ("cuda", "rocm", "mps")
"""Backends on which the fast path is skipped under autocast, or never taken."""


def seen_on_machine(profile: Profile | None, kinds: Iterable[str]) -> tuple[bool | None, Device | None]:
    """Whether the profile says that the run fails, and on which device; None: it does not say."""
    if profile is None:
        return None, None
    devices = [device for kind in kinds for device in profile.meant(None if kind == "any" else kind)]
    for device in devices:
        if any(fact.name == FACT and fact.holds for fact in device.facts):
            return True, device
    fine = [_is_fine(device) for device in devices]
    return (False if devices and all(fine) else None), None


def _is_fine(device: Device) -> bool:
    tried = [fact.holds for fact in device.facts if fact.name == FACT and fact.holds is not None]
    return not any(tried) if tried else device.backend in NEVER_FAIL


def torch_may_reach(project: Project, run: Run, release: str) -> bool:
    exact = _exact_torch(project)
    if exact is not None:
        return exact >= Version(release)
    versions = allowed(project, "torch", near=run.module.document.path)
    return versions is None or versions.may_reach(release)


def torch_may_be_below(project: Project, run: Run, release: str, unpinned: bool = True) -> bool:
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
