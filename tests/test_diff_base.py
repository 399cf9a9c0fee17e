"""``--diff-base``: what a pull request has to do with, in real repositories, and in repositories that mean harm."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.model import Applicability, Edit, Finding, Fix, Place, ReplaceText, Rule, Span
from precfix.codemod.outcome import Screened, Target
from precfix.codemod.screening.changed_lines import changed_since
from precfix.codemod.source.project import Project

from .cli_runs import AFTER, LOOP, Runner, commit, git, repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
OLD = LOOP.lstrip("\n")
AGAIN = OLD.replace("import torch\n", "").replace("def train", "def again")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """One commit on ``main`` with an old finding; ``topic`` is checked out."""
    root = repository(tmp_path / "repo", {"a.py": OLD, "b.py": "print(1)\n"})
    git(root, "checkout", "-q", "-b", "topic")
    return root


def changed(root: Path, path: str, base: str = "main") -> list[int] | None:
    """The changed rows of a file; None for all."""
    rows = changed_since(root, base).rows(Project.open([root]), path)
    return None if rows is None else sorted(rows)


# --- which rows -------------------------------------------------------------------------------------------------------


def test_old_findings_do_not_count_and_new_ones_do(run: Runner, repo: Path) -> None:
    assert run.found(repo, "--diff-base", "main") == []
    (repo / "b.py").write_text(OLD)
    assert run.found(repo, "--diff-base", "main") == ["b.py:4 PF101"]
    commit(repo)
    assert run.found(repo, "--diff-base", "main") == ["b.py:4 PF101"]
    assert run.found(repo, "--diff-base", "HEAD") == []
    done = run("check", repo, "--diff-base", "HEAD")
    assert (done.code, done.err) == (0, "")
    assert len(run.found(repo)) == 2


def test_untracked_staged_and_committed_files_count_alike(run: Runner, repo: Path) -> None:
    for state in ("untracked", "staged", "committed"):
        (repo / "n.py").write_text(OLD)
        if state != "untracked":
            git(repo, "add", "n.py")
        if state == "committed":
            git(repo, "commit", "-q", "-m", "n")
        assert run.found(repo, "--diff-base", "main") == ["n.py:4 PF101"], state


def test_what_the_other_branch_did_does_not_count(run: Runner, repo: Path) -> None:
    git(repo, "checkout", "-q", "main")
    (repo / "a.py").write_text("print(2)\n")
    commit(repo)
    git(repo, "checkout", "-q", "topic")
    assert run.found(repo, "--diff-base", "main") == []
    git(repo, "merge", "-q", "-s", "ours", "-m", "merge", "main")
    assert run.found(repo, "--diff-base", "main") == ["a.py:4 PF101"], "main is the merge base now, and has no such row"


def test_rows_that_moved_are_not_changed(run: Runner, repo: Path) -> None:
    (repo / "a.py").write_text("# one\n# two\n\n" + OLD)
    assert changed(repo, "a.py") == [1, 2, 3]
    assert run.found(repo, "--diff-base", "main") == []


def test_rows_beside_a_deletion_are_changed(repo: Path) -> None:
    (repo / "a.py").write_text(OLD.replace('        with torch.autocast("cuda", dtype=torch.bfloat16):\n', ""))
    assert changed(repo, "a.py") == [5, 6]
    (repo / "a.py").write_text("")
    assert changed(repo, "a.py") in ([0, 1], [1])


def test_a_new_finding_on_an_old_row_counts_by_its_evidence(run: Runner, tmp_path: Path) -> None:
    """The scaler is old; the bfloat16 that makes it wrong is new."""
    root = repository(tmp_path, {"a.py": OLD.replace("bfloat16", "float16")})
    assert run.found(root) == []
    (root / "a.py").write_text(OLD)
    assert changed(root, "a.py", "HEAD") == [6]
    assert run.found(root, "--diff-base", "HEAD") == ["a.py:4 PF101"]


def test_a_renamed_file_keeps_its_history(run: Runner, repo: Path) -> None:
    git(repo, "mv", "a.py", "moved.py")
    assert changed(repo, "moved.py") == []
    (repo / "moved.py").write_text(OLD + "# more\n")
    assert changed(repo, "moved.py") == [11]
    commit(repo)
    assert changed(repo, "moved.py") == [11]
    assert run.found(repo, "--diff-base", "main") == []
    os.replace(repo / "moved.py", repo / "again.py")
    assert changed(repo, "again.py") is None, "git does not know of this one"
    assert run.found(repo, "--diff-base", "main") == ["again.py:4 PF101"]


def test_a_deleted_file_is_nothing(run: Runner, repo: Path) -> None:
    (repo / "a.py").unlink()
    assert run.found(repo, "--diff-base", "main") == []


def test_a_file_that_replaced_a_link_or_folder_is_new(run: Runner, repo: Path) -> None:
    (repo / "d").mkdir()
    (repo / "d/x.py").write_text(OLD)
    (repo / "l.py").symlink_to("a.py")
    commit(repo)
    (repo / "l.py").unlink()
    (repo / "l.py").write_text(OLD)
    shutil.rmtree(repo / "d")
    assert changed(repo, "l.py", "HEAD") is None


def test_line_endings_of_the_working_tree_do_not_count(run: Runner, repo: Path) -> None:
    git(repo, "config", "core.autocrlf", "true")
    (repo / "a.py").write_bytes(OLD.replace("\n", "\r\n").encode())
    assert changed(repo, "a.py") == []
    assert run.found(repo, "--diff-base", "main") == []


def test_config_files_and_notebooks(run: Runner, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": OLD}]
    book: dict[str, object] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    root = repository(tmp_path, {"n.ipynb": json.dumps(book, indent=1) + "\n", "c.yaml": "bf16: true\nlr: 1\n"})
    assert run.found(root, "--diff-base", "HEAD") == []
    cells[0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "ran\n"}]
    (root / "n.ipynb").write_text(json.dumps(book, indent=2) + "\n")
    assert run.found(root, "--diff-base", "HEAD") == [], "outputs and indentation are no code"
    cells[0]["source"] = OLD.replace('GradScaler("cuda")', 'GradScaler("cuda", growth_interval=9)')
    (root / "n.ipynb").write_text(json.dumps(book, indent=1) + "\n")
    assert [each.split()[1] for each in run.found(root, "--diff-base", "HEAD")] == ["PF101"]
    (root / "c.yaml").write_text("bf16: true\nlr: 2\n")
    assert changed(root, "c.yaml", "HEAD") == [2]


def test_a_folder_of_the_repository_is_the_project(run: Runner, tmp_path: Path) -> None:
    root = repository(tmp_path, {"in/deep/a.py": OLD, "a.py": "print(1)\n"})
    (root / "in/deep/b.py").write_text(OLD)
    assert run.found(root / "in", "--diff-base", "HEAD") == ["deep/b.py:4 PF101"]
    assert run.found(root / "in/deep/a.py", "--diff-base", "HEAD") == []


def test_names_with_blanks_and_stars_are_meant_literally(run: Runner, tmp_path: Path) -> None:
    names = ["my ü file.py", "[ab].py", "*.py", ":(top)x.py", "-n.py"]
    root = repository(tmp_path, dict.fromkeys(names, OLD))
    assert run.found(root, "--diff-base", "HEAD") == []
    (root / "a.py").write_text(OLD)
    assert run.found(root, "--diff-base", "HEAD") == ["a.py:4 PF101"], "[ab].py and *.py are other files"


def test_a_worktree_and_a_submodule(run: Runner, repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    (tmp_path / "tree/b.py").write_text(OLD)
    assert run.found(tmp_path / "tree", "--diff-base", "main") == ["b.py:4 PF101"]
    outer = repository(tmp_path / "outer", {"x.py": "print(1)\n"})
    git(outer, "submodule", "--quiet", "add", str(repo), "sub")
    commit(outer)
    assert run.found(outer, "--diff-base", "HEAD") == []
    (outer / "sub/b.py").write_text(OLD)
    assert run.found(outer, "--diff-base", "HEAD") == ["sub/b.py:4 PF101"]
    assert len(run.found(outer, "--diff-base", "HEAD~1")) == 2, "the submodule itself is new since then"


# --- migrate ----------------------------------------------------------------------------------------------------------


def test_migrate_repairs_only_what_is_new(run: Runner, repo: Path) -> None:
    (repo / "b.py").write_text(OLD)
    (repo / "a.py").write_text(OLD + "\n" + AGAIN)
    done = run("migrate", repo, "--diff-base", "main", "--allow-dirty")
    assert done.code == 0
    assert (repo / "b.py").read_text() == AFTER
    assert (repo / "a.py").read_text().startswith(OLD), "the old function stays as it is"
    assert (repo / "a.py").read_text().count("GradScaler") == 1


def test_what_a_fix_changes_does_not_become_new(tmp_path: Path) -> None:
    """The fix of row 2 takes it away; then its neighbors stand beside a deletion, which would bring them in."""
    root = repository(tmp_path, {"a.txt": "bad one\ngood\nbad three\nend\n"})
    (root / "a.txt").write_text("bad one\nbad two\nbad three\nend\n")

    def check(project: Project) -> list[Finding]:
        document = project.document("a.txt")
        assert document is not None
        found = []
        for row in range(1, document.rows + 1):
            if document.line(row).startswith("bad"):
                start = document.offset(row, 1)
                gone = Edit("a.txt", ReplaceText(start, start + len(document.line(row)) + 1, ""))
                fix = Fix("go", "go", Applicability.SAFE, (gone,))
                found.append(Finding("PF101", "a", document.line(row), "a.txt", Span(row, 1, row, 4), fixes=(fix,)))
        return found

    lines = changed_since(root, "HEAD")

    def screen(project: Project, found: tuple[Finding, ...]) -> Screened:
        return Screened(tuple(each for each in found if lines.touches(project, each)))

    rule = Rule("PF101", "a", "Title.", check)
    project = Project.open([root])
    report = engine.migrate(project, [rule], Target("fp32", "test"), engine.Options(screen=screen))
    assert [change.after for change in report.changes] == [b"bad one\nbad three\nend\n"]


def test_a_finding_of_a_later_round_counts_where_the_row_was_changed(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a.txt": "x\ny\nz\n"})
    (root / "a.txt").write_text("x\nnew\nz\n")
    lines = changed_since(root, "HEAD")
    project = Project.open([root])
    assert lines.rows(project, "a.txt") == {2}
    assert lines.rows(project.with_texts({"a.txt": "w\nx\nnewer\nnewest\nz\n"}), "a.txt") == {3, 4}
    assert lines.rows(project.with_texts({"a.txt": "x\nz\n"}), "a.txt") == frozenset()
    assert lines.rows(project.with_texts({"a.txt": "other\nnew\nz\n"}), "a.txt") == {2}


def test_evidence_elsewhere_counts(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a.txt": "x\ny\n", "b.txt": "x\ny\n"})
    (root / "b.txt").write_text("x\nz\n")
    lines, project = changed_since(root, "HEAD"), Project.open([root])
    here = Span(1, 1, 1, 2)
    for path, row, touched in [("b.txt", 2, True), ("b.txt", 1, False), ("a.txt", 2, False), ("gone.txt", 1, False)]:
        finding = Finding("PF101", "a", "m", "a.txt", here, (Place(path, Span(row, 1, row, 2), "because"),))
        assert lines.touches(project, finding) is touched, (path, row)


# --- what can be wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "revision",
    [
        *("", "gone", "main..topic", "--upload-pack=touch pwned", "-x", "a\0b", "x" * 300, ":a.py", "main:a.py"),
        *("$(touch pwned)", "@{-1}@{-1}", "HEAD^99", "HEAD~100000", "{", "\\", "*", "; touch pwned", "\n", "^main"),
        *("0" * 40, "deadbeef", "refs/heads/", "main^{tree}"),
    ],
)
def test_a_revision_that_is_none_is_one_line(run: Runner, repo: Path, revision: str) -> None:
    done = run("check", repo, f"--diff-base={revision}")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("precfix: --diff-base")
    assert "--allow-dirty" not in done.err
    assert not (repo / "pwned").exists()
    assert not Path("pwned").exists()


@pytest.mark.parametrize("revision", ["main", "HEAD", "HEAD~0", "@", "refs/heads/main", "main@{0}", "v1"])
def test_every_name_of_a_commit_is_understood(run: Runner, repo: Path, revision: str) -> None:
    git(repo, "tag", "-a", "v1", "-m", "tag")
    assert run.found(repo, "--diff-base", revision) == []


def test_without_repository_or_git(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text(OLD)
    done = run("check", tmp_path, "--diff-base", "main")
    assert (done.code, done.out) == (2, "")
    assert "in no git repository" in done.err
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("check", tmp_path, "--diff-base", "main")
    assert (done.code, done.out) == (2, "")
    assert "needs git" in done.err
    assert run.found(tmp_path) == ["a.py:4 PF101"]


def test_an_empty_or_broken_repository(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(OLD)
    git(tmp_path, "init", "-q")
    done = run("check", tmp_path, "--diff-base", "main")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--diff-base" in done.err
    commit(tmp_path)
    git(tmp_path, "checkout", "-q", "--orphan", "empty")
    done = run("check", tmp_path, "--diff-base", "main")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "no common commit" in done.err
    (tmp_path / ".git/HEAD").write_text("nonsense\n")
    done = run("check", tmp_path, "--diff-base", "main")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--diff-base" in done.err


def test_a_shallow_clone_is_told_to_fetch(run: Runner, repo: Path, tmp_path: Path) -> None:
    base = git(repo, "rev-parse", "main")
    (repo / "b.py").write_text("print(2)\n")
    commit(repo)
    git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), "shallow")
    done = run("check", tmp_path / "shallow", "--diff-base", base)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "shallow clone" in done.err
    git(tmp_path / "shallow", "fetch", "-q", "--depth", "1", "origin", "main")
    done = run("check", tmp_path / "shallow", "--diff-base", "FETCH_HEAD")
    assert (done.code, done.out) == (2, "")
    assert "fetch-depth: 0" in done.err
    git(tmp_path / "shallow", "fetch", "-q", "--unshallow", "origin", "main", "topic")
    assert run.found(tmp_path / "shallow", "--diff-base", base) == []


def test_a_clone_without_blobs_is_told_and_nothing_is_fetched(run: Runner, repo: Path, tmp_path: Path) -> None:
    (repo / "a.py").write_text(OLD + "# more\n")
    commit(repo)
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "-b", "topic", repo.as_uri(), "partial")
    done = run("check", tmp_path / "partial", "--diff-base", "origin/main")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "fetch it again, without --filter" in done.err


def test_a_hostile_repository_runs_nothing(run: Runner, repo: Path, tmp_path: Path) -> None:
    touch = tmp_path / "touch.sh"
    touch.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\ncat\n")
    touch.chmod(0o755)
    (repo / ".gitattributes").write_text("* diff=evil filter=evil merge=evil\n")
    commit(repo)
    git(repo, "mv", "a.py", "c.py")
    with (repo / ".git/config").open("a") as config:
        config.write(
            f"""
