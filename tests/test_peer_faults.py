"""Every behavior fault that was measured in other tools is a test here, named for the fault and the tool that has it.

Each one goes through the whole product: the command line, the rules, the rewriter, the patch, the written file, undo.
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import tokenize
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from . import warm
from .byte_variants import COOKIE
from .fixture_cases import write_files
from .test_cli import Run, precfix
from .warm_torch import python

Command = Callable[..., Run]

LOOP = """import torch
from typing import Optional


def train(model, optimizer, batches, limit: Optional[int] = None):
    \"\"\"caf\N{LATIN SMALL LETTER E WITH ACUTE}\"\"\"
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:  # one epoch
        with torch.amp.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).mean()
        # scaled
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return model
"""
EDITS = (
    ('    scaler = torch.amp.GradScaler("cuda")\n', ""),
    ("scaler.scale(loss).backward()", "loss.backward()"),
    ("scaler.step(optimizer)", "optimizer.step()"),
    ("        scaler.update()\n", ""),
)
"""The only changes that a repair of LOOP makes."""


def repaired(text: str) -> str:
    for old, new in EDITS:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


AFTER = repaired(LOOP)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return lambda *arguments: precfix(capfd, monkeypatch, *arguments)


def git(folder: Path, *arguments: object) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false")
    done = subprocess.run(["git", *identity, *map(str, arguments)], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")


# --- the same file in other bytes -------------------------------------------------------------------------------------


def _backslashes(text: str) -> str:
    """Continued lines, one of them in a header that is edited."""
    text = text.replace("dtype=torch.bfloat16", "dtype=\\\n                torch.bfloat16")
    return text.replace("    return model\n", "    total = 1 + \\\n        2\n    return model\n")


def _mixed(data: bytes) -> bytes:
    """CRLF on a line that stays, on one that is edited and on one that goes."""
    rows = data.split(b"\n")
    crlf = (b"import torch", b"backward()", b"GradScaler", b"autocast(")
    return b"".join(row + (b"\r\n" if any(word in row for word in crlf) else b"\n") for row in rows[:-1])


def _after(addition: str) -> Callable[[str], bytes]:
    return lambda text: (text + addition).encode()


VARIANTS: Mapping[str, Callable[[str], bytes]] = {
    "LF": str.encode,
    "tabs": lambda text: text.replace("    ", "\t").encode(),
    "trailing white space": lambda text: (
        text.replace("batches:  # one epoch", "batches:  # one epoch \t ")
        .replace(".mean()", ".mean()   ")
        .replace("\n\n\n", "\n  \n\n")
        .encode()
    ),
    "no newline at the end": lambda text: text.rstrip("\n").encode(),
    "backslash continuation": lambda text: _backslashes(text).encode(),
    "CRLF (bump-pydantic: all lines become LF)": lambda text: text.replace("\n", "\r\n").encode(),
    "mixed LF and CRLF (bump-pydantic: all become LF)": lambda text: _mixed(text.encode()),
    "CR only (LibCST, fixit, torchfix: the last CR is lost)": lambda text: text.replace("\n", "\r").encode(),
    "UTF-8 BOM (bump-pydantic, codemodder: dropped)": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "BOM and CRLF": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    "latin-1 cookie (ruff, pyupgrade and 3 more: skipped)": lambda text: (COOKIE + text).encode("latin-1"),
    "leading form feed (pyupgrade: the line is deleted)": lambda text: b"\x0c\n" + text.encode(),
    "inner form feed": lambda text: text.replace("\n\n\ndef", "\n\x0c\n\ndef").encode(),
    "3.12: type statement (pyupgrade, django-upgrade: silent)": _after("\n\ntype Batch = list[int]\n"),
    "3.12: type parameters": _after("\n\ndef first[T](items: list[T]) -> T:\n    return items[0]\n"),
    "3.12: nested f-string (pyupgrade, django-upgrade: silent)": _after(
        '\n\ndef show(x):\n    return f"{x["a"]} {f\'{x}\'}"\n'
    ),
    "3.14: t-string (torchfix, bump-pydantic: fail)": _after('\n\ndef show(x):\n    return t"{x}"\n'),
    "3.14: except A, B (torchfix, bump-pydantic: fail)": _after(
        "\n\ntry:\n    pass\nexcept ValueError, TypeError:\n    pass\n"
    ),
    "syntax error (bump-pydantic: aborts; ast-grep, semgrep: edited)": _after("\n\ndef broken(:\n"),
    "Python 2 print (fixit, codemodder, pyupgrade: exit code 0, silent)": _after("\nprint 'done'\n"),
    "NUL (ast-grep, semgrep: edited)": _after("\n# \0\n"),
    "Ctrl-Z (ast-grep, semgrep: edited)": _after("\n\x1a"),
    "invalid UTF-8 (semgrep: edited; ruff, fixit: exit code 0)": lambda text: text.encode() + b"# \xff\xfe\n",
}
SINCE = {"3.12": (3, 12), "3.14": (3, 14)}


def _is_python(data: bytes) -> bool:
    """Whether the Python that runs here takes these bytes as a file."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        ast.parse(data.decode(encoding))
    except (SyntaxError, ValueError):
        return False
    return True


