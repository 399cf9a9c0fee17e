"""What ``python -m tests.new_rule`` writes is a rule: it imports and has a whole manual; what cannot be is refused."""

from __future__ import annotations

import ast
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from precfix.codemod.plugins.testing import try_rule
from precfix.codemod.report.manual import sections_of

from . import new_rule
from .manual_pages import REQUIRED_SECTIONS

MODULE = "precfix.transforms.dtype.some_mistake"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("PF15", "some-mistake"), "must be PF and three digits"),
        (("PF998", "Some mistake"), "must be lower-case words"),
        (("PF101", "some-mistake"), "PF101 grad-scaler-under-bf16 exists already"),
        (("PF998", "clip-before-unscale"), "PF103 clip-before-unscale exists already"),
    ],
)
def test_a_rule_that_cannot_be_started(
    arguments: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new_rule.main([*arguments, "--family", "dtype"]) == 2
    assert message in capsys.readouterr().out


def test_the_files_of_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "transforms" / "dtype").mkdir(parents=True)
    (tmp_path / "transforms" / "dtype" / "__init__.py").touch()
    monkeypatch.setattr(new_rule, "REPOSITORY", tmp_path)
    monkeypatch.setattr(new_rule, "FIXTURES", tmp_path / "fixtures")
    assert new_rule.main(["PF998", "some-mistake", "--family", "dtype"]) == 0
    spec = spec_from_file_location(MODULE, tmp_path / "transforms" / "dtype" / "some_mistake.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, MODULE, module)
    spec.loader.exec_module(module)
    rule = module.rule
    assert (rule.code, rule.name) == ("PF998", "some-mistake")
    assert tuple(sections_of(rule)) == REQUIRED_SECTIONS
    cases = tmp_path / "fixtures" / "rules" / "some-mistake"
    for case in ("finds", "silent-look-alikes"):
        ast.parse((cases / case / "input" / "train.py").read_text("utf-8"))
    assert len(try_rule(rule, {"train.py": "import torch\ntorch.set_default_dtype(torch.half)\n"}).findings) == 1
    with pytest.raises(SystemExit):
        new_rule.main(["PF998", "some-mistake", "--family", "nowhere"])
