"""A check after an edit asks again only what the edit can have changed, and says what a cold one says."""

from __future__ import annotations

import ast
import random
import re
import shutil
from pathlib import Path

import pytest
from precfix.codemod import asking
from precfix.codemod.incremental import rechecking
from precfix.codemod.incremental.record import fact_named, from_plain, to_plain
from precfix.codemod.model import Rule
from precfix.codemod.source.looks import FACT, Looks
from precfix.codemod.source.project import Project
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .cached_runs import CachedRuns, runs  # noqa: F401
from .fixture_cases import REPOSITORY

PROJECTS = REPOSITORY / "fixtures" / "projects"
RULES = REPOSITORY / "fixtures" / "rules"
SWAPPED = (("bf16", "fp16"), ("bfloat16", "float16"), ("True", "False"), ("float()", "half()"), ("self.", "cls."))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("five_places", "h2o_like", "simpletuner_like", "unsloth_like"):
        shutil.copytree(PROJECTS / name, tmp_path / "tree" / name)
    for case in sorted((RULES / "autocast-dtype-differs").iterdir())[:8]:
        shutil.copytree(case, tmp_path / "tree" / case.name)
    return tmp_path / "tree"


def edit(path: Path, others: list[Path], chance: random.Random) -> None:
    """One edit as people make them, or as an accident does."""
    lines = path.read_text().splitlines(keepends=True)
    at = chance.randrange(len(lines) or 1)
    kind = chance.choice(("swap", "swap", "drop", "double", "append", "take over", "break", "comment"))
    if kind == "swap":
        old, new = chance.choice(SWAPPED)
        lines = [line.replace(old, new) for line in lines]
    elif kind == "drop":
        del lines[at : at + 1]
    elif kind == "double":
        lines[at:at] = lines[at : at + 1]
    elif kind == "append":
        lines.append(f"\n\ndef changed_{at}(value):\n    return value.float()\n")
    elif kind == "take over":
        lines = [chance.choice(others).read_text()]
    elif kind == "break":
        lines.insert(at, "def (:\n")
    else:
        lines.insert(0, "# a comment\n")
    path.write_text("".join(lines))


