"""One rank of a run under torchrun, for test_cluster_ranks.py: ``cluster_rank.py FOLDER WAIT SLEEP``.

``{rank}`` in FOLDER becomes the rank, for machines that share no folder.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from precfix.codemod.profiles.profile import DtypeVerdict, Machine, Profile, ProfiledDevice, Recommendation, Support
from precfix.codemod.profiles.profile_file import load
from precfix.probes.cluster import cluster_lines, cluster_profile, probe_rank
from precfix.probes.ranks import place_in

FAKED = "PRECFIX_TEST_FAKED_RANK"
"""``1=t4.json`` gives rank 1 the profile in that file."""
DYING = "PRECFIX_TEST_DYING_RANK"
"""The rank that ends before it has written anything."""


def a_profile() -> Profile:
    verdicts = {"bf16": DtypeVerdict(Support.NATIVE), "fp16": DtypeVerdict(Support.NATIVE)}
    best = Recommendation("bf16-mixed", "bfloat16 is native")
    device = ProfiledDevice("cuda:0", "cuda", "NVIDIA A100", "8.0", 80 << 30, verdicts, best)
    return Profile(machine=Machine(host="node"), devices=(device,), recommended=best)


def main(folder: Path, wait: float, sleep: float) -> None:
    place = place_in(os.environ)

    def probe() -> Profile:
        time.sleep(sleep)
        if os.environ.get(DYING) == str(place.rank):
            os._exit(9)
        rank, _, file = os.environ.get(FAKED, "").partition("=")
        return load(Path(file)) if rank == str(place.rank) else a_profile()

    own = Path(str(folder).replace("{rank}", str(place.rank)))
    profiles = probe_rank(place, probe, own, wait)
    if profiles is not None:
        print("\n".join(cluster_lines(cluster_profile(profiles))), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