OLDER = ("3.12: nested f-string",)
"""What precfix reads although the Python that runs it does not."""
READ = [name for name, variant in VARIANTS.items() if name.startswith(OLDER) or _is_python(variant(LOOP))]
REPORTED = [name for name in VARIANTS if name not in READ]


def test_there_are_at_least_nineteen_variants() -> None:
    never = {name for name in REPORTED if name.partition(":")[0] not in SINCE}
    assert len(VARIANTS) >= 19
    assert len(never) == 5, "what no Python reads"


@pytest.mark.parametrize("name", READ)
def test_only_the_intended_bytes_change(run: Command, tmp_path: Path, name: str) -> None:
    """check, patch, git apply, migrate, again, undo: each gives exactly the bytes that it should."""
    before, after = VARIANTS[name](LOOP), VARIANTS[name](AFTER)
    project = write_files(tmp_path / "project", {"train.py": before})
    file = project / "train.py"
    file.chmod(0o755)
    assert run("check", project).code == 1
    assert run("migrate", project, "--patch", tmp_path / "fix.patch").code == 1
    assert file.read_bytes() == before
    copy = write_files(tmp_path / "copy", {"train.py": before})
    (copy / "train.py").chmod(0o755)
    git(copy, "apply", tmp_path / "fix.patch")
    assert (copy / "train.py").read_bytes() == after
    assert run("migrate", project).code == 0
    assert file.read_bytes() == after
    assert (file.stat().st_mode & 0o777, (copy / "train.py").stat().st_mode & 0o777) == (0o755, 0o755)
    again = run("migrate", project, "--dry-run")
    assert (again.code, again.out) == (0, "")
    assert run("migrate", project).code == 0
    assert file.read_bytes() == after
    assert run("undo", project).code == 0
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (before, 0o755)


@pytest.mark.parametrize("name", REPORTED)
def test_what_cannot_be_read_is_named_untouched_and_stops_nothing(run: Command, tmp_path: Path, name: str) -> None:
    data = VARIANTS[name](LOOP)
    project = write_files(tmp_path / "project", {"odd.py": data, "train.py": LOOP.encode()})
    odd = project / "odd.py"
    odd.chmod(0o755)
    found = run("check", project)
    assert found.code == 1
    assert "train.py:7:14 PF101" in found.out
    (reason,) = [line for line in found.out.splitlines() if line.startswith("  odd.py: not ")]
    (skipped,) = json.loads(run("check", project, "--output-format", "json").out)["skipped"]
    assert skipped["filename"] == "odd.py"
    version = SINCE.get(name.partition(":")[0])
    assert (f"Python {version[0]}.{version[1]} syntax?" in reason) if version else ("syntax?" not in reason)
    written = run("migrate", project)
    assert written.code == 0
    assert "  odd.py: not " in written.out
    assert (project / "train.py").read_bytes() == AFTER.encode()
    assert (odd.read_bytes(), odd.stat().st_mode & 0o777) == (data, 0o755)
    for command in ("check", "migrate"):
        named = run(command, odd)
        assert named.code == 2, "a file that was named and cannot be read"
        assert "odd.py: not " in named.out
        assert "Traceback" not in named.out + named.err
    assert odd.read_bytes() == data


