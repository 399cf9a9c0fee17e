"""What becomes of gradients and updates at each step of an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.optim import optimizer as hooks

from .lines import Lines
from .measures import astray, harm, progress, root_mean_square
from .places import NOISE, Loss, LossPlace, SourceLine
from .storages import WIDE, Storages, unseen

MIN_STUCK = 0.05
"""Share of the elements that a step must leave where they are before lost updates are spoken of."""
NEGLIGIBLE = 1e-6
"""Gradients this much below the root mean square of all are noise: of a bias behind a softmax, say."""
COMPENSATED = 0.25
"""What an optimizer keeps is a compensation where, with it, a weight is off by this share of what it was without."""


@dataclass(slots=True)
class Weight:
    """One parameter from its first step on."""

    name: str
    dtype: str
    start: Tensor
    shadow_start: Tensor
    parameter: Tensor
    steps: int = 0
    stuck: float = 0.0
    """Share of the elements that should have moved and did not, mean over the steps."""
    moved: float = 1.0
    matters: bool = False
    """Whether it ever had a gradient that is not noise."""
    state: Mapping[str, object] = field(default_factory=dict)
    """What the optimizer keeps beside it."""
    stepped: SourceLine | None = None
    backward: SourceLine | None = None
    vanished: float = 0.0
    broken: float = 0.0


@dataclass
class Weights:
    """Hooks on every optimizer; ``pause`` is told when one of them works."""

    storages: Storages
    pause: Callable[[bool], None]
    names: Callable[[], dict[int, str]]
    lines: Lines
    backward: SourceLine | None = None
    """Where ``backward`` was last called."""

    def __post_init__(self) -> None:
        self._kept: dict[int, Weight] = {}
        self._before: dict[int, tuple[Tensor, Tensor]] = {}
        self._line: SourceLine | None = None
        self.steps = 0

    def entered(self) -> list[AbstractContextManager[Any]]:
        """Set the hooks; leave each when done."""
        return [hooks.register_optimizer_step_pre_hook(self._pre), hooks.register_optimizer_step_post_hook(self._post)]

    def weights(self) -> list[Weight]:
        """Each parameter that was stepped, with what was measured until now."""
        for weight in self._kept.values():
            way = self.storages.shadow(weight.parameter) - weight.shadow_start
            weight.moved = progress(_with_compensation(weight, way), way)
        return list(self._kept.values())

    def places(self) -> Iterator[LossPlace]:
        """Updates that are rounded away, gradients that underflow or overflow."""
        for weight in self.weights():
            if not weight.matters:
                continue
            explained = weight.vanished > NOISE[Loss.VANISHED_GRADIENT] or weight.stuck <= MIN_STUCK
            lost = 0.0 if explained else 1.0 - weight.moved
            detail = f"went {weight.moved:.0%} of the way; {weight.stuck:.0%} of its elements stay put in a step"
            yield _place(Loss.UPDATES, lost, weight, weight.stepped, detail)
            detail = f"{weight.vanished:.0%} of the gradient's elements are zero and should not be"
            yield _place(Loss.VANISHED_GRADIENT, weight.vanished, weight, weight.backward, detail)
            detail = f"{weight.broken:.0%} of the gradient's elements are inf or NaN and should not be"
            yield _place(Loss.BROKEN_GRADIENT, weight.broken, weight, weight.backward, detail)

    def _pre(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        self.pause(True)
        self.steps += 1
        site = self.lines.here()
        self._line = site[:2] if site else None
        with unseen():
            parameters = _parameters(optimizer)
            scale = max(
                (root_mean_square(self.storages.shadow(p.grad)) for p in parameters if p.grad is not None), default=0.0
            )
            for parameter in parameters:
                self._look(parameter, scale)

    def _look(self, parameter: Tensor, scale: float) -> None:
        weight = self._weight(parameter)
        weight.stepped, weight.backward = self._line, self.backward
        shadow = self.storages.shadow(parameter)
        self._before[id(parameter)] = parameter.detach().clone(), shadow.clone()
        gradient = parameter.grad
        if gradient is None or gradient.layout != torch.strided:
            return
        wide = self.storages.shadow(gradient)
        if root_mean_square(wide) >= NEGLIGIBLE * scale:
            found = harm(gradient, wide)
            weight.matters = True
            weight.vanished = max(weight.vanished, found.vanished)
            weight.broken = max(weight.broken, found.broken)

    def _post(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        with unseen():
            for parameter in _parameters(optimizer):
                self._compare(optimizer, parameter)
        self.pause(False)

    def _compare(self, optimizer: torch.optim.Optimizer, parameter: Tensor) -> None:
        before = self._before.pop(id(parameter), None)
        if before is None:
            return
        weight = self._weight(parameter)
        weight.state = optimizer.state.get(parameter, {})
        should = self.storages.shadow(parameter) != before[1]
        stuck = int((should & (parameter.detach() == before[0])).sum()) / max(1, int(should.sum()))
        weight.stuck = (weight.stuck * weight.steps + stuck) / (weight.steps + 1)
        weight.steps += 1

    def _weight(self, parameter: Tensor) -> Weight:
        if id(parameter) not in self._kept:
            name = self.names().get(id(parameter), f"parameter {tuple(parameter.shape)}")
            start = parameter.detach().to(WIDE, copy=True)
            dtype = str(parameter.dtype).removeprefix("torch.")
            shadow = self.storages.shadow(parameter).clone()
            self._kept[id(parameter)] = Weight(name, dtype, start, shadow, parameter)
        return self._kept[id(parameter)]


def _with_compensation(weight: Weight, way: Tensor) -> Tensor:
    """How far a weight has moved, with what the optimizer still owes it.

    Kahan summation keeps the part of updates that rounding lost in a tensor of its own. What else an optimizer keeps
    does not bring a weight nearer to its shadow when it is added or subtracted.
    """
    moved = weight.parameter.detach().to(WIDE) - weight.start
    owed = [value for value in weight.state.values() if _fits(value, moved)]
    candidates = [sign * value.detach().to(WIDE) + moved for value in owed for sign in (1, -1)]
    nearest = min(candidates, key=lambda item: astray(item, way), default=moved)
    return nearest if astray(nearest, way) < COMPENSATED * astray(moved, way) else moved


def _fits(value: object, moved: Tensor) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.is_floating_point() and value.shape == moved.shape


def _place(loss: Loss, amount: float, weight: Weight, line: SourceLine | None, detail: str) -> LossPlace:
    return LossPlace(loss, amount, name=weight.name, line=line, dtype=weight.dtype, detail=detail)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.is_floating_point() and parameter.layout == torch.strided and parameter.grad is not None
    ]
