"""Projects written to hang, crash or mislead precfix: it stays within bounds, says what it left out, and goes on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .bounded_runs import bounded, went_well
from .fixture_cases import write_files
from .hostile_files import FILES
from .test_cli import Run, precfix
from .test_peer_faults import AFTER, LOOP

Command = Callable[..., Run]
OUTSIDE = "A=1\nexport ACCELERATE_MIXED_PRECISION=fp16\n"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return lambda *arguments: precfix(capfd, monkeypatch, *arguments)


# --- bombs, depth, length, number -------------------------------------------------------------------------------------

LEFT_OUT = {
    "deep.yaml": "nested deeper",
    "deep_open.yaml": "nested deeper",
    "deep_block.yaml": "nested deeper",
    "dashes.yaml": "nested deeper",
    "questions.yaml": "nested deeper",
    "line.yaml": "too large",
    "quote.yaml": "not YAML",
    "directives.yaml": "not YAML",
    "colons.yaml": "not YAML",
    "deep.json": "nested deeper",
    "deep_open.json": "nested deeper",
    "line.json": "too large",
    "comments.json": "expected",
    "backslashes.json": "expected a JSON value",
    "nul.json": "NUL",
    "deep.toml": "nested deeper",
    "deep_table.toml": "nested deeper",
    "dotted.toml": "too many parts",
    "header.toml": "too many parts",
    "line.toml": "too large",
    "quote.toml": "TOML value",
    "number.toml": "TOML value",
    "substitutions.sh": "never closed",
    "backticks.sh": "never closed",
    "braces.sh": "never closed",
    "quotes.sh": "never closed",
    "parens.py": "nested",
    "sum.py": "nested",
    "attributes.py": "nested",
    "calls.py": "nested",
    "lambdas.py": "nested",
    "elifs.py": "nested",
    "cookie.py": "encoding",
    "nul.py": "null bytes",
    "tabs.py": "indent",
    "deep.ipynb": "nested too deeply",
    "sentinels.ipynb": "reserves",
}
"""Which of the files cannot be read, and a word of the reason; all others are."""


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """All hostile files in one project, beside one that needs repair; what checking it reports."""
    top = tmp_path_factory.mktemp("bombs")
    files = {name: text().encode("utf-8", "surrogatepass") for name, text in FILES.items()}
    project = write_files(top / "below" / "project", {**files, "train.py": LOOP.encode()})
    before = sorted(str(path.relative_to(top)) for path in top.rglob("*"))
    done = bounded("check", project, "--output-format", "json", "-o", top / "report.json")
    went_well(done, 1)
    after = sorted(str(path.relative_to(top)) for path in top.rglob("*") if ".precfix" not in path.parts)
    report: dict[str, Any] = json.loads((top / "report.json").read_text())
    return {**report, "new": set(after) - set(before), "project": project, "files": files}


def test_everything_else_goes_on_beside_bombs(bombs: Mapping[str, Any]) -> None:
    assert {found["code"] for found in bombs["diagnostics"] if found["filename"] == "train.py"} == {"PF101"}
    assert bombs["new"] == {"report.json"}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_read_or_left_out_with_a_reason(bombs: Mapping[str, Any], name: str) -> None:
    reasons = [skip["reason"] for skip in bombs["skipped"] if skip["filename"].partition(":")[0] == name]
    wanted = LEFT_OUT.get(name)
    if wanted is None:
        assert [reason for reason in reasons if "not applied" not in reason] == []
    else:
        assert reasons
        assert all(wanted in reason for reason in reasons)
        assert len(reasons[0]) < 300
        assert (bombs["project"] / name).read_bytes() == bombs["files"][name]


SMALL = [name for name, text in FILES.items() if len(text()) < 15_000]


@pytest.mark.parametrize("words", [("check",), ("audit",), ("migrate", "--unsafe-fixes")])
def test_every_command_takes_the_short_bombs(tmp_path: Path, words: tuple[str, ...]) -> None:
    files = {name: FILES[name]().encode("utf-8", "surrogatepass") for name in SMALL}
    write_files(tmp_path, {**files, "train.py": LOOP.encode()})
    done = bounded(*words, ".", cwd=tmp_path)
    went_well(done, 0, 1)
    assert b"train.py" in done.stdout
    assert (tmp_path / "train.py").read_text() == (AFTER if "migrate" in words else LOOP)
    assert words[0] == "migrate" or all((tmp_path / name).read_bytes() == data for name, data in files.items())
    assert not (tmp_path / "executed").exists()


def test_thousands_of_files_and_findings(tmp_path: Path) -> None:
    many = {f"d{number % 50}/f{number}.py": b"import torch\n" for number in range(800)}
    lines = "".join(
        f"with torch.cuda.amp.autocast(dtype=torch.bfloat16):\n    x{number} = 1\n" for number in range(150)
    )
    write_files(
        tmp_path,
        {
            **many,
            "train.py": LOOP.encode(),
            "many.py": b"import torch\n" + lines.encode(),
            "requirements.txt": b"torch>=2.4\n",
        },
    )
    went_well(bounded("check", tmp_path), 1)
    went_well(bounded("migrate", tmp_path), 0, 1)
    assert (tmp_path / "train.py").read_text() == AFTER
    assert "torch.cuda.amp" not in (tmp_path / "many.py").read_text()


# --- what a folder can hold -------------------------------------------------------------------------------------------


def test_links_pipes_sockets_and_devices_are_passed_over(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = write_files(tmp_path / "project", {"train.py": LOOP.encode(), "sub/x.py": b""})
    outside = write_files(tmp_path / "outside", {"x.py": LOOP.encode(), "acc.yaml": b"mixed_precision: fp16\n"})
    os.mkfifo(project / "pipe.py")
    os.mkfifo(project / "pipe.yaml")
    os.mkfifo(project / "sub" / ".gitignore")
    os.mkfifo(project / "precfix-profile.json")
    monkeypatch.chdir(project)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        if os.geteuid() == 0:
            os.mknod("device.py", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: reading it never ends
        Path("zero.json").symlink_to("/dev/zero")
        Path("loop").symlink_to(".")
        Path("a").symlink_to("b")
        Path("b").symlink_to("a")
        Path("outside").symlink_to(outside)
        Path("ds.yaml").symlink_to(outside / "acc.yaml")
        Path("sub/up").symlink_to("../..")
        for words in (("check", "."), ("audit", "."), ("migrate", ".", "--to", "bf16-mixed", "--unsafe-fixes")):
            assert run(*words).code in (0, 1)
    assert (project / "train.py").read_text() == AFTER
    assert (outside / "x.py").read_text() == LOOP
    assert (outside / "acc.yaml").read_text() == "mixed_precision: fp16\n"


def test_references_never_lead_out_of_the_project(run: Command, tmp_path: Path) -> None:
    """``source``, ``--config_file``, ``deepspeed:``, ``-r``, imports and notebooks name files; outside none is read."""
    names = ("outside.env", "outside.sh", "acc.yaml", "ds.json", "req.txt", "secret.py", "x.py")
    outside = write_files(
        tmp_path,
        {
            **dict.fromkeys(names, OUTSIDE.encode()),
            "ds.json": b'{"fp16": {"enabled": true}}',
            "acc.yaml": b"mixed_precision: fp16\n",
        },
    )
    script = "\n".join(
        [
            "source ../outside.env",
            f". {outside}/outside.sh",
            "source sub/../../outside.env",
            "source 'link.env'",
            "accelerate launch --config_file ../acc.yaml train.py --deepspeed ../ds.json",
            f"accelerate launch --config_file {outside}/acc.yaml train.py --deepspeed={outside}/ds.json",
            "deepspeed ../x.py --deepspeed_config ../../../../../../../../etc/passwd --bf16",
        ]
    )
    python = (
        "from .. import secret\nfrom ...secret import autocast\nimport sys\nsys.path.append('..')\nimport secret\n"
        "from transformers import TrainingArguments\n"
        "TrainingArguments(bf16=True, deepspeed='../ds.json')\n"
    )
    project = write_files(
        tmp_path / "project",
        {
            "run.sh": script.encode(),
            "args.py": python.encode(),
            "accelerate.yaml": b"deepspeed_config:\n  deepspeed_config_file: ../ds.json\nmixed_precision: bf16\n",
            "requirements.txt": b"-r ../req.txt\n-c ../../req.txt\ntorch\n",
            "train.py": LOOP.encode(),
            "book.ipynb": FILES["writes.ipynb"]().encode(),
        },
    )
    (project / "link.env").symlink_to("../outside.env")
    before = {path: path.read_bytes() for path in outside.iterdir() if path.is_file()}
    for words in (("check",), ("audit",), ("migrate", "--to", "fp32", "--unsafe-fixes")):
        result = run(*words, project)
        assert result.code in (0, 1), result.err
        assert "root:x:" not in result.out
        assert not any(f"\n{name}" in result.out or f"../{name}:" in result.out for name in names)
    assert {path: path.read_bytes() for path in outside.iterdir() if path.is_file()} == before
    assert sorted(path.name for path in outside.iterdir()) == sorted(["project", *names])


NAMES = (
    "\x1b[31mred\x1b[0m.py",
    "bell\x07\x08.py",
    "line\nfeed\rreturn.py",
    "\x1b]0;title\x07.py",
    "right\u202eto\u2066left.py",
    "\x9b31m.py",
    "zero\u200bwidth.py",
    "bad\udcff.py",
)


def _printable(text: str) -> bool:
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_cannot_speak_to_the_terminal(run: Command, tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / name).write_text(LOOP)
    (project / f"broken{name}").write_text("autocast = (\n")
    (project / f"link{name}").symlink_to("/nowhere")
    for words in (("check", "-v"), ("check", "--output-format", "json"), ("audit",), ("migrate", "--dry-run")):
        result = run(*words, project, "--color", "never")
        assert result.code in (0, 1)
        assert _printable(result.out), words
        assert _printable(result.err), words
    written = run("migrate", project)
    assert _printable(written.out)
    assert (project / name).read_text() == AFTER
    undone = run("undo", project)
    assert _printable(undone.out)
    assert _printable(run("check", tmp_path / f"no{name}").err)


def test_source_lines_cannot_speak_to_the_terminal(run: Command, tmp_path: Path) -> None:
    text = LOOP.replace("# one epoch", "# \x1b]0;x\x07 \x1b[2J \u202e").replace("scaled", "\x9b2J")
    write_files(tmp_path, {"train.py": text.encode(), "a.yaml": b'mixed_precision: "\\e[31mfp61"\n'})
    for words in (("check", "-v"), ("audit",), ("migrate",)):
        result = run(*words, tmp_path, "--color", "never")
        assert _printable(result.out + result.err), words


# --- ignore files and repositories ------------------------------------------------------------------------------------

IGNORE = {
    "catastrophic": b"*a*a*a*a*a*a*a*a*a*a*b\n" * 300 + b"(a+)+$\n**/a/**/a/**/a/**/b\n[[[[[\n" + b"?*" * 5_000 + b"\n",
    "many lines": b"".join(b"name%d.txt\n" % number for number in range(80_000)),
    "negations": b"!.git/\n!.git/**\n!node_modules/\n!node_modules/**\n!.precfix/\n!.precfix/**\n!.venv/\n!/..\n!../\n",
    "everything again": b"*\n!*\n!**\n!*/\n",
    "no text": bytes(range(256)) * 100,
    "one line": b"a" * 900_000,
}


@pytest.mark.parametrize("patterns", IGNORE.values(), ids=IGNORE)
def test_ignore_rules_cannot_bring_back_what_is_never_entered(tmp_path: Path, patterns: bytes) -> None:
    hidden = (".git/x.py", "node_modules/x.py", ".precfix/x.py", ".venv/x.py", "build/x.py")
    project = write_files(
        tmp_path / "project",
        {
            **dict.fromkeys(hidden, LOOP.encode()),
            ".gitignore": patterns,
            "aaaaaaaaaaaaaaaaaaaa/train.py": LOOP.encode(),
        },
    )
    outside = write_files(tmp_path / "outside", {"x.py": LOOP.encode()})
    went_well(bounded("migrate", project, "--allow-dirty"), 0)
    assert {(project / name).read_text() for name in hidden} == {LOOP}
    assert (outside / "x.py").read_text() == LOOP
    assert (project / "aaaaaaaaaaaaaaaaaaaa/train.py").read_text() == AFTER


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@x", *arguments], cwd=folder, check=True)


CONFIG = """[core]
\trepositoryformatversion = 0
\tfsmonitor = {run}
\thooksPath = {hooks}
\tpager = {run}
\teditor = {run}
\tsshCommand = {run}
\talternateRefsCommand = {run}
\tworktree = {outside}
\tattributesFile = {hooks}/attributes
[filter "x"]
\tclean = {run}
\tsmudge = {run}
\tprocess = {run}
[diff]
\texternal = {run}
[diff "x"]
\ttextconv = {run}
[alias]
\tls-files = !{run}
\trev-parse = !{run}
\tls-tree = !{run}
[credential]
\thelper = !{run}
[uploadpack]
\tpackObjectsHook = {run}
[include]
\tpath = {hooks}/more
"""


def test_a_hostile_repository_runs_nothing(run: Command, tmp_path: Path) -> None:
    project = write_files(tmp_path / "project", {"train.py": LOOP.encode(), ".gitattributes": b"* filter=x diff=x\n"})
    hooks = write_files(tmp_path / "hooks", {"attributes": b"* filter=x diff=x\n", "more": b""})
    outside = write_files(tmp_path / "outside", {"train.py": LOOP.encode()})
    script = hooks / "run"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    for name in ("run", "pre-commit", "post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / name).write_text(script.read_text())
        (hooks / name).chmod(0o755)
    _git(project, "init", "-q")
    _git(project, "add", "-A")
    _git(project, "commit", "-q", "-m", "x")
    (project / ".git/config").write_text(CONFIG.format(run=script, hooks=hooks, outside=outside))
    for words in (
        ("check",),
        ("audit",),
        ("migrate", "--dry-run"),
        ("migrate",),
        ("migrate", "--allow-dirty"),
        ("undo",),
    ):
        assert run(*words, project).code in (0, 1, 2)
    assert not (tmp_path / "executed").exists()
    assert (outside / "train.py").read_text() == LOOP


@pytest.mark.parametrize("text", ["gitdir: ../outside/.git\n", "gitdir: /etc\n", "gitdir: .git\n", "\0" * 5000, ""])
def test_a_git_file_that_leads_elsewhere_changes_nothing_there(run: Command, tmp_path: Path, text: str) -> None:
    outside = write_files(tmp_path / "outside", {"train.py": LOOP.encode()})
    _git(outside, "init", "-q")
    project = write_files(tmp_path / "project", {"train.py": LOOP.encode(), ".git": text.encode()})
    before = sorted((path, path.read_bytes()) for path in outside.rglob("*") if path.is_file())
    assert run("check", project).code == 1
    refused = run("migrate", project)
    assert refused.code in (0, 2)
    assert (project / "train.py").read_text() == (AFTER if refused.code == 0 else LOOP)
    assert run("migrate", project, "--allow-dirty").code == 0
    assert sorted((path, path.read_bytes()) for path in outside.rglob("*") if path.is_file()) == before


# --- what precfix itself reads in a project ---------------------------------------------------------------------------

SETTINGS = {
    "deep": ("precfix.toml", "x = " + "[" * 100_000),
    "huge": ("precfix.toml", "#" * 2_000_000),
    "no TOML": ("precfix.toml", "\0\0"),
    "a table outside": ("precfix.toml", 'frameworks = ["../outside.yaml"]'),
    "a table at the root": ("precfix.toml", 'frameworks = ["/etc/passwd"]'),
    "a regime with a terminal code": ("precfix.toml", 'target = "\\u001b[31m"'),
    "an unknown key with a terminal code": ("precfix.toml", '"\\u001b[31mx" = 1'),
    "in pyproject": ("pyproject.toml", '[tool.precfix]\ntarget = ["' + "x" * 500 + '"]'),
    "a profile": ("precfix-profile.json", "[" * 100_000),
    "a long profile": ("precfix-profile.json", '{"version": ' + "9" * 100_000 + "}"),
    "a profile of precfix's folder": (".precfix/profile.json", '{"version": 1, "devices": [{"\x1b[31m": 1}]}'),
}


@pytest.mark.parametrize(("name", "text"), SETTINGS.values(), ids=SETTINGS)
def test_hostile_settings_are_one_printable_message(run: Command, tmp_path: Path, name: str, text: str) -> None:
    write_files(tmp_path, {"outside.yaml": b"id: x\n"})
    project = write_files(tmp_path / "project", {"train.py": LOOP.encode(), name: text.encode()})
    for words in (("check",), ("audit",), ("migrate",)):
        result = run(*words, project)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("precfix: ")
        assert len(result.err) < 2_000
        assert _printable(result.err)
    assert (project / "train.py").read_text() == LOOP


def test_a_foreign_pyproject_is_not_ours_to_judge(run: Command, tmp_path: Path) -> None:
    for text in ("[" * 100_000, "\0", "[tool.other]\nx = " + "[" * 10_000):
        project = write_files(tmp_path / "project", {"train.py": LOOP.encode(), "pyproject.toml": text.encode()})
        assert run("check", project).code == 1


@pytest.mark.parametrize(
    "path", ["../outside.py", "/etc/hostname", "sub/../../outside.py", ".git/config", "link/outside.py", ".precfix/x"]
)
def test_a_planted_journal_restores_nothing_outside(run: Command, tmp_path: Path, path: str) -> None:
    import hashlib

    old, now = b"planted\n", b"mine\n"
    write_files(tmp_path, {"outside.py": now})
    entry = {"path": path, "mode": 0o777, "offset": 0, "size": len(old), "before": hashlib.sha256(old).hexdigest()}
    manifest = {"version": 1, "state": "done", "token": "00" * 6}
    files = [{**entry, "after": hashlib.sha256(now).hexdigest()}]
    project = write_files(
        tmp_path / "project",
        {
            "train.py": LOOP.encode(),
            ".git/config": now,
            ".precfix/x": now,
            ".precfix/journal/000001/manifest.json": json.dumps({**manifest, "files": files}).encode(),
            ".precfix/journal/000001/before.bin": old,
        },
    )
    (project / "link").symlink_to("..")
    for words in (("undo", project), ("undo", project, "--force")):
        result = run(*words)
        assert result.code == 2
        assert result.out == ""
    assert {(tmp_path / "outside.py").read_bytes(), (project / ".git/config").read_bytes()} == {now}


@pytest.mark.parametrize("planted", [".precfix", ".precfix/journal", ".precfix/lock", ".precfix/.gitignore"])
def test_a_planted_link_in_our_own_folder_leads_nowhere(run: Command, tmp_path: Path, planted: str) -> None:
    outside = write_files(tmp_path / "outside", {"keep": b"mine"})
    project = write_files(tmp_path / "project", {"train.py": LOOP.encode()})
    (project / planted).parent.mkdir(exist_ok=True)
    (project / planted).symlink_to(outside / "keep" if planted.endswith(("lock", "ignore")) else outside)
    for words in (("check",), ("migrate",), ("undo",)):
        result = run(*words, project)
        assert result.code in (0, 1, 2)
        assert "Traceback" not in result.err
    assert [path.name for path in outside.rglob("*")] == ["keep"]
    assert (outside / "keep").read_bytes() == b"mine"
