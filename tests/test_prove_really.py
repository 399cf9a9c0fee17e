"""``migrate --prove`` with real rehearsals: what is fixed runs, and says so with its losses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from precfix.codemod.cli import request
from precfix.codemod.model import Finding, Fix, Rule, Span
from precfix.codemod.python.names import names_of
from precfix.codemod.source.project import Project

from .nightly import first_by_day
from .test_cli import precfix
from .warm_torch import python

pytest.importorskip("torch")

TRAIN = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, bias):
        return self.fc(x) + torch.matmul(x, bias)


def main(dtype):
    torch.manual_seed(0)
    net = Net().to("cuda").to(getattr(torch, dtype))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make = getattr(torch, "randn")
    for _ in range(2):
        loss = net(make(2, 4, device="cuda"), make(4, 4, device="cuda").to(net.fc.weight)).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


main("bfloat16")
"""


def test_before_it_raises_in_two_places_and_after_the_fixes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    words = [sys.executable, "-P"] if sys.version_info >= (3, 11) else [sys.executable]
    command = ["migrate", ".", "--allow-dirty", "--output-format", "json", "--prove", "--", python(), "train.py"]
    done = subprocess.run(
        [*words, "-m", "precfix.codemod", *command], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    proof = report["proof"]
    assert [each["row"] for each in proof["before"]["raises"]] == [11, 11]
    assert (proof["after"]["raises"], proof["after"]["steps"], proof["taken_out"]) == ([], 2, [])
    assert proof["tolerance"] == {"dtype": "bfloat16", "losses_apart": []}
    assert len(proof["after"]["losses"]) == 2
    assert proof["after"]["parameter_dtypes"] == {"bfloat16": 2}
    changed = (tmp_path / "train.py").read_text()
    assert "self.fc(x.to(self.fc.weight.dtype)) + torch.matmul(x.to(bias.dtype), bias)" in changed
    assert all(each["fix"]["applicability"] == "safe" for each in report["diagnostics"])


RIGHT = TRAIN.replace("range(2)", "range(9)").replace(
    "return self.fc(x) + torch.matmul(x, bias)", "return self.fc(x) + torch.matmul(x, bias.to(x.dtype))"
)
WRONG = first_by_day(
    ("0.1", "50.0", "TT102 plant at train.py:17", "with it the loss of step 2 is"),
    (
        "self.fc(x)",
        "self.fc(x.float())",
        "TT102 plant at train.py:11",
        "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
    ),
)
"""What stands there, what is planted, and where and why it is taken out. Each costs rehearsals of 3 seconds to find;
that a fix that raises is found among others is asked in test_prove.py."""
SAME = {"torch.manual_seed(0)": "torch.manual_seed(int(0.5))"}
PLANTED = {old: new for old, new, *_ in WRONG} | SAME


def plant(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(("torch",)):
        module = names_of(project, document)
        for row, line in enumerate(document.text.splitlines(), 1):
            for old, new in PLANTED.items():
                column = line.find(old) + 1
                if column and new not in line:
                    span = Span(row, column, row, column + len(old))
                    fix = Fix.unsafe("plant", f"write {new}", module.replace(span, new))
                    yield RULE.at(module, span, f"{old} is wrong", [], [fix])


RULE = Rule("TT102", "planted", "A fix that may be wrong.\n", plant)


def test_planted_wrong_fixes_are_taken_out_by_real_rehearsals(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = RIGHT.replace('make(2, 4, device="cuda")', 'make(2, 4, device="cuda").to(net.fc.weight)')
    (tmp_path / "train.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(request, "known_rules", lambda *_: ((RULE,), ()))
    words = ["--unsafe-fixes", "--allow-dirty", "--steps", "2", "--prove", "--", python(), "train.py"]
    done = precfix(capfd, monkeypatch, "migrate", ".", *words)
    expected = program.replace("torch.manual_seed(0)", PLANTED["torch.manual_seed(0)"])
    assert (tmp_path / "train.py").read_text() == expected, done.err
    taken = sorted(line for line in done.out.splitlines() if line.startswith("Taken out"))
    assert len(taken) == len(WRONG)
    for line, (_, _, place, reason) in zip(taken, sorted(WRONG, key=lambda each: each[2]), strict=True):
        assert line.split(": ")[1] == place
        assert reason in line
    assert "Nothing raised before the fixes, and nothing after them." in done.out
    assert "stopped after 2 optimizer steps" in done.out
