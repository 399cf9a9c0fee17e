"""What is given with a project, beside its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..profiles.profile import Profile
from ..trainers.framework import Framework

if TYPE_CHECKING:
    from ..observed.observation import Observation


@dataclass(frozen=True, slots=True)
class Terms:
    """Who changes one of these asks the rules anew."""

    profile: Profile | None = None
    target: str | None = None
    frameworks: tuple[Framework, ...] = ()
    observation: Observation | None = None
