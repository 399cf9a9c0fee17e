"""The project: searching, caching, module names, replaced texts, facts."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
from precfix.codemod.model import EditRefused
from precfix.codemod.source import store
from precfix.codemod.source.documents import Document, FileKind
from precfix.codemod.source.project import PRECISION_WORDS, Project


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "train.py": "from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n",
        "src/pkg/__init__.py": "",
        "src/pkg/model.py": "import torch\nx = torch.bfloat16\n",
        "other.py": "print('nothing here')\n",
        "broken.py": "def f(:\n    GradScaler()\n",
        "late.py": "a = 1\nGradScaler(\n",
        "conf/a.yaml": "MIXED_PRECISION: BF16\n",
        "conf/b.yaml": "lr: 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    cells = [{"cell_type": "code", "source": source} for source in ("GradScaler()", "print 'x'", "y = 1")]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    return tmp_path


def names(documents: object) -> list[str]:
    return [document.path for document in documents]  # type: ignore[attr-defined]


def test_python_documents_hold_a_word_and_parse(root: Path) -> None:
    project = Project.open([root])
    assert names(project.python_documents(["GradScaler"])) == ["n.ipynb", "train.py"]
    assert names(project.python_documents(["GradScaler", "bfloat16"])) == ["n.ipynb", "src/pkg/model.py", "train.py"]
    assert names(project.python_documents(["nothing here"])) == ["other.py"]
    assert names(project.python_documents(["nothing HERE", "no such word"])) == ["other.py"]
    assert names(project.python_documents(["no such word"])) == []
    assert names(project.python_documents()) == [
        "n.ipynb",
        "other.py",
        "src/pkg/__init__.py",
        "src/pkg/model.py",
        "train.py",
    ]


def test_what_is_left_out_is_recorded_once_with_its_row(root: Path) -> None:
    project = Project.open([root])
    for _ in range(2):
        list(project.python_documents(["GradScaler"]))
    assert [(skip.path, skip.reason.split(":")[0]) for skip in project.skipped] == [
        ("broken.py", "not parsed"),
        ("late.py", "not parsed"),
        ("n.ipynb", "cell 2, line 1 is left out"),
    ]
    assert "line 2: " in project.skipped[1].reason


def test_documents_of_a_kind(root: Path) -> None:
    project = Project.open([root])
    assert names(project.documents(FileKind.YAML)) == ["conf/a.yaml", "conf/b.yaml"]
    assert names(project.documents(FileKind.YAML, ["bf16"])) == ["conf/a.yaml"]
    assert names(project.documents(FileKind.YAML, ["mixed_precision"])) == ["conf/a.yaml"]
    assert names(project.documents(FileKind.TOML)) == []
    assert names(project.documents(FileKind.PYTHON, ["gradscaler"])) == ["broken.py", "late.py", "train.py"]


def test_every_precision_word_is_found_alone(tmp_path: Path) -> None:
    for number, word in enumerate(sorted(PRECISION_WORDS)):
        (tmp_path / f"f{number:02}.txt").write_text(word.upper())
    project = Project.open([tmp_path])
    for number, word in enumerate(sorted(PRECISION_WORDS)):
        assert f"f{number:02}.txt" in names(project.documents(FileKind.TEXT, [word]))


def test_each_file_is_searched_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    real = store.read_regular_file

    def counted(path: str, limit: int) -> bytes:
        reads.append(path)
        return real(path, limit)

    monkeypatch.setattr(store, "read_regular_file", counted)
    project = Project.open([root])
    assert not reads
    list(project.python_documents(["GradScaler"]))
    first = len(reads)
    list(project.python_documents(["autocast"]))
    list(project.python_documents(["fp16", "GradScaler"]))
    assert first <= 2 * 7
    assert len(reads) == first
    list(project.python_documents(["zzz"]))
    searched = len(reads)
    list(project.python_documents(["zzz"]))
    assert len(reads) == searched


def test_documents_are_cached(root: Path) -> None:
    project = Project.open([root])
    (document,) = project.python_documents(["cuda.amp"])
    assert project.document("train.py") is document
    assert document.tree is document.tree
    assert project.document("no/such.py") is None
    assert project.document("../outside.py") is None
    assert project.skipped == ()


def test_files_without_words_do_not_stay_in_memory(root: Path) -> None:
    project = Project.open([root])
    list(project.python_documents())
    gc.collect()
    assert not any(isinstance(thing, Document) for thing in gc.get_objects())


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("train", "train.py"),
        ("pkg", "src/pkg/__init__.py"),
        ("pkg.model", "src/pkg/model.py"),
        ("src.pkg.model", "src/pkg/model.py"),
        ("lib", "tools/lib.py"),
        ("lib.sub", None),
        ("deep.mod", "a/b/deep/mod.py"),
        ("deep", None),
        ("inside", None),
        ("twice", None),
        ("both", "both/__init__.py"),
        ("json", None),
        ("model", None),
        ("", None),
        ("pkg..model", None),
        (".model", None),
        ("../train", None),
        ("a-b", None),
    ],
)
def test_python_path(root: Path, module: str, path: str | None) -> None:
    more = ["tools/lib.py", "a/b/deep/mod.py", "a/pk/__init__.py", "a/pk/inside.py", "x/twice.py", "y/twice.py"]
    for name in [*more, "both.py", "both/__init__.py", "tools/json.py", "tools/a-b.py"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    assert Project.open([root]).python_path(module) == path


def test_replaced_texts(root: Path) -> None:
    project = Project.open([root])
    before = project.document("train.py")
    kept = project.document("src/pkg/model.py")
    changed = project.with_texts({"train.py": "x = 1\n", "other.py": "autocast()\n"})
    assert names(changed.python_documents(["GradScaler"])) == ["n.ipynb"]
    assert names(changed.python_documents(["autocast"])) == ["other.py"]
    assert names(project.python_documents(["GradScaler"])) == ["n.ipynb", "train.py"]
    assert project.document("train.py") is before
    assert changed.document("src/pkg/model.py") is kept
    assert changed.paths == project.paths
    again = changed.with_texts({"other.py": "b = 2\n"})
    document = again.document("train.py")
    assert document is not None
    assert document.data == b"x = 1\n"
    assert names(again.python_documents(["autocast"])) == []
    assert (root / "train.py").read_text().startswith("from torch")


def test_replacing_with_broken_python_is_seen(root: Path) -> None:
    changed = Project.open([root]).with_texts({"train.py": "GradScaler(\n"})
    assert "train.py" not in names(changed.python_documents(["GradScaler"]))
    assert "train.py" in names(changed.skipped)


@pytest.mark.parametrize("texts", [{"missing.py": ""}, {"n.ipynb": "x"}, {"train.py": "\ud800"}])
def test_texts_that_cannot_be_written_are_refused(root: Path, texts: dict[str, str]) -> None:
    with pytest.raises(EditRefused):
        Project.open([root]).with_texts(texts)


def test_facts(root: Path) -> None:
    project = Project.open([root])
    calls: list[object] = []

    def of_project(given: Project) -> int:
        calls.append(given)
        return len(given.paths)

    def of_document(given: Document) -> str:
        calls.append(given.path)
        return given.text

    assert project.fact(of_project) == project.fact(of_project) == 9
    changed = project.with_texts({"train.py": "x = 1\n"})
    assert changed.fact(of_project) == 9
    assert calls == [project, changed]
    calls.clear()
    for current in (project, changed, project):
        for path in ("train.py", "other.py"):
            document = current.document(path)
            assert document is not None
            assert document.fact(of_document) == document.text
    assert sorted(map(str, calls)) == ["other.py", "train.py", "train.py"]


def test_importing_the_project_is_cheap() -> None:
    script = "import sys, precfix.codemod.source.project; print(sorted(set(sys.argv[1:]) & set(sys.modules)))"
    heavy = ["torch", "libcst", "rich", "yaml", "tomlkit", "typer", "pathspec", "asyncio"]
    result = subprocess.run([sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
