"""``precfix probe``. Exit codes: 0, 1 a requirement is not met, 2 bad usage, 3 there was nothing to probe."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..model import UsageError
from .output import check_folder

if TYPE_CHECKING:
    from ..profiles.profile import Profile

UNMET, NO_RESULT = 1, 3
REQUIREMENTS = ("bf16", "fp16", "tf32", "fp8", "fp32", "bf16-mixed", "bf16-true", "fp16-mixed")
DEVICE = re.compile(r"all|cpu|mps|(?:cuda|xpu)(?::\d{1,4})?")
SAVED_NAME = "precfix-profile.json"


def probe(
    device: Annotated[
        str, typer.Option("--device", help="all, cpu, mps, cuda:0, xpu:0: the devices to probe.", metavar="DEVICE")
    ] = "all",
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="The verdict in seconds, or every check and the operation matrix.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile, for programs.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(help=f"Write the profile to this file (precfix finds {SAVED_NAME} by itself).", metavar="FILE"),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help=f"Exit with 1 unless the machine supports this: {', '.join(REQUIREMENTS)}.", metavar="WHAT"),
    ] = None,
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="Run as one rank of torchrun, SLURM or MPI, and probe the whole cluster."),
    ] = False,
    ranks: Annotated[
        Path | None,
        typer.Option(
            help="With --distributed: the folder the ranks share.  [default: .precfix/cluster-<run>]", metavar="FOLDER"
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one check may take.", min=1.0, max=86400.0)] = 120.0,
) -> None:
    """Measure what this machine can do: dtypes, autocast, errors, speed. Exit code 1: a --require is not met."""
    wanted = _requirements(require or [])
    if DEVICE.fullmatch(device) is None:
        raise UsageError(f"--device {device!r}: write all, cpu, mps, cuda:0 or xpu:0")
    check_folder(save)
    if distributed:
        found = _cluster(ranks, device, quick, timeout)
        if found is None:  # the first rank speaks for all
            raise typer.Exit()
        profile = found
    else:
        profile = _probed(device, quick, timeout)
    if save is not None and profile.devices:
        from ..profiles.profile_file import save as write

        write(profile, save)
    _show(profile, as_json)
    raise typer.Exit(_exit_code(profile, wanted))


def _requirements(given: list[str]) -> list[str]:
    wanted = [word.strip().lower() for each in given for word in each.split(",") if word.strip()]
    for word in wanted:
        if word not in REQUIREMENTS:
            raise UsageError(f"--require {word!r}: must be one of {', '.join(REQUIREMENTS)}")
    if given and not wanted:
        raise UsageError("--require needs a value: " + ", ".join(REQUIREMENTS))
    return list(dict.fromkeys(wanted))


def _probed(device: str, quick: bool, timeout: float) -> Profile:
    from ...probes.probing import ProbeRequest, probe

    with _spinner() as watch:
        return probe(ProbeRequest(device, quick, timeout, watch))


def _cluster(folder: Path | None, device: str, quick: bool, timeout: float) -> Profile | None:
    """The profile of the cluster on its first rank; None on the others."""
    from ...probes.cluster import cluster_profile, probe_rank
    from ...probes.ranks import device_of, folder_name, place_in

    place = place_in(os.environ)

    def own() -> Profile:
        return _probed(device_of(place) if device == "all" else device, quick, timeout)

    answers = probe_rank(place, own, folder or Path(folder_name(place)))
    return cluster_profile(answers) if answers is not None else None


def _show(profile: Profile, as_json: bool) -> None:
    if as_json:
        from ..profiles.profile_file import dump

        sys.stdout.write(dump(profile))
    elif any(device.rank is not None for device in profile.devices):
        from ...probes.cluster import cluster_lines
        from ..report.printable import printable

        print("\n".join(printable(line) for line in cluster_lines(profile)), flush=True)
    elif profile.devices:
        from ...probes.screen import verdict_lines
        from ..report.text import show

        show(verdict_lines(profile), sys.stdout)


def _exit_code(profile: Profile, wanted: list[str]) -> int:
    if not profile.devices:
        broken = [check for check in profile.checks if check.status.value not in ("ok", "skipped")]
        for check in broken[-1:]:
            _say(check.sentence)
        return NO_RESULT
    from ...probes.recommending import unmet

    if any(check.failure == "rank-missing" for check in profile.checks):
        return NO_RESULT
    sentences = unmet(profile, wanted)
    for sentence in sentences:
        _say(sentence)
    return UNMET if sentences else 0


def _say(sentence: str) -> None:
    from ..report.printable import printable

    print(f"precfix: {printable(sentence)}", file=sys.stderr)


@contextmanager
def _spinner() -> Iterator[Callable[[str], None]]:
    """What is going on, on stderr; nothing when that is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("probing") as status:
        yield lambda text: status.update(f"probing: {text}")
