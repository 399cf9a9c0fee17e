"""What precfix knows: its rules, each one a module named for the mistake. No machinery lives here."""

from __future__ import annotations

from importlib import import_module

from ..codemod.model import Rule

MODULES = (
    "autocast.apex_amp",
    "autocast.autocast_never_entered",
    "autocast.deprecated_cuda_amp",
    "config.deepspeed_precision_conflict",
    "config.gradient_precision_conflict",
    "hardware.bf16_without_native_support",
    "hardware.emulated_bf16_counts_as_supported",
    "hardware.half_on_cpu",
    "scaler.clip_before_unscale",
    "scaler.fp16_autocast_without_scaler",
    "scaler.grad_scaler_under_bf16",
    "scaler.scaler_state_not_saved",
    "scaler.scaler_with_16_bit_parameters",
    "scaler.unscale_on_every_micro_batch",
)
"""The rule modules, below this package."""


def load() -> tuple[Rule, ...]:
    """All rules, ordered by code."""
    rules = [import_module(f"{__name__}.{name}").rule for name in MODULES]
    return tuple(sorted(rules, key=lambda rule: rule.code))
