"""What an earlier check of a project has left, where this one may build on it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..cache.folder import folder_to_write
from ..cache.installed import installed_state
from ..model import Rule
from .commands import CheckRequest, Request
from .known_rules import FEW_FILES

if TYPE_CHECKING:
    from ..incremental.rechecking import Rechecking
    from ..settings.settings import ProjectSettings
    from ..source.project import Project


def recalled(
    project: Project, request: Request, settings: ProjectSettings, rules: Sequence[Rule], has_plugins: bool
) -> Rechecking | None:
    """The findings of the last check of this project with these rules; None where none may be kept."""
    own = installed_state()
    is_plain = isinstance(request, CheckRequest) and not request.is_stdin and request.jobs in (None, 1)
    if not own or not is_plain or has_plugins or project.observation is not None or len(project.paths) < FEW_FILES:
        return None
    if folder_to_write() is None:
        return None
    from ..incremental.rechecking import Rechecking

    terms = [project.target, repr(project.profile), repr(project.frameworks) if settings.frameworks else ""]
    asked = [os.fspath(project.root), sorted(rule.code for rule in rules), *terms]
    return Rechecking.of(project.checking(None), json.dumps([own, sys.version, sys.flags, *asked]))
