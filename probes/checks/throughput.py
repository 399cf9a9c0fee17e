"""Speed of matrix products and convolutions in each dtype, as a ratio to float32 at the same size.

1.5 and more: the hardware computes in this dtype. Under 0.8: it converts, which is emulation. In between it computes,
and is not faster. Sizes grow while time is left, and ratios are taken at the largest size both dtypes reached, since
small products measure the launch and not the arithmetic. Each product takes turns with one in float32, so that what
else the machine does slows both; where the times scatter all the same, ``is_noisy`` says so.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..step import Judgment, Numbers, ProbeStep, StepResult, Task, first_failure
from ..tensors import DTYPES, dtype_named, wait_for

if TYPE_CHECKING:
    from torch import Tensor

ACCELERATED, EMULATED = 1.5, 0.8
SLOW = 0.25
"""Seconds: a size whose product is expected to take longer is not tried."""
CONVOLUTION = "convolution"
RATIO, SCATTER = "ratio_", "scatter_"
"""Beside ``matmul_SIZE``: its speed over that of float32 in turns with it, and median over least time of the two."""
NOISY = 1.5


def steps(task: Task) -> Iterator[ProbeStep]:
    """One step for each dtype; TF32 only where it exists."""
    for name in (*DTYPES, "tf32") if task.kind == "cuda" else DTYPES:
        yield name, lambda name=name: _speed(task, name)  # type: ignore[misc]


def ratio(results: Mapping[str, StepResult], name: str) -> float | None:
    """The speed of matrix products in ``name`` over that of fp32; None when it was not measured."""
    return _at_largest(results[name], RATIO) if name in results else None


def is_noisy(results: Mapping[str, StepResult], name: str) -> bool:
    """Whether the times behind the ratio scatter so much that something else ran beside them."""
    scatter = _at_largest(results[name], SCATTER) if name in results else None
    return scatter is not None and scatter > NOISY


def _at_largest(result: StepResult, prefix: str) -> float | None:
    sizes = [int(key.removeprefix(prefix)) for key in result.numbers if key.startswith(prefix)]
    return result.number(f"{prefix}{max(sizes)}") if sizes else None


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """It holds when everything could be measured: slow is a verdict, not a failure."""
    failed = first_failure(results)
    if failed is not None:
        return failed
    shown = ", ".join(f"{name} {found:.3g}x" for name in results if (found := ratio(results, name)) and name != "fp32")
    return Judgment(True, f"matrix products compared with fp32: {shown}")


def _speed(task: Task, name: str) -> Numbers:
    """TFLOP/s by operation and size."""
    import torch

    def product(pair: list[Tensor], tf32: bool) -> object:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        return torch.mm(pair[0], pair[1])

    found: Numbers = {}
    sizes = _sizes(task)
    for size, following in zip(sizes, (*sizes[1:], sizes[-1]), strict=True):
        tensors = [_randn(task, name, size, size) for _ in range(2)]
        plain = [tensor.float() for tensor in tensors]
        runs = [partial(product, tensors, name == "tf32"), partial(product, plain, False)]
        times = _times(task, runs[:1] if name == "fp32" else runs)
        seconds = _least(times[0])
        found[f"matmul_{size}"] = 2 * size**3 / seconds / 1e12
        if name != "fp32":
            found[f"{RATIO}{size}"] = _least(times[1]) / seconds
            found[f"{SCATTER}{size}"] = max(statistics.median(each) / _least(each) for each in times)
        if seconds * (following / size) ** 3 > SLOW:
            break
    else:
        if not task.quick:
            found[CONVOLUTION] = _convolution(task, name)
    return found


def _sizes(task: Task) -> tuple[int, ...]:
    if task.kind == "cpu":
        return (128, 256, 1024) if task.quick else (128, 256, 1024, 2048)
    return (1024, 4096) if task.quick else (1024, 4096, 8192)


def _convolution(task: Task, name: str) -> float:
    import torch

    batch, channels, side = (4, 64, 32) if task.kind == "cpu" else (64, 256, 56)
    images = _randn(task, name, batch, channels, side, side)
    kernel = _randn(task, name, channels, channels, 3, 3)
    [times] = _times(task, [lambda: torch.nn.functional.conv2d(images, kernel, padding=1)])
    seconds = _least(times)
    return 2 * batch * side * side * channels * channels * 9 / seconds / 1e12


def _randn(task: Task, name: str, *shape: int) -> Tensor:
    import torch

    return torch.randn(*shape, device=task.device).to(dtype_named("fp32" if name == "tf32" else name))


def _times(task: Task, runs: Sequence[Callable[[], object]]) -> list[list[float]]:
    """The times of each run in seconds, taken in turns. The least one counts: other processes only ever add to it."""
    budget = 0.1 if task.quick else 0.3
    started = time.perf_counter()
    times = [[_once(task, run)] for run in runs]  # the first ones also build kernels and wake threads
    if max(map(max, times)) <= SLOW:
        times = [[_once(task, run)] for run in runs]
    while time.perf_counter() - started < budget * len(runs) or len(times[0]) < 3:
        if max(each[-1] for each in times) > SLOW and time.perf_counter() - started > SLOW:
            break
        for each, run in zip(times, runs, strict=True):
            each.append(_once(task, run))
    return times


def _least(times: list[float]) -> float:
    return max(min(times), 1e-9)


def _once(task: Task, run: Callable[[], object]) -> float:
    wait_for(task.device)
    started = time.perf_counter()
    run()
    wait_for(task.device)
    return time.perf_counter() - started
