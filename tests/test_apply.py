"""Writing files: all or none, whatever fails, and undo. Processes really die here, and git is the real one."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from precfix.codemod.applying import apply as apply_module
from precfix.codemod.applying import journal as journal_module
from precfix.codemod.applying import replacing
from precfix.codemod.applying.apply import apply, undo
from precfix.codemod.applying.worktree import dirty_files
from precfix.codemod.model import UsageError
from precfix.codemod.outcome import FileChange

from .fault_steps import holders_of

CHANGES = (
    FileChange("a.py", b"a = 1\r\n", b"a = 2\r\n"),
    FileChange("sub/b.yaml", b"\xff\x00 old", b"new, and longer than it was"),
    FileChange("sub/deep/c.sh", b"", b"#!/bin/sh\n"),
)
PATHS = tuple(change.path for change in CHANGES)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, and thousands of real calls take half a minute; it remains a step that can fail."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make(tmp_path / "project")


def make(root: Path) -> Path:
    for change in CHANGES:
        (root / change.path).parent.mkdir(parents=True, exist_ok=True)
        (root / change.path).write_bytes(change.before)
    (root / "sub/deep/c.sh").chmod(0o755)
    (root / "a.py").chmod(0o640)
    return root


def state(root: Path) -> list[str]:
    """For each file ``old``, ``new`` or its bytes."""
    words = []
    for change in CHANGES:
        data = (root / change.path).read_bytes()
        words.append("old" if data == change.before else "new" if data == change.after else repr(data))
    return words


def tree(root: Path) -> dict[str, bytes]:
    """Every file below ``root``, git's own aside."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def leftovers(root: Path) -> list[str]:
    """Files that should not be there: temporary ones, locks, drafts."""
    known = {*PATHS, ".precfix/.gitignore"}
    return [name for name in tree(root) if name not in known and not name.startswith(".precfix/journal/0")]


def test_apply_then_undo(project: Path) -> None:
    journal = apply(project, CHANGES, allow_dirty=False)
    assert state(project) == ["new"] * 3
    assert [entry.path for entry in journal.files] == list(PATHS)
    assert journal.state == "done"
    assert (project / "sub/deep/c.sh").stat().st_mode & 0o777 == 0o755
    assert (project / "a.py").stat().st_mode & 0o777 == 0o640
    assert (project / ".precfix/.gitignore").read_bytes() == b"*\n"
    assert (project / ".precfix/journal/000001").stat().st_mode & 0o777 == 0o700, "old bytes may be secret"
    assert leftovers(project) == []
    assert undo(project) == PATHS
    assert state(project) == ["old"] * 3
    assert (project / "sub/deep/c.sh").stat().st_mode & 0o777 == 0o755
    assert not list((project / ".precfix/journal").iterdir())
    with pytest.raises(UsageError, match="nothing to undo"):
        undo(project)


def test_undo_without_journal_leaves_no_trace(project: Path) -> None:
    with pytest.raises(UsageError, match="nothing to undo"):
        undo(project)
    assert not (project / ".precfix").exists()


def test_nothing_to_write_leaves_no_trace(project: Path) -> None:
    assert apply(project, [FileChange("a.py", b"x", b"x")], allow_dirty=False).files == ()
    assert not (project / ".precfix").exists()


def test_several_applies_are_several_undos(project: Path) -> None:
    for number in range(1, 12):
        change = FileChange("a.py", (project / "a.py").read_bytes(), b"a = %d\n" % number)
        apply(project, [change], allow_dirty=False)
    for number in range(10, 0, -1):
        assert undo(project) == ("a.py",)
        assert (project / "a.py").read_bytes() == b"a = %d\n" % number
    assert undo(project) == ("a.py",)
    assert state(project)[0] == "old"


def refused(project: Path, changes: tuple[FileChange, ...], match: str) -> None:
    before = tree(project)
    with pytest.raises(UsageError, match=match) as caught:
        apply(project, changes, allow_dirty=False)
    assert "\n" not in str(caught.value)
    assert tree(project) == before