[core]
\tfsmonitor = {touch}
\tpager = {touch}
\teditor = {touch}
\tsshCommand = {touch}
\thooksPath = {tmp_path}
\talternateRefsCommand = {touch}
\tgitProxy = {touch}
\taskPass = {touch}
[diff "evil"]
\ttextconv = {touch}
\tcommand = {touch}
[diff]
\texternal = {touch}
\torderFile = {tmp_path}/fifo
[filter "evil"]
\tclean = {touch}
\tsmudge = {touch}
\tprocess = {touch}
\trequired = true
[alias]
\trev-parse = !{touch}
\tls-tree = !{touch}
\tcat-file = !{touch}
\tmerge-base = !{touch}
\tdiff-index = !{touch}
[gpg]
\tprogram = {touch}
[credential]
\thelper = !{touch}
[pager]
\tls-tree = {touch}
\tdiff-index = {touch}
"""
        )
    for hook in ("post-index-change", "reference-transaction", "pre-commit"):
        shutil.copy(touch, repo / ".git/hooks" / hook)
    os.mkfifo(tmp_path / "fifo")
    (repo / "b.py").write_text(OLD)
    assert run.found(repo, "--diff-base", "main") == ["b.py:4 PF101"]
    assert not (tmp_path / "pwned").exists()


def test_the_variables_of_a_hook_lead_nowhere_else(
    run: Runner, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "elsewhere", {"b.py": OLD})
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_INDEX_FILE": other / ".git/index",
        "GIT_WORK_TREE": other,
    }.items():
        monkeypatch.setenv(name, str(value))
    (repo / "b.py").write_text(OLD)
    assert run.found(repo, "--diff-base", "main") == ["b.py:4 PF101"]


@pytest.mark.skipif(sys.platform == "win32", reason="no scripts without suffix")
def test_git_of_the_project_itself_is_not_run(run: Runner, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "git").write_text(f"#!/bin/sh\ntouch {repo}/pwned\n")
    (repo / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(repo), prepend=os.pathsep)
    done = run("check", repo, "--diff-base", "main")
    assert done.code == 2
    assert not (repo / "pwned").exists()


def test_a_large_old_file_is_not_loaded(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path, {"a.py": OLD + "#" * 2000})
    (root / "a.py").write_text(OLD)
    assert changed(root, "a.py", "HEAD") == [11]
    monkeypatch.setattr("precfix.codemod.screening.changed_lines.MAX_BYTES", 1000)
    assert changed(root, "a.py", "HEAD") is None
