"""Trainings that a configuration file or a command line asks for with 16-bit weights (kohya's ``full_bf16``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.formats.text import Entry
from ....codemod.model import Place
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16, Dtype
from ....codemod.trainers.reading.declarations import scopes_of
from ....codemod.trainers.reading.scopes import TRUE, Scope, TextOrigin
from ....codemod.trainers.reading.source import as_number
from ..optimizer_table import rows_of_trainer
from ..stated_numbers import Stated

WHOLE = {"full_bf16": BF16, "full_fp16": FP16}
"""kohya's switches that make the weights 16-bit that are trained."""
ADAPTED = ("network_module", "network_dim")
DEFAULT_OPTIMIZER = "AdamW"


@dataclass(frozen=True, slots=True, eq=False)
class HalfSetting:
    """A switch that makes the weights 16-bit, and what the same place says of the optimizer."""

    place: Place
    dtype: Dtype
    optimizer: str
    rate: Stated


def half_settings(project: Project) -> Iterator[HalfSetting]:
    """The full trainings of kohya's scripts in 16-bit weights whose optimizer and learning rate stand beside."""
    for scope in scopes_of(project):
        if scope.framework.id == "kohya" and isinstance(scope.origin, TextOrigin):
            yield from _of_scope(scope, scope.origin)


def _of_scope(scope: Scope, origin: TextOrigin) -> Iterator[HalfSetting]:
    entries = [item for item in origin.config.text.entries if origin.holds(item)]
    named = {item.name.lstrip("-"): item for item in entries}
    optimizer = _optimizer(named)
    rate = _rate(origin, named.get("learning_rate"))
    for name, dtype in WHOLE.items():
        setting = scope.last(name)
        on = setting is not None and setting.value == TRUE
        if on and setting is not None and optimizer and rate is not None and not set(named) & set(ADAPTED):
            yield HalfSetting(setting.place, dtype, optimizer, rate)


def _optimizer(named: dict[str, Entry]) -> str:
    """The optimizer that is asked for, where it keeps nothing of what rounding loses; else empty."""
    given = named.get("optimizer_type")
    text = given.value if given is not None else ""
    rows = rows_of_trainer("kohya", "optimizer_type")
    losing = {name.lower(): name or DEFAULT_OPTIMIZER for row in rows if row.keeps == "nothing" for name in row.names}
    return losing.get(text.lower(), "") if isinstance(text, str) else ""


def _rate(origin: TextOrigin, entry: Entry | None) -> Stated | None:
    value = as_number(entry.value) if entry is not None else None
    if value is None or entry is None:
        return None
    return Stated(value, origin.config.place(entry, f"the learning rate is {value:g} here"))