def test_changed_since_read(project: Path) -> None:
    (project / "sub/b.yaml").write_bytes(b"edited")
    refused(project, CHANGES, "sub/b.yaml.*has changed")


@pytest.mark.parametrize(
    "path", ["../out.py", "/etc/passwd", "sub/../../out.py", "", ".", "a\0.py", "missing.py", "sub"]
)
def test_paths_that_are_no_file_of_the_project(project: Path, path: str) -> None:
    (project.parent / "out.py").write_bytes(b"")
    refused(project, (*CHANGES, FileChange(path, b"", b"x")), "not a|cannot be found|nothing was written")
    assert (project.parent / "out.py").read_bytes() == b""


@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/x", ".precfix/journal/1", "sub/.git/config"])
def test_git_and_our_own_folder_are_never_written(project: Path, path: str) -> None:
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_bytes(b"")
    (project / "link.py").symlink_to(path)
    refused(project, (FileChange(path, b"", b"x"),), "may write")
    refused(project, (FileChange("link.py", b"", b"x"),), "may write")


def test_links(project: Path) -> None:
    outside = project.parent / "outside.py"
    outside.write_bytes(b"o")
    (project / "out.py").symlink_to(outside)
    (project / "outdir").symlink_to(project.parent)
    (project / "dead.py").symlink_to("nowhere")
    (project / "loop.py").symlink_to("loop.py")
    (project / "in.py").symlink_to("a.py")
    for path in ("out.py", "outdir/outside.py", "dead.py", "loop.py"):
        refused(project, (*CHANGES, FileChange(path, b"o", b"x")), path)
    refused(project, (*CHANGES, FileChange("in.py", b"a = 1\r\n", b"other")), "are the same file")
    apply(project, [FileChange("in.py", b"a = 1\r\n", b"a = 2\r\n")], allow_dirty=False)
    assert (project / "in.py").is_symlink()
    assert state(project)[0] == "new"
    assert undo(project) == ("a.py",)
    assert state(project)[0] == "old"
    assert outside.read_bytes() == b"o"


def test_a_fifo_is_refused_and_does_not_hang(project: Path) -> None:
    os.mkfifo(project / "pipe.py")
    refused(project, (FileChange("pipe.py", b"", b"x"),), "regular file")


def test_root_that_is_a_link_or_no_folder(project: Path) -> None:
    link = project.parent / "link"
    link.symlink_to(project)
    apply(link, CHANGES, allow_dirty=False)
    assert undo(link) == PATHS
    for root in (project / "a.py", project / "nothing"):
        with pytest.raises(UsageError):
            apply(root, CHANGES, allow_dirty=False)


def test_names_that_are_no_text(project: Path) -> None:
    name = os.fsdecode(b"b\xff\n\x1b.py")
    (project / name).write_bytes(b"1")
    apply(project, [FileChange(name, b"1", b"2")], allow_dirty=False)
    assert undo(project) == (name,)
    assert (project / name).read_bytes() == b"1"


def test_read_only_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "b.yaml")
    refused(project, CHANGES, "sub/b.yaml' is read-only")


