"""Imports the libraries whose models are mutated, once, before anything is forked."""

from __future__ import annotations

import importlib
import re
import sys

PACKAGES = ("transformers", "diffusers", "timm")


def load_libraries() -> list[str]:
    """The packages that can be imported here; torch computes in one thread, so that forked processes may use it."""
    import torch

    torch.set_num_threads(1)
    _load_torchvision()
    available = []
    for name in PACKAGES:
        try:
            importlib.import_module(name)
            available.append(name)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return available


def _load_torchvision() -> None:
    """timm imports torchvision. One whose kernels do not fit this torch will do: they are only declared here."""
    import torch

    while True:
        try:
            importlib.import_module("torchvision")
            return
        except ImportError:
            return
        except RuntimeError as error:
            missing = re.match(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            torch.library.define(f"torchvision::{missing[1]}", "(Tensor a) -> Tensor")
            for name in [name for name in sys.modules if name.startswith("torchvision")]:
                del sys.modules[name]
