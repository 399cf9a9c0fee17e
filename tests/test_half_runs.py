"""Models that a program certainly runs in 16 bits: cast, or in an autocast region that is open."""

from pathlib import Path

import pytest
from precfix.codemod.flow.half_runs import half_runs

from .flow_runs import opened

MODEL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)

"""
IN_REGION = "net = Net()\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n    net(torch.rand(2, 2))\n"
CAST = "net = Net().to(torch.bfloat16)\nnet(torch.rand(2, 2))\n"


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        (IN_REGION, "", ["Net"]),
        (IN_REGION, "torch.set_default_dtype(torch.bfloat16)\n", []),
        (CAST, "", ["Net"]),
        (f"# float16\n{CAST.replace('torch.bfloat16', 'dtype')}", "", []),
    ],
)
def test_a_run_is_followed_where_its_dtype_is_certain(
    text: str, other: str, expected: list[str], tmp_path: Path
) -> None:
    project = opened(tmp_path, MODEL + text, other=other)
    assert [run.owner.name for run in half_runs(project)] == expected