def test_owner_that_cannot_be_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_away(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    (project / "a.py").chmod(0o4755)
    real = os.fstat
    monkeypatch.setattr(os, "fchown", give_away)

    def strange(descriptor: int) -> object:
        found = real(descriptor)
        return Strange(found) if found.st_mode & 0o7777 == 0o600 else found  # a new file that has no mode yet

    monkeypatch.setattr(replacing.os, "fstat", strange)
    apply(project, CHANGES[:1], allow_dirty=True)
    assert (project / "a.py").stat().st_mode & 0o7777 == 0o755, "never set-uid for another user"


class Strange:
    """A stat result whose owner changes every time it is asked for."""

    def __init__(self, found: os.stat_result) -> None:
        self.st_mode, self.st_size, self.st_gid = found.st_mode, found.st_size, found.st_gid
        self.st_uid = id(self)


# --- failures on the way ----------------------------------------------------------------------------------------------

STEPS = ("open", "fsync", "replace", "rename", "chmod", "mkdir", "unlink")


def intercept(patch: Callable[[object, str, object], None], at: int, act: Callable[[], None]) -> list[str]:
    """Do ``act`` before the ``at``-th (from 0) step that touches the disk; the steps seen so far."""
    seen: list[str] = []

    def wrap(name: str) -> object:
        real = getattr(os, name)

        def step(*arguments: object, **named: object) -> object:
            seen.append(name)
            if len(seen) - 1 == at:
                act()
            return real(*arguments, **named)

        return step

    for name in STEPS:
        step = wrap(name)
        for holder in holders_of(name):
            patch(holder, name, step)
    return seen


def steps_of_apply(folder: Path) -> int:
    root = make(folder / "count")
    return count_steps(lambda: apply(root, CHANGES, allow_dirty=True))


def count_steps(action: Callable[[], object]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        seen = intercept(patch.setattr, -1, lambda: None)
        action()
    return len(seen)


def die_at(step: int, action: Callable[[], object]) -> None:
    """Run ``action`` in a child process that dies at once before a step."""
    child = os.fork()
    if child == 0:
        intercept(setattr, step, lambda: os._exit(9))
        action()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 9


def test_a_process_that_dies_leaves_old_or_new_files_and_undo_works(tmp_path: Path) -> None:
    steps = steps_of_apply(tmp_path)
    assert steps > 25
    seen = set()
    for step in range(steps):
        root = make(tmp_path / str(step))
        die_at(step, lambda root=root: apply(root, CHANGES, allow_dirty=True))
        found = state(root)
        assert set(found) <= {"old", "new"}, (step, found)
        seen.add(tuple(found))
        if list((root / ".precfix").glob("journal/0*")):
            assert set(undo(root)) == {path for path, word in zip(PATHS, found, strict=True) if word == "new"}
        else:
            assert found == ["old"] * 3, step
        assert state(root) == ["old"] * 3, step
        assert (root / "sub/deep/c.sh").stat().st_mode & 0o777 == 0o755
        apply(root, CHANGES, allow_dirty=True)
        assert state(root) == ["new"] * 3
        assert leftovers(root) == [], step
        assert undo(root) == PATHS
        assert (root / ".precfix/.gitignore").read_bytes() == b"*\n", step
    assert len(seen) == 4, "died before, between and after the renames"


def test_an_interrupted_apply_must_be_undone_first(tmp_path: Path) -> None:
    steps = steps_of_apply(tmp_path)
    for step in range(steps):
        root = make(tmp_path / str(step))
        die_at(step, lambda root=root: apply(root, CHANGES, allow_dirty=True))
        if state(root) == ["new", "old", "old"]:
            with pytest.raises(UsageError, match="precfix undo first"):
                apply(root, CHANGES[1:], allow_dirty=True)
            return
    pytest.fail("never died between two renames")


def test_an_undo_that_dies_can_be_run_again(tmp_path: Path) -> None:
    def applied(name: str) -> Path:
        root = make(tmp_path / name)
        apply(root, CHANGES, allow_dirty=True)
        return root

    counted = applied("count")
    for step in range(count_steps(lambda: undo(counted))):
        root = applied(str(step))
        die_at(step, lambda root=root: undo(root))
        assert set(state(root)) <= {"old", "new"}
        if list((root / ".precfix").glob("journal/0*")):
            undo(root)
        assert state(root) == ["old"] * 3, step
        with pytest.raises(UsageError, match="nothing to undo"):
            undo(root)
        apply(root, CHANGES, allow_dirty=True)
        assert leftovers(root) == [], step


def raise_full_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def raise_interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("act", "error"), [(raise_full_disk, UsageError), (raise_interrupt, KeyboardInterrupt)])
def test_a_failing_step_rolls_everything_back(
    tmp_path: Path, act: Callable[[], None], error: type[BaseException]
) -> None:
    steps = steps_of_apply(tmp_path)
    messages: list[str] = []
    for step in range(steps):
        root = make(tmp_path / str(step))
        with pytest.MonkeyPatch.context() as patch:
            intercept(patch.setattr, step, act)
            try:
                apply(root, CHANGES, allow_dirty=True)
            except error as caught:
                messages.append(str(caught))
                finished = step == steps - 1 and error is KeyboardInterrupt  # while it gave back the lock
                assert state(root) == ["new" if finished else "old"] * 3, step
                assert len(list((root / ".precfix").glob("journal/0*"))) == finished, step
            else:
                assert state(root) == ["new"] * 3, "only the last step, giving back the lock, may fail quietly"
        assert [name for name in leftovers(root) if "lock" not in name] == [], step
        (root / ".precfix/lock").unlink(missing_ok=True)
        apply(root, [change for change in CHANGES if state(root) == ["old"] * 3], allow_dirty=True)
        assert state(root) == ["new"] * 3
    assert len(messages) >= steps - 3
    assert error is KeyboardInterrupt or all("No space left" in message for message in messages)


def test_a_disk_that_is_full_also_for_the_way_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = os.replace, 0

    def replace(source: Path, target: Path) -> None:
        nonlocal count
        count += Path(target).suffix in (".py", ".yaml", ".sh")
        if count > 1:
            raise_full_disk()
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(UsageError, match=r"'a\.py' could not be restored; run precfix undo"):
        apply(project, CHANGES, allow_dirty=True)
    monkeypatch.undo()
    assert state(project) == ["new", "old", "old"]
    assert undo(project) == ("a.py",)
    assert state(project) == ["old"] * 3
    assert leftovers(project) == []


def test_a_file_size_limit(tmp_path: Path) -> None:
    """The kernel itself refuses to write more: at different limits the journal or a new file does not fit."""
    for limit in (1, 6, 20, 200, 900):
        root = make(tmp_path / str(limit))
        change = FileChange("a.py", b"a = 1\r\n", b"x" * 5000)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                apply(root, [*CHANGES[1:], change], allow_dirty=True)
            except UsageError:
                os._exit(7)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert state(root) == ["old"] * 3
        assert set(leftovers(root)) <= {".precfix/lock"}


def test_edited_between_check_and_rename(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = journal_module.record

    def record(*arguments: object) -> object:
        (project / "sub/deep/c.sh").write_bytes(b"edited meanwhile")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(apply_module.journals, "record", record)
    with pytest.raises(UsageError, match=r"c\.sh' has changed"):
        apply(project, CHANGES, allow_dirty=True)
    assert state(project) == ["old", "old", repr(b"edited meanwhile")]
    assert leftovers(project) == []


# --- undo -------------------------------------------------------------------------------------------------------------


def test_undo_refuses_edited_files_and_restores_none(project: Path) -> None:
    apply(project, CHANGES, allow_dirty=True)
    (project / "sub/b.yaml").write_bytes(b"my work")
    (project / "sub/deep/c.sh").unlink()
    with pytest.raises(UsageError, match=r"sub/b\.yaml', 'sub/deep/c\.sh'"):
        undo(project)
    assert state_of_first(project) == "new"
    assert undo(project, force=True) == PATHS
    assert state(project) == ["old"] * 3
    assert (project / "sub/deep/c.sh").stat().st_mode & 0o777 == 0o755


def state_of_first(project: Path) -> str:
    return "new" if (project / "a.py").read_bytes() == CHANGES[0].after else "other"


def test_undo_keeps_files_that_are_back_already(project: Path) -> None:
    apply(project, CHANGES, allow_dirty=True)
    (project / "a.py").write_bytes(CHANGES[0].before)
    assert undo(project) == PATHS[1:]


def test_undo_does_not_follow_a_link_that_came_later(project: Path) -> None:
    apply(project, CHANGES, allow_dirty=True)
    outside = project.parent / "outside"
    outside.write_bytes(CHANGES[0].after)
    (project / "a.py").unlink()
    (project / "a.py").symlink_to(outside)
    for force in (False, True):
        with pytest.raises(UsageError, match="link"):
            undo(project, force=force)
    assert outside.read_bytes() == CHANGES[0].after


def manifest(project: Path) -> Path:
    return next((project / ".precfix/journal").glob("0*/manifest.json"))


@pytest.mark.parametrize(
    "path", ["../out.py", "/tmp/out.py", ".git/hooks/pre-commit", "link/out.py", "sub/.git/x", "no/such/folder"]
)
def test_a_hostile_journal_cannot_write_elsewhere(project: Path, path: str) -> None:
    apply(project, CHANGES, allow_dirty=True)
    (project / ".git/hooks").mkdir(parents=True)
    (project / "sub/.git").mkdir()
    (project / "link").symlink_to(project.parent)
    raw = json.loads(manifest(project).read_text())
    raw["files"][1]["path"] = path
    manifest(project).write_text(json.dumps(raw))
    before = tree(project.parent)
    for force in (False, True):
        with pytest.raises(UsageError):
            undo(project, force=force)
    (project / ".precfix/lock").unlink(missing_ok=True)
    assert tree(project.parent) == before
    assert not list((project / ".git/hooks").iterdir())


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", "[" * 100_000, '{"files": {}}', "{}", "\x00", '{"files": [1]}', '{"files": [{"path": 1}]}'],
)
def test_a_damaged_manifest(project: Path, text: str) -> None:
    apply(project, CHANGES, allow_dirty=True)
    manifest(project).write_text(text)
    with pytest.raises(UsageError, match="cannot be understood"):
        undo(project)
    assert state(project) == ["new"] * 3


@pytest.mark.parametrize(
    ("key", "value"),
    [("state", "odd"), ("token", "../../x"), ("token", 5), ("version", 2), ("token", "zz"), ("files", None)],
)
def test_a_manifest_with_a_bad_field(project: Path, key: str, value: object) -> None:
    apply(project, CHANGES, allow_dirty=True)
    raw = json.loads(manifest(project).read_text())
    manifest(project).write_text(json.dumps(raw | {key: value}))
    with pytest.raises(UsageError, match="cannot be understood"):
        undo(project)


def test_damaged_old_bytes_are_not_restored(project: Path) -> None:
    apply(project, CHANGES, allow_dirty=True)
    kept = manifest(project).with_name("before.bin")
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")
    with pytest.raises(UsageError, match="damaged"):
        undo(project, force=True)
    assert state(project) == ["new"] * 3


@pytest.mark.parametrize("name", [".precfix", ".precfix/journal", ".precfix/journal/000001", ".precfix/.gitignore"])
def test_our_folder_is_never_a_link(project: Path, name: str) -> None:
    target = project.parent / "elsewhere"
    target.mkdir()
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).symlink_to(target)
    for action in (lambda: apply(project, CHANGES, allow_dirty=True), lambda: undo(project)):
        if name.endswith(".gitignore"):
            continue
        with pytest.raises(UsageError):
            action()
    assert list(target.iterdir()) == []


# --- locks ------------------------------------------------------------------------------------------------------------


def lock(project: Path, text: str) -> Path:
    (project / ".precfix").mkdir(exist_ok=True)
    (project / ".precfix/lock").write_text(text)
    return project / ".precfix/lock"


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_lock_of_a_dead_process_is_taken_over(project: Path) -> None:
    lock(project, json.dumps({"pid": dead_pid(), "host": socket.gethostname()}))
    apply(project, CHANGES, allow_dirty=True)
    assert leftovers(project) == []
    path = lock(project, "")
    with pytest.raises(UsageError, match="starting precfix run"):
        undo(project)
    os.utime(path, (1, 1))
    assert undo(project) == PATHS


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"pid": 1, "host": socket.gethostname()}),
        json.dumps({"pid": 2**31 - 1, "host": "another-host"}),
        "garbage",
        "[" * 4000,
        "9" * 4090,
        '{"pid": [], "host": 1}',
    ],
)
def test_a_lock_that_is_held_or_unclear_stops_everything(project: Path, text: str) -> None:
    path = lock(project, text)
    with pytest.raises(UsageError, match="is writing to this project; if it is not, delete"):
        apply(project, CHANGES, allow_dirty=True)
    assert state(project) == ["old"] * 3
    assert path.read_text() == text


