"""Write the expectations of all fixtures and the generated documentation anew, and say what changed.

Run ``python -m tests.regenerate [WORD ...]`` and review the result with ``git diff``: the tests compare with what this
wrote. With words, only the fixture cases whose id holds one of them are rewritten.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .fixture_cases import DIFF, FINDINGS, REPOSITORY, Case, cases, copied, outcome
from .framework_cases import expectations, framework_cases, moves_of_case, opened
from .generated_docs import generated_docs


def main(words: Sequence[str]) -> int:
    wanted = [case for case in cases() if not words or any(word in case.id for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        changed = [path for case in wanted for path in rewrite_case(case, Path(folder))]
    for case in framework_cases():
        if not words or any(word in f"frameworks/{case.id}" for word in words):
            project = opened(case.input)
            wanted_files = expectations(case, project, moves_of_case(project))
            changed += [path for path, data in wanted_files.items() if put(path, data)]
    if not words:
        changed += [path for path, text in generated_docs().items() if put(path, text.encode())]
        changed += remove_stale_pages()
    for path in changed:
        print(path.relative_to(REPOSITORY).as_posix())
    print(f"{len(wanted)} cases; {len(changed)} files changed")
    return 0


def rewrite_case(case: Case, folder: Path) -> Iterator[Path]:
    """Write the expectations of one case; yields the files that are not what they were."""
    done = outcome(copied(case, folder), case)
    for name, data in ((FINDINGS, done.findings.encode()), (DIFF, done.diff)):
        if put(case.folder / name, data):
            yield case.folder / name


def put(path: Path, data: bytes) -> bool:
    """Make the file hold ``data`` (no file for nothing); whether it did not already."""
    old = path.read_bytes() if path.is_file() else b""
    if old == data:
        return False
    if data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    else:
        path.unlink()
    return True


def remove_stale_pages() -> list[Path]:
    """Delete the pages of rules that no longer exist."""
    pages = generated_docs()
    stale = [path for path in (REPOSITORY / "docs" / "rules").glob("*.md") if path not in pages]
    for path in stale:
        path.unlink()
    return stale


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
