"""Kept files: damage, foreign hands, many runs at once, bounds. Whatever happens, it is a miss and nothing else."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from precfix.codemod.cache import folder, kept
from precfix.codemod.cache.answers import told_again

from .cached_runs import CachedRuns, runs  # noqa: F401
from .project_tree import write_tree

LOOP = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that is switched on."""
    monkeypatch.delenv("PRECFIX_NO_CACHE", raising=False)
    monkeypatch.setenv("PRECFIX_CACHE_DIR", os.fspath(tmp_path / "cache"))
    return tmp_path / "cache"


def only_file(place: Path) -> Path:
    (found,) = (place / "answers").iterdir()
    return found


VALUES: list[object] = [None, 1, "ü\udc80", [1, [2.5, None, True]], {"a": ["b"]}]


@pytest.mark.parametrize("value", VALUES)
def test_what_is_kept_is_read_again(place: Path, value: object) -> None:
    assert kept.write("answers", "key", value)
    assert kept.read("answers", "key") == value
    assert kept.read("answers", "another key") is None
    assert kept.read("tables", "key") is None
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(place).stat().st_mode) == 0o600


def test_keys_that_share_a_file_are_told_apart(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "name_of", lambda key: "0" * 16)
    kept.write("answers", "one", 1)
    assert kept.read("answers", "other") is None


def test_every_flipped_bit_and_every_cut_is_a_miss(place: Path) -> None:
    kept.write("answers", "key", {"some": ["value", 1]})
    path = only_file(place)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at])
        assert kept.read("answers", "key") is None
        for bit in range(8):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            assert kept.read("answers", "key") in (None, {"some": ["value", 1]})
    path.write_bytes(data)
    assert kept.read("answers", "key") == {"some": ["value", 1]}


def sealed(text: bytes) -> bytes:
    """A kept file that says ``text`` and whose checksum is right."""
    return b"precfix 1 " + f"{zlib.crc32(text):08x}\n".encode() + text


def test_well_sealed_nonsense_is_a_miss(runs: CachedRuns, tmp_path: Path) -> None:  # noqa: F811
    project = write_tree(tmp_path / "project", {"train.py": LOOP})
    asked = ("check", project)
    runs.warm(*asked)
    path = only_file(runs.folder)
    key, answer = json.loads(path.read_bytes().partition(b"\n")[2])
    states = {path: ["", "", False] for path in answer[3]}
    wrong: list[object] = [None, 1, "", [], {}, [1] * 6, [[]] * 6, [{}] * 6, [1, [[1, 2]], [], {}, {}, {}]]
    wrong += [[code, *answer[1:]] for code in (-1, 999, "0", None, True, 1.0, [])]
    wrong += [[answer[0], told, *answer[2:]] for told in ([[3, "x"]], [[1, "\u1234"]], [[1]], [["1x", "a"]], 5)]
    wrong += [[*answer[:3], seen, *answer[4:]] for seen in (5, [1], {"\0": ["", "", False]}, {"a": 1}, states)]
    for value in wrong:
        path.write_bytes(sealed(json.dumps([key, value]).encode()))
        runs.told_again(*asked)
    for text in (b"[" * 100_000, b"1" * 100_000, b'"\xff"', b"", b"NaN", b"{}"):
        path.write_bytes(sealed(text))
        assert not runs.told_again(*asked)
    assert runs.told_again(*asked)


def test_random_damage_of_an_answer_never_changes_what_is_said(runs: CachedRuns, tmp_path: Path) -> None:  # noqa: F811
    project = write_tree(tmp_path / "project", {"train.py": LOOP})
    expected = runs.warm("check", project)
    path = only_file(runs.folder)
    data = path.read_bytes()
    choice = random.Random(1)
    for _ in range(20):
        damaged = bytearray(data)
        for _ in range(choice.randint(1, 4)):
            damaged[choice.randrange(len(data))] = choice.randrange(256)
        path.write_bytes(bytes(damaged))
        assert runs.warm("check", project) == expected


@pytest.mark.skipif(os.name == "nt", reason="rights of Windows are not looked at")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(place: Path, mode: int) -> None:
    kept.write("answers", "key", 1)
    for path in (place, place / "answers"):
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        assert kept.read("answers", "key") is None
        assert not kept.write("answers", "other", 1)
        path.chmod(before)
    only_file(place).chmod(0o666)
    assert kept.read("answers", "key") is None


