"""The course of the training: losses, dtypes of gradients and optimizer state, steps taken and steps skipped."""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

from .recorder import place_of
from .tensors import dtype_name

MOST_LOSSES = 1000


class Training:
    """Counts steps, and says when enough of them were seen."""

    def __init__(self, session: Any) -> None:
        self.session, self.torch = session, session.torch
        self.steps: Counter[int] = Counter()
        self.losses: list[float | None] = []
        self._losses_before = 0
        """How many there were when the last step was made."""
        self.scaled: list[tuple[float, str]] = []
        self._made: dict[int, Any] = {}
        """Where each optimizer was made."""
        self.seen: dict[str, Any] = session.recorder.training
        self.seen.update(
            {"losses": self.losses, "loss_dtypes": [], "optimizer": "", "scaler": None, "first_nonfinite": None}
            | {"skipped_losses": [], "autocast": {}}
        )

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self._before(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._after(optimizer))
        made, here = self.torch.optim.Optimizer.__init__, self.session.places.here

        def make(own: Any, *args: Any, **kwargs: Any) -> None:
            self._made[id(own)] = here(2)
            made(own, *args, **kwargs)

        self.torch.optim.Optimizer.__init__ = functools.wraps(made)(make)
        scaler = self.torch.amp.GradScaler
        self._watch_regions(self.torch.autocast, self.seen["autocast"])
        self._scale, self._maybe_step = scaler.scale, scaler._maybe_opt_step
        training = self

        def scale(own: Any, outputs: Any) -> Any:
            training.remember(outputs)
            result = training._scale(own, outputs)
            training._scaler(own)
            return result

        def maybe_step(own: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            skipped = any(value.item() for value in state["found_inf_per_device"].values())
            if skipped:
                training._skipped(own, optimizer)
            return training._maybe_step(own, optimizer, state, *args, **kwargs)

        scaler.scale, scaler._maybe_opt_step = scale, maybe_step

    def _watch_regions(self, region: Any, entered: dict[str, int]) -> None:
        real = region.__enter__

        @functools.wraps(real)
        def enter(own: Any) -> Any:
            if own._enabled and not self.session.enough:
                name = f"{own.device} {dtype_name(own.fast_dtype)}"
                entered[name] = entered.get(name, 0) + 1
            return real(own)

        region.__enter__ = enter

    def remember(self, outputs: Any) -> None:
        """A loss before it is scaled."""
        if isinstance(outputs, self.torch.Tensor) and outputs.numel() == 1 and not outputs.is_meta:
            if self.session.is_captured(outputs):
                return
            self.scaled.append((float(outputs.detach()), dtype_name(outputs.dtype)))

    def backward(self, tensors: Any) -> None:
        """A backward pass starts from these tensors."""
        self.session.check_enough()
        if not tensors:
            self.scaled.clear()
        elif not self.scaled:
            self.remember(tensors[0])
        for loss, dtype in self.scaled:
            self._loss(loss, dtype)
        self.scaled.clear()

    def _loss(self, loss: float, dtype: str) -> None:
        if len(self.losses) < MOST_LOSSES:
            self.losses.append(loss if math.isfinite(loss) else None)
        if dtype not in self.seen["loss_dtypes"]:
            self.seen["loss_dtypes"].append(dtype)
        if not math.isfinite(loss):
            self.session.finite.mattered("the loss is not finite", "forward")

    def is_scaling(self) -> bool:
        scaler = self.seen["scaler"]
        return scaler is not None and bool(scaler["enabled"])

    def _before(self, optimizer: Any) -> None:
        self.session.check_enough()
        self._dtypes(optimizer)

    def _dtypes(self, optimizer: Any) -> None:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        self.seen["optimizer"] = type(optimizer).__name__
        self.seen["parameter_dtypes"] = _counted(parameters)
        self.seen["gradient_dtypes"] = _counted(each.grad for each in parameters if each.grad is not None)

    def _after(self, optimizer: Any) -> None:
        states = (value for state in optimizer.state.values() if isinstance(state, dict) for value in state.values())
        tensors = [each for each in states if isinstance(each, self.torch.Tensor) and each.dim() > 0]
        self.seen["optimizer_state_dtypes"] = _counted(tensors)
        self._look_at_weights(optimizer)
        self._stepped(optimizer)

    def _look_at_weights(self, optimizer: Any) -> None:
        weights = [each for group in optimizer.param_groups for each in group["params"]]
        if not all(self.session.finite.is_finite(each) for each in weights):
            sentence, made = "weights are not finite after the optimizer step", self._made.get(id(optimizer))
            self.session.finite.mattered(sentence, "optimizer", [place_of(made)] if made is not None else [])

    def _skipped(self, scaler: Any, optimizer: Any) -> None:
        self._scaler(scaler)
        self._dtypes(optimizer)
        if self.seen["scaler"] is not None:
            self.seen["scaler"]["skipped_steps"] += 1
        self.seen["skipped_losses"] += range(self._losses_before, len(self.losses))
        self._stepped(optimizer)

    def _scaler(self, scaler: Any) -> None:
        before = self.seen["scaler"] or {"skipped_steps": 0}
        enabled = bool(scaler.is_enabled())
        self.seen["scaler"] = {**before, "enabled": enabled, "scale": float(scaler.get_scale()) if enabled else 1.0}

    def _stepped(self, optimizer: Any) -> None:
        self.steps[id(optimizer)] += 1
        self.session.step = max(self.steps.values())
        self.session.recorder.state["steps"] = self.session.step
        wanted = self.session.settings.steps
        if wanted and (min(self.steps.values()) >= wanted or self.session.step >= 4 * wanted):
            self.session.enough = True
        self._losses_before = len(self.losses)
        self.session.finite.step_done()
        self.session.flush()


def _counted(tensors: Any) -> dict[str, int]:
    return dict(sorted(Counter(dtype_name(each.dtype) for each in tensors).items()))