FILES = {
    "ds_config.json": (
        '{\n  "bf16": {\n    "enabled": true,\n    "loss_scale": 0\n  },\n  "lr": 1e-5 \n}\n',
        '{\n  "bf16": {\n    "enabled": true\n  },\n  "lr": 1e-5 \n}\n',
    ),
    "accelerate.yaml": (
        "# caf\N{LATIN SMALL LETTER E WITH ACUTE}\ncompute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\n"
        "mixed_precision:   fp16   # half\nnum_processes: 1\n",
        "# caf\N{LATIN SMALL LETTER E WITH ACUTE}\ncompute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\n"
        "mixed_precision:   bf16   # half\nnum_processes: 1\n",
    ),
    "train.sh": (
        "#!/bin/sh\naccelerate launch \\\n\t--mixed_precision=fp16 train.py  \n",
        "#!/bin/sh\naccelerate launch \\\n\t--mixed_precision=bf16 train.py  \n",
    ),
}
ENDINGS: Mapping[str, Callable[[str], bytes]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "no newline at the end": lambda text: text.rstrip("\n").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "mixed": lambda text: text.replace("\n", "\r\n", 2).encode(),
}


@pytest.mark.parametrize(
    ("name", "ending"),
    [(name, ending) for name in FILES for ending in ENDINGS if (name, ending) != ("train.sh", "BOM")],
)  # a script that begins with a byte order mark does not run
def test_configuration_keeps_its_line_endings_like_code(run: Command, tmp_path: Path, name: str, ending: str) -> None:
    """Line-ending damage by codemods: mui#29822, react-codemod#281, next.js#42437, expressjs/codemod#56."""
    before, after = (ENDINGS[ending](text) for text in FILES[name])
    project = write_files(tmp_path / "project", {name: before, "train.py": b"from accelerate import Accelerator\n"})
    (project / name).chmod(0o755)
    run("migrate", project, "--to", "bf16-mixed", "--unsafe-fixes")
    assert (project / name).read_bytes() == after
    assert (project / name).stat().st_mode & 0o777 == 0o755
    again = run("migrate", project, "--to", "bf16-mixed", "--unsafe-fixes", "--dry-run")
    assert again.out == ""


# --- the patch --------------------------------------------------------------------------------------------------------

