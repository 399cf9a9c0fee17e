"""Models that a program certainly runs in 16 bits: cast, or in an autocast region that is open."""

import ast
from pathlib import Path

import pytest
from precfix.codemod.half.half_classes import certain_regions
from precfix.codemod.half.half_runs import half_runs

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
EITHER = "if flag:\n    net = Net()\nelse:\n    net = Net().half()\n" + IN_REGION.removeprefix("net = Net()\n")
CAST = "net = Net().to(torch.bfloat16)\nnet(torch.rand(2, 2))\n"


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        (IN_REGION, "", ["Net"]),
        (EITHER, "", []),
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


def test_calls_of_one_object_are_followed_not_those_of_another_one_of_its_class(tmp_path: Path) -> None:
    given = MODEL.replace("def __init__(self)", "def __init__(self, more=False)")
    calls = "".join(
        f"{name} = Net({text})\nwith torch.autocast('cuda'):\n    {name}(torch.rand(2, 2))\n"
        for name, text in (("one", ""), ("other", "more=True"))
    )
    regions = list(certain_regions(opened(tmp_path, given + calls)))
    assert [[ast.unparse(call.func) for call in calls] for _, calls, _, _ in regions] == [["one"], ["other"]]


@pytest.mark.parametrize(
    ("call", "expected"), [("net(x)", 1), ("net.forward(x)", 1), ("net.layer(x)", 0), ("net.eval()", 0)]
)
def test_a_part_or_what_torch_defines_is_not_the_model(call: str, expected: int, tmp_path: Path) -> None:
    text = f"net = Net()\nx = torch.rand(2, 2)\nwith torch.autocast('cuda'):\n    {call}\n"
    assert len(list(certain_regions(opened(tmp_path, MODEL + text)))) == expected
