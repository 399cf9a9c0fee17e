"""``precfix audit``, settings and tables of a hostile project: bounded time, printable output, no tracebacks."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from precfix.codemod.model import UsageError
from precfix.codemod.settings.settings import ProjectSettings, settings_of
from precfix.codemod.trainers.framework import Framework, Recognition
from precfix.codemod.trainers.framework_file import FrameworkInvalid, framework_of, read_framework
from precfix.codemod.trainers.reading.recognition import runs_program, stands_at

from . import warm
from .project_tree import write_tree
from .test_settings import TABLE


def _precfix(*arguments: object) -> subprocess.CompletedProcess[str]:
    return warm.text(warm.precfix(*arguments))


CONDITION = "contradictions:\n  c: {rule: PF505, severity: crash, message: m, when: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE + "notes: [&-a [x], *-a]\n", "aliases"),
        (TABLE + "more: &-a {x: *-a}\n", "aliases"),
        ("[" * 100_000, "nested deeper"),
        ("[" * 50_000 + "]" * 50_000, "nested deeper"),
        (TABLE.partition("contradictions")[0] + CONDITION + "{any: [" * 900 + "]}" * 900 + "}\n", "nested deeper"),
        (TABLE + "notes: a\0b", "not YAML"),
        (TABLE + "notes: !!python/object/apply:os.system ['true']\n", "tags"),
        (TABLE + "notes: !!binary aGVsbG8=\n", "tags"),
        (TABLE + "notes: 0x" + "f" * 100_000, "longer than"),
        (TABLE + "notes: 0001-01-01T00:00:00+23:59\nsources: 3", "list of strings"),
        (TABLE + "notes: [" + "a, " * 9_000 + "]", "more than"),
        (TABLE + "sources: [" + "a" * 400 + "]", "longer than"),
        (TABLE.replace("none: fp32", "none: null"), "means.none"),
        (TABLE.replace("  amp_dtype:", "  null:", 1), "must be a string"),
        (TABLE.replace("    role", "    switch: 'true'\n    role"), "true or false"),
        (TABLE.replace("    role", "    default: [a]\n    role"), "default"),
        (TABLE.replace("[yaml]", "[perl]"), "'perl' is none of"),
        (TABLE.replace("PF505", "PF5"), "does not look like"),
        (TABLE.replace("id: ours", 'id: "a\\e[31m"'), "does not look like"),
        (TABLE.replace("amp_dtype not in [bf16, fp16, none]", "any: []"), "no condition under"),
        (TABLE.replace("amp_dtype not in [bf16, fp16, none]", "{any: [amp_dtype present], none: [a]}"), "one of 'any'"),
        (TABLE.replace("amp_dtype not in [bf16, fp16, none]", "package torch >= 1..2"), "is not a condition"),
    ],
)
def test_odd_tables_are_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(FrameworkInvalid) as caught:
        framework_of(text, "ours.yaml")
    assert said in str(caught.value)


def test_ordinary_stars_and_ampersands_are_no_aliases() -> None:
    assert framework_of("\ufeff".join(["", TABLE]) + "sources: ['a & b, *c']\n", "ours.yaml").sources == ("a & b, *c",)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_table_that_is_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ours.yaml")
    with pytest.raises(FrameworkInvalid, match="not a regular file"):
        read_framework(tmp_path / "ours.yaml")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**." * 30 + "x", "a." * 900 + "a"),
        ("*a" * 100 + "b", "a" * 1_900),
        ("{" + "*a" * 100 + "b,c}", "a" * 1_900),
        ("**.*a*a*a*a*b." * 10 + "x", ("a" * 50 + ".") * 38 + "y"),
        ("*a*a*a*a*b", "a" * 500_000),
    ],
)
def test_globs_take_no_more_than_a_moment(pattern: str, path: str) -> None:
    start = time.process_time()
    assert not stands_at(path, pattern)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("program", ["*a" * 100 + "b", "*a *a *a *b", "*a*a*b"])
def test_programs_take_no_more_than_a_moment(program: str) -> None:
    table = Framework("ours", "ours", (), Recognition(programs=(program,)), ())
    start = time.process_time()
    assert not runs_program(table, ["/a" * 900] * 20 + ["a" * 500_000])
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("a.b.c", "**.c", True),
        ("c", "**.c", True),
        ("a.x.b.y.b.c", "a.**.b.c", True),
        ("a.b.x.c", "**.b.**.c", True),
        ("a.b.x", "**.b.**", True),
        ("a.bab", "**.{b*b,c}", True),
        ("a.baba", "**.{b*b,c}", False),
        ("a.b", "a", False),
        ("a.b", "*", False),
        ("a.b.b.c", "**.b.*.c", True),
    ],
)
def test_dotted_globs(path: str, pattern: str, fits: bool) -> None:
    assert stands_at(path, pattern) is fits


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('frameworks = ["a\\u0000b"]', "is not a file"),
        ('frameworks = ["loop"]', "loop"),
        ('frameworks = ["x.yaml"' + ', "x.yaml"' * 200 + "]", "more than"),
        ('target = ["fp32"]', "target is"),
        ("x = " + "[" * 50_000, "not TOML"),
    ],
)
def test_odd_settings_are_bad_usage(tmp_path: Path, text: str, said: str) -> None:
    write_tree(tmp_path, {"precfix.toml": text + "\n", "t.py": "import torch\n"})
    (tmp_path / "loop").symlink_to("loop")
    result = _precfix("audit", tmp_path)
    assert result.returncode == 2, result.stderr
    assert said in result.stderr
    assert "internal error" not in result.stderr


def test_settings_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "precfix.toml").write_text('\ufefftarget = "fp32"\n', encoding="utf-8")
    assert settings_of(tmp_path).target == "fp32"


@pytest.mark.parametrize("data", [b"[project]\nname = '\xe9'\n", b"[project]\n" + b"#" * 1_100_000])
def test_a_foreign_pyproject_is_left_alone(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_bytes(data)
    assert settings_of(tmp_path) == ProjectSettings()


@pytest.mark.parametrize("text", ["[tool]\nprecfix = 3\n", '[[tool.precfix]]\ntarget = "fp32"\n'])
def test_the_settings_are_a_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match="must be a table"):
        settings_of(tmp_path)


def test_markdown_holds_no_markup_of_the_project(tmp_path: Path) -> None:
    hostile = "bf16|`<b>`[click](http://example.org)*x*\\x1b[31m"
    write_tree(
        tmp_path,
        {"a`b.py": f"from accelerate import Accelerator\n\nAccelerator(mixed_precision='{hostile}')\n"},
    )
    text = _precfix("audit", tmp_path, "--output-format", "markdown").stdout
    assert "bf16\\|\\`&lt;b&gt;\\`\\[click\\](http:&#8203;//example.org)\\*x\\*" in text
    assert "`` a`b.py:3 `` runs" in text
    assert "\x1b" not in text
