"""The shadow of a training program: set up around it, and what it found."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from ..places import UserFrames
from .accumulators import Accumulators
from .copies import Copies
from .lines import Lines
from .mode import ShadowMode
from .modules import ShadowedModules
from .places import Findings
from .storages import Storages, unseen
from .watching import LineWatch
from .weights import Weights


class Shadow:
    """A context in which every operation is done again in float64; ``findings`` may be asked within and after."""

    def __init__(self, places: UserFrames, modules: tuple[str, ...] = ("*",)) -> None:
        self._storages = Storages()
        lines = Lines(places)
        self._watch = LineWatch(self._storages, lines)
        self._sums = Accumulators(self._storages, lines)
        self._copies = Copies(self._storages, lines)
        self._mode = ShadowMode(self._storages, (self._watch, self._sums, self._copies))
        self._modules = ShadowedModules(self._storages, modules)
        self._weights = Weights(self._storages, self._pause, self._modules.parameter_names, lines)
        self._losses: list[tuple[float, float]] = []
        self._scaled: tuple[object, float] = (None, 1.0)
        """What a scaler multiplied last, and by what."""
        self._stack = ExitStack()
        self._started = 0.0

    def __enter__(self) -> Shadow:
        self._started = time.monotonic()
        for hook in (*self._modules.entered(), *self._weights.entered()):
            self._stack.enter_context(hook)
        self._stack.callback(setattr, torch.autograd, "backward", torch.autograd.backward)
        torch.autograd.backward = self._backward_of(torch.autograd.backward)
        scaler: Any = torch.amp.GradScaler
        self._stack.callback(setattr, scaler, "scale", scaler.scale)
        scaler.scale = self._scale_of(scaler.scale)
        self._stack.enter_context(self._mode)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def findings(self) -> Findings:
        """All that is known until now."""
        with unseen():
            self._sums.names = self._gradient_names()
            sums = (*self._sums.places(), *self._copies.places())
            found = (*self._weights.places(), *sums, *self._watch.places(), *self._modules.places())
        places = tuple(sorted(found, key=lambda place: place.rank))
        restarted = tuple(sorted(self._mode.restarted.items()))
        layers = tuple(self._modules.layers.values())
        seconds = time.monotonic() - self._started
        return Findings(places, layers, tuple(self._losses), self._weights.steps, restarted, seconds)

    def _gradient_names(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for weight in self._weights.weights():
            names[self._storages.key(weight.parameter)] = weight.name
            if weight.parameter.grad is not None:
                names[self._storages.key(weight.parameter.grad)] = f"gradient of {weight.name}"
        return names

    def _pause(self, paused: bool) -> None:
        self._watch.paused = self._sums.paused = paused

    def _backward_of(self, backward: Any) -> Any:
        def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
            site = self._weights.lines.here()
            self._weights.backward = site[:2] if site else None
            with unseen():
                for loss in [tensors] if isinstance(tensors, Tensor) else tensors:
                    if loss.numel() == 1 and self._storages.entry(loss) is not None:
                        self._losses.append(self._as_it_was(loss))
            self._weights.lines.backward = site
            try:
                backward(tensors, *args, **kwargs)
            finally:
                self._weights.lines.backward = None

        return watched

    def _as_it_was(self, loss: Tensor) -> tuple[float, float]:
        """The loss and its shadow, before a scaler multiplied them."""
        scaled, scale = self._scaled
        by = scale if loss is scaled else 1.0
        return float(loss.detach()) / by, float(self._storages.shadow(loss)) / by

    def _scale_of(self, scale: Any) -> Any:
        def watched(scaler: Any, outputs: Any) -> Any:
            scaled = scale(scaler, outputs)
            with unseen():
                self._scaled = (scaled, float(scaler.get_scale()) or 1.0)
            return scaled

        return watched
