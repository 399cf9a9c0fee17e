"""Configuration files as rules open them."""

from __future__ import annotations

import json
from pathlib import Path

from precfix.codemod.source.project import Project
from precfix.codemod.trainers.reading.configs import MAX_CHARACTERS, config_files

from .project_tree import write_tree


def test_data_that_only_mentions_a_precision_is_not_read_as_configuration(tmp_path: Path) -> None:
    vocabulary = json.dumps({"bf16": 1, **{f"token{number}": number for number in range(MAX_CHARACTERS // 16)}})
    assert len(vocabulary) > MAX_CHARACTERS
    project = Project.open([write_tree(tmp_path, {"vocab.json": vocabulary, "ds.json": '{"bf16": {}}'})])
    assert [config.name for config in config_files(project, ("bf16",))] == ["ds.json"]
    (skip,) = project.skipped
    assert (skip.path, "too large for a configuration" in skip.reason) == ("vocab.json", True)