@pytest.mark.parametrize("pid", [-1, 0, 2**64, 10**400])
def test_impossible_process_numbers(project: Path, pid: int) -> None:
    lock(project, json.dumps({"pid": pid, "host": socket.gethostname()}))
    apply(project, CHANGES, allow_dirty=True)
    assert state(project) == ["new"] * 3


def test_runs_at_the_same_time(project: Path) -> None:
    """Of many processes that apply the same changes at once, over a stale lock, exactly one succeeds."""
    lock(project, json.dumps({"pid": dead_pid(), "host": socket.gethostname()}))
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            try:
                apply(project, CHANGES, allow_dirty=True)
            except UsageError:
                os._exit(7)
            os._exit(0)
        children.append(child)
    codes = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert codes == [0] + [7] * 7
    assert state(project) == ["new"] * 3
    assert leftovers(project) == []
    assert undo(project) == PATHS


# --- git --------------------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_CONFIG_GLOBAL": os.devnull}
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *arguments], cwd=folder, env=environment, capture_output=True, check=True)


def commit(folder: Path) -> Path:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return folder


def test_a_clean_tree_is_written(project: Path) -> None:
    commit(project)
    assert dirty_files(project, PATHS) == set()
    apply(project, CHANGES, allow_dirty=False)
    status = subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, check=True).stdout
    assert status == b" M a.py\n M sub/b.yaml\n M sub/deep/c.sh\n", "our own folder does not show"


