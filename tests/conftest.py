"""How the tests are run: all of them on every core, a part of them in this process; see CONTRIBUTING.md."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import hypothesis
import pytest

# Some two hundred processes import the product: each would compile its 400 modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Small tensors gain nothing from threads, which wait for each other: twenty times the work where other tests run too.
os.environ["OMP_NUM_THREADS"] = "1"

# Only the tests of the cache have one, each its own.
os.environ["PRECFIX_NO_CACHE"] = "1"

gc.disable()  # until all tests are collected: what is made until then stays

hypothesis.settings.register_profile("precfix", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("precfix")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for a part of the suite: to start them and collect in each takes longer than most modules."""
    part = any(Path(argument.partition("::")[0]).resolve() != config.rootpath / "tests" for argument in config.args)
    return 0 if part or config.option.keyword or config.option.markexpr or getattr(config.option, "lf", False) else None


def pytest_collection_finish() -> None:
    """The collector need not walk through torch and ten thousand tests each time, the first time included."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_runtest_teardown() -> None:
    """The command line switches the collector off and ends; here it would stay off, and a worker grow to gigabytes."""
    gc.enable()
