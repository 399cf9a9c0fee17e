"""``[tool.precfix]``: which file counts, what it may say, and what is told about mistakes in it."""

from __future__ import annotations

import itertools
import os
import re
import time
from pathlib import Path

import pytest
from precfix.codemod.model import UsageError
from precfix.codemod.screening.path_patterns import PathPatterns
from precfix.codemod.screening.selection import validate_settings
from precfix.codemod.settings.settings import (
    ADDED,
    KNOWN,
    MAX_EXTENDED,
    PathPattern,
    ProjectSettings,
    settings_in,
    settings_of,
)
from precfix.codemod.settings.settings_tree import MAX_NESTED, settings_below
from precfix.transforms import load

from .cli_runs import LOOP, Runner
from .fixture_cases import REPOSITORY
from .project_tree import write_tree
from .test_cli import precfix

EVERY_KEY = """
target = "bf16-mixed"
profile = "gpu.json"
frameworks = ["tools/a.yaml"]
baseline = "known.json"
select = ["PF1", " PF302 "]
ignore = ["PF104"]
extend-select = ["PF2"]
extend-ignore = ["PF203"]
exclude = ["old/", "*_pb2.py"]
fixable = ["PF"]
unfixable = ["PF302"]
unsafe-fixes = true
extend-safe-fixes = ["PF302=dtype"]
extend-unsafe-fixes = ["PF101"]
per-file-ignores = { "tests/**" = ["PF1"] }
fix = { PF101 = "disable" }
"""
"""All keys but ``extend``."""
TABLE = """
id: ours
title: Our trainer
formats: [yaml]
recognize:
  strong: [train.amp_dtype]
keys:
  amp_dtype:
    role: compute
    at: [train.amp_dtype]
    means: {bf16: bf16-mixed, fp16: fp16-mixed, none: fp32}
    choices: [bf16, fp16, none]
contradictions:
  ours-unknown:
    rule: PF505
    when:
      - amp_dtype not in [bf16, fp16, none]
    message: our trainer does not know this value
    severity: crash
    patch:
      any:
        - set amp_dtype=bf16 from [bfloat16]
targets:
  bf16-mixed:
    - put amp_dtype=bf16
  fp32:
    - put amp_dtype=none
"""


def test_without_a_file_nothing_is_set(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nprecfix = 1\n")
    assert settings_of(tmp_path) == ProjectSettings()


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {"pyproject.toml": '[tool.precfix]\ntarget = "fp32"\n', "inner/precfix.toml": 'target = "bf16-mixed"\n'},
    )
    assert settings_of(tmp_path / "inner").target == "bf16-mixed"
    assert settings_of(tmp_path).target == "fp32"


def test_settings_beyond_the_repository_do_not_count(tmp_path: Path) -> None:
    write_tree(tmp_path, {"precfix.toml": 'target = "fp32"\n', "repo/.git/config": ""})
    assert settings_of(tmp_path / "repo").target is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('targett = "fp32"\n', "did you mean target?"),
        ('target = "half"\n', "it must be one of bf16-mixed"),
        ("frameworks = 3\n", "a list of file names"),
        ('frameworks = ["../other.yaml"]\n', "leads out of"),
        ("target = \n", "not TOML"),
    ],
)
def test_mistakes_are_told_with_their_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "precfix.toml").write_text(text)
    with pytest.raises(UsageError, match=r"precfix\.toml") as caught:
        settings_of(tmp_path)
    assert said in str(caught.value)


def test_a_broken_manifest_of_somebody_else_is_not_our_business(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.poetry\n# precfix\n")
    assert settings_of(tmp_path) == ProjectSettings()


def test_a_table_of_the_projects_own_trainer_is_used(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(
        tmp_path,
        {
            "pyproject.toml": '[tool.precfix]\nframeworks = ["tools/ours.yaml"]\n',
            "tools/ours.yaml": TABLE,
            "conf/run.yaml": "train:\n  amp_dtype: bfloat16  # fast\n  lr: 1\n",
            "README.md": "python train.py conf/run.yaml\n",
        },
    )
    done = precfix(capfd, monkeypatch, "check", tmp_path)
    assert done.code == 1
    assert "Our trainer: our trainer does not know this value [ours-unknown]" in done.out
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--dry-run", "--to", "fp32")
    assert "+  amp_dtype: none  # fast" in done.out


def test_a_broken_table_is_one_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"precfix.toml": 'frameworks = ["ours.yaml"]\n', "ours.yaml": "id: ours\n"})
    done = precfix(capfd, monkeypatch, "check", tmp_path)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "ours.yaml: the file: 'title' is missing" in done.err


