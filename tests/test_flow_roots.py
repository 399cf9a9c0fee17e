"""Which functions are interpreted: those that make a dtype, or are given what another one made in float32."""

from pathlib import Path

import pytest
from precfix.codemod.flow.roots import roots

from .flow_runs import opened

MODEL = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(2, 2)\n"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return self.layer(x.float())", ["forward"]),
        ("y = x.float()\n        return self.layer(y + 1)", ["forward"]),
        ("y = torch.zeros(2)\n        return x @ y", ["forward"]),
        ("return self.layer(x + 1)", []),
        ("print(float(x.sum()), str(x).encode('utf-8'))\n        return self.layer(x)", []),
    ],
)
def test_a_function_is_followed_where_it_makes_something_wide(body: str, expected: list[str], tmp_path: Path) -> None:
    project = opened(tmp_path, f"{MODEL}    def forward(self, x):\n        {body}\n")
    assert [item.name for found in roots(project).values() for item in found if item is not None] == expected


def test_callers_are_followed_who_are_given_something_wide(tmp_path: Path) -> None:
    helper = "def wide(x):\n    return x.float()\n"
    source = f"{helper}{MODEL}    def forward(self, x):\n        return self.layer(wide(x))\n"
    project = opened(tmp_path, source)
    assert [item.name for found in roots(project).values() for item in found if item] == ["wide", "forward"]
