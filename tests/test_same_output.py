"""The same input gives the same output: in other processes, with other hashes, addresses, and order on the disk."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from .fixture_cases import REPOSITORY
from .flow_runs import interpreted, opened
from .nightly import NIGHTLY

FIXTURES = REPOSITORY / "fixtures"
PROJECTS = ("five_places", "h2o_like", "onetrainer_like", "simpletuner_like", "unsloth_like")
RULES = (
    "attention-operand-dtype", "deprecated-cuda-amp", "factory-without-dtype", "grad-scaler-under-bf16",
    "mask-concat-dtype", "submodule-dtype",
)  # fmt: skip
"""Several files each: callers, helpers, models built elsewhere."""
SEEDS = (1, 2, 3) if NIGHTLY else (1, 2)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    trees = [tmp_path_factory.mktemp(f"seed{seed}") / "tree" for seed in SEEDS]
    for seed, tree in zip(SEEDS, trees, strict=True):
        _copy(tree, random.Random(seed))
    return [_checked(tree, seed) for seed, tree in zip(SEEDS, trees, strict=True)]


def _copy(tree: Path, order: random.Random) -> None:
    """The fixtures, created in an order of its own, which is the order in which some file systems list them."""
    folders = [*(FIXTURES / "projects" / name for name in PROJECTS), *(FIXTURES / "rules" / name for name in RULES)]
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    order.shuffle(files)
    for file in files:
        target = tree / file.relative_to(FIXTURES)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _checked(tree: Path, seed: int) -> str:
    command = [sys.executable, "-m", "tests.shuffled_run", str(seed), "check", str(tree), "--isolated", "--no-cache"]
    done = subprocess.run(
        [*command, "--output-format", "json"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


def test_the_report_is_the_same_to_the_byte(outputs: list[str]) -> None:
    assert len(outputs[0]) > 10_000
    assert outputs[1:] == outputs[:1] * (len(SEEDS) - 1)


NESTED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.to(torch.bfloat16)

    def outer(self, x):
        mask = torch.zeros(2, 4)

        def inner(y):
            def innermost(z):
                return F.linear(mask, self.fc.weight) + z
            return innermost(y) + torch.cat([mask, y])
        return inner(x.to(torch.bfloat16))
"""


@pytest.mark.parametrize("order", [*permutations(("outer", "inner", "innermost"))], ids=" ".join)
def test_a_nested_function_is_read_the_same_with_and_without_its_outer_one(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    project = opened(tmp_path, NESTED)
    found = {name: [_place(meeting) for meeting in interpreted(project, name).record.meetings] for name in order}
    alone = {
        name: [_place(meeting) for meeting in interpreted(opened(tmp_path, NESTED), name).record.meetings]
        for name in order
    }
    assert found == alone
    assert any(found.values())


def _place(meeting: object) -> tuple[int, int]:
    node = meeting.node  # type: ignore[attr-defined]
    return node.lineno, node.col_offset
