"""Which definitions some code uses."""

from __future__ import annotations

import ast
from pathlib import Path

from precfix.codemod.python.names import names_of
from precfix.codemod.python.reach import MAX_MODULES, Reached, reached

from .project_tree import open_tree


def names_reached(root: Path, files: dict[str, str], start: str = "main.py") -> set[str]:
    found = reach_of(root, files, start)
    return {node.name for node in found.parts if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def reach_of(root: Path, files: dict[str, str], start: str) -> Reached:
    project = open_tree(root, files)
    document = project.document(start)
    assert document is not None
    module = names_of(project, document)
    return reached(project, [(module, module.tree)])


def test_definitions_are_followed_through_imports_reexports_and_constants(tmp_path: Path) -> None:
    files = {
        "main.py": "from net import Net\nimport parts.heads as heads\nNet(heads.Head)\n",
        "net/__init__.py": "from .big import Net\nfrom .small import Small\n",
        "net/big.py": "from parts import TABLE\nclass Net:\n    def forward(self):\n        return TABLE['a'](self)\n",
        "net/small.py": "class Small: ...\n",
        "parts/__init__.py": "class A: ...\nclass B: ...\nTABLE = {'a': A}\n",
        "parts/heads.py": "class Base: ...\nclass Head(Base): ...\nclass Other: ...\n",
    }
    assert names_reached(tmp_path, files) == {"Net", "A", "Head", "Base"}


def test_local_names_hide_those_of_the_module(tmp_path: Path) -> None:
    text = "class A: ...\nclass B: ...\ndef f(A):\n    return A\ndef g():\n    return B\nf(1)\n"
    files = {"main.py": "from used import f\nf(0)\n", "used.py": text}
    assert names_reached(tmp_path, files) == {"f"}


def test_circles_end_and_far_files_are_left_out(tmp_path: Path) -> None:
    count = MAX_MODULES + 20
    files = {
        f"m{index}.py": f"from m{(index + 1) % count} import f{(index + 1) % count} as g\ndef f{index}(): g()\n"
        for index in range(count)
    }
    found = reach_of(tmp_path, files, "m0.py")
    assert len(found.modules) == MAX_MODULES
    assert found.holds(found.modules[0], found.modules[0].calls[0])


def test_classes_inside_a_part_count(tmp_path: Path) -> None:
    found = reach_of(tmp_path, {"main.py": "def make():\n    class Inner: ...\n    return Inner\n"}, "main.py")
    assert [node.name for _, node in found.classes] == ["Inner"]