NAMES = {
    "space": "my train.py",
    "spaces at both ends": " my /train .py",
    "quotes": 'it\'s "x".py',
    "unicode": "tr\u00e4in\u2028 \U0001f525.py",
    "tab and newline": "a\tb\nc.py",
    "backslash": "a\\b.py",
    "dash": "-p0.py",
    "looks like a prefix": "a/b/a/b.py",
    "brackets": "[bold]x[/bold].py",
    "glob": "*.py",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_git_apply_takes_the_patch_of_every_name(run: Command, tmp_path: Path, name: str) -> None:
    """torchfix, LibCST: absolute paths; fixit: base names; codemodder: no names; ruff: only with -p0."""
    project = write_files(tmp_path, {name: LOOP.encode()})
    git(project, "init", "-q")
    git(project, "add", "-A")
    patch = tmp_path / "fix.patch"
    assert run("migrate", project, "--patch", patch).code == 1
    git(project, "apply", "--index", patch)
    assert (project / name).read_text() == AFTER
    git(project, "apply", "--index", "-R", patch)
    assert (project / name).read_text() == LOOP


@pytest.mark.parametrize("sub", ["training", 'my training/\u00fc "x"'])
@pytest.mark.parametrize("called_in", ["the repository", "the project", "a folder of the project"])
def test_git_apply_takes_the_patch_of_a_project_inside_a_repository(
    run: Command, tmp_path: Path, sub: str, called_in: str
) -> None:
    """From a subfolder git passes over names that lie elsewhere and says nothing, so that a patch had no effect."""
    project = write_files(tmp_path / "top" / sub, {"inner/train.py": LOOP.encode()})
    top = tmp_path / "top"
    git(top, "init", "-q")
    assert run("migrate", project, "--patch", tmp_path / "fix.patch").code == 1
    place = {"the repository": top, "the project": project, "a folder of the project": project / "inner"}[called_in]
    git(place, "apply", tmp_path / "fix.patch")
    assert (project / "inner/train.py").read_text() == AFTER


@pytest.mark.parametrize("given", [".", "sub", "sub/train.py", "{absolute}"])
def test_the_patch_has_relative_names_however_the_path_is_given(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    write_files(tmp_path, {"sub/train.py": LOOP.encode()})
    monkeypatch.chdir(tmp_path)
    out = run("migrate", given.format(absolute=tmp_path / "sub"), "--dry-run").out
    path = "sub/train.py" if given == "." else "train.py"
    assert out.startswith(f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ ")
    assert str(tmp_path) not in out


LONG = "    note: Optional[int] = {'[red]x[/red]': [/x], 'b': '" + "long " * 100 + "'}  # [/]\n"


@pytest.mark.parametrize("color", ["never", "always", "auto"])
def test_markup_is_printed_as_it_is_and_long_lines_never_wrap(run: Command, tmp_path: Path, color: str) -> None:
    """bump-pydantic prints its diff through rich markup: `Optional[int]` appears as `Optional`, long lines wrap."""
    line = LONG.replace("[/x]", "['/x']")
    text = LOOP.replace("    scaler = torch", line + "    scaler = torch")
    project = write_files(tmp_path, {"train.py": text.encode()})
    shown = run("migrate", project, "--dry-run", "--color", color).out
    assert f"-{line}" not in shown
    assert f"\n {line}" in shown
    assert "Optional[int] = None):" in shown
    framed = run("check", project, "--color", color).out
    assert line.strip()[:60] in framed
    assert all(part in framed for part in ("Optional[int]", "[red]x[/red]"))


# --- what must not be touched -----------------------------------------------------------------------------------------


def test_links_are_not_followed_out_and_stop_nothing(run: Command, tmp_path: Path) -> None:
    """ruff, torchfix, LibCST, pyupgrade, django-upgrade write through; fixit and bump-pydantic abort the run."""
    outside = write_files(tmp_path / "outside", {"train.py": LOOP.encode(), "deep/train.py": LOOP.encode()})
    project = write_files(tmp_path / "project", {"train.py": LOOP.encode(), "sub/inner.py": LOOP.encode()})
    (project / "file.py").symlink_to(outside / "train.py")
    (project / "folder").symlink_to(outside)
    (project / "dead.py").symlink_to("nowhere.py")
    (project / "circle.py").symlink_to("circle.py")
    (project / "sub" / "up").symlink_to("..")
    (project / "alias.py").symlink_to("train.py")
    links = [path for path in project.rglob("*") if path.is_symlink()]
    result = run("migrate", project)
    assert result.code == 0
    for name, reason in (("file.py", "out of the project"), ("dead.py", "missing file"), ("circle.py", "missing file")):
        assert f"  {name}: symbolic link" in result.out
        assert reason in result.out
    assert {path.read_text() for path in outside.rglob("*.py")} == {LOOP}
    assert (project / "train.py").read_text() == (project / "sub/inner.py").read_text() == AFTER
    assert all(path.is_symlink() for path in links)
    run("undo", project)
    assert (project / "train.py").read_text() == LOOP


def test_a_named_link_out_of_the_folder_is_the_user_s_own_choice(run: Command, tmp_path: Path) -> None:
    """pyupgrade and django-upgrade take file lists: naming a file is asking for it, and nothing else is touched."""
    outside = write_files(tmp_path / "outside", {"train.py": LOOP.encode(), "other.py": LOOP.encode()})
    (tmp_path / "link.py").symlink_to(outside / "train.py")
    assert run("check", tmp_path / "link.py").code == 1
    assert (outside / "train.py").read_text() == (outside / "other.py").read_text() == LOOP


IGNORED = (".venv", "venv", "node_modules/x", "build", "dist", "site-packages", "pkg.egg-info", ".tox", "mine")


@pytest.mark.parametrize("folder", IGNORED)
def test_foreign_folders_are_left_alone(run: Command, tmp_path: Path, folder: str) -> None:
    """torchfix and LibCST edit .venv, node_modules and ignored files; ruff and ast-grep edit build."""
    project = write_files(
        tmp_path,
        {
            f"{folder}/train.py": LOOP.encode(),
            ".git/HEAD": b"",
            ".gitignore": b"/mine/\n",
            "train.py": LOOP.encode(),
        },
    )
    out = run("migrate", project, "--allow-dirty").out
    assert (project / folder / "train.py").read_text() == LOOP
    assert folder not in out
    assert (project / "train.py").read_text() == AFTER


# --- exit codes, safety -----------------------------------------------------------------------------------------------


def test_findings_are_no_success(run: Command, tmp_path: Path) -> None:
    """torchfix: exit code 0 with findings; fixit: `fix` always 0."""
    project = write_files(tmp_path, {"train.py": LOOP.encode()})
    assert run("check", project).code == 1
    assert run("check", project, "--quiet").code == 1
    assert run("migrate", project, "--ignore", "PF101,PF301").code == 0
    assert run("migrate", project).code == 0
    assert run("check", project).code == 0


def test_findings_that_stay_are_no_success(run: Command, tmp_path: Path) -> None:
    """fixit (#409): `fix` ends with 0 although errors are left."""
    kept = "import torch\nx = torch.zeros(4, dtype=torch.float16).numpy()\ny = x.masked_fill(m, -1e9)\n"
    unsafe = (
        "from torch.cuda.amp import autocast\n\n"
        "def f(model, x):\n    with autocast(undefined()):\n        return model(x)\n"
    )
    project = write_files(tmp_path, {"train.py": LOOP.encode(), "kept.py": kept.encode(), "a.py": unsafe.encode()})
    left = run("migrate", project)
    remaining = json.loads(run("check", project, "--output-format", "json").out)["diagnostics"]
    assert left.code == (1 if remaining else 0)
    assert remaining, "the case must hold something without a safe repair"


def test_one_file_that_fails_to_be_written_leaves_all_as_they_were(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other tool writes atomically: ruff truncates the file first, bump-pydantic opens it r+ even for --diff."""
    project = write_files(tmp_path, {name: LOOP.encode() for name in ("a.py", "b.py", "c.py")})
    real = os.replace

    def replace(source: str, target: str) -> None:
        if Path(target).name == "b.py":
            raise OSError(28, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        result = run("migrate", project)
    assert result.code == 2
    assert "No space left" in result.err
    assert {path.read_text() for path in project.glob("*.py")} == {LOOP}
    assert sorted(path.name for path in project.glob("*")) == [".precfix", "a.py", "b.py", "c.py"]
    assert run("migrate", project).code == 0
    assert {path.read_text() for path in project.glob("*.py")} == {AFTER}


def test_undo_gives_the_old_bytes_back(run: Command, tmp_path: Path) -> None:
    """Only grit and OpenRewrite have a way back; the others rely on `git checkout`."""
    project = write_files(tmp_path, {"a.py": LOOP.encode(), "b.py": LOOP.replace("\n", "\r\n").encode()})
    run("migrate", project)
    assert (project / "a.py").read_text() == AFTER
    assert run("undo", project).code == 0
    assert (project / "a.py").read_bytes() == LOOP.encode()
    assert (project / "b.py").read_bytes() == LOOP.replace("\n", "\r\n").encode()


def test_a_dirty_tree_is_refused(run: Command, tmp_path: Path) -> None:
    """grit alone refuses to write over uncommitted work."""
    project = write_files(tmp_path, {"a.py": LOOP.encode(), "b.py": LOOP.encode(), "notes.txt": b""})
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "x")
    (project / "b.py").write_text("# mine\n" + LOOP)
    (project / "notes.txt").write_text("mine")
    refused = run("migrate", project)
    assert refused.code == 2
    assert "b.py" in refused.err
    assert "a.py" not in refused.err
    assert (project / "a.py").read_text() == LOOP
    assert run("migrate", project, "--dry-run").code == 1, "looking is always allowed"
    assert run("migrate", project, "--allow-dirty").code == 0
    assert (project / "b.py").read_text() == "# mine\n" + AFTER


def test_fixes_that_meet_are_all_carried_out_and_comments_stay(run: Command, tmp_path: Path) -> None:
    """fixit drops the inner of two nested fixes; PaConvert loses every comment."""
    text = LOOP.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    text = text.replace('torch.amp.autocast("cuda", dtype', "torch.cuda.amp.autocast(dtype")
    project = write_files(tmp_path, {"train.py": text.encode(), "requirements.txt": b"torch>=2.4\n"})
    result = run("migrate", project)
    assert (result.code, (project / "train.py").read_text()) == (0, AFTER)
    assert "# one epoch" in AFTER
    assert "# scaled" in AFTER


# --- torchfix: programs that its repair breaks ------------------------------------------------------------------------

BODY = """
model = torch_module.nn.Linear(4, 4)
x = torch_module.ones(2, 4)
{use}
print(y.dtype, torch_module.is_autocast_enabled("cpu"), torch_module.get_autocast_dtype("cpu"))
"""
WITH = "with {call}:\n    y = model(x)"
DECORATED = "@{call}\ndef step():\n    return model(x)\ny = step()"
TORCHFIX = {
    "from torch.cuda.amp import autocast: NameError": ("from torch.cuda.amp import autocast", WITH, "autocast()"),
    "from torch.cuda.amp import autocast as ac: NameError": (
        "from torch.cuda.amp import autocast as ac",
        WITH,
        "ac(dtype=torch.bfloat16)",
    ),
    "from torch.cuda import amp: AttributeError": ("from torch.cuda import amp", WITH, "amp.autocast()"),
    "import torch.cuda.amp as t: AttributeError": ("import torch.cuda.amp as t", WITH, "t.autocast()"),
    "import torch as th: NameError": ("import torch as th", WITH, "th.cuda.amp.autocast()"),
    "positional autocast(False): TypeError": ("import torch", WITH, "torch.cuda.amp.autocast(False)"),
    "positional autocast(True, dtype): TypeError": (
        "import torch",
        WITH,
        "torch.cuda.amp.autocast(True, torch.bfloat16)",
    ),
    "import torch: right in torchfix, too": ("import torch", WITH, "torch.cuda.amp.autocast()"),
    "decorator call: right in torchfix, too": ("import torch", DECORATED, "torch.cuda.amp.autocast()"),
}
"""The nine programs: import, use, call. Each ran before; torchfix's repair of the first seven does not run."""
NOT_SEEN = {
    "bare decorator custom_fwd: not seen": (
        "from torch.cuda.amp import custom_bwd, custom_fwd",
        "class Double(torch_module.autograd.Function):\n"
        "    @staticmethod\n    @custom_fwd\n    def forward(ctx, a):\n        return a * 2\n"
        "    @staticmethod\n    @custom_bwd\n    def backward(ctx, g):\n        return g * 2\n"
        "y = Double.apply(model(x))\ny.sum().backward()\nprint(model.weight.grad.sum())",
        "",
    ),
    "GradScaler: not known": (
        "from torch.cuda.amp import GradScaler",
        "scaler = GradScaler(enabled=False)\ny = model(x)\nscaler.scale(y.sum()).backward()\nprint(scaler.get_scale())",
        "",
    ),
}


def _program(key: str, module: str) -> str:
    """The program, once for CUDA (which only warns where there is none) and once for the CPU (which computes)."""
    head, use, call = {**TORCHFIX, **NOT_SEEN}[key]
    source = f"import torch as torch_module\nimport torch\n{head}\n" + BODY.format(use=use.format(call=call))
    return source.replace("cuda", module)


PROGRAMS = [
    (key, module) for key in (*TORCHFIX, *NOT_SEEN) for module in ("cuda", "cpu") if module == "cuda" or key in TORCHFIX
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    """Key -> the program after the repair, and what it printed and died of before and after."""
    pytest.importorskip("torch")
    folder, jobs, sources = tmp_path_factory.mktemp("programs"), [], {}
    files = {f"p{number}/train.py": _program(*program).encode() for number, program in enumerate(PROGRAMS)}
    for state in ("before", "after"):
        write_files(folder / state, files)
    done = warm.text(warm.precfix("migrate", "--unsafe-fixes", folder / "after"))
    assert done.returncode == 0, done.stdout + done.stderr
    for number, (key, module) in enumerate(PROGRAMS):
        places = {state: folder / state / f"p{number}" for state in ("before", "after")}
        sources[f"{key}|{module}"] = (places["after"] / "train.py").read_text()
        jobs += [[f"{key}|{module}|{state}", str(place), "train.py"] for state, place in places.items()]
    program = Path(__file__).with_name("run_cases.py")
    ran = subprocess.run([python(), str(program)], input=json.dumps(jobs), capture_output=True, text=True, check=True)
    lines = {line["key"]: line for line in map(json.loads, ran.stdout.splitlines())}
    return {
        key: {
            "source": sources[key],
            **{
                f"{field} {state}": lines[f"{key}|{state}"][field]
                for state in ("before", "after")
                for field in ("printed", "error")
            },
        }
        for key in sources
    }


@pytest.mark.parametrize(("key", "module"), PROGRAMS, ids=lambda word: f"torchfix {word}" if ":" in word else word)
def test_a_program_runs_after_its_repair_as_it_did_before(
    outcomes: Mapping[str, Mapping[str, str]], key: str, module: str
) -> None:
    outcome = outcomes[f"{key}|{module}"]
    assert outcome["error before"] == ""
    assert outcome["error after"] == ""
    assert outcome["printed before"] == outcome["printed after"] != ""
    assert f"{module}.amp" not in outcome["source"].replace("torch_module", ""), "the old name is gone"
