"""What precfix knows: its rules, each one a module named for the mistake. No machinery lives here."""

from __future__ import annotations

from importlib import import_module

from ..codemod.model import Rule

MODULES = (
    "autocast.apex_amp",
    "autocast.autocast_dtype_differs",
    "autocast.autocast_device_hard_coded",
    "autocast.autocast_never_entered",
    "autocast.deprecated_cuda_amp",
    "autocast.evaluation_outside_autocast",
    "autocast.transformer_encoder_fast_path",
    "config.deepspeed_precision_conflict",
    "config.gradient_precision_conflict",
    "config.unknown_precision_value",
    "config.weight_train_dtype_conflict",
    "config.launcher_precision_conflict",
    "distributed.fsdp_mixed_dtypes",
    "distributed.gradient_cast_between_accumulation_steps",
    "dtype.autograd_function_without_custom_fwd",
    "dtype.constant_overflows_half",
    "dtype.epsilon_underflows_half",
    "dtype.integers_in_16_bit",
    "dtype.factory_without_dtype",
    "dtype.hard_float_cast",
    "dtype.mask_concat_dtype",
    "dtype.submodule_dtype",
    "dtype.attention_operand_dtype",
    "dtype.indexed_write_dtype",
    "dtype.bce_under_autocast",
    "dtype.numpy_from_bf16",
    "dtype.op_without_16_bit_kernel",
    "dtype.out_buffer_dtype",
    "hardware.bf16_without_native_support",
    "hardware.emulated_bf16_counts_as_supported",
    "hardware.fp16_unsafe_model",
    "hardware.half_on_cpu",
    "trainer.lightning_precision_name",
    "trainer.two_precisions_on",
    "scaler.clip_before_unscale",
    "scaler.fp16_autocast_without_scaler",
    "scaler.grad_scaler_under_bf16",
    "scaler.scaler_state_not_saved",
    "scaler.scaler_with_16_bit_parameters",
    "scaler.unscale_on_every_micro_batch",
    "suppression.unused_suppression",
    "target.precision_off_target",
    "trainer.attention_backend_dtype",
    "trainer.load_dtype_differs",
    "trainer.argparse_default_overrides_config",
    "trainer.misspelt_precision",
)
"""The rule modules, below this package."""


def load() -> tuple[Rule, ...]:
    """All rules, ordered by code."""
    rules = [import_module(f"{__name__}.{name}").rule for name in MODULES]
    return tuple(sorted(rules, key=lambda rule: rule.code))