def test_uncommitted_changes_stop_everything(project: Path) -> None:
    for change in CHANGES:
        (project / change.path).write_bytes(b"committed")
    commit(project)
    make(project)
    git(project, "add", "sub/b.yaml")
    refused(project, CHANGES, r"uncommitted changes in 'a\.py', 'sub/b\.yaml', 'sub/deep/c\.sh'")
    apply(project, CHANGES, allow_dirty=True)
    assert state(project) == ["new"] * 3


def test_staged_and_then_taken_back_counts_as_dirty(project: Path) -> None:
    commit(project)
    (project / "a.py").write_bytes(b"staged")
    git(project, "add", "a.py")
    (project / "a.py").write_bytes(CHANGES[0].before)
    assert dirty_files(project, PATHS) == {"a.py"}


def test_untracked_and_ignored_files_are_not_dirty_but_new_ones_are(project: Path) -> None:
    git(project, "init", "-q")
    assert dirty_files(project, PATHS) == set()
    git(project, "add", "a.py")
    assert dirty_files(project, PATHS) == {"a.py"}
    (project / ".gitignore").write_text("sub\n")
    git(project, "commit", "-q", "-m", "one")
    assert dirty_files(project, PATHS) == set()
    git(project, "rm", "-q", "--cached", "a.py")
    assert dirty_files(project, PATHS) == {"a.py"}


