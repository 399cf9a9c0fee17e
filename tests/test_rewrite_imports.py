"""Adding imports where they belong, and dropping those that nothing needs any more."""

from __future__ import annotations

import pytest
from precfix.codemod.model import AddImport, DropImport, EditRefused, RemoveStatement, ReplaceExpression

from .rewrite_targets import code, edited, expr, stmt

ADDED: dict[str, tuple[str, str, str]] = {
    "after the imports": (
        "import os\nimport sys\n\nx = 1\n",
        "import torch",
        "import os\nimport sys\nimport torch\n\nx = 1\n",
    ),
    "near the same package": (
        "import torch\nimport torch.nn as nn\nimport os\n\nx = 1\n",
        "from torch.amp import autocast",
        "import torch\nimport torch.nn as nn\nfrom torch.amp import autocast\nimport os\n\nx = 1\n",
    ),
    "not above what must come first": (
        "import os\nos.environ['A'] = '1'\nimport torch\nx = torch\n",
        "import torch.nn as nn",
        "import os\nos.environ['A'] = '1'\nimport torch\nimport torch.nn as nn\nx = torch\n",
    ),
    "merged": (
        "from torch.amp import GradScaler\n",
        "from torch.amp import autocast",
        "from torch.amp import GradScaler, autocast\n",
    ),
    "not merged into brackets": (
        "from torch.amp import (\n    GradScaler,\n)\n",
        "from torch.amp import autocast",
        "from torch.amp import (\n    GradScaler,\n)\nfrom torch.amp import autocast\n",
    ),
    "not merged beside a comment": (
        "from torch.amp import GradScaler  # noqa: F401\n",
        "from torch.amp import autocast",
        "from torch.amp import GradScaler  # noqa: F401\nfrom torch.amp import autocast\n",
    ),
    "there already": ("import os, torch\n", "import torch", "import os, torch\n"),
    "there by a submodule": ("import torch.nn\n", "import torch", "import torch.nn\n"),
    "an alias is another name": ("import torch.nn as nn\n", "import torch", "import torch.nn as nn\nimport torch\n"),
    "another name of the same": ("import torch as th\n", "import torch", "import torch as th\nimport torch\n"),
    "there in another spelling": ("from torch import nn\n", "import torch.nn as nn", "from torch import nn\n"),
    "a submodule more": ("import torch\n", "import torch.nn", "import torch\nimport torch.nn\n"),
    "there in a try": (
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
        "import torch",
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
    ),
    "only for type checkers": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nx = 1\n",
        "import torch",
        "from typing import TYPE_CHECKING\nimport torch\nif TYPE_CHECKING:\n    import torch\nx = 1\n",
    ),
    "after the docstring": ('"""doc"""\n\nx = 1\n', "import torch", '"""doc"""\n\nimport torch\n\nx = 1\n'),
    "between docstring and code": ('"""doc"""\nx = 1\n', "import torch", '"""doc"""\n\nimport torch\n\nx = 1\n'),
    "after a docstring of lines": (
        '#!/bin/x\n"""doc\n\nmore\n"""\n',
        "import torch",
        '#!/bin/x\n"""doc\n\nmore\n"""\n\nimport torch\n',
    ),
    "after __future__": (
        "from __future__ import annotations\nx = 1\n",
        "import torch",
        "from __future__ import annotations\nimport torch\nx = 1\n",
    ),
    "below the license": ("# license\n\nx = 1\n", "import torch", "# license\n\nimport torch\n\nx = 1\n"),
    "below a touching license": (
        "# license\n@d\ndef f(): pass\n",
        "import torch",
        "# license\nimport torch\n\n@d\ndef f(): pass\n",
    ),
    "above a comment of the code": (
        "# license\n\n# x\nx = 1\n",
        "import torch",
        "# license\n\nimport torch\n\n# x\nx = 1\n",
    ),
    "an empty file": ("", "import torch", "import torch\n"),
    "a file of comments": ("# c", "import torch", "# c\nimport torch"),
    "CRLF": ("import os\r\n\r\nx = 1\r\n", "import torch", "import os\r\nimport torch\r\n\r\nx = 1\r\n"),
    "CR": ("import os\rx = 1\r", "import torch", "import os\rimport torch\rx = 1\r"),
    "no newline at the end": ("import os", "import torch", "import os\nimport torch"),
    "a shared line": ("import os; import sys\nx\n", "import torch", "import os; import sys\nimport torch\nx\n"),
    "a shared line that goes on": (
        "import os; x = (\n1)\ny\n",
        "import torch",
        "import os; x = (\n1)\nimport torch\ny\n",
    ),
    "past an optional import": (
        "import os\ntry:\n    import a\nexcept ImportError:\n    a = None\nimport sys\nx = 1\n",
        "import torch",
        "import os\ntry:\n    import a\nexcept ImportError:\n    a = None\nimport sys\nimport torch\nx = 1\n",
    ),
    "before the first use": (
        "import os\nx = torch.y\nfrom torch import z\n",
        "import torch",
        "import os\nimport torch\nx = torch.y\nfrom torch import z\n",
    ),
    "two names": ("import os\n", "from torch import a, b", "import os\nfrom torch import a, b\n"),
    "relative": ("from . import a\n", "from .b import c", "from . import a\nfrom .b import c\n"),
    "relative, there already": ("from .b import c\n", "from .b import c", "from .b import c\n"),
}


