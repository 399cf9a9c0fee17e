"""Findings of the dtype flow whose parts stand in several files: each place is in its own file; a maker counts once."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.flow.encounters import meetings
from precfix.codemod.flow.lattice import DtypeSource
from precfix.codemod.model import Finding
from precfix.codemod.outcome import Target
from precfix.codemod.python.names import names_of
from precfix.transforms import load

from .flow_runs import opened

FAR = "\n" * 40
"""Rows of the other file that the first one does not have."""
CAST = "model = Net().to(torch.bfloat16)\nmodel(torch.zeros(2, 4, dtype=torch.bfloat16))\n"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

"""
ROUTES = {
    "helper": (
        "from other import noise_like\n"
        + NET
        + "    def forward(self, x):\n        return self.a(noise_like(x))\n"
        + CAST,
        FAR + "def noise_like(x):\n    return torch.randn(2, 4, device=x.device)\n",
    ),
    "sum in the helper": (
        "from other import widened\n" + NET + "    def forward(self, x):\n        return self.a(widened(x))\n" + CAST,
        FAR + "def widened(x):\n    scale = torch.linspace(0, 1, 4, device=x.device)\n    return x * scale\n",
    ),
    "weights elsewhere": (
        "from other import Inner\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = Inner()\n\n"
        "    def forward(self, x):\n        return self.inner(torch.zeros(2, 4, device=x.device))\n" + CAST,
        FAR + NET.replace("Net", "Inner") + "    def forward(self, x):\n        return self.a(x.float())\n",
    ),
}


def found_in(folder: Path, source: str, other: str = "") -> list[Finding]:
    rules = [rule for rule in load() if rule.code in ("PF201", "PF202", "PF203", "PF204", "PF205", "PF214")]
    report = engine.check(opened(folder, source, other=other), rules, Target("unknown", "a test"))
    assert report.failed_rules == ()
    return list(report.findings)


@pytest.mark.parametrize("route", ROUTES)
def test_every_step_of_a_chain_stands_in_its_file(tmp_path: Path, route: str) -> None:
    project = opened(tmp_path, ROUTES[route][0], other=ROUTES[route][1])
    sources = [
        source
        for meeting in meetings(project)
        for atom in (meeting.odd.atom, meeting.meant.atom)
        for source in _steps(atom.source)
    ]
    assert "other.py" in {source.path for source in sources}
    for source in sources:
        document = project.document(source.path)
        assert document is not None
        assert source.node in names_of(project, document).parents


def _steps(source: DtypeSource | None) -> list[DtypeSource]:
    return [source, *_steps(source.before)] if source is not None else []


@pytest.mark.parametrize("route", ROUTES)
def test_a_finding_with_parts_in_two_files_is_reported(tmp_path: Path, route: str) -> None:
    findings = found_in(tmp_path, *ROUTES[route])
    assert findings
    for finding in findings:
        for place in finding.evidence:
            rows = (tmp_path / place.path).read_text().count("\n")
            assert place.span.row <= rows


def test_a_tensor_that_reaches_several_layers_is_one_finding(tmp_path: Path) -> None:
    source = (
        NET + "    def forward(self, x):\n        noise = torch.randn(2, 4, device=x.device)\n"
        "        return self.a(noise) + self.b(noise) + F.linear(noise, self.a.weight)\n" + CAST
    )
    (finding,) = found_in(tmp_path, source)
    assert finding.code == "PF202"
    assert [place.message for place in finding.evidence][-2:] == [
        "it reaches self.b too",
        "it reaches self.a.weight too",
    ]
    assert [(fix.name, len(fix.edits)) for fix in finding.fixes] == [("producer", 1), ("cast", 3)]


def test_two_tensors_are_two_findings(tmp_path: Path) -> None:
    source = (
        NET + "    def forward(self, x):\n        first = torch.randn(2, 4, device=x.device)\n"
        "        second = torch.randn(2, 4, device=x.device)\n"
        "        return self.a(first) + self.b(second)\n" + CAST
    )
    assert [finding.code for finding in found_in(tmp_path, source)] == ["PF202", "PF202"]