def test_a_project_inside_a_repository_and_one_inside_the_project(project: Path) -> None:
    commit(project / "sub/deep")
    commit(project.parent)
    assert dirty_files(project, PATHS) == set()
    (project / "sub/deep/c.sh").write_bytes(b"x")
    (project / "a.py").write_bytes(b"x")
    assert dirty_files(project, PATHS) == {"a.py", "sub/deep/c.sh"}


@pytest.mark.parametrize("setting", ["core.autocrlf=true", "core.eol=crlf"])
def test_line_endings_do_not_count(project: Path, setting: str) -> None:
    name, _, value = setting.partition("=")
    git(project, "init", "-q")
    git(project, "config", name, value)
    (project / ".gitattributes").write_text("*.py text\n")
    commit(project)
    assert (project / "a.py").read_bytes() == b"a = 1\r\n"
    assert dirty_files(project, PATHS) == set()


def test_strange_names_and_many_files(project: Path) -> None:
    names = [os.fsdecode(b'\xff*[a]\n\t".py'), ":(glob)x.py", "-x.py", *(f"many/{n}.py" for n in range(450))]
    (project / "many").mkdir()
    for name in names:
        (project / name).write_bytes(b"1")
    commit(project)
    assert dirty_files(project, names) == set()
    for name in names[:3]:
        (project / name).write_bytes(b"2")
    (project / names[-1]).write_bytes(b"2")
    assert dirty_files(project, names) == {*names[:3], names[-1]}