@pytest.mark.parametrize("name", ADDED)
def test_add_import(name: str) -> None:
    before, statement, after = ADDED[name]
    assert edited(before, AddImport(statement)) == after
    assert edited(after, AddImport(statement)) == after


@pytest.mark.parametrize(
    "before",
    [
        "autocast = None\n",
        "def autocast(): pass\n",
        "from apex import autocast\n",
        "try:\n    import x\nexcept ImportError:\n    from apex import autocast\n",
        "with a as autocast: pass\n",
        "if a:\n    for autocast in b: pass\n",
        "def f():\n    global autocast\n    autocast = 1\n",
        "if (autocast := f()): pass\n",
    ],
)
def test_add_import_refuses_a_taken_name(before: str) -> None:
    with pytest.raises(EditRefused, match="autocast already means something else"):
        edited(before, AddImport("from torch.amp import autocast"))


@pytest.mark.parametrize("statement", ["x = 1", "import", "from a import *", "import a; import b", ""])
def test_add_import_refuses_what_is_none(statement: str) -> None:
    with pytest.raises(EditRefused):
        edited("x\n", AddImport(statement))


NOTEBOOK = """
    # intro
    a = 1
    __precfix_cell_1__
    import torch
    b = 2
    __precfix_cell_4__
    pass  #precfix-magic:%matplotlib inline
    c = autocast
"""


def test_add_import_to_a_notebook() -> None:
    before = code(NOTEBOOK)
    after = edited(before, AddImport("from torch.amp import autocast"))
    assert after == before.replace("import torch\n", "import torch\nfrom torch.amp import autocast\n")
    assert edited(before, AddImport("import os")) == before.replace("import torch\n", "import torch\nimport os\n")
    before = before.replace("import torch\n", "")
    after = edited(before, AddImport("from torch.amp import autocast"))
    assert after == before.replace("inline\n", "inline\nfrom torch.amp import autocast\n")
    before = "a = 1\n__precfix_cell_1__\nb = torch\n__precfix_cell_2__\nimport torch.nn as nn\n"
    assert edited(before, AddImport("import torch")) == before.replace("b = ", "import torch\n\nb = ")


DROPPED: dict[str, tuple[str, str]] = {
    "a whole import": ("import a\nimport b\n\nx\n", "import b\n\nx\n"),
    "the only import": ("# license\n\nimport a\n\n\nx\n", "# license\n\nx\n"),
    "one of two": ("import a, b\n", "import b\n"),
    "the last of two": ("from q import b, a\n", "from q import b\n"),
    "the middle": ("from q import b, a, c\n", "from q import b, c\n"),
    "by its other name": ("from q import z as a\nx\n", "x\n"),
    "in brackets": ("from q import (a, b,)\n", "from q import (b,)\n"),
    "the last in brackets": ("from q import (b, a)\n", "from q import (b)\n"),
    "the last in brackets with a comma": ("from q import (b, a,)\n", "from q import (b,)\n"),
    "one per line": ("from q import (\n    a,  # a\n    b,  # b\n)\n", "from q import (\n    b,  # b\n)\n"),
    "the last line": ("from q import (\n    b,  # b\n    a,  # a\n)\n", "from q import (\n    b,  # b\n)\n"),
    "the last line, no comma": ("from q import (\n    b,  # b\n    a  # a\n)\n", "from q import (\n    b  # b\n)\n"),
    "all of one per line": ("from q import (\n    a,\n)\nx\n", "x\n"),
    "in a condition": ("if TYPE_CHECKING:\n    import a\nx\n", "if TYPE_CHECKING:\n    pass\nx\n"),
    "in a function": ("def f():\n    import a\n    x\n", "def f():\n    x\n"),
    "a word of a docstring": ('"""Use a."""\nimport a\nx\n', '"""Use a."""\n\nx\n'),
}


