"""One file from standard input: the result is its bytes, messages go elsewhere, and bad input is one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from precfix.codemod.source.project import Limits

from .cli_runs import AFTER, LOOP, Runner, git, repository
from .project_tree import write_tree

OLD = LOOP.lstrip("\n").encode()
NEW = AFTER.encode()


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without settings; a file of the same name in it must not be read."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "stdin.py").write_text("broken(\n")
    monkeypatch.chdir(tmp_path)


def migrated(run: Runner, tmp_path: Path, data: bytes, *arguments: object) -> tuple[int, bytes, str]:
    """Exit code, the bytes that ``migrate -`` gives, and what it says."""
    done = run("migrate", "-", "-o", tmp_path / "out", *arguments, stdin=data)
    assert done.out == ""
    return done.code, (tmp_path / "out").read_bytes(), done.err


def test_check_reads_one_file(run: Runner) -> None:
    done = run("check", "-", stdin=OLD)
    assert done.code == 1
    assert done.out.startswith("stdin.py:4:14 PF101")
    assert done.err == ""
    assert run("check", "-", stdin=b"print(1)\n").code == 0


def test_migrate_gives_the_file_and_tells_elsewhere(run: Runner) -> None:
    done = run("migrate", "-", stdin=OLD)
    assert (done.code, done.out) == (0, AFTER)
    assert done.err == "stdin.py:4:14 PF101 drop [safe]\nApplied 1 fix in 1 file; 0 findings left.\n"
    done = run("migrate", "-", "-q", stdin=OLD)
    assert (done.code, done.out, done.err) == (0, AFTER, "")
    done = run("migrate", "-", stdin=b"print(1)\n")
    assert (done.code, done.out) == (0, "print(1)\n")


def test_what_is_left_is_told(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "precfix.toml").write_text("unfixable = ['PF101']\n")
    done = run("migrate", "-", stdin=OLD)
    assert (done.code, done.out) == (1, OLD.decode())
    assert "stdin.py:4:14 PF101 grad-scaler-under-bf16" in done.err
    assert "1 finding left" in done.err
    done = run("migrate", "-", "--statistics", stdin=OLD)
    assert "PF101  grad-scaler-under-bf16" in done.err


def test_a_dry_run_and_formats_report_instead(run: Runner) -> None:
    done = run("migrate", "-", "--dry-run", stdin=OLD)
    assert done.code == 1
    assert done.out.startswith("diff --git a/stdin.py b/stdin.py\n")
    done = run("migrate", "-", "--output-format", "json", stdin=OLD)
    assert done.code == 1
    assert [each["code"] for each in json.loads(done.out)["diagnostics"]] == ["PF101"]
    done = run("migrate", "-", "--output-format", "text", stdin=OLD)
    assert done.code == 1
    assert "Would apply 1 fix" in done.out
    assert "undo" not in done.out


def test_the_name_says_the_kind_and_the_settings(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"in/precfix.toml": "ignore = ['PF101']\n", "in/x.py": "print(1)\n", "b/x.py": "print(1)\n"})
    assert run.found("-", "--stdin-filename", "in/x.py", stdin=OLD) == []
    assert run.found("-", "--stdin-filename", "in/gone/deep/y.py", stdin=OLD) == []
    assert run.found("-", "--stdin-filename", tmp_path / "b/x.py", stdin=OLD) == ["x.py:4 PF101"]
    assert run.found("-", "--stdin-filename", "in/x.py", "--isolated", stdin=OLD) == ["x.py:4 PF101"]
    write_tree(tmp_path, {"precfix.toml": "exclude = ['b']\nper-file-ignores = {'b/y.py' = ['PF1']}\n"})
    assert run.found("-", "--stdin-filename", "b/x.py", stdin=OLD) == ["x.py:4 PF101"], "it is named"
    assert run.found("-", "--stdin-filename", "b/y.py", stdin=OLD) == []


def test_services_are_told_the_place_in_the_repository(run: Runner, tmp_path: Path) -> None:
    done = run("check", "-", "--stdin-filename", "src/x.py", "--output-format", "github", stdin=OLD)
    assert "file=src/x.py" in done.out


def test_other_files_are_not_read(run: Runner, tmp_path: Path) -> None:
    """The dtype of the project stands in another file: what needs it stays silent."""
    write_tree(tmp_path, {"other.py": LOOP})
    assert run.found("-", "--stdin-filename", "other2.py", stdin=b"import other\n") == []
    assert (tmp_path / "other.py").read_text() == LOOP.lstrip("\n")


def test_a_comment_that_other_files_make_needed_stays(run: Runner, tmp_path: Path) -> None:
    """A part of a project cannot tell which comments have a use there."""
    text = (
        "import torch\n\n\ndef penalty(model, x):\n"
        '    with torch.autocast("cuda"):  # precfix: ignore[PF302] meant\n'
        "        return model(x).square().mean()\n"
    )
    train = (
        "import torch\nfrom engine import penalty\n\n\ndef main(model, loader, optimizer):\n    for x in loader:\n"
        '        with torch.autocast("cuda", dtype=torch.bfloat16):\n            loss = model(x).mean()\n'
        "        (loss + penalty(model, x)).backward()\n        optimizer.step()\n\n\n"
        "model = torch.nn.Linear(4, 4)\n"
        "main(model, [torch.rand(2, 4)], torch.optim.SGD(model.parameters(), lr=0.1))\n"
    )
    write_tree(tmp_path / "lib", {"engine.py": text, "train.py": train, "part/engine.py": text})
    silenced = json.loads(run("check", tmp_path / "lib", "--select", "PF302", "--output-format", "json").out)[
        "silenced"
    ]
    assert "PF302" in json.dumps(silenced), "it has a use"
    assert run.found("-", "--stdin-filename", tmp_path / "lib/engine.py", stdin=text.encode()) == []
    assert migrated(run, tmp_path, text.encode(), "--stdin-filename", "lib/engine.py")[:2] == (0, text.encode())
    assert run.found(tmp_path / "lib/engine.py") == []
    (tmp_path / ".git").mkdir(exist_ok=True)
    assert run.found(tmp_path / "lib/part") == [], "a folder of a repository"
    assert run.found(tmp_path / "lib/part", tmp_path / "lib/engine.py") == []
    (tmp_path / "lib/part/precfix.toml").write_text("")
    assert run.found(tmp_path / "lib/part") == ["engine.py:5 PF002"], "with settings it is a project of its own"
    (tmp_path / "lib/part/precfix.toml").unlink()
    (tmp_path / "lib/precfix.toml").write_text("")
    assert run.found(tmp_path / "lib/part") == [], "the project begins above"
    wrong = text.replace("PF302", "PF999").encode()
    assert run.found("-", "--stdin-filename", "lib/engine.py", stdin=wrong) == ["engine.py:5 PF002"]


def test_nothing_is_written_to_the_disk(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": LOOP})
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run("migrate", "-", "--stdin-filename", "train.py", stdin=OLD)
    assert done.out == AFTER
    assert (tmp_path / "train.py").read_text() == LOOP.lstrip("\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", [b"\r\n", b"\r"])
def test_line_endings_are_kept(run: Runner, tmp_path: Path, newline: bytes) -> None:
    code, out, _ = migrated(run, tmp_path, OLD.replace(b"\n", newline))
    assert (code, out) == (0, NEW.replace(b"\n", newline))


def test_encodings_are_kept(run: Runner, tmp_path: Path) -> None:
    head = "# -*- coding: latin-1 -*-\n# ä\n".encode("latin-1")
    assert migrated(run, tmp_path, head + OLD)[:2] == (0, head + NEW)
    assert migrated(run, tmp_path, b"\xef\xbb\xbf" + OLD)[:2] == (0, b"\xef\xbb\xbf" + NEW)
    assert migrated(run, tmp_path, OLD.rstrip(b"\n"))[:2] == (0, NEW.rstrip(b"\n"))


def test_a_real_pipe_is_binary(tmp_path: Path) -> None:
    head = "# -*- coding: latin-1 -*-\r\n# ä\r\n".encode("latin-1")
    done = subprocess.run(
        [sys.executable, "-m", "precfix.codemod", "migrate", "-", "-q"],
        input=head + OLD.replace(b"\n", b"\r\n"),
        capture_output=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == head + NEW.replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("c.yaml", "compute_environment: LOCAL_MACHINE\nmixed_precision: bf61\n", 1),
        ("c.json", '{"a": 1}\n', 0),
        ("c.toml", "a = 1\n", 0),
        ("run.sh", "accelerate launch --mixed_precision bf61 train.py\n", 1),
        (".env", "ACCELERATE_MIXED_PRECISION=bf61\n", 1),
        ("requirements.txt", "torch==2.1\n", 0),
        ("Dockerfile", "FROM x\n", 0),
    ],
)
def test_every_kind_of_file_is_read(run: Runner, tmp_path: Path, name: str, text: str, code: int) -> None:
    done = run("check", "-", "--stdin-filename", name, stdin=text.encode())
    assert done.err == ""
    assert done.code == code, done.out
    assert migrated(run, tmp_path, text.encode(), "--stdin-filename", name)[0] in (0, 1)
    if code == 0:
        assert (tmp_path / "out").read_text() == text


def test_a_notebook(run: Runner, tmp_path: Path) -> None:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": OLD.decode()}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    data = json.dumps(book, indent=1).encode()
    done = run("check", "-", "--stdin-filename", "n.ipynb", stdin=data)
    assert done.code == 1
    assert "n.ipynb:cell 1:4:14 PF101" in done.out
    code, out, said = migrated(run, tmp_path, data, "--stdin-filename", "n.ipynb")
    assert code == 0
    assert "n.ipynb:cell 1:4:14 PF101" in said
    assert json.loads(out)["cells"][0]["source"] == AFTER
    done = run("check", "-", "--stdin-filename", "n.ipynb", stdin=b'{"torch')
    assert done.code == 2
    assert "n.ipynb" in done.out


# --- what can be wrong ------------------------------------------------------------------------------------------------


def test_broken_syntax_comes_back_as_it_came(run: Runner, tmp_path: Path) -> None:
    """Whoever writes the output over the file (an editor) loses nothing; exit code 2 and stderr say why."""
    broken = OLD + b"def broken(:\n"
    for more in ([], ["-q"]):
        done = run("check", "-", *more, stdin=broken)
        assert done.code == 2
        assert "not parsed" in done.out + done.err, more
        code, out, said = migrated(run, tmp_path, broken, *more)
        assert (code, out) == (2, broken)
        assert "not parsed" in said


@pytest.mark.parametrize("data", [b"\x00\x01\xff\xfe binary", b"\xff\xff torch", b"# coding: nonsense\nimport torch\n"])
def test_what_is_no_text_is_one_line(run: Runner, tmp_path: Path, data: bytes) -> None:
    done = run("migrate", "-", stdin=data)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "standard input cannot be read as 'stdin.py'" in done.err


def test_nothing_gives_nothing(run: Runner) -> None:
    assert run("check", "-", stdin=b"").code == 0
    done = run("migrate", "-", stdin=b"")
    assert (done.code, done.out) == (0, "")


def test_too_much_is_refused(run: Runner) -> None:
    limits = Limits()
    done = run("check", "-", stdin=b"#" * (limits.max_file_bytes + 1))
    assert (done.code, done.out) == (2, "")
    assert "standard input is too large: the limit is 5,000,000 bytes" in done.err
    done = run("check", "-", stdin=b"x = 1  # torch\n" * 20_000)
    assert done.code == 0


def test_closed_input_is_told(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    done = run("check", "-")
    assert (done.code, done.out) == (2, "")
    assert "standard input is closed" in done.err


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "in/..", "notes.xyz", "noext", "a\0b.py", "x" * 300 + "/" + "y" * 300 + ".md", "in"]
)
def test_names_that_are_none_are_one_line(run: Runner, tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    done = run("check", "-", f"--stdin-filename={name}", stdin=OLD)
    assert (done.code, done.out) == (2, "")
    assert "internal" not in done.err
    assert "Traceback" not in done.err


def test_combinations_that_make_no_sense(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP})
    for arguments in (
        ["check", "-", "a.py"],
        ["check", "a.py", "--stdin-filename", "b.py"],
        ["check", "-", "--add-ignore"],
        ["migrate", "-", "--patch", "x.patch"],
        ["migrate", "-", "--interactive"],
    ):
        done = run(*arguments, stdin=OLD)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), arguments
    assert not (tmp_path / "x.patch").exists()


def test_changed_lines_of_the_piped_text(run: Runner, tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", {"in/a.py": OLD.decode()})
    name = ["--stdin-filename", root / "in/a.py"]
    assert run.found("-", *name, "--diff-base", "HEAD", stdin=b"# new\n" + OLD) == []
    edited = OLD.replace(b'("cuda")', b'("cuda", init_scale=2.0)', 1)
    assert run.found("-", *name, "--diff-base", "HEAD", stdin=edited) == ["a.py:4 PF101"]
    assert git(root, "status", "--porcelain") == ""
