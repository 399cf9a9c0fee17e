"""Rules that are imported only where a file holds what they ask for: never one too few, and the same ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.cache import kept
from precfix.codemod.outcome import Target
from precfix.codemod.source.documents import FileKind
from precfix.codemod.source.project import Project
from precfix.transforms import deferred, load
from precfix.transforms.deferred import load_deferred, questions_of
from precfix.transforms.frameworks import read_own

from .fixture_cases import REPOSITORY
from .project_tree import write_tree

PLAIN = "def add(one, two):\n    return one + two\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PRECFIX_NO_CACHE")
    monkeypatch.setenv("PRECFIX_CACHE_DIR", os.fspath(tmp_path / "cache"))
    monkeypatch.setattr(deferred, "installed_state", lambda: "now")
    return tmp_path / "cache"


def test_kept_rules_are_those_that_were_loaded(place: Path) -> None:
    own = load_deferred()
    assert own == load()
    again = load_deferred()
    assert [(each.code, each.name, each.docs, each.url, each.depends_on) for each in again] == [
        (each.code, each.name, each.docs, each.url, each.depends_on) for each in own
    ]
    assert {each.check.__module__ for each in again} == {deferred.__name__}


def test_what_a_rule_asks_first_is_known() -> None:
    asked = {rule.code: questions_of(rule) for rule in load()}
    unknown = {code for code, questions in asked.items() if questions is None}
    assert unknown == set(), "these rules look at more than files that hold a word first, and are always imported"
    without_words = [code for code, questions in asked.items() for each in questions or () if not each.words]
    assert without_words == []
    assert any(FileKind.YAML in each.kinds for each in asked["PF401"] or ())


CASES = sorted(path for path in (REPOSITORY / "fixtures" / "rules").glob("*/*") if path.is_dir())


@pytest.mark.parametrize("case", CASES[::7], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_deferred_rules_find_the_same(place: Path, case: Path) -> None:
    load_deferred()
    target = Target("unknown", "")

    def report(rules: object) -> tuple[object, ...]:
        project = Project.open([case]).with_frameworks(read_own())
        found = engine.check(project, rules, target)  # type: ignore[arg-type]
        return found.findings, found.skipped, found.failed_rules, found.files_parsed

    assert report(load_deferred()) == report(load())


@pytest.mark.parametrize(
    "value",
    [None, [], [1], [["precfix.transforms.x"]], [["os", "PF1", "a", "b", "", [], True, 1]], {"a": 1}, [["a"] * 8]],
)
def test_misshapen_kept_rules_are_loaded_anew(place: Path, value: object) -> None:
    kept.write("tables", "rules now", value)
    assert load_deferred() == load()


def test_what_a_project_declares_is_the_same(place: Path) -> None:
    from precfix.codemod.trainers.reading.declared import declared_regime

    def both(case: Path) -> tuple[str, str]:
        project = Project.open([case]).with_frameworks(read_own())
        return deferred.declared(project), declared_regime(project)

    regimes = [both(case) for case in CASES[::20]]
    assert [one for one, _ in regimes] == [other for _, other in regimes]
    assert len({one for one, _ in regimes}) > 1
    for wrong in (None, 1, [1], ["bf16-mixed", 1], [1, []], ["bf16-mixed", [["x"]]]):
        kept.write("tables", "declared now", wrong)
        assert len(set(both(CASES[0]))) == 1


def test_nothing_else_is_imported_in_place_of_a_rule(place: Path, tmp_path: Path) -> None:
    kept.write("tables", "rules now", [["os.path", "PF101", "a", "b", "", [], True, None]])
    (rule,) = load_deferred()
    with pytest.raises(ValueError, match=r"os\.path"):
        rule.check(Project.open([write_tree(tmp_path / "project", {"a.py": PLAIN})]))


def test_a_file_without_words_of_precision_imports_few_rules(tmp_path: Path) -> None:
    project = write_tree(tmp_path / "project", {"a.py": PLAIN})
    program = (
        f"import atexit, json, sys\nsys.argv = ['precfix', 'check', {str(project)!r}, '-q']\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from precfix.codemod.__main__ import main\nmain()\n"
    )
    environment = {**os.environ, "PRECFIX_CACHE_DIR": os.fspath(tmp_path / "cache")}
    del environment["PRECFIX_NO_CACHE"]

    def imported() -> list[str]:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        names: list[str] = json.loads(done.stderr)
        return [name for name in names if name.startswith("precfix.")]

    everything = imported()
    (project / "b.py").write_text(PLAIN)
    few = imported()
    assert len(few) < len(everything) / 2
    assert not [name for name in few if name.startswith(("precfix.codemod.flow", "precfix.codemod.rewrite"))]
    assert len([name for name in few if name.startswith("precfix.transforms.") and name.count(".") == 3]) < 15
