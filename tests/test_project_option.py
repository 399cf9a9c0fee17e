"""``check PATH --project FOLDER``: what the project says elsewhere counts, mistakes elsewhere do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .cli_runs import Runner
from .fixture_cases import REPOSITORY
from .project_tree import write_tree

TREE = REPOSITORY / "fixtures" / "projects"
SETTINGS = ("--isolated", "--no-cache")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


def findings(run: Runner, *words: object, stdin: bytes | None = None) -> list[object]:
    done = run("check", *words, *SETTINGS, "--output-format", "json", stdin=stdin)
    assert done.code in (0, 1), done.err
    found = json.loads(done.out)["diagnostics"]
    assert isinstance(found, list)
    return found


def test_named_files_have_the_findings_of_the_whole_project(run: Runner) -> None:
    whole = findings(run, TREE)
    paths = sorted({str(each["filename"]) for each in whole if isinstance(each, dict)})
    assert len(paths) > 3
    some = paths[::2]
    expected = [each for each in whole if isinstance(each, dict) and each["filename"] in some]
    assert findings(run, *(TREE / path for path in some), "--project", TREE) == expected


def test_a_folder_of_a_project(run: Runner) -> None:
    below = "simpletuner_like/"
    expected = [
        each for each in findings(run, TREE) if isinstance(each, dict) and str(each["filename"]).startswith(below)
    ]
    assert expected
    assert findings(run, TREE / below, "--project", TREE) == expected


OLD_NAMES = """
    import torch


    def train(model, batches, optimizer):
        scaler = torch.cuda.amp.GradScaler()
        for batch in batches:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """


def test_a_folder_alone_is_a_project_of_its_own(run: Runner, tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"src/train.py": OLD_NAMES, "docs/train.py": OLD_NAMES})
    (root / "requirements.txt").write_text("torch==2.3.1\n")
    assert findings(run, root) == []
    for folder in ("src", "docs"):
        assert [each["code"] for each in findings(run, root / folder) if isinstance(each, dict)] == ["PF301"]
        assert findings(run, root / folder, "--project", root) == []


def test_standard_input_belongs_to_a_project(run: Runner, tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": "x = 1\n", "config/ds.json": '{"fp16": {"enabled": true}}\n'})
    both = b'{"fp16": {"enabled": true}, "bf16": {"enabled": true}, "train_batch_size": 8}\n'
    name = root / "config" / "ds.json"
    unsaved = findings(run, "-", "--stdin-filename", name, "--project", root, stdin=both)
    name.write_bytes(both)
    assert unsaved == findings(run, name, "--project", root)
    assert [each["filename"] for each in unsaved if isinstance(each, dict)] == ["config/ds.json"]


def test_a_file_that_is_not_saved_yet(run: Runner, tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": "x = 1\n"})
    found = findings(run, "-", "--stdin-filename", root / "new.py", "--project", root, stdin=b"import apex.amp\n")
    assert all(isinstance(each, dict) and each["filename"] == "new.py" for each in found)


def test_only_comments_of_checked_files_are_judged(run: Runner, tmp_path: Path) -> None:
    comment = "# precfix: ignore-file[PF101] for no reason\nx = 1\n"
    root = write_tree(tmp_path, {"a.py": comment, "b.py": comment})
    assert run.found(root, *SETTINGS) == ["a.py:1 PF002", "b.py:1 PF002"]
    assert run.found(root / "b.py", "--project", root, *SETTINGS) == ["b.py:1 PF002"]


def test_a_baseline_is_not_outdated_by_what_is_not_checked(run: Runner, tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "p", {"a.json": "{}", "b.json": '{"fp16": {"enabled": true}, "bf16": {"enabled": true}}'}
    )
    known = tmp_path / "known.json"
    assert run("check", root, *SETTINGS, "--write-baseline", known).code == 0
    done = run("check", root / "a.json", "--project", root, "--baseline", known, *SETTINGS)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("other.py", "--project", "p"), "'other.py' is not in --project 'p'"),
        (("p/a.py", "--project", "p/a.py"), "--project 'p/a.py' is not a folder"),
        (("-", "--project", "p"), "'-' with --project requires --stdin-filename"),
        (("-", "--stdin-filename", "other.py", "--project", "p"), "'other.py' is not in --project 'p'"),
        (("-", "--stdin-filename", "p/a.docx", "--project", "p"), "is not a valid file name"),
        (("p", "--project", "p", "--write-baseline", "b.json"), "leave out --baseline, --diff-base and --project"),
    ],
)
def test_mistakes_are_explained(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    write_tree(tmp_path, {"p/a.py": "x = 1\n", "other.py": "x = 1\n"})
    monkeypatch.chdir(tmp_path)
    done = run("check", *words, stdin=b"x = 1\n")
    assert done.code == 2
    assert message in done.err
