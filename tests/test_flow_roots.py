"""Which functions are interpreted: those in which something wide can reach what does not promote."""

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
        ("return self.layer(x.float().to(x.dtype))", []),
        ("return self.layer(torch.zeros(2, dtype=x.dtype))", []),
        ("return x.float().mean()", []),
        ("print(float(x.sum()))\n        return self.layer(x)", []),
    ],
)
def test_a_function_is_followed_where_something_wide_can_meet(body: str, expected: list[str], tmp_path: Path) -> None:
    project = opened(tmp_path, f"{MODEL}    def forward(self, x):\n        {body}\n")
    assert [item.name for found in roots(project).values() for item in found if item is not None] == expected


def test_callers_are_followed_who_are_given_something_wide(tmp_path: Path) -> None:
    helper = "def wide(x):\n    return x.float()\n"
    source = f"{helper}{MODEL}    def forward(self, x):\n        return self.layer(wide(x))\n"
    project = opened(tmp_path, source)
    assert [item.name for found in roots(project).values() for item in found if item is not None] == ["forward"]
