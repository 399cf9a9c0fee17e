"""autocast for the device that `torch.cuda.is_available()` promises, where the real one is known."""

from __future__ import annotations

import ast

from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.devices import devices_of
from .run_time_device import RegionDevice, device_around


def device_beside_guess(project: Project, region: Autocast) -> RegionDevice | None:
    """The device that the region's tensors are on, where autocast's own is a guess that can differ from it."""
    node = region.device_node
    if node is None or not _is_guess(project, region, node):
        return None
    device = device_around(project, region)
    if device is None or device.text == ast.unparse(node) or all(value.guessed for value in device.values):
        return None
    return None if device.kinds == {"cuda"} or _is_tested(region, device) else device


def _is_guess(project: Project, region: Autocast, node: ast.expr) -> bool:
    values = devices_of(project, region.module, node)
    return all(value.guessed and value.form == "text" for value in values) and {"cuda", "cpu"} <= {
        value.kind for value in values
    }


def _is_tested(region: Autocast, device: RegionDevice) -> bool:
    """Whether the region is entered, or switched on, by a test of that very device."""
    tests = [guard.test for guard in guards(region.module, region.node)]
    tests += [region.enabled_node] if region.enabled_node is not None else []
    return any(device.text in ast.unparse(test) for test in tests)
