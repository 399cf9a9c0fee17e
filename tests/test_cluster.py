"""Clusters without a launcher: which rank this is, what the ranks say together, how it is shown."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from precfix.codemod.model import UsageError
from precfix.codemod.profiles.profile import (
    CheckResult,
    DtypeVerdict,
    Machine,
    Profile,
    ProfiledDevice,
    Recommendation,
    Status,
    Support,
    Torch,
)
from precfix.codemod.profiles.profile_file import load, save
from precfix.probes.cluster import (
    STALE_SECONDS,
    cluster_lines,
    cluster_profile,
    differences,
    missing_ranks,
    probe_rank,
)
from precfix.probes.ranks import RankPlace, device_of, folder_name, place_in
from precfix.probes.recommending import common_regime

from .fixture_cases import FIXTURES

NATIVE, EMULATED, ABSENT = Support.NATIVE, Support.EMULATED, Support.ABSENT


def recorded(name: str) -> Profile:
    return load(FIXTURES / "profiles" / f"{name}.json")


def ranks(*names: str) -> list[Profile]:
    """Profiles as ranks leave them."""
    profiles = [recorded(name) for name in names]
    return [
        replace(profile, devices=tuple(replace(device, rank=rank, host=f"n{rank}") for device in profile.devices))
        for rank, profile in enumerate(profiles)
    ]


def place(rank: int = 0, size: int = 1) -> RankPlace:
    return RankPlace(rank, size, rank, "test", "run")


# --- the launcher's variables -----------------------------------------------------------------------------------------

ENVIRONMENTS = {
    "torchrun": (
        {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "a/b c"},
        (3, 4, 1, "a-b-c"),
    ),
    "slurm": ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "2", "SLURM_JOB_ID": "77"}, (5, 8, 2, "77")),
    "open mpi": (
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
        (1, 2, 1, "run"),
    ),
    "mpi": ({"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, (0, 2, 0, "run")),
    "torchrun inside slurm": (
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "9", "RANK": "1", "WORLD_SIZE": "2"},
        (1, 2, 0, "9"),
    ),
    "mpirun inside slurm": (
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
        (1, 2, 0, "run"),
    ),
    "run id none": (
        {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500"},
        (0, 1, 0, "29500"),
    ),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_rank_is_what_the_launcher_says(name: str) -> None:
    environment, expected = ENVIRONMENTS[name]
    found = place_in(environment)
    assert (found.rank, found.size, found.local, found.run) == expected


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "torchrun --nproc-per-node=gpu --no-python precfix probe --distributed"),
        ({"RANK": "0"}, "needs a launcher"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK is 'x', not a number"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "not a number"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "do not fit"),
        ({"RANK": "0", "WORLD_SIZE": "999999999"}, "do not fit"),
        ({"RANK": "0", "WORLD_SIZE": "9" * 5000}, "not a number"),
        ({"RANK": "\u0663", "WORLD_SIZE": "4"}, "not a number"),
    ],
)
def test_variables_that_make_no_sense_are_one_clear_error(environment: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        place_in(environment)


def test_a_run_names_a_folder_below_the_current_one() -> None:
    found = place_in({"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "../../etc/\n" + "x" * 500})
    assert folder_name(found).startswith(os.path.join(".precfix", "cluster-"))
    assert ".." not in folder_name(found)
    assert len(folder_name(found)) < 100


def python_that(folder: Path, says: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("says", "local", "device"),
    [
        ("echo devices 8", 3, "cuda:3"),
        ("echo devices 1", 3, "cuda:0"),
        ("echo noise; echo devices 2", 3, "cuda:1"),
        ("echo devices 0", 0, "cpu"),
        ("exit 1", 0, "cpu"),
        ("kill -SEGV $$", 0, "cpu"),
        ("echo devices -1", 0, "cpu"),
    ],
)
def test_each_rank_has_its_own_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, local: int, device: str
) -> None:
    monkeypatch.setattr("sys.executable", python_that(tmp_path, says))
    assert device_of(RankPlace(9, 16, local, "test", "run"), 10) == device


# --- what the ranks say together --------------------------------------------------------------------------------------


def test_equal_ranks_recommend_what_each_recommends() -> None:
    cluster = cluster_profile(ranks("a100", "a100"))
    assert cluster.recommended == recorded("a100").recommended
    assert [device.rank for device in cluster.devices] == [0, 1]
    assert tuple(differences(ranks("a100", "a100"))) == ()
    assert "All ranks are alike." in tuple(cluster_lines(cluster))


MIXED = {
    ("a100", "t4"): ("fp16-mixed", "bf16 is emulated on rank 1 (Tesla T4)"),
    ("t4", "a100", "v100", "h100"): ("fp16-mixed", "bf16 is emulated on ranks 0, 2 (Tesla T4)"),
    ("a100", "rtx3090"): ("bf16-mixed", ""),
    ("a100", "mi300x"): ("bf16-mixed", ""),
    ("a100", "cpu"): ("fp32", "bf16 is emulated on rank 1"),
    ("t4", "m2"): ("fp32", "bf16 is emulated on ranks 0-1"),
}


@pytest.mark.parametrize("names", MIXED)
def test_the_regime_is_one_that_every_rank_has(names: tuple[str, ...]) -> None:
    regime, reason = MIXED[names]
    found = cluster_profile(ranks(*names)).recommended
    assert (found.regime, reason in found.reason) == (regime, True)


def test_a_rank_that_advises_against_bf16_is_heard() -> None:
    """A device whose own checks failed says fp32, though its hardware has the dtype."""
    broken = replace(recorded("a100").devices[0], recommended=Recommendation("fp32", "autocast crashes"), rank=1)
    assert common_regime([recorded("a100").devices[0], broken]).regime == "fp32"
    assert common_regime([ProfiledDevice("cuda:0", "cuda")]).regime == ""


def test_differences_are_named_with_their_ranks() -> None:
    profiles = ranks("a100", "t4", "a100", "a100")
    profiles[2] = replace(profiles[2], torch=Torch("2.13.0", driver="550"))
    said = tuple(differences(profiles))
    assert said[0] == (
        "The ranks differ in devices: NVIDIA A100-SXM4-80GB (compute capability 8.0) on ranks 0, 2-3, "
        "Tesla T4 (compute capability 7.5) on rank 1."
    )
    assert "The ranks differ in bf16: native on ranks 0, 2-3, emulated on rank 1." in said
    assert "The ranks differ in torch: unknown on ranks 0-1, 3, 2.13.0 on rank 2." in said
    assert any("driver" in each for each in said)


def test_missing_ranks_are_named() -> None:
    cluster = cluster_profile([None, ranks("a100", "t4", "a100")[1], None])
    assert [check.name for check in missing_ranks(cluster)] == ["rank 0", "rank 2"]
    lines = "\n".join(cluster_lines(cluster))
    assert "Rank 2 has left no profile" in lines
    assert "The regime every rank that answered supports: fp16-mixed" in lines
    assert "1 of 3 ranks" in cluster.note


def test_a_rank_without_a_device_says_why() -> None:
    bare = Profile(checks=(CheckResult("environment", Status.FAILED, "no-torch", "torch is not installed."),))
    cluster = cluster_profile([ranks("a100")[0], bare])
    assert [check.sentence for check in missing_ranks(cluster)] == ["Rank 1 has no device: torch is not installed."]
    assert cluster.note == "1 of 2 ranks"


def test_without_any_answer_there_is_still_a_report() -> None:
    lines = tuple(cluster_lines(cluster_profile([None, None])))
    assert any("Rank 1 has left no profile" in line for line in lines)
    assert lines[-1] == "No rank recommends a regime."


def test_the_table_has_a_row_per_device() -> None:
    lines = tuple(cluster_lines(cluster_profile(ranks("a100", "t4"))))
    assert lines[0].split()[:5] == ["rank", "host", "device", "name", "memory"]
    assert lines[0].split()[5:] == ["bf16", "fp16", "tf32", "fp8", "recommended"]
    assert lines[2].split()[-5:] == ["emulated", "native", "absent", "absent", "fp16-mixed"]


# --- the shared folder ------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)


def profile_on(host: str) -> Profile:
    gpu = ProfiledDevice("cuda:0", "cuda", "T4", "7.5", verdicts={"bf16": DtypeVerdict(EMULATED)})
    return Profile(machine=Machine(host=host), devices=(gpu, ProfiledDevice("cpu", "cpu")))


def test_a_rank_writes_its_file_and_only_the_first_reads(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    assert probe_rank(place(1, 2), lambda: profile_on("b"), folder, 5) is None
    assert [path.name for path in folder.iterdir()] == ["rank-00001.json"]
    found = probe_rank(place(0, 2), lambda: profile_on("a"), folder, 5)
    assert found is not None
    assert [(device.rank, device.host) for profile in found if profile for device in profile.devices] == [
        (0, "a"),
        (1, "b"),
    ]
    assert all(device.backend == "cuda" for profile in found if profile for device in profile.devices)


def test_waiting_for_a_dead_rank_is_bounded(tmp_path: Path) -> None:
    started = time.monotonic()
    found = probe_rank(place(0, 3), lambda: profile_on("a"), tmp_path, 0.5)
    assert time.monotonic() - started < 10
    assert found is not None
    assert found[1:] == (None, None)


def test_files_of_earlier_runs_and_half_files_do_not_count(tmp_path: Path) -> None:
    save(profile_on("old"), tmp_path / "rank-00001.json")
    long_ago = time.time() - 2 * STALE_SECONDS
    os.utime(tmp_path / "rank-00001.json", (long_ago, long_ago))
    (tmp_path / "rank-00002.json").write_text('{"precfix_pro')
    found = probe_rank(place(0, 3), lambda: profile_on("a"), tmp_path, 0.2)
    assert found is not None
    assert [profile and profile.machine.host for profile in found] == ["a", None, None]


def test_the_own_file_of_an_earlier_run_goes_before_the_probe(tmp_path: Path) -> None:
    save(profile_on("old"), tmp_path / "rank-00001.json")

    def dies() -> Profile:
        raise UsageError("no torch")

    with pytest.raises(UsageError, match="no torch"):
        probe_rank(place(1, 2), dies, tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        probe_rank(place(), lambda: profile_on("a"), tmp_path / "file" / "below", 1)