def _drop(text: str, name: str = "a") -> DropImport:
    start = "import" if "import" in text.split() and "from q" not in text else "from q"
    return DropImport(stmt(text, start), name)


@pytest.mark.parametrize("name", DROPPED)
def test_drop_import(name: str) -> None:
    before, after = DROPPED[name]
    if name == "a word of a docstring":
        after = '"""Use a."""\nx\n'
    assert edited(before, _drop(before)) == after


@pytest.mark.parametrize(
    "before",
    [
        "import a\na.b()\n",
        "import a\ndef f():\n    return a\n",
        "import a\n__all__ = ['a']\n",
        "import a\n__all__ = []\n__all__ += ['a']\n",
        "import a\n__all__ = []\n__all__.append('a')\n",
        "import a\ndef f(x: 'list[a.B]'): pass\n",
        "import a\ndef f(x) -> 'a': pass\n",
        "import a\nx: 'a' = 1\n",
        "import a\nx = 1  # type: a.B\n",
        "import a\ny = cast('a.B', x)\n",
        "import a\ndef f():\n    global a\n",
        "import a\ndel a\n",
        "from q import *\n",
        "from q import a as a\n",
        "try:\n    import a\nexcept ImportError:\n    pass\n",
        "try:\n    from z import a\nexcept ImportError:\n    from q import a\n",
        "with suppress(ImportError):\n    import a\n",
        "import b\n",
        "import a.c\na.c.d()\n",
    ],
)
def test_drop_import_keeps_what_is_needed(before: str) -> None:
    assert edited(before, _drop(before)) == before


def test_drop_import_counts_the_uses_that_remain() -> None:
    before = "from q import a, b\nx = a(1)\na(2)\n"
    operations = (_drop(before), ReplaceExpression(expr(before, "a(1)"), ("1",)))
    assert edited(before, *operations) == "from q import a, b\nx = 1\na(2)\n"
    gone = RemoveStatement(stmt(before, "a(2)"))
    assert edited(before, *operations, gone) == "from q import b\nx = 1\n"


def test_drop_both_names_of_an_import() -> None:
    before = "from q import a, b\nx\n"
    assert edited(before, _drop(before, "a"), _drop(before, "b")) == "x\n"
    before = "from q import a, b\nb\n"
    assert edited(before, _drop(before, "a"), _drop(before, "b")) == "from q import b\nb\n"


def test_an_import_changes_its_home() -> None:
    before = "import torch\nfrom q import a\n\na()\n"
    after = "import torch\nfrom torch.amp import a\n\na()\n"
    assert edited(before, _drop_from(before), AddImport("from torch.amp import a")) == after
    removed = RemoveStatement(stmt(before, "from q"))
    assert edited(before, removed, AddImport("from torch.amp import a")) == after


def _drop_from(text: str) -> DropImport:
    return DropImport(stmt(text, "from q"), "a")


def test_add_and_drop_with_other_edits() -> None:
    before = code(
        """
        import torch
        from q import a

        with a():
            x = 1
        """
    )
    operations = (
        ReplaceExpression(expr(before, "a()"), ("autocast()",)),
        AddImport("from torch.amp import autocast"),
        AddImport("from torch.amp import autocast"),
        _drop_from(before),
    )
    assert (
        edited(before, *operations) == "import torch\nfrom torch.amp import autocast\n\nwith autocast():\n    x = 1\n"
    )
