"""For which 16-bit types an operation lacks a kernel where the project runs: by torch's tables, or by a profile."""

from __future__ import annotations

import ast
from dataclasses import replace

from ....codemod.flow.frame import Application
from ....codemod.half.half_here import half_here
from ....codemod.model import Place
from ....codemod.profiles.profile import Profile, ProfiledDevice
from ....codemod.python.arguments import argument
from ....codemod.python.bindings import default_at
from ....codemod.python.numbers import number_of
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16, Dtype
from ....codemod.torch.tables.kernels import ANTIALIAS, FFT_SIZES, WORKS_SINCE, missing_dtypes

INTERPOLATION = ("interpolate", "upsample")
MAX_PINS = 3
"""Pins that are shown; more say the same."""
_BACKENDS = {"cuda": "cuda", "rocm": "cuda", "cpu": "cpu"}
"""The table that holds for a backend; others have none."""
_SHORT = {"bf16": BF16, "fp16": FP16}
_PROBED = {
    "linalg.inv": "inv",
    "inverse": "inv",
    "linalg.solve": "solve",
    "linalg.svd": "svd",
    "linalg.svdvals": "svd",
    "svd": "svd",
    "linalg.qr": "qr",
    "qr": "qr",
    "linalg.eigh": "eigh",
    "linalg.det": "det",
    "det": "det",
    "linalg.cholesky": "cholesky",
    "cholesky": "cholesky",
    "fft.rfft": "rfft",
}
"""What `precfix probe` calls an operation, where it is not its own name."""
_OK = "ok"
_UNTRIED = ("", "-")


def gaps(project: Project, item: Application) -> frozenset[Dtype]:
    """The 16-bit types for which the operation raises on every device that the project can mean.

    With a profile: on one of its training devices, by what the probe saw there, else by the tables.
    """
    if project.profile is not None and project.profile.training_devices:
        return _of_profile(project, project.profile, item)
    return _of_table(project, item, "cpu") & _of_table(project, item, "cuda")


def gaps_on(project: Project, item: Application, device: str) -> frozenset[Dtype]:
    """The types for which it raises on a device type; a profile of such a device decides."""
    profile = project.profile
    if profile is not None and any(_BACKENDS.get(each.backend) == device for each in profile.training_devices):
        return _of_profile(project, profile, item)
    return _of_table(project, item, device)


def _of_profile(project: Project, profile: Profile, item: Application) -> frozenset[Dtype]:
    return frozenset[Dtype]().union(*(_of_device(project, device, item) for device in profile.training_devices))


def _of_device(project: Project, device: ProfiledDevice, item: Application) -> frozenset[Dtype]:
    missing = set(_of_table(project, item, _BACKENDS.get(device.backend, "")))
    for entry in device.ops:
        dtype = _SHORT.get(entry.dtype)
        if dtype is None or entry.op != _probed_name(item) or entry.forward in _UNTRIED:
            continue
        missing = missing - {dtype} if entry.forward == _OK else missing | {dtype}
    return frozenset(missing)


def _probed_name(item: Application) -> str:
    if item.operation in INTERPOLATION:
        return "interpolate_antialias" if is_antialiased(item) else f"interpolate_{_mode(item)}"
    return _PROBED.get(item.operation, item.operation)


def _of_table(project: Project, item: Application, device: str) -> frozenset[Dtype]:
    names = set(missing_dtypes(item.operation, device))
    if item.operation in INTERPOLATION and is_antialiased(item):
        names |= set(ANTIALIAS.get(device, ()))
    if device == "cuda" and odd_size(project, item) is not None:
        names.add("float16")
    pins = allowed(project, "torch", near=item.module.document.path)
    for dtype in ("bfloat16", "float16"):
        since = WORKS_SINCE.get((item.operation, device, dtype))
        if since is not None and pins is not None and not pins.may_reach(since):
            names.add(dtype)
    return frozenset(Dtype(name) for name in names)


def odd_size(project: Project, item: Application) -> int | None:
    """The size of an FFT that is written down and no power of two, which cuFFT wants of float16."""
    position, name = 0 if item.receiver is not None else 1, FFT_SIZES.get(item.operation)
    node = argument(item.node, name, position=position) if name is not None else None
    if node is None:
        return None
    sizes = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    numbers = (number_of(project, item.module, size) for size in sizes)
    known = (int(number) for number in numbers if number is not None and number >= 1)
    return next((number for number in known if number & (number - 1)), None)


def is_widened(project: Project, item: Application) -> bool:
    """Whether ``stft`` multiplies its frames by a window that is not known to be 16-bit: float32 makes them float32."""
    position = 3 if item.receiver is not None else 4
    window = argument(item.node, "window", position=position) if item.operation == "stft" else None
    if window is None or (isinstance(window, ast.Constant) and window.value is None):
        return False
    return half_here(project, item.module, window) is None


def pins_of(project: Project, item: Application) -> tuple[Place, ...]:
    """Where the project is pinned to a PyTorch that lacks a kernel which newer ones have."""
    if item.operation not in INTERPOLATION or is_antialiased(item):
        return ()
    pins = allowed(project, "torch", near=item.module.document.path)
    return tuple(replace(place, message="pinned here") for place in pins.places[:MAX_PINS]) if pins is not None else ()


def _mode(item: Application) -> str:
    mode = argument(item.node, "mode", position=3)
    return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else "nearest"


def is_antialiased(item: Application) -> bool:
    """Whether ``antialias=`` is True, written or as the default of a parameter."""
    value = argument(item.node, "antialias", position=6)
    if isinstance(value, ast.Name):
        value = default_at(item.module, value)
    return isinstance(value, ast.Constant) and value.value is True