# --- values -----------------------------------------------------------------------------------------------------------


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "precfix.toml").write_text(EVERY_KEY)
    found = settings_of(tmp_path)
    assert {line.partition(" =")[0] for line in EVERY_KEY.split("\n") if line} == set(KNOWN) - {"extend"}
    assert (found.target, found.unsafe_fixes) == ("bf16-mixed", True)
    assert (found.profile, found.baseline) == (tmp_path / "gpu.json", tmp_path / "known.json")
    assert found.frameworks == (tmp_path / "tools/a.yaml",)
    assert (found.select, found.ignore) == (("PF1", "PF302"), ("PF104",))
    assert (found.extend_select, found.extend_ignore) == (("PF2",), ("PF203",))
    assert found.exclude == (PathPattern(tmp_path, "old/"), PathPattern(tmp_path, "*_pb2.py"))
    assert found.per_file_ignores == ((PathPattern(tmp_path, "tests/**"), ("PF1",)),)
    assert (found.fixable, found.unfixable) == (("PF",), ("PF302",))
    assert (found.extend_safe_fixes, found.extend_unsafe_fixes) == (("PF302=dtype",), ("PF101",))
    assert found.fix == (("PF101", "disable"),)
    assert (found.path, found.sources) == (tmp_path / "precfix.toml", (tmp_path / "precfix.toml",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target = ['fp32']", "target is ['fp32']; did you mean fp32?"),
        ("target = '" + "x" * 100_000 + "'", "it must be one of"),
        ("exclude = ['../" + "x" * 100_000 + "']", "matches no file"),
        ("x" * 100_000 + " = 1", "unknown setting"),
        ("target = 'bf16-mixd'", "did you mean bf16-mixed?"),
        ("target = ''", "it must be one of"),
        ("profile = 3", "profile must be a file name"),
        ("profile = ''", "profile must be a file name"),
        ("profile = '/etc/passwd'", "leads out of"),
        ("profile = '../x.json'", "leads out of"),
        ('profile = "a\\u0000b"', "is not a file"),
        ("baseline = ['a']", "baseline must be a file name"),
        ("frameworks = 'a.yaml'", "a list of file names"),
        ("select = 'PF1'", "a list of rules"),
        ("select = [1]", "a list of rules"),
        ("ignore = ['']", "an empty string, which would mean every rule"),
        ("extend-select = {a = 1}", "a list of rules"),
        ("extend-ignore = true", "a list of rules"),
        ("fixable = 'ALL'", "a list of rules"),
        ("unfixable = [['PF1']]", "a list of rules"),
        ("exclude = 'old/'", "a list of gitignore patterns"),
        ("exclude = ['']", "matches no file"),
        ("exclude = ['# old']", "matches no file"),
        ("exclude = ['../other']", "matches no file"),
        ("exclude = ['./old']", "matches no file"),
        ("exclude = ['[']", "matches no file"),
        ("per-file-ignores = ['a.py']", "must be a table, such as"),
        ("per-file-ignores = {'a.py' = 'PF1'}", "per-file-ignores: 'a.py' must be a list of rules"),
        ("per-file-ignores = {'!a.py' = ['PF1']}", "not by '!a.py'"),
        ("per-file-ignores = {'' = ['PF1']}", "matches no file"),
        ("unsafe-fixes = 'yes'", "true or false"),
        ("unsafe-fixes = 1", "true or false"),
        ("extend-safe-fixes = {PF1 = 'a'}", "a list of rules"),
        ("extend-unsafe-fixes = 'PF1'", "a list of rules"),
        ("fix = ['PF101=drop']", "a table of rules and fixes"),
        ("fix = {PF101 = ['drop']}", "a table of rules and fixes"),
        ("extend = ['a']", "extend must be a file name"),
        ("extend = 'none.toml'", "which is not a file"),
        ("exclude = [" + "'a'," * 1001 + "]", "more than 1000 entries"),
        ("frameworks = [" + "'a'," * 101 + "]", "more than 100 entries"),
        ("a" + ".a" * 300 + " = 1", "not TOML: a key with more than 200 parts"),
        ("a = " + "[" * 50_000, "not TOML"),
    ],
)
def test_wrong_values_are_told_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "precfix.toml").write_text(text + "\n")
    with pytest.raises(UsageError, match=r"precfix\.toml: ") as caught:
        settings_of(tmp_path)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selct = ['PF1']", "unknown setting 'selct'; did you mean select?"),
        ("per_file_ignores = {}", "did you mean per-file-ignores?"),
        ("Target = 'fp32'", "did you mean target?"),
        ("[lint]\nselect = ['PF1']", "unknown setting 'lint'; its keys go one level up"),
        ("[tool.precfix]\nselect = ['PF1']", "without [tool.precfix]"),
        ("zzz = 1", "there are extend, target, profile"),
    ],
)
def test_unknown_keys_are_told_with_a_suggestion(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "precfix.toml").write_text(text + "\n")
    with pytest.raises(UsageError, match="unknown setting") as caught:
        settings_of(tmp_path)
    assert said in str(caught.value)