@pytest.mark.skipif(os.name == "nt", reason="rights of Windows are not looked at")
def test_a_folder_or_file_of_another_user_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.write("answers", "key", 1)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert kept.read("answers", "key") is None
    assert not kept.write("answers", "other", 1)


def test_links_are_not_followed(place: Path, tmp_path: Path) -> None:
    kept.write("answers", "key", 1)
    path = only_file(place)
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert kept.read("answers", "key") is None
    path.unlink()
    os.mkfifo(path)
    assert kept.read("answers", "key") is None
    (place / "answers").rename(tmp_path / "away")
    (place / "answers").symlink_to(tmp_path / "away")
    assert kept.read("answers", "key") is None
    assert not kept.write("answers", "key", 2)


def test_large_files_are_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.write("answers", "key", "x" * 1000)
    monkeypatch.setattr(kept, "MAX_BYTES", 500)
    assert kept.read("answers", "key") is None
    assert not kept.write("answers", "key", "x" * 1000)


@pytest.mark.parametrize("fault", ["replace", "open", "makedirs"])
def test_a_full_or_read_only_disk_is_a_miss(place: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def failing(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    kept.write("answers", "before", 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, fault, failing)
        assert not kept.write("answers", "key", 1)
    assert kept.read("answers", "before") == 1
    assert [path.name for path in place.rglob("*.tmp")] == []


def test_a_run_without_a_place_for_a_cache_is_a_run(
    runs: CachedRuns,  # noqa: F811
    tmp_path: Path,
) -> None:
    project = write_tree(tmp_path / "project", {"train.py": LOOP})
    runs.folder.write_text("a file in the way")
    assert not runs.told_again("check", project)
    assert runs.folder.read_text() == "a file in the way"


def test_the_oldest_go_and_what_is_not_ours_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_FILES", 5)
    for number in range(12):
        kept.write("answers", str(number), number)
        os.utime(place / "answers" / kept.name_of(str(number)), (number, number))
        if number == 0:
            (place / "answers" / "diary.txt").write_text("mine")
            os.utime(place / "answers" / "diary.txt", (0, 0))
    assert [number for number in range(12) if kept.read("answers", str(number)) == number] == [7, 8, 9, 10, 11]
    assert (place / "answers" / "diary.txt").read_text() == "mine"


def test_many_runs_at_once(place: Path) -> None:
    program = (
        "import sys\nfrom precfix.codemod.cache import kept\n"
        "for number in range(60):\n"
        "    kept.write('answers', 'key', ['x' * 50_000, int(sys.argv[1])])\n"
        "    found = kept.read('answers', 'key')\n"
        "    assert found is not None and len(found[0]) == 50_000, found\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(number)]) for number in range(4)]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    assert [path.name for path in place.rglob("*.tmp")] == []


def test_clean_says_what_it_removed(runs: CachedRuns, tmp_path: Path) -> None:  # noqa: F811
    project = write_tree(tmp_path / "project", {"train.py": LOOP})
    assert runs.warm("clean") == (0, "nothing is kept\n", "")
    runs.warm("check", project)
    (runs.folder / "diary.txt").write_text("mine")
    code, out, _ = runs.warm("clean")
    assert (code, out.startswith("removed "), os.fspath(runs.folder) in out) == (0, True, True)
    assert {path.name for path in runs.folder.rglob("*") if path.is_file()} == {"CACHEDIR.TAG", "diary.txt"}
    assert not runs.told_again("check", project)
    runs.folder.chmod(0o777)
    assert runs.warm("clean")[0] == 2


def test_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PRECFIX_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert folder.wanted_folder() == "/some/where/precfix"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert folder.wanted_folder() == "/home/me/.cache/precfix"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert folder.wanted_folder() == "/home/me/Library/Caches/precfix"
    monkeypatch.setenv("PRECFIX_CACHE_DIR", ".precfix/cache")
    monkeypatch.chdir(tmp_path)
    assert folder.wanted_folder() == str(tmp_path / ".precfix" / "cache")


def test_other_commands_are_never_told_again(place: Path) -> None:
    assert [told_again(words) for words in ([], ["rules"], ["--help"], ["probe"])] == [None] * 4
