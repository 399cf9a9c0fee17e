"""What optimizers, and options of trainers, do with the updates of 16-bit weights: the rows of ``optimizers.yaml``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from ...codemod.trainers.framework_yaml import plain_data

TABLE = "optimizers.yaml"


@dataclass(frozen=True, slots=True)
class OptimizerRow:
    """What becomes of updates in one or several optimizers, or under one option of a trainer."""

    names: tuple[str, ...]
    keeps: str
    """``nothing``, ``master``, ``stochastic`` or ``kahan``."""
    source: str
    when: str = ""
    """The option that it takes; without it nothing is kept."""
    unless: str = ""
    by_lr: bool = False
    """Whether a step is about as large as the learning rate."""
    trainer: str = ""
    option: str = ""


@lru_cache(maxsize=1)
def rows() -> tuple[OptimizerRow, ...]:
    text = resources.files(__package__).joinpath(TABLE).read_text("utf-8")
    data: Any = plain_data(text, TABLE)
    return tuple(_rows(data["optimizers"])) + tuple(_rows(data["trainers"]))


def _rows(listed: list[dict[str, Any]]) -> Iterator[OptimizerRow]:
    for item in listed:
        yield OptimizerRow(
            tuple(map(str, item["names"])),
            item["keeps"],
            item["source"],
            item.get("when", ""),
            item.get("unless", ""),
            item.get("step") == "lr",
            item.get("trainer", ""),
            item.get("option", ""),
        )


def row_of_optimizer(qualified: str) -> OptimizerRow | None:
    """The row of an optimizer by its full name, however deep the package that it is imported from."""
    package, _, name = qualified.rpartition(".")
    by_name, by_ends = _optimizers()
    if qualified in by_name:
        return by_name[qualified]
    root = package.partition(".")[0]
    return by_ends.get((root, name)) if root != "torch" or package.startswith("torch.optim") else None


@lru_cache(maxsize=1)
def _optimizers() -> tuple[dict[str, OptimizerRow], dict[tuple[str, str], OptimizerRow]]:
    """The rows of optimizers by full name, and by the outermost package and the last name."""
    named = [(each, row) for row in rows() if not row.trainer for each in row.names]
    by_name: dict[str, OptimizerRow] = {}
    for each, row in named:
        by_name.setdefault(each, row)
    return by_name, {(each.partition(".")[0], each.rpartition(".")[2]): row for each, row in named}


def rows_of_trainer(trainer: str, option: str) -> tuple[OptimizerRow, ...]:
    """What the values of a trainer's option do."""
    return tuple(row for row in rows() if row.trainer == trainer and row.option == option)
