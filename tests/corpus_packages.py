"""Published packages as trees for `tests.corpus`: downloaded once by name as wheels, and unpacked. Not a test.

Only wheels are taken: making anything of a source distribution runs its code.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

CACHE = Path(tempfile.gettempdir()) / "precfix-corpus"
MAX_BYTES = 2_000_000_000
"""Of one package, unpacked."""


class NoPackage(Exception):
    """A package cannot be had; the message says why."""


def tree_of(name: str, cache: Path) -> Path:
    """The unpacked newest wheel of ``name``; both stay below ``cache``. Raises NoPackage."""
    folder = cache / name
    if not any(folder.glob("*.whl")):
        _download(name, folder)
    wheel = max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    tree = folder / wheel.stem
    if not tree.is_dir():
        draft = folder / f"{wheel.stem}.part"
        shutil.rmtree(draft, ignore_errors=True)
        unpack(wheel, draft)
        draft.rename(tree)
    return tree


def _download(name: str, folder: Path) -> None:
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise NoPackage(f"{name!r} is no name of a package")
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "-d",
        str(folder),
    ]
    done = subprocess.run([*command, "--", name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoPackage(f"{name}: pip download: {(done.stderr.strip() or 'failed').splitlines()[-1]}")


def unpack(archive: Path, target: Path) -> None:
    """Write the regular files of a zip archive below ``target``. Raises NoPackage for one that leads elsewhere."""
    with zipfile.ZipFile(archive) as packed:
        members = [item for item in packed.infolist() if not item.is_dir()]
        if sum(item.file_size for item in members) > MAX_BYTES:
            raise NoPackage(f"{archive.name} holds more than {MAX_BYTES:,} bytes")
        for item in members:
            path = PurePosixPath(item.filename)
            kind = stat.S_IFMT(item.external_attr >> 16)
            if path.is_absolute() or ".." in path.parts or "\\" in item.filename or kind not in (0, stat.S_IFREG):
                raise NoPackage(f"{archive.name}: {item.filename!r} is not an ordinary file below the package")
            place = target.joinpath(*path.parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(item) as source, place.open("xb") as written:
                shutil.copyfileobj(source, written)