@pytest.mark.parametrize("seed", range(4))
def test_after_random_edits_a_check_says_what_a_cold_one_says(
    runs: CachedRuns,  # noqa: F811
    tree: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def told_by(project: Project, rule: Rule) -> asking.RuleAnswer:
        asked.append(rule.code)
        return asking.told_by(project, rule)

    monkeypatch.setattr(rechecking, "told_by", told_by)
    chance = random.Random(seed)
    files = sorted(path for path in tree.rglob("*") if path.suffix in (".py", ".sh", ".yaml", ".json", ".toml"))
    words = ("check", "--output-format", "json", tree)
    runs.warm(*words)
    whole = len(asked)
    assert whole > len(files)
    for _ in range(3):
        for path in chance.sample(files, chance.randint(1, 3)):
            edit(path, files, chance)
        asked.clear()
        assert runs.warm(*words) == runs.cold(*words)
        assert len(asked) < whole


def test_a_rule_that_never_asks_which_files_are_checked_is_asked_once(
    runs: CachedRuns,  # noqa: F811
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def told_by(project: Project, rule: Rule) -> asking.RuleAnswer:
        asked.append(rule.code)
        return asking.told_by(project, rule)

    monkeypatch.setattr(rechecking, "told_by", told_by)
    assert runs.warm("check", "--output-format", "json", tree) == runs.cold("check", "--output-format", "json", tree)
    assert asked.count("PF101") == 1  # goes through all scalers
    assert asked.count("PF305") > 40  # goes through the files that are checked


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CHANGES = (
    "body", "signature", "add", "remove", "rename", "up", "down", "decorator", "base", "constant", "import", "comment",
)  # fmt: skip


def change(path: Path, chance: random.Random) -> None:
    """An edit of one definition of a file."""
    lines = path.read_text().splitlines(keepends=True)
    try:
        parts = [item for item in ast.parse("".join(lines)).body if isinstance(item, DEFINITIONS)]
    except SyntaxError:
        return
    kind, at = chance.choice(CHANGES), chance.randrange(len(parts) or 1)
    if kind in ("add", "constant", "import", "comment") or not parts:
        text = {
            "constant": "import torch\nDTYPE = torch.float16\n",
            "import": "from torch import float16 as dtype\n",
            "comment": "# more\n\n",
        }.get(kind, f"def added_{len(lines)}(value):\n    return value.float()\n\n\n")
        before = [start_of(item) for item in parts] + [len(lines)]
        lines.insert(chance.choice(before), text)
        path.write_text("".join(lines))
        return
    item = parts[at]
    start, end, head = start_of(item), item.end_lineno or 0, item.lineno - 1
    part = lines[start:end]
    if kind == "remove":
        part = []
    elif kind in ("up", "down"):
        other = parts[at - 1 if kind == "up" else (at + 1) % len(parts)]
        first, second = sorted([(start, end), (start_of(other), other.end_lineno or 0)])
        if first != second:
            moved = [*lines[second[0] : second[1]], *lines[first[1] : second[0]], *lines[first[0] : first[1]]]
            lines[first[0] : second[1]] = moved
        path.write_text("".join(lines))
        return
    elif kind == "rename":
        part = [line.replace(item.name, item.name + "_new") for line in part]
    elif kind == "decorator":
        part.insert(head - start, "@torch.no_grad()\n")
    elif kind == "base":
        part[head - start] = re.sub(r"\(.*\):", ":", part[head - start])
    elif kind == "signature":
        part = [re.sub(r"def (\w+)\((self, )?", r"def \1(\2more=None, ", line) for line in part]
    else:
        old, new = chance.choice(SWAPPED)
        part = [line.replace(old, new) for line in part] + [f"{part[-1][: indent(part[-1])]}done = 1\n"]
    lines[start:end] = part
    path.write_text("".join(lines))


def start_of(item: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([item.lineno, *(each.lineno for each in item.decorator_list)]) - 1


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@pytest.fixture
def wide_tree(tmp_path: Path) -> Path:
    """Cases in which files go through others."""
    several = [case for case in sorted(RULES.glob("*/*")) if len(list(case.rglob("*.py"))) > 2]
    for case in several[::15]:
        shutil.copytree(case, tmp_path / "wide" / f"{case.parent.name}-{case.name}".replace("-", "_"))
    return tmp_path / "wide"


@pytest.mark.parametrize("seed", range(2))
def test_after_edits_of_definitions_a_check_says_what_a_cold_one_says(
    runs: CachedRuns,  # noqa: F811
    wide_tree: Path,
    seed: int,
) -> None:
    chance = random.Random(seed)
    files = sorted(wide_tree.rglob("*.py"))
    words = ("check", "--output-format", "json", wide_tree)
    runs.warm(*words)
    for _ in range(3):
        for path in chance.sample(files, max(len(files) // 8, 1)):
            change(path, chance)
        assert runs.warm(*words) == runs.cold(*words)


def test_what_was_silenced_or_left_out_is_told_again(runs: CachedRuns, tree: Path) -> None:  # noqa: F811
    broken, calm, train = tree / "broken.py", tree / "calm.py", tree / "unsloth_like" / "train.py"
    broken.write_text("import torch\ndef (:\n")
    calm.write_text("import torch\nscaler = torch.cuda.amp.GradScaler()  # precfix: ignore[PF301]\n")
    words = ("check", "--verbose", tree)
    before = runs.warm(*words)
    assert "broken.py" in "".join(map(str, before))
    edit_of = next(path for path in (train, *sorted(tree.rglob("*.py"))) if path.exists() and path != broken)
    edit_of.write_text(edit_of.read_text() + "\nx = 1\n")
    assert runs.warm(*words) == runs.cold(*words)
    broken.write_text("import torch\n")
    assert runs.warm(*words) == runs.cold(*words)


def test_some_files_of_a_project_use_what_is_known(runs: CachedRuns, tree: Path) -> None:  # noqa: F811
    runs.warm("check", tree)
    paths = sorted(tree.rglob("*.py"))[::3]
    paths[0].write_text(paths[0].read_text().replace("bf16", "fp16") + "\n")
    words = ("check", "--output-format", "json", "--project", tree, *paths)
    assert runs.warm(*words) == runs.cold(*words)


def test_a_damaged_record_is_passed_over(runs: CachedRuns, tree: Path, tmp_path: Path) -> None:  # noqa: F811
    runs.warm("check", tree)
    (kept,) = (tmp_path / "cache" / "findings").iterdir()
    data = kept.read_bytes()
    kept.write_bytes(data[: len(data) // 2] + b"x" + data[len(data) // 2 :])
    first = next(tree.rglob("*.py"))
    first.write_text(first.read_text() + "\nx = 1\n")
    assert runs.warm("check", tree) == runs.cold("check", tree)


CASES = ("autocast-dtype-differs", "launcher-precision-conflict", "constant-overflows-half", "submodule-dtype")


@pytest.mark.parametrize("name", CASES)
def test_what_an_answer_rests_on_is_all_that_it_looks_at(name: str) -> None:
    """Asked after everything else, a rule notes all that it looks at where it is the first: no answer hides that."""
    rules = load()
    for case in sorted(path for path in (RULES / name).iterdir() if path.is_dir())[:5]:
        project = noting(case)
        rests = {(rule, path): looked(project, rule, path) for rule in rules for path in project.paths}
        for (rule, path), seen in rests.items():
            if seen:
                alone = noting(case)
                fresh = named(alone, looked(alone, rule, path))
                assert {leaf for leaf in fresh if leaf[0] != FACT} <= named(project, seen), (rule.code, path)


def noting(case: Path) -> Project:
    project = Project.open([case]).with_frameworks(load_frameworks())
    project.looks.are_noted = True
    return project


def looked(project: Project, rule: Rule, path: str) -> int:
    project.looks.seen = 0
    asking.ask(project.checking([path]), [rule])
    return project.looks.seen


def named(project: Project, seen: int) -> set[tuple[object, ...]]:
    """What was looked at, for facts as well."""
    looks: Looks = project.looks
    found: set[tuple[object, ...]] = set()
    waiting = [seen]
    while waiting:
        each = waiting.pop()
        for leaf in [leaf for leaf, bit in looks.bits.items() if each & bit and leaf not in found]:
            found.add(leaf)
            if leaf[0] == FACT:
                waiting.append(looks.of_facts[leaf[1:]])
    return found


def test_a_record_comes_back_as_it_was(runs: CachedRuns, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    written: list[object] = []
    monkeypatch.setattr(rechecking.kept, "write", lambda kind, key, value: written.append((kind, value)))
    runs.warm("check", tree)
    (value,) = [value for kind, value in written if kind == rechecking.KIND]
    assert to_plain(from_plain(value)) == value


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "precfix.codemod.cache.kept:write",
        "precfix.codemod.cli.recalled:recalled",
        "precfix.codemod.applying.files:write_files",
        "precfix.codemod.incremental.record:import_module",
        "precfix.probes.rehearsal.inside.shadow.copies:torch",
        "precfix.codemod.engine:no_such_name",
    ],
)
def test_a_record_names_facts_alone(name: str) -> None:
    """What a record says is called, so a damaged or foreign one must not reach anything else."""
    with pytest.raises((TypeError, ImportError)):
        fact_named(name)
