"""What each Python of a rehearsed command runs first. It loads ``inside`` by its place: precfix may live elsewhere."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

SETTINGS = "PRECFIX_REHEARSAL"
NAME = "precfix_rehearsal"


def _begin() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder]
    _run_the_other_one()
    settings = os.environ.get(SETTINGS)
    if settings and sys.version_info >= (3, 9):
        _load(os.path.join(os.path.dirname(folder), "inside")).begin(settings)


def _run_the_other_one() -> None:
    """The ``sitecustomize`` that this one hides, if there is any."""
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _load(folder: str):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert isinstance(spec, ModuleSpec)
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    return importlib.import_module(NAME + ".start")


_begin()
