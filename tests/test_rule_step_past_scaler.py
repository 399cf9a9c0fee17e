"""PF108: what a scaler does with a closure, as torch shows it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")


def scaled(closure_first: bool) -> tuple[Any, Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = weight.sum()
        scaler.scale(loss).backward()
        return loss

    if closure_first:
        closure()
    return scaler, optimizer, closure


def test_a_closure_by_name_raises() -> None:
    scaler, optimizer, closure = scaled(closure_first=True)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=closure)


def test_a_closure_that_runs_first_in_the_step_finds_no_scale() -> None:
    scaler, optimizer, closure = scaled(closure_first=False)
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer, closure)


def test_what_a_closure_scales_stays_scaled() -> None:
    scaler, optimizer, closure = scaled(closure_first=True)
    scaler.step(optimizer, closure)
    (weight,) = optimizer.param_groups[0]["params"]
    assert weight.item() == -1024.0
