"""Whether the project that a file belongs to trains in 16 bits at all: of several projects in a repository, its own."""

from __future__ import annotations

from ...codemod.purpose.files import is_test
from ...codemod.releases.manifests import directory_of, is_manifest
from ...codemod.source.project import Project
from ...codemod.torch.autocast import dtype_scenarios, is_float32_island, training_autocasts
from ...codemod.torch.dtypes import BF16, FP16, Dtype
from .half_runs import Run, runs_of

_INSTRUCTIONS = ("readme", "install", "dockerfile")


def runs_of_project(project: Project, path: str) -> tuple[Run, ...]:
    """What runs ``path`` in 16 bits; where nothing around it does, every region of the same project."""
    found = runs_of(project, path)
    if found:
        return found
    root = project_folder(project, path)
    return tuple(run for run in project.fact(_all_regions) if _is_below(run.path, root))


def project_folder(project: Project, path: str) -> str:
    """The closest folder around ``path`` that has a manifest; "" when none has."""
    folders = project.fact(_manifest_folders)
    folder = path.rpartition("/")[0]
    while folder and folder not in folders:
        folder = folder.rpartition("/")[0]
    return folder


def _manifest_folders(project: Project) -> frozenset[str]:
    manifests = (path for path in project.paths if is_manifest(path))
    return frozenset(
        directory_of(path) for path in manifests if not path.rpartition("/")[2].lower().startswith(_INSTRUCTIONS)
    )


def _all_regions(project: Project) -> tuple[Run, ...]:
    """Every region of a file that also runs a backward pass, on whatever device."""
    found = []
    for item in training_autocasts(project):
        document = item.module.document
        if is_test(document.path) or item.form in ("statement", "reference") or is_float32_island(project, item):
            continue
        values = {scenario.value for scenario in dtype_scenarios(project, item)}
        dtypes = frozenset(value for value in values if isinstance(value, Dtype) and value in (FP16, BF16))
        if dtypes:
            found.append(Run(document.path, document.span(item.node), dtypes, "autocast is entered here"))
    return tuple(found)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")
