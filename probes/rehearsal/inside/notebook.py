"""Runs the code cells of a notebook in order: ``python notebook.py CODE NOTEBOOK``.

CODE is the notebook as one module, lines of IPython masked; each cell but the first begins with a line that holds its
number as a name. It is compiled under the notebook's own name, so that its lines are the user's.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import os
import sys
import traceback
import types
from pathlib import Path
from typing import Any

_CELL = "__precfix_cell_"


class _Shell:
    """The shell of IPython, which runs nothing here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *words, **options: None


def main() -> None:
    """Be the program: ``__main__`` and ``sys.argv`` are as for a script."""
    text, notebook = Path(sys.argv[1]).read_text("utf-8"), os.path.abspath(sys.argv[2])
    try:
        code = compile(text, notebook, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        sys.exit("".join(traceback.format_exception_only(error)).rstrip())
    for name in code.co_names:
        if name.startswith(_CELL):
            setattr(builtins, name, None)
    shell = _Shell()
    vars(builtins).update(display=lambda *values, **options: None, get_ipython=lambda: shell)
    program = types.ModuleType("__main__")
    program.__file__ = notebook
    sys.modules["__main__"] = program
    sys.argv = [notebook]
    sys.path[0] = os.path.dirname(notebook)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, program.__dict__))
    else:
        exec(code, program.__dict__)


if __name__ == "__main__":
    main()
