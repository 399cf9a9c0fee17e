"""Whether the project that a file belongs to trains in 16 bits at all: of several projects in a repository, its own."""

from __future__ import annotations

from ...codemod.facts.autocast import training_autocasts
from ...codemod.facts.manifests import directory_of, is_manifest
from ...codemod.project import Project
from ..hardware.deployment import is_test
from .half_runs import Run, region_dtypes, runs_of

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
    found = []
    for item in training_autocasts(project):
        document = item.module.document
        dtypes = region_dtypes(project, item) if not is_test(document.path) else frozenset()
        if dtypes:
            found.append(Run(document.path, document.span(item.node), dtypes, "autocast is entered here"))
    return tuple(found)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")
