"""What a rehearsal sees of mistakes that raise on a GPU, and that it sees nothing in the same programs repaired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from .rehearsal_programs import BETWEEN, CHECKPOINTS, COMPILED, DEVICES, GRADIENTS, OLDER_WAYS, PAIRS, PARALLEL, SPECTRA
from .rehearsal_runs import records

pytest.importorskip("torch")


RIGHT = {
    "devices": DEVICES,
    "older ways": OLDER_WAYS,
    "gradients": GRADIENTS,
    "spectra": SPECTRA,
    "between": BETWEEN,
    "checkpoints": CHECKPOINTS,
    "parallel": PARALLEL,
}


AGAIN = "mask-in-float32 wrong"
"""A program that is rehearsed twice."""


def sources() -> Mapping[str, tuple[str, str]]:
    """Key -> (source, profile) of every program."""
    found = {name: (source, "a100") for name, source in RIGHT.items()}
    found["compiled"] = (COMPILED, "mps")
    for name, pair in PAIRS.items():
        found[f"{name} wrong"] = (pair.source.format(pair.wrong), pair.profile)
        found[f"{name} right"] = (pair.source.format(pair.right), pair.profile)
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("programs")
    jobs = []
    for key, (source, profile) in sources().items():
        place = folder / key.replace(" ", "-")
        place.mkdir()
        (place / "train.py").write_text(source, "utf-8")
        jobs.append((key, str(place), "train.py", profile, 0))
    key, *same = next(job for job in jobs if job[0] == AGAIN)
    return records([*jobs, (f"{key} again", *same)])


@pytest.mark.parametrize("name", PAIRS)
def test_the_mistake_is_seen_at_its_line(name: str, seen: Mapping[str, dict[str, Any]]) -> None:
    pair = PAIRS[name]
    first, *_ = seen[f"{name} wrong"]["record"]["failures"]
    assert pair.error in first["error"]
    line = pair.source.format(pair.wrong).splitlines()[first["location"]["row"] - 1]
    assert pair.marked in line
    assert not first["assumed"]


@pytest.mark.parametrize("name", PAIRS)
def test_the_repaired_program_passes(name: str, seen: Mapping[str, dict[str, Any]]) -> None:
    answer = seen[f"{name} right"]
    assert answer["error"] == ""
    assert answer["record"]["failures"] == []


@pytest.mark.parametrize("name", [*RIGHT, "compiled"])
def test_a_right_program_runs_as_on_a_real_device(name: str, seen: Mapping[str, dict[str, Any]]) -> None:
    assert seen[name]["error"] == ""
    assert seen[name]["record"]["failures"] == []


def test_only_the_losses_of_the_training_are_losses(seen: Mapping[str, dict[str, Any]]) -> None:
    training = seen["gradients"]["record"]["training"]
    assert len(training["losses"]) == 2
    assert training["parameter_dtypes"] == {"float32": 6}, "also where the scaler skipped each step"


def test_the_run_goes_on_after_a_failure(seen: Mapping[str, dict[str, Any]]) -> None:
    record = seen["gradient-in-another-dtype wrong"]["record"]
    assert record["steps"] == 2
    assert record["failures"][0]["phase"] == "optimizer"
    assert record["training"]["gradient_dtypes"] == {"float32": 4}


def test_every_operation_of_cudas_autocast_has_its_policy() -> None:
    import torch
    from precfix.probes.rehearsal.inside.autocast import policies_of

    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    policies = policies_of(torch, "cuda")
    assert set(policies) == set(registered) - {"aten::_cudnn_rnn", "aten::norm.names_ScalarOpt_dim"}, "of CUDA builds"
    assert policies["aten::linear"] == "lower"
    assert policies["aten::binary_cross_entropy"] == "banned"


def test_the_record_is_the_same_every_time(seen: Mapping[str, dict[str, Any]]) -> None:
    once, again = seen[AGAIN]["record"], seen[f"{AGAIN} again"]["record"]
    assert once == again
    assert once["device"] == {"profile": PAIRS["mask-in-float32"].profile, "simulated": True}
