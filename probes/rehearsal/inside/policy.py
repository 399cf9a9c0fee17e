"""Which operation the device's autocast casts to what, asked of the torch that is installed.

The dispatcher says which operations are registered for the device's autocast key, also in a build without that device.
What is done to each stands in the lists of ``ATen/autocast_mode.h``, which the wheel brings along.
"""

from __future__ import annotations

import os
import re
from typing import Any

LOWER, FP32, OPTIONAL, APPEND, PROMOTE, BANNED = "lower", "fp32", "set_opt_dtype", "append", "promote", "banned"
_LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": LOWER,
    "AT_FORALL_FP32": FP32,
    "AT_FORALL_FP32_SET_OPT_DTYPE": OPTIONAL,
    "AT_FORALL_PROMOTE": PROMOTE,
}
_LIST = re.compile(r"#define (\w+)\(_\)((?:[^\n]*\\\n)+[^\n]*)")
_ENTRY = re.compile(r"_\((\w+)(?:,\s*(\w+))?\)")
_CUDNN = {"aten::cudnn_convolution": LOWER, "aten::cudnn_convolution_transpose": LOWER}
_BANNED = {"aten::binary_cross_entropy": BANNED}
_MPS_FP32 = frozenset({"aten::conv_transpose3d.input", "aten::batch_norm"})


def policies_of(torch: Any, device: str) -> dict[str, str]:
    """Operation with overload (``aten::pow.Scalar``) -> what is done to it. Empty where this torch does not say."""
    listed = _listed(torch)
    key = "Autocast" + device.upper()
    try:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    except RuntimeError:
        return {}
    found = {name: listed[name] for name in registered if name in listed}
    if device == "mps":
        found.update({name: FP32 for name in registered if name in _MPS_FP32})
    return found


def _listed(torch: Any) -> dict[str, str]:
    header = os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h")
    try:
        with open(header, encoding="utf-8") as stream:
            text = stream.read()
    except OSError:
        return {}
    found = {**_CUDNN, **_BANNED, "aten::norm.Scalar": APPEND, "aten::norm.ScalarOpt_dim": APPEND}
    for name, body in _LIST.findall(text):
        if name in _LISTS:
            entries = _ENTRY.findall(body)
            found.update({_aten(operation, overload): _LISTS[name] for operation, overload in entries})
    return found


def _aten(operation: str, overload: str) -> str:
    return f"aten::{operation}.{overload}" if overload else f"aten::{operation}"
