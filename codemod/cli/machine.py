"""Which machine a project is checked for: a profile that was given, probed just now, or saved in the project."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import UsageError
from ..outcome import Target
from ..profiles.profile import Profile
from ..profiles.profile_file import load

if TYPE_CHECKING:
    from ..source.project import Project

PROFILE_NAMES = ("precfix-profile.json", ".precfix/profile.json")
"""Where a profile saved in a project is looked for, below its root."""
PROBE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """A profile and, in words, where it comes from."""

    profile: Profile
    source: str


def machine_of(project: Project, given: Path | None, probe: bool = False) -> KnownMachine | None:
    """The machine that was asked for, else the one whose profile the project holds; None where nothing is known.

    Raises UsageError when a profile cannot be read, when the probe fails, and when both are asked for.
    """
    if given is not None and probe:
        raise UsageError("--profile and --probe cannot be combined")
    if given is not None:
        return KnownMachine(load(given), f"the profile {str(given)!r}")
    if probe:
        return KnownMachine(_probed(), "a probe of this machine")
    for name in PROFILE_NAMES:
        path = project.root / name
        if is_plain_file(path):
            return KnownMachine(load(path), f"the profile {name} in the project")
    return None


def target_on(machine: KnownMachine) -> Target | None:
    """The regime the profile recommends; None where it recommends none."""
    profile = machine.profile
    regime = profile.recommended.regime
    if not regime:
        return None
    labels = list(dict.fromkeys(device.label for device in profile.training_devices))
    names = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
    how = "" if profile.real else ", from published facts"
    return Target(regime, f"recommended by {machine.source}: {names or 'no device'}{how}")


def is_plain_file(path: Path) -> bool:
    """Whether it is a regular file that is where it seems to be: no link leads the reader out of the project."""
    try:
        folder_is_real = not path.parent.is_symlink()
        return folder_is_real and stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _probed() -> Profile:
    """Run the quick probe with the interpreter that runs precfix, away from the project's own modules."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="precfix-probe-") as folder:
        saved = Path(folder) / "profile.json"
        command = [sys.executable, "-m", "precfix.codemod", "probe", "--quick", "--save", os.fspath(saved)]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise UsageError(f"the probe takes over {PROBE_SECONDS} s; run `precfix probe` to see why") from None
        except OSError as error:
            raise UsageError(f"the probe cannot be started: {error.strerror}") from error
        if not saved.is_file():
            said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise UsageError(f"the probe failed: {said.removeprefix('precfix: ')}; run `precfix probe` to see why")
        return load(saved)
