"""The tables of trainers are kept in a form that is read without YAML, and never an old one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from precfix.codemod.cache import installed, kept
from precfix.codemod.trainers.framework_plain import frameworks_from, plain
from precfix.transforms import frameworks as tables
from precfix.transforms.frameworks import read_own

from .project_tree import write_tree


def test_plain_frameworks_are_the_same_again() -> None:
    own = read_own()
    again = frameworks_from(json.loads(json.dumps(plain(own))))
    assert again == own
    assert [each.origin for each in again] == [each.origin for each in own]


def damaged(value: Any) -> list[Any]:
    """A value with each of its parts, some levels deep, replaced by something else."""
    found: list[Any] = [None, 1, "x", {}, [[]]]
    if isinstance(value, list):
        found += [[*value, "more"], *([value[:-1]] if value else [])]
        for at, item in enumerate(value):
            found += [[*value[:at], wrong, *value[at + 1 :]] for wrong in damaged(item)]
    return [each for each in found if each != value]


def test_every_wrong_shape_is_refused() -> None:
    framework = next(each for each in read_own() if each.contradictions and each.targets)
    whole = plain((framework,))
    accepted = 0
    for value in damaged(whole):
        try:
            accepted += frameworks_from(value) is not None
        except (TypeError, ValueError):
            continue
    texts = json.dumps(whole).count('"') // 2
    assert 0 < accepted < 4 * texts  # other texts, more of them, or none where there may be none: nothing else


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PRECFIX_NO_CACHE")
    monkeypatch.setenv("PRECFIX_CACHE_DIR", os.fspath(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_kept_table_counts_only_for_the_files_it_was_read_from(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = read_own()
    monkeypatch.setattr(tables, "installed_state", lambda: "now")
    kept.write("tables", "now", plain(own[:3]))
    assert read_own.__wrapped__() == own[:3]
    monkeypatch.setattr(tables, "installed_state", lambda: "later")
    assert read_own.__wrapped__() == own
    assert kept.read("tables", "later") == plain(own)
    kept.write("tables", "later", ["nonsense"])
    assert read_own.__wrapped__() == own


def test_just_edited_tables_are_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "installed_state", lambda: "")
    read_own.__wrapped__()
    assert not place.exists()


def test_the_state_of_precfix_is_that_of_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(
        tmp_path, {"codemod/cache/installed.py": "1", "transforms/frameworks/a.yaml": "1", "transforms/b.py": ""}
    )
    for path in tmp_path.rglob("*.*"):
        os.utime(path, (1, 1))
    monkeypatch.setattr(installed, "__file__", str(tmp_path / "codemod" / "cache" / "installed.py"))

    def state() -> str:
        monkeypatch.setattr(installed, "_known", [])
        return installed.installed_state()

    seen = {state()}
    for path in sorted(tmp_path.rglob("*.*")):
        os.utime(path, (2, 2))
        assert state() not in seen
        seen.add(state())
    assert "" not in seen
    (tmp_path / "transforms" / "b.py").write_text("edited")
    assert state() == ""


def test_a_second_run_reads_no_yaml(place: Path, tmp_path: Path) -> None:
    project = write_tree(tmp_path / "project", {"train.py": "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"})
    program = (
        f"import atexit, sys\nsys.argv = ['precfix', 'check', {str(project)!r}]\n"
        "names = ('yaml', 'precfix.codemod.engine')\n"
        "atexit.register(lambda: print(*[name in sys.modules for name in names], file=sys.stderr))\n"
        "from precfix.codemod.__main__ import main\nmain()\n"
    )

    def loaded() -> str:
        (project / "more.py").touch()
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr.strip()

    assert loaded() == "True True"
    (project / "other.py").write_text("import torch\n")
    assert loaded() == "False True"
    assert loaded() == "False False"