def test_precfix_toml_comes_before_pyproject(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pyproject.toml": '[tool.precfix]\ntarget = "fp32"\n', "precfix.toml": "# nothing\n"})
    assert settings_of(tmp_path) == ProjectSettings(
        path=tmp_path / "precfix.toml", sources=(tmp_path / "precfix.toml",)
    )


# --- extend -----------------------------------------------------------------------------------------------------------


def test_a_file_extends_another_of_the_repository(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            ".git/HEAD": "",
            "base.toml": "select = ['PF1']\nextend-select = ['PF2']\nexclude = ['old/']\nfix = {PF101 = 'drop'}\n",
            "sub/precfix.toml": "extend = '../base.toml'\nselect = ['PF3']\nextend-select = ['PF4']\nexclude = ['x']\n",
        },
    )
    found = settings_of(tmp_path / "sub")
    assert (found.select, found.extend_select) == (("PF3",), ("PF2", "PF4"))
    assert found.exclude == (PathPattern(tmp_path, "old/"), PathPattern(tmp_path / "sub", "x"))
    assert found.fix == (("PF101", "drop"),)
    assert found.sources == (tmp_path / "sub/precfix.toml", tmp_path / "base.toml")


def test_extending_a_pyproject_takes_its_table(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            ".git/HEAD": "",
            "pyproject.toml": "[tool.precfix]\nignore = ['PF2']\n[tool.other]\nselect = 1\n",
            "sub/precfix.toml": "extend = '../pyproject.toml'\n",
        },
    )
    assert settings_of(tmp_path / "sub").ignore == ("PF2",)


def test_circles_and_long_chains_of_extend_end(tmp_path: Path) -> None:
    write_tree(tmp_path, {"precfix.toml": "extend = 'b.toml'\n", "b.toml": "extend = 'precfix.toml'\n"})
    with pytest.raises(UsageError, match="circular extend"):
        settings_of(tmp_path)
    (tmp_path / "precfix.toml").write_text("extend = 'precfix.toml'\n")
    with pytest.raises(UsageError, match="circular extend"):
        settings_of(tmp_path)
    names = ["precfix.toml", *(f"c{number}.toml" for number in range(MAX_EXTENDED + 1))]
    for name, following in itertools.pairwise(names):
        (tmp_path / name).write_text(f"extend = '{following}'\n")
    (tmp_path / names[-1]).write_text("target = 'fp32'\n")
    with pytest.raises(UsageError, match=f"more than {MAX_EXTENDED} files"):
        settings_of(tmp_path)
    (tmp_path / names[-2]).write_text("target = 'fp32'\n")
    assert settings_of(tmp_path).target == "fp32"


def test_extend_stays_in_the_repository(tmp_path: Path) -> None:
    write_tree(tmp_path, {"out.toml": "target = 'fp32'\n", "repo/.git/HEAD": "", "repo/a/precfix.toml": ""})
    own = tmp_path / "repo/a/precfix.toml"
    own.write_text("extend = '../../out.toml'\n")
    with pytest.raises(UsageError, match="leads out of"):
        settings_of(own.parent)
    (tmp_path / "repo/link.toml").symlink_to(tmp_path / "out.toml")
    own.write_text("extend = '../link.toml'\n")
    with pytest.raises(UsageError, match="leads out of"):
        settings_of(own.parent)


