"""``precfix`` with its sets of objects in another order: ``python -m tests.shuffled_run SEED ARGUMENTS``.

Objects without a value of their own (syntax nodes, scopes, modules, bindings) hash by address, which differs between
runs only as far as the memory does. Here the address is scrambled by a seed, so each seed walks every set of them in an
order of its own, whatever the allocator did.
"""

from __future__ import annotations

import ast
import gc
import importlib
import pkgutil
import random
import sys
from collections.abc import Iterator
from types import ModuleType

WORD = (1 << 61) - 1


def scramble(seed: int) -> None:
    """Give all that hashes by address a hash of the seed's own."""
    source = random.Random(seed)
    factor, offset = source.getrandbits(60) | 1, source.getrandbits(60)

    def hash_of(item: object) -> int:
        mixed = (id(item) // 16 * factor + offset) % WORD
        return mixed ^ (mixed >> 31)

    for kind in (ast.AST, *hashed_by_address()):
        kind.__hash__ = hash_of  # type: ignore[assignment, method-assign]


def hashed_by_address() -> list[type]:
    """The classes of the product whose objects are equal only to themselves."""
    kinds = {kind for module in _modules() for kind in vars(module).values() if isinstance(kind, type)}
    return [
        kind
        for kind in kinds
        if kind.__module__.startswith("precfix.") and kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__
    ]


def _modules() -> Iterator[ModuleType]:
    for name in ("precfix.codemod", "precfix.transforms"):
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, name + "."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def disturb_memory(seed: int) -> list[object]:
    """Fill and free memory in a way that differs from seed to seed; what is returned has to be kept."""
    source = random.Random(seed)
    blocks: list[object] = [bytearray(source.randrange(1, 4000)) for _ in range(source.randrange(1000, 20_000))]
    source.shuffle(blocks)
    return blocks[: len(blocks) // 2]


def main() -> None:
    """Run the command line under the seed; an odd one without the garbage collector."""
    seed = int(sys.argv[1])
    kept = disturb_memory(seed)
    if seed % 2:
        gc.disable()
    scramble(seed)
    from precfix.codemod.__main__ import main as command

    sys.argv = ["precfix", *sys.argv[2:]]
    try:
        command()
    finally:
        del kept


if __name__ == "__main__":
    main()
