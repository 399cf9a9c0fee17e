"""Exchanges the ranks' profiles over gloo: ``python -m precfix.probes.gathering FOLDER SECONDS``, once per rank.

Every rank sends the text of its own file, and the first one writes the files of the others. Nothing of a GPU is
touched. Whatever fails here ends this process only.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

from .cluster import file_name


def main(folder: Path, seconds: float) -> None:
    """Gather; raises whatever torch.distributed raises."""
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=timedelta(seconds=seconds))
    own = (folder / file_name(rank)).read_text("utf-8")
    gathered: list[str | None] | None = [None] * size if rank == 0 else None
    dist.gather_object(own, gathered, dst=0)
    for number, text in enumerate(gathered or ()):
        file = folder / file_name(number)
        if text and number != rank:
            part = file.with_name(file.name + ".gathered")
            part.write_text(text, "utf-8")
            part.replace(file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
