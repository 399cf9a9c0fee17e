"""Which functions are interpreted: those that make a dtype, or are given what another one made in float32."""

from pathlib import Path

import pytest
from precfix.codemod.flow.roots import followed_modules, roots_in
from precfix.codemod.source.project import Project

from .flow_runs import opened

MODEL = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(2, 2)\n"
)


def _roots(project: Project) -> list[str]:
    found = (item for module in followed_modules(project) for item in roots_in(project, module))
    return [item.name for item in found if item is not None]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return self.layer(x.float())", ["forward"]),
        ("y = x.float()\n        return self.layer(y + 1)", ["forward"]),
        ("y = torch.zeros(2)\n        return x @ y", ["forward"]),
        ("return self.layer(x + 1)", []),
        ("y = torch.zeros(2, dtype=torch.float32)\n        return x @ y", ["forward"]),
        ("y = torch.zeros(2, dtype=self.dtype)\n        return x @ y", ["forward"]),
        ("y = torch.zeros(2, dtype=x.dtype)\n        return x @ y", []),
        ("print(float(x.sum()), str(x).encode('utf-8'))\n        return self.layer(x)", []),
    ],
)
def test_a_function_is_followed_where_it_makes_something_wide(body: str, expected: list[str], tmp_path: Path) -> None:
    project = opened(tmp_path, f"{MODEL}    def forward(self, x):\n        {body}\n")
    assert _roots(project) == expected


def test_callers_are_followed_who_are_given_something_wide(tmp_path: Path) -> None:
    helper = "def wide(x):\n    return x.float()\n"
    source = f"{helper}{MODEL}    def forward(self, x):\n        return self.layer(wide(x))\n"
    project = opened(tmp_path, source)
    assert _roots(project) == ["wide", "forward"]


def test_what_takes_items_of_batches_is_followed_and_what_is_given_them(tmp_path: Path) -> None:
    takes = "def image(loader):\n    for item in loader:\n        return item['image']\n"
    given = "def train(net, source):\n    return net(image(source))\n"
    others = "def plain(net, x):\n    return net(x)\ndef one(net, batch):\n    return net(batch['image'])\n"
    keeps = "class Data:\n    def __init__(self, dataset):\n        self.kept = dataset\n"
    gives = "    def first(self):\n        return self.kept[0]\n"
    project = opened(tmp_path, takes + given + others + keeps + gives)
    assert _roots(project) == ["image", "train", "one", "first"]


def test_what_parts_and_bases_give_is_followed(tmp_path: Path) -> None:
    others = "class Wide(nn.Module):\n    def forward(self, x):\n        return x.float()\n"
    base = "class Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.wide = Wide()\n"
    gives = "    def gives(self, x):\n        return self.wide(x)\n"
    heir = "from parts import Base\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
    heir += "        self.table = torch.ones(2)\n        self.layer = nn.Linear(2, 2)\n"
    calls = (
        "self.wide(x)",
        "self.layer(self.wide(x))",
        "super().gives(x)",
        "x @ self.table",
        "self.layer(self.layer(x))",
    )
    methods = "".join(f"    def m{at}(self, x):\n        return {call}\n" for at, call in enumerate(calls))
    project = opened(tmp_path, heir + methods, parts=others + base + gives)
    assert _roots(project.checking(["main.py"])) == ["m0", "m1", "m2", "m3"]


def test_files_that_are_not_checked_are_parsed_only_where_they_are_called(tmp_path: Path) -> None:
    wide = "def wide(x):\n    return x.float()\n"
    source = f"from helper import wide\n{MODEL}    def forward(self, x):\n        return self.layer(wide(x))\n"
    project = opened(tmp_path, source, helper=wide, other=f"{wide}def caller(x):\n    return wide(x)\n")
    assert _roots(project.checking(["main.py"])) == ["forward"]
    assert "other.py" not in project.parsed
