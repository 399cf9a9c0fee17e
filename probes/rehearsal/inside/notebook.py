"""Runs the code cells of a notebook in order: ``python notebook.py CODE NOTEBOOK``.

CODE is the notebook as one module, lines of IPython masked; each cell but the first begins with a line that holds its
number as a name. It is compiled under the notebook's own name, so that its lines are the user's.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from pathlib import Path

_CELL = "__precfix_cell_"


def main() -> None:
    """Be the program: ``__main__`` and ``sys.argv`` are as for a script."""
    text, notebook = Path(sys.argv[1]).read_text("utf-8"), os.path.abspath(sys.argv[2])
    code = compile(text, notebook, "exec")
    for name in code.co_names:
        if name.startswith(_CELL):
            setattr(builtins, name, None)
    vars(builtins)["display"] = lambda *values, **options: None
    program = types.ModuleType("__main__")
    program.__file__ = notebook
    sys.modules["__main__"] = program
    sys.argv = [notebook]
    sys.path[0] = os.path.dirname(notebook)
    exec(code, program.__dict__)


if __name__ == "__main__":
    main()