# --- the settings of every file ---------------------------------------------------------------------------------------


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


def test_the_nearest_settings_count_for_each_file(run: Runner, tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "precfix.toml": "select = ['PF2']\n",
            "a.py": LOOP,
            "in/precfix.toml": "select = ['PF101']\n",
            "in/b.py": LOOP,
            "in/deep/c.py": LOOP,
            "in/deep/er/pyproject.toml": "[tool.precfix]\nignore = ['PF1']\n",
            "in/deep/er/d.py": LOOP,
        },
    )
    assert run.found(tmp_path) == ["in/b.py:4 PF101", "in/deep/c.py:4 PF101"]
    assert run.found(tmp_path, "--select", "PF101") == [
        *("a.py:4 PF101", "in/b.py:4 PF101", "in/deep/c.py:4 PF101", "in/deep/er/d.py:4 PF101")
    ]
    assert len(run.found(tmp_path, "--isolated")) == 4


def test_nested_settings_count_for_files_that_are_named(run: Runner, tmp_path: Path) -> None:
    """As pre-commit calls it: by the names of files, so that no folder is searched for settings files."""
    write_tree(tmp_path, {"a.py": LOOP, "in/precfix.toml": "ignore = ['PF101']\n", "in/b.py": LOOP, "in/x/c.py": LOOP})
    assert run.found(tmp_path / "a.py", tmp_path / "in/b.py", tmp_path / "in/x/c.py") == ["a.py:4 PF101"]
    assert run.found(tmp_path / "in/x/c.py") == []


def test_settings_files_that_git_ignores_count_as_well(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {".git/HEAD": "", ".gitignore": "precfix.toml\n", "in/precfix.toml": "select = []\n"})
    write_tree(tmp_path, {"in/b.py": LOOP})
    assert run.found(tmp_path) == []


def test_patterns_are_relative_to_the_folder_of_their_file(run: Runner, tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "precfix.toml": "exclude = ['/src/old']\n[per-file-ignores]\n'src/a.py' = ['PF101']\n'*_gen.py' = ['PF']\n",
            "src/a.py": LOOP,
            "src/b.py": LOOP,
            "src/c_gen.py": LOOP,
            "src/old/d.py": LOOP,
            "src/src/a.py": LOOP,
        },
    )
    assert run.found(tmp_path) == ["src/b.py:4 PF101", "src/src/a.py:4 PF101"]
    assert run.found(tmp_path / "src") == ["b.py:4 PF101", "src/a.py:4 PF101"]


def test_what_is_excluded_is_read_when_it_is_named(run: Runner, tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "precfix.toml": "exclude = ['old/', 'b.py']\n",
            "old/a.py": LOOP,
            "b.py": LOOP,
            "in/precfix.toml": "exclude = ['c.py', 'old2/']\n",
            "in/c.py": LOOP,
            "in/old2/d.py": LOOP,
            "in/e.py": LOOP,
        },
    )
    assert run.found(tmp_path) == ["in/e.py:4 PF101"]
    assert run.found(tmp_path / "b.py") == ["b.py:4 PF101"]
    assert run.found(tmp_path / "old" / "a.py") == ["a.py:4 PF101"]
    assert run.found(tmp_path, tmp_path / "in/c.py") == ["in/c.py:4 PF101", "in/e.py:4 PF101"]
    assert run.found(tmp_path, "--exclude", "e.py") == []


def test_exclude_takes_back_with_an_exclamation_mark(tmp_path: Path) -> None:
    patterns = PathPatterns([PathPattern(tmp_path, "*.py"), PathPattern(tmp_path, "!keep.py")], tmp_path)
    assert patterns.match("a.py")
    assert patterns.match("in/a.py")
    assert not patterns.match("keep.py")


def test_exclude_of_an_outer_file_holds_below_nested_settings(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"precfix.toml": "exclude = ['*_gen.py']\n", "in/precfix.toml": "", "in/a_gen.py": LOOP})
    assert run.found(tmp_path) == []


