"""Which releases of a trainer a move needs, for what it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import Version

from ...proof.needed_today import is_newer_anyway
from ...proof.needs import Asked, Release
from ...purpose.targets import compute_dtype
from ...python.names import ModuleNames, modules_at
from ...releases.manifests import directory_of
from ...releases.pins import allowed
from ...source.project import Project
from ...torch.dtypes import BF16
from ..reading.runs import runs_with
from ..reading.scopes import SettingScope
from .steps import ChangeStep


def releases_of(project: Project, scope: SettingScope, steps: Sequence[ChangeStep]) -> Iterator[Release]:
    """The releases of the trainer that take what is written, beyond what was asked for."""
    packages = scope.framework.packages
    for step in steps:
        key, value = step.key, step.value
        if step.verb == "rename":  # a section, of which the switch is on
            key = next((item for item in scope.framework.keys if item.name == f"{value}.enabled"), key)
            value = "true"
        release = key.release(value) if step.verb in ("set", "put", "add", "rename") else None
        today = key.release(step.setting.value or "") if step.setting is not None else None
        if release is not None and packages and (today is None or Version(today) < Version(release)):
            programs = list(_programs_of(project, scope))
            nears = [item.path for item in programs] or [scope.path]  # what stands beside a launch line says nothing
            stated = next((item for item in packages if allowed(project, item, nears[0]) is not None), None)
            if stated is None and scope.framework.since_by_pins:
                continue
            named = stated or packages[0]
            if not programs or not all(is_newer_anyway(project, item, named, release) for item in programs):
                asked = Asked(named, release if _is_first(project, scope, release) else "0")
                for near in {directory_of(near): near for near in nears}.values():
                    needed = Release(named, release, near, f"{key.name}: {value}")
                    if not asked.implies(project, needed):
                        yield needed


def _is_first(project: Project, scope: SettingScope, release: str) -> bool:
    """Whether no older release of the trainer computes in bfloat16, under whichever name."""
    if compute_dtype(project.target) != BF16:
        return False
    meant = [(key, word) for key in scope.framework.keys for word, regime in key.means if regime == project.target]
    return all((since := key.release(word)) and Version(since) >= Version(release) for key, word in meant)


def _programs_of(project: Project, scope: SettingScope) -> Iterator[ModuleNames]:
    """Where the programs begin that read a place."""
    runs = runs_with(project, scope)
    paths = [scope.path] if scope.kind in ("call", "mapping") else [path for run in runs for path in run.modules[:1]]
    if all(run.modules for run in runs):
        yield from modules_at(project, dict.fromkeys(paths))
