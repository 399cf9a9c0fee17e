"""Which files are read: ignore rules as git has them, links, devices, limits."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from precfix.codemod.model import UsageError
from precfix.codemod.source import reading
from precfix.codemod.source.discovery import BY_NAME, ENVIRONMENT, EXCLUDED, IGNORED, Limits, discover
from precfix.codemod.source.ignoring import IgnoreRules, compile_patterns
from precfix.codemod.source.project import Project

from .project_tree import write_tree


def tree(root: Path, *files: str, **contents: str) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    return root


def paths(*given: Path, excludes: tuple[str, ...] = ()) -> list[str]:
    return sorted(discover(given, excludes, Limits()).paths)


def git_kept(root: Path) -> list[str]:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
        env=environment,
    )
    return sorted(name for name in os.fsdecode(listing.stdout).split("\0") if name.endswith(".py"))


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

PATTERN_FILES = [
    "dir\n!dir/keep\n",
    "dir/*\n!dir/keep/\n",
    "abc/**/\n",
    "abc/**\n!abc/x\n",
    "**/x\n",
    "a/**/x\n!a/dir/x\n",
    "/a\n",
    "a/\n",
    "*.py\n!*/a.py\n!keep.py\n",
    "*\n!*/\n!*.py\nx.py\n",
    "# comment\n\\#odd.py\n\\!odd.py\n",
    "trailing.py   \nspace\\ .py\nspace\\ \n",
    "[ab].py\n[!x]eep.py\n[[:digit:]].py\n[]-]\n[a-\n[z-a].py\n[\\]a].py\n",
    "a?py\nk??p.py\n",
    "**\n!a\n",
    "a/b/\n/dir/a.py\ndir//a.py\n/\n//\n!\n\n",
    "**a.py\ndir/**eep\n***/x\na/***/x\n",
    "a.py\r\ndir/\r\n",
    "\ufeffa.py\n",
    "dir\\/keep\nfoo\\\n",
    "/*\n!/dir\n/dir/*\n!/dir/keep\n",
    "*a*e*.py\nk*.p*y\n",
    "\\a.py\n\\*.py\n",
    "keep\n!dir/keep\n",
    "a/../b\n./a.py\n",
]


def sample_tree(root: Path) -> None:
    folders = ["", "a/", "a/b/", "a/dir/", "a/dir/x/", "dir/", "dir/keep/", "dir/keep/a/", "abc/", "abc/x/", "abc/d/"]
    files = ["a.py", "keep.py", "x.py", "5.py", "x/in.py", "space .py", "#odd.py", "!odd.py", "].py", "trailing.py"]
    tree(root, *(folder + file for folder in folders for file in files if folder + "x" != "abc/x/x"))


@needs_git
@pytest.mark.parametrize("patterns", PATTERN_FILES)
def test_ignore_rules_are_those_of_git(tmp_path: Path, patterns: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    sample_tree(tmp_path)
    (tmp_path / ".gitignore").write_bytes(patterns.encode())
    assert paths(tmp_path) == git_kept(tmp_path)


@needs_git
def test_random_ignore_files_agree_with_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    sample_tree(tmp_path)
    chance = random.Random(5)
    atoms = [
        "a",
        "b",
        "x",
        "dir",
        "keep",
        "*",
        "**",
        "?",
        "/",
        "/",
        ".py",
        "[a-k]",
        "[!a]",
        "\\",
        "!",
        " ",
        "abc",
        "*p",
    ]
    for _ in range(60):
        for folder in ("", "a", "dir", "dir/keep"):
            lines = ["".join(chance.choices(atoms, k=chance.randint(1, 5))) for _ in range(chance.randint(0, 3))]
            (tmp_path / folder / ".gitignore").write_text("\n".join(lines))
        written = {file: (tmp_path / file / ".gitignore").read_text() for file in ("", "a", "dir", "dir/keep")}
        assert paths(tmp_path) == git_kept(tmp_path), written


@needs_git
def test_rules_from_outside_the_given_directory(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    tree(tmp_path, "sub/a.py", "sub/out.py", "sub/deep/b.py", "sub/deep/mine.py", "ignored/c.py", "ignored/x/d.py")
    (tmp_path / ".gitignore").write_text("out.py\nignored/\n/sub/deep/b.py\n")
    (tmp_path / ".git" / "info" / "exclude").write_text("mine.py\n")
    assert paths(tmp_path / "sub") == ["a.py"]
    assert paths(tmp_path / "ignored") == ["c.py", "x/d.py"]
    assert paths(tmp_path / "ignored" / "x") == ["d.py"]
    assert paths(tmp_path / "sub", tmp_path / "ignored") == ["ignored/c.py", "ignored/x/d.py", "sub/a.py"]


def test_named_files_are_always_read(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "venv/b.py", "ignored.py")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    assert paths(tmp_path) == ["a.py"]
    named = [tmp_path, tmp_path / "ignored.py", tmp_path / "venv" / "b.py"]
    assert paths(*named, excludes=("*.py",)) == ["ignored.py", "venv/b.py"]
    assert paths(tmp_path / "venv") == ["b.py"]
    assert paths(tmp_path / "ignored.py") == ["ignored.py"]


def test_a_linked_work_tree_is_read_without_complaint(tmp_path: Path) -> None:
    """There, and in a submodule, ``.git`` is a file."""
    (tmp_path / ".git").write_text("gitdir: /nowhere/.git/worktrees/x\n")
    (tmp_path / "train.py").write_text("import torch\n")
    found = discover([tmp_path], (), Limits())
    assert (list(found.paths), list(found.skipped)) == (["train.py"], [])


def test_default_and_own_excludes(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "venv/a.py", "node_modules/x/a.py", "p.egg-info/a.py", "x/build/lib/a.py", ".hidden/a.py")
    tree(tmp_path, "third_party/a.py", "tests/a.py", "tests/keep/b.py")
    assert paths(tmp_path, excludes=("third_party/", "/tests/*", "!/tests/keep")) == [
        ".hidden/a.py",
        "a.py",
        "tests/keep/b.py",
    ]


def test_a_folder_of_code_may_be_called_build(tmp_path: Path) -> None:
    tree(tmp_path, "src/build/model.py", "src/build/parts/head.py", "build/lib/a.py", "build/a.py")
    tree(tmp_path, "dist/__init__.py", "dist/share.py")
    assert paths(tmp_path) == ["dist/__init__.py", "dist/share.py", "src/build/model.py", "src/build/parts/head.py"]
    (tmp_path / ".gitignore").write_text("build/\ndist/\n")
    assert paths(tmp_path) == []


def test_of_an_environment_only_what_it_made_is_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "own/pyvenv.cfg", "own/bin/python", "own/lib/python3.12/site-packages/x.py", "own/train.py")
    tree(tmp_path, "own/share/jupyter/kernel.json", "conda/conda-meta/history", "conda/lib/x.py", "conda/y.json")
    tree(tmp_path, "old/bin/activate", "old/lib/python2.7/os.py")
    found = discover([tmp_path], (), Limits())
    assert sorted(found.paths) == ["a.py", "own/train.py"]
    assert {path for path, reason in found.left_out.items() if reason == ENVIRONMENT} == {
        "conda/conda-meta/", "conda/lib/", "old/bin/", "old/lib/", "own/bin/", "own/lib/", "own/share/",
    }  # fmt: skip


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta/pinned"])
def test_the_mark_of_an_environment_alone_hides_nothing(tmp_path: Path, mark: str) -> None:
    tree(tmp_path, f"sub/{mark}", "sub/train.py", "sub/lib/model.py", "sub/bin/run.py", "env/world.py")
    assert {"sub/train.py", "sub/lib/model.py", "sub/bin/run.py", "env/world.py"} <= {*paths(tmp_path)}


def test_a_library_folder_of_the_project_beside_an_environment_is_read(tmp_path: Path) -> None:
    tree(tmp_path, "sub/pyvenv.cfg", "sub/bin/activate", "sub/lib/model.py")
    assert paths(tmp_path) == ["sub/lib/model.py"]


def test_what_is_passed_over_is_told(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "mine.json", "data/x.json", "venv/b.py", "x/__pycache__/c.py", "out/d.py", "notes.docx")
    (tmp_path / ".gitignore").write_text("mine.json\ndata\n*.docx\n")
    assert discover([tmp_path], ("out/",), Limits()).left_out == {
        "data/": IGNORED,
        "mine.json": IGNORED,
        "out/": EXCLUDED,
        "venv/": BY_NAME,
    }


def test_settings_that_git_ignores_are_read_in_a_folder_that_is_named(tmp_path: Path) -> None:
    tree(tmp_path, ".git/HEAD", "config/config.json", "config/mine/config.toml", "config/x.py", "config/inner/y.yaml")
    (tmp_path / ".gitignore").write_text("config/*.json\n*.toml\nconfig/x.py\n")
    (tmp_path / "config" / "inner" / ".gitignore").write_text("*.yaml\n")
    assert paths(tmp_path) == []
    assert paths(tmp_path / "config") == ["config.json", "mine/config.toml"]


def test_manifests_that_git_ignores_are_read_where_they_lie(tmp_path: Path) -> None:
    tree(tmp_path, "requirements.txt", "sub/requirements-dev.txt", "sub/uv.lock", "words.txt", "out/requirements.txt")
    (tmp_path / ".gitignore").write_text("*.txt\n*.lock\nout/\n")
    assert paths(tmp_path) == ["requirements.txt", "sub/requirements-dev.txt", "sub/uv.lock"]
    assert discover([tmp_path], ("/requirements.txt",), Limits()).paths == {"sub/requirements-dev.txt", "sub/uv.lock"}


@pytest.mark.parametrize("ignored", ["config/", "/config/*", "*.json", "config/config.json"])
def test_what_a_trainer_reads_unasked_is_read_though_git_ignores_it(tmp_path: Path, ignored: str) -> None:
    tree(tmp_path, ".git/HEAD", "config/config.json", "config/other.json")
    (tmp_path / ".gitignore").write_text(ignored + "\n")
    found = discover([tmp_path], (), Limits(), unasked=["config/config.json", "config/config.env", "*.sh"])
    assert "config/config.json" in found.paths
    assert ("config/other.json" in found.paths) == (ignored == "config/config.json")
    assert "config/config.json" not in found.left_out
    assert (
        "config/config.json" not in discover([tmp_path], ("config/",), Limits(), unasked=["config/config.json"]).paths
    )


def test_root_of_several_paths(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.py", "b/c/y.py")
    found = discover([tmp_path / "a", tmp_path / "b" / "c" / "y.py"], (), Limits())
    assert found.root == tmp_path.resolve()
    assert sorted(found.paths) == ["a/x.py", "b/c/y.py"]
    assert discover([tmp_path / "a" / "x.py"], (), Limits()).root == (tmp_path / "a").resolve()


@pytest.mark.parametrize("name", ["missing", "a.py/below", "nul\0name", "x" * 5000])
def test_a_path_that_cannot_be_used_is_a_usage_error(tmp_path: Path, name: str) -> None:
    tree(tmp_path, "a.py")
    with pytest.raises(UsageError) as caught:
        Project.open([tmp_path / name])
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError):
        Project.open([])


def test_links(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", "real.py", "node_modules/hidden.py", "sub/a.py")
    tree(tmp_path, "outside/secret.py", "rootless/x.py")
    (root / "alias.py").symlink_to("real.py")
    (root / "inner.py").symlink_to("node_modules/hidden.py")
    (root / "escape.py").symlink_to(tmp_path / "outside" / "secret.py")
    (root / "sibling.py").symlink_to("../rootless/x.py")
    (root / "outdir").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(".")
    (root / "self.py").symlink_to("self.py")
    (root / "dead.py").symlink_to("nowhere.py")
    (root / "dir.py").symlink_to("sub")
    project = Project.open([root])
    assert project.paths == ("inner.py", "real.py", "sub/a.py")
    assert project.document("inner.py") is not None
    assert {skip.path: skip.reason for skip in project.skipped} == {
        "escape.py": "symbolic link out of the project",
        "sibling.py": "symbolic link out of the project",
        "self.py": "symbolic link to a missing file",
        "dead.py": "symbolic link to a missing file",
    }


def test_a_link_out_of_the_given_paths_is_not_followed_though_their_root_holds_it(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/x.py": "", "b.py": "", "other/secret.py": ""})
    (tmp_path / "a" / "link.py").symlink_to("../other/secret.py")
    project = Project.open([tmp_path / "a", tmp_path / "b.py"])
    assert project.paths == ("a/x.py", "b.py")
    assert [skip.path for skip in project.skipped] == ["a/link.py"]


def test_a_link_that_is_led_elsewhere_after_discovery_is_not_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/x.data": "one = 1\n", "b/y.data": "two = 2\n"})
    link = tmp_path / "link.py"
    link.symlink_to("a/x.data")
    project = Project.open([tmp_path])
    link.unlink()
    link.symlink_to("b/y.data")
    assert project.document("link.py") is None


def test_a_link_given_as_path_is_followed(tmp_path: Path) -> None:
    tree(tmp_path, "real/a.py")
    (tmp_path / "link").symlink_to("real")
    project = Project.open([tmp_path / "link"])
    assert project.root == (tmp_path / "real").resolve()
    assert project.paths == ("a.py",)


def test_a_file_that_becomes_a_link_is_not_read(tmp_path: Path) -> None:
    tree(tmp_path, "root/a.py", "root/b.py", "root/node_modules/b.py", "secret.py")
    (tmp_path / "root" / "b.py").unlink()
    (tmp_path / "root" / "b.py").symlink_to("node_modules/b.py")
    project = Project.open([tmp_path / "root"])
    assert project.paths == ("a.py", "b.py")
    for name in ("a.py", "b.py"):
        (tmp_path / "root" / name).unlink()
        (tmp_path / "root" / name).symlink_to("../secret.py")
        assert project.document(name) is None
    assert [skip.reason for skip in project.skipped] == ["is a symbolic link", "symbolic link out of the project"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_special_files_are_never_opened(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "later.py")
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "piped.py").symlink_to("pipe.py")
    (tmp_path / "device.py").symlink_to(os.devnull)
    project = Project.open([tmp_path])
    assert project.paths == ("a.py", "later.py")
    (tmp_path / "later.py").unlink()
    os.mkfifo(tmp_path / "later.py")
    assert project.document("later.py") is None
    assert {skip.path: skip.reason for skip in project.skipped} == {
        ".gitignore": "ignore rules not used: not a regular file",
        "device.py": "symbolic link out of the project",
        "later.py": "not a regular file",
    }
    with pytest.raises(UsageError):
        Project.open([tmp_path / "pipe.py"])


def test_large_files_are_not_read(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "big.py")
    with (tmp_path / "big.py").open("wb") as file:
        file.truncate(100_000_000)
    started = time.process_time()
    project = Project.open([tmp_path])
    assert [document.path for document in project.python_documents()] == ["a.py"]
    assert time.process_time() - started < 2
    (skip,) = project.skipped
    assert skip.path == "big.py"
    assert "too large" in skip.reason


def test_limits_can_be_set(tmp_path: Path) -> None:
    tree(tmp_path, *(f"f{number}.py" for number in range(20)))
    project = Project.open([tmp_path], limits=Limits(max_file_bytes=3, max_files=10))
    assert len(project.paths) <= 11
    assert list(project.python_documents()) == []
    assert any("more than 10 files" in skip.reason for skip in project.skipped)


def test_unreadable_files_and_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a.py", "closed.py", "shut/b.py")
    real_open, real_scandir = os.open, os.scandir

    def refuse_open(path: str, flags: int) -> int:
        if str(path).endswith("closed.py"):
            raise PermissionError(13, "Permission denied", path)
        return real_open(path, flags)

    def refuse_scandir(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return real_scandir(path)

    monkeypatch.setattr(reading.os, "open", refuse_open)
    monkeypatch.setattr(os, "scandir", refuse_scandir)
    project = Project.open([tmp_path])
    assert [document.path for document in project.python_documents()] == ["a.py"]
    assert [(skip.path, skip.reason) for skip in project.skipped] == [
        ("closed.py", "cannot be read: permission denied"),
        ("shut/", "directory cannot be read: permission denied"),
    ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root can read everything")
def test_permissions_for_real(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "closed.py", "shut/b.py")
    (tmp_path / "closed.py").chmod(0)
    (tmp_path / "shut").chmod(0)
    project = Project.open([tmp_path])
    assert [document.path for document in project.python_documents()] == ["a.py"]
    assert [skip.path for skip in project.skipped] == ["closed.py", "shut/"]
    with pytest.raises(UsageError):
        Project.open([tmp_path / "shut"])
    (tmp_path / "shut").chmod(0o700)


def test_vanished_files(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "b.py")
    project = Project.open([tmp_path])
    (tmp_path / "a.py").unlink()
    assert [document.path for document in project.python_documents()] == ["b.py"]
    assert [skip.reason for skip in project.skipped] == ["cannot be read: no such file or directory"]


@pytest.mark.skipif(os.name == "nt", reason="names that Windows does not allow")
def test_odd_names(tmp_path: Path) -> None:
    names = ["with space.py", "ü/é.py", "new\nline.py", "-dash.py", "quote'\".py", "back\\slash.py", "[a].py"]
    tree(tmp_path, *names)
    raw = os.fsencode(tmp_path) + b"/bad\xff.py"
    try:
        with open(raw, "wb") as file:
            file.write(b"x = 1\n")
        names.append("bad\udcff.py")
    except OSError:
        pass  # not every file system takes it
    project = Project.open([tmp_path])
    assert project.paths == tuple(sorted(names))
    assert [document.path for document in project.python_documents()] == sorted(names)


@pytest.mark.parametrize(
    "data",
    [b"\x00\xff\xfe[[[", b"[" * 100_000, b"\\" * 99_999, b"a\n" * 900_000, b"*" * 50_000 + b"b", b"!" * 10_000],
)
def test_broken_ignore_files_do_no_harm(tmp_path: Path, data: bytes) -> None:
    tree(tmp_path, "keep.py")
    (tmp_path / ".gitignore").write_bytes(data)
    started = time.process_time()
    assert paths(tmp_path) == ["keep.py"]
    assert time.process_time() - started < 5


def test_a_huge_ignore_file_is_reported(tmp_path: Path) -> None:
    tree(tmp_path, "keep.py")
    (tmp_path / ".gitignore").write_bytes(b"keep.py\n" * 200_000)
    project = Project.open([tmp_path])
    assert project.paths == ("keep.py",)
    assert re.search("ignore rules not used: too large", project.skipped[0].reason)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*a*a*a*b", "**/a/**/a/**/a/**/a/**/a/**/a/**/b", "*?*?*?*?*?*?*b"])
def test_hostile_patterns_are_matched_in_linear_time(pattern: str) -> None:
    rules = IgnoreRules("", tuple(compile_patterns([pattern], lambda path, reason: None)))
    started = time.process_time()
    assert rules.verdict("/".join("a" * 200) + "/" + "a" * 250, False) is None
    assert time.process_time() - started < 0.5


def test_deep_directories(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 300)
    tree(tmp_path, f"{deep}/a.py")
    assert paths(tmp_path) == [f"{deep}/a.py"]


def test_what_git_tracks_is_read_although_an_ignore_rule_names_it(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {".gitignore": "*.json\nlogs/\n", "zero.json": "{}", "mine.json": "{}"})
    write_tree(root, {"logs/run.yaml": "a: 1", "logs/other.yaml": "a: 1", "train.py": "x = 1"})
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-f", "zero.json", "logs/run.yaml"], check=True)
    assert paths(root) == ["logs/run.yaml", "train.py", "zero.json"]
    assert paths(root / "logs") == ["other.yaml", "run.yaml"]  # asked for by name: ignore rules do not hold
    assert paths(root, excludes=("logs",)) == ["train.py", "zero.json"]
    for version in ("4", "2"):
        subprocess.run([*git, "update-index", "--index-version", version], check=True)
        assert paths(root) == ["logs/run.yaml", "train.py", "zero.json"]
    index = root / ".git" / "index"
    whole = index.read_bytes()
    for cut in (0, 3, 11, 40, len(whole) - 30):
        index.write_bytes(whole[:cut])
        assert {"train.py"} <= set(paths(root)) <= {"train.py", "zero.json", "logs/run.yaml"}


def test_a_link_that_git_tracks_is_not_followed_out_of_the_project(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    root = write_tree(tmp_path / "project", {".gitignore": "*.json\n", "train.py": "x = 1"})
    (root / "link.json").symlink_to(secret)
    subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
    subprocess.run(["git", "-C", str(root), "add", "-f", "link.json"], check=True)
    assert paths(root) == ["train.py"]