def test_a_mistake_in_nested_settings_is_one_line(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP, "in/precfix.toml": "select = ['PF999']\n", "in/b.py": "print(1)\n"})
    done = run("check", tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "in/precfix.toml: select: no rule 'PF999'" in done.err
    assert run("check", tmp_path, "--isolated").code == 1


def test_a_named_profile_or_table_that_is_missing_is_one_line(run: Runner, tmp_path: Path) -> None:
    for key in ("profile = 'gone.json'", "frameworks = ['gone.json']", "baseline = 'gone.json'"):
        write_tree(tmp_path, {"a.py": LOOP, "precfix.toml": key + "\n"})
        done = run("check", tmp_path)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), key
        assert "gone.json" in done.err


# --- hostile settings -------------------------------------------------------------------------------------------------


def test_a_link_or_a_large_file_is_refused_or_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "real").write_text('[tool.precfix]\ntarget = "fp32"\n')
    (tmp_path / "pyproject.toml").symlink_to("real")
    assert settings_of(tmp_path) == ProjectSettings()
    (tmp_path / "precfix.toml").symlink_to("real")
    with pytest.raises(UsageError, match="symbolic link"):
        settings_of(tmp_path)
    (tmp_path / "precfix.toml").unlink()
    (tmp_path / "precfix.toml").write_text("#" * 1_000_001)
    with pytest.raises(UsageError, match="too large"):
        settings_of(tmp_path)
    (tmp_path / "precfix.toml").write_bytes(b"target = 'fp32' # \xff\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        settings_of(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_or_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / "precfix.toml")
    (tmp_path / "pyproject.toml").mkdir()
    assert settings_of(tmp_path) == ProjectSettings()


def test_a_pyproject_that_takes_a_parser_long_is_read_quickly(run: Runner, tmp_path: Path) -> None:
    """300,000 parts of one key take tomllib minutes; rules that read the manifest meet the same file."""
    start = time.process_time()
    write_tree(tmp_path, {".git/HEAD": "", "a.py": LOOP})
    (tmp_path / "pyproject.toml").write_text("# precfix torch\n" + ".".join(["a"] * 300_000) + " = 1\n")
    assert run.found(tmp_path) == ["a.py:4 PF101"]
    assert time.process_time() - start < 20


def test_thousands_of_nested_settings_end(tmp_path: Path) -> None:
    paths = [f"d{number}/pyproject.toml" for number in range(MAX_NESTED + 1)]
    for path in paths:
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text("[tool.precfix]\nselect = []\n")
    tree = settings_below(tmp_path, ProjectSettings(), paths[:-1])
    assert len(tree.nested) == MAX_NESTED
    assert tree.of("d7/deep/a.py").path == tmp_path / "d7/pyproject.toml"
    assert tree.of("d70000/a.py") == tree.of("a.py") == ProjectSettings()
    with pytest.raises(UsageError, match="more than 1,000 folders"):
        settings_below(tmp_path, ProjectSettings(), paths)


def test_settings_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert settings_in(tmp_path / "gone") is None


# --- docs/settings.md -------------------------------------------------------------------------------------------------

PAGE = (REPOSITORY / "docs/settings.md").read_text("utf-8")


def test_the_table_lists_every_key_in_order() -> None:
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) == KNOWN


def test_the_example_of_the_docs_is_right(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.+?)```", PAGE, re.DOTALL)
    assert example is not None
    (tmp_path / "pyproject.toml").write_text(example[1])
    found = settings_of(tmp_path)
    assert found.target == "bf16-mixed"
    validate_settings(found, load())
    missing = [name for name in KNOWN if f"{name} = " not in example[1] and f"precfix.{name}]" not in example[1]]
    assert missing == ["extend"]


@pytest.mark.parametrize("row", re.findall(r"^\| `([a-z-]+)` \|.*\| `(.+)` \|$", PAGE, re.MULTILINE))
def test_each_example_of_the_table_is_right(tmp_path: Path, row: tuple[str, str]) -> None:
    key, example = row
    write_tree(tmp_path, {".git/HEAD": "", "base.toml": "", "in/precfix.toml": f"{key} = {example}\n"})
    validate_settings(settings_of(tmp_path / "in"), load())
    assert settings_of(tmp_path / "in").path == tmp_path / "in/precfix.toml"


def test_keys_that_add_are_named_in_the_docs() -> None:
    assert all(f"`{key}`" in PAGE.partition("except ")[2].partition("which are added")[0] for key in ADDED)
