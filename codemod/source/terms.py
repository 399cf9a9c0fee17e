"""What is given with a project, beside its files."""

from __future__ import annotations

from dataclasses import dataclass

from ..observed.observation import Observation
from ..profiles.profile import Profile
from ..trainers.framework import Framework


@dataclass(frozen=True, slots=True)
class Terms:
    """Who changes one of these asks the rules anew."""

    profile: Profile | None = None
    target: str | None = None
    frameworks: tuple[Framework, ...] = ()
    observation: Observation | None = None
