"""What the index answers about words is what a search through each file would say."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from precfix.codemod.source import store, word_index
from precfix.codemod.source.decoding import Unreadable
from precfix.codemod.source.documents import Document, FileKind, kind_of
from precfix.codemod.source.project import Project

from .fixture_cases import write_files
from .nightly import examples

PIECES = (
    *("torch", "Torch", "float16", "half", "HALF", "e", "x1", "_", "name", "names", "rename", "16"),
    *(".", "(", ")", " ", "\n", "\r\n", "=", '"', "'", "-", "\\", ", ", "\t", "\f"),
    *("é", "ß", "İ", "\u2028", "名"),
)
WORDS = (
    *(
        "",
        "e",
        "half",
        ".half(",
        "Half",
        "torch.float16",
        "name",
        "names",
        "(name",
        "name(",
        "torch\nhalf",
        "torch\r\n",
    ),
    *(
        "e-",
        "- ",
        "é",
        "名",
        "x1é",
        "nothing",
        '"name"',
        "'name'",
        "İ",
        "İ".lower(),
        "\udc80",
        "float",
        "_",
        "16",
        "\\",
    ),
)


def random_text(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randrange(40)))


def random_bytes(chance: random.Random, path: str) -> bytes:
    text = random_text(chance)
    if path.endswith(".ipynb"):
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text}
        notebook = {"cells": [cell], "metadata": {"half": "torch"}, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(notebook, ensure_ascii=chance.random() < 0.5).encode()
    coding = chance.choice(("", "", "utf-8", "latin-1", "utf-7", "cp1252", "no-such"))
    head = f"# coding: {coding}\n" if coding else ""
    mark = b"\xef\xbb\xbf" if chance.random() < 0.2 else b""
    kept = coding if coding in ("latin-1", "utf-7", "cp1252") else "utf-8"
    return mark + (head + text).encode(kept, "replace") + chance.choice((b"", b"", b"\xff", b"\0"))


def holds(document: Document, words: tuple[str, ...]) -> bool:
    """Any of the words in the bytes, the letter case of ASCII aside."""
    data = document.data.lower()
    return not words or any(word.lower().encode("utf-8", "surrogatepass") in data for word in words)


def searched(files: dict[str, bytes], words: tuple[str, ...], also: tuple[tuple[str, ...], ...]) -> list[str]:
    found = []
    for path, data in sorted(files.items()):
        kind = kind_of(path)
        if kind not in (FileKind.PYTHON, FileKind.NOTEBOOK):
            continue
        try:
            document = Document(path, kind, data)
        except Unreadable:
            continue
        if holds(document, words) and all(any(word in document.text for word in group) for group in also):
            found.append(path)
    return found


@pytest.mark.parametrize("seed", range(examples(30)))
@pytest.mark.parametrize("limit", [None, "MAX_WORDS", "MAX_VOCABULARY"])
def test_the_index_answers_as_a_search_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, limit: str | None
) -> None:
    if limit is not None:
        monkeypatch.setattr(word_index, limit, 4)
    chance = random.Random(seed)
    files = {path: random_bytes(chance, path) for path in ("a.py", "b.py", "c.ipynb", "d/e.py", "f.py", "g.txt")}
    write_files(tmp_path, files)
    project = Project.open([tmp_path])
    texts = {path: random_text(chance) for path in searched(files, (), ())[:1] if path.endswith(".py")}
    for now in (project, project.with_texts(encodable(project, texts))):
        data = {path: document.data for path in files if (document := now.document(path)) is not None}
        for _ in range(40):
            words = tuple(chance.sample(WORDS, chance.randrange(4)))
            also = tuple(tuple(chance.sample(WORDS, chance.randrange(4))) for _ in range(chance.randrange(3)))
            assert now.python_paths(words, *also) == searched(data, words, also), (words, also)
            where = [path for path in searched(data, words, also) if speaks(data[path], path)]
            assert now.python_paths(words, *also, where=lambda text: "torch" in text) == where
            plain = [document.path for document in now.documents(FileKind.PYTHON, words)]
            assert plain == [path for path in searched(data, words, ()) if path.endswith(".py")]


def speaks(data: bytes, path: str) -> bool:
    kind = kind_of(path)
    assert kind is not None
    return "torch" in Document(path, kind, data).text


def encodable(project: Project, texts: dict[str, str]) -> dict[str, str]:
    found = {}
    for path, text in texts.items():
        document = project.document(path)
        if document is not None and document.encoding == "utf-8":
            found[path] = text
    return found


def test_no_question_about_words_decodes_or_keeps_what_does_not_hold_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {f"m{number}.py": f"name_{number} = 'half'\n".encode() for number in range(20)})
    made: list[str] = []

    class Counted(Document):
        def __init__(self, path: str, kind: FileKind, data: bytes) -> None:
            made.append(path)
            super().__init__(path, kind, data)

    monkeypatch.setattr(store, "Document", Counted)
    project = Project.open([tmp_path])
    assert project.python_paths(("half",), ("name_1",)) == ["m1.py", *(f"m1{number}.py" for number in range(10))]
    assert project.python_paths((), ("name_7 = ",)) == ["m7.py"]
    assert made == []
    assert [document.path for document in project.python_documents(("HALF",), ("name_7",))] == ["m7.py"]
    assert made == ["m7.py"]


def test_a_file_is_opened_again_only_for_words_it_may_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"a.py": b"model.half()\n", "b.py": b"behalf(x)\n", "c.py": b"half = 1\n"})
    reads: list[str] = []
    real = store.read_regular_file
    monkeypatch.setattr(
        store, "read_regular_file", lambda path, limit: reads.append(Path(path).name) or real(path, limit)
    )
    project = Project.open([tmp_path])
    assert project.python_paths(("half",)) == ["a.py", "b.py", "c.py"]
    assert sorted(reads) == ["a.py", "b.py", "c.py"]
    del reads[:]
    assert project.python_paths((".half(",)) == ["a.py"]
    assert sorted(reads) == ["a.py", "c.py"]
    del reads[:]
    assert project.python_paths((".half(", "behalf")) == ["a.py", "b.py"]
    assert project.python_paths(("nowhere",), (".half(",)) == []
    assert reads == []
