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
    texts = _gathered((folder / file_name(rank)).read_bytes(), size)
    for number, text in enumerate(texts):
        if rank == 0 and number != rank:
            file = folder / file_name(number)
            part = file.with_name(file.name + ".gathered")
            part.write_bytes(text)
            part.replace(file)
    dist.destroy_process_group()


def _gathered(own: bytes, size: int) -> list[bytes]:
    """The bytes of every rank, by rank. Tensors, because ``all_gather_object`` needs numpy and unpickles."""
    import torch
    import torch.distributed as dist

    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(own)]))
    longest = max(int(length) for length in lengths)
    mine = torch.frombuffer(bytearray(own.ljust(longest, b"\n")), dtype=torch.uint8)
    found = [torch.zeros(longest, dtype=torch.uint8) for _ in range(size)]
    dist.all_gather(found, mine)
    return [bytes(each.tolist())[: int(length)] for each, length in zip(found, lengths, strict=True)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