def test_a_sha256_repository(project: Path) -> None:
    git(project, "init", "-q", "--object-format=sha256")
    commit(project)
    assert dirty_files(project, PATHS) == set()
    (project / "a.py").write_bytes(b"2")
    assert dirty_files(project, PATHS) == {"a.py"}


def test_a_merge_conflict_is_dirty(project: Path) -> None:
    commit(project)
    git(project, "checkout", "-q", "-b", "other")
    (project / "a.py").write_bytes(b"other\n")
    git(project, "commit", "-aqm", "other")
    git(project, "checkout", "-q", "-")
    (project / "a.py").write_bytes(b"mine\n")
    git(project, "commit", "-aqm", "mine")
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "merge", "-q", "other")
    assert dirty_files(project, PATHS) == {"a.py"}


def test_a_hostile_repository_executes_nothing(project: Path) -> None:
    mark = project.parent / "executed"
    evil = project.parent / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    commit(project)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (project / ".git/hooks" / hook).write_text(evil.read_text())
        (project / ".git/hooks" / hook).chmod(0o755)
    for name in (
        *("core.fsmonitor", "filter.x.clean", "filter.x.process", "core.pager", "pager.ls-files", "core.editor"),
        *("diff.external", "diff.x.textconv", "core.sshCommand", "credential.helper", "core.askPass", "alias.ls-files"),
    ):
        git(project, "config", name, str(evil))
    (project / ".gitattributes").write_text("* filter=x diff=x\n")
    (project / "a.py").touch()
    assert dirty_files(project, PATHS) == set()
    (project / "a.py").write_bytes(b"edited")
    assert dirty_files(project, PATHS) == {"a.py"}
    assert not mark.exists()


def test_a_partial_clone_does_not_call_its_remote(project: Path) -> None:
    mark = project.parent / "executed"
    commit(project)
    for packed in (project / ".git/objects").glob("??/*"):
        kind = subprocess.run(
            ["git", "cat-file", "-t", packed.parent.name + packed.name], cwd=project, capture_output=True, check=True
        ).stdout
        if kind == b"tree\n":
            packed.unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::sh -c touch%20{mark}",
        "remote.origin.uploadpack": f"touch {mark};",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
    }.items():
        git(project, "config", name, value)
    for url in (f"ext::sh -c 'touch% {mark}'", str(project), "ssh://x/y"):
        git(project, "config", "remote.origin.url", url)
        git(project, "config", "core.sshCommand", f"touch {mark};")
        with pytest.raises(UsageError, match="git cannot tell"):
            dirty_files(project, PATHS)
        assert not mark.exists()


def test_no_git_and_a_git_that_belongs_to_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = project.parent / "executed"
    commit(project)
    (project / "a.py").write_bytes(b"edited")
    (project / "git").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (project / "git").chmod(0o755)
    for path in (str(project), "", ".", "/nonexistent"):
        monkeypatch.setenv("PATH", path)
        monkeypatch.chdir(project)
        assert dirty_files(project, PATHS) == set()
    assert not mark.exists()


def test_a_folder_that_only_looks_like_a_repository(project: Path) -> None:
    (project / ".git").mkdir()
    with pytest.raises(UsageError, match="git cannot tell"):
        dirty_files(project, PATHS)


def test_gits_own_variables_do_not_mislead(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(project)
    other = make(project.parent / "other")
    commit(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent")
    (project / "a.py").write_bytes(b"edited")
    assert dirty_files(project, PATHS) == {"a.py"}
