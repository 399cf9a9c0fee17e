"""Programs in front of those that start Python: a script that sets PYTHONPATH anew is watched all the same."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_STARTS_PYTHON = re.compile(
    r"env|(i?python|pypy)[0-9.]*|torchrun|accelerate|accelerate-launch|deepspeed|lightning|fabric|composer|horovodrun|jupyter"
    r"|jupyter-[a-z]+|papermill|poetry|pipenv|uv|uvx|pdm|hatch|rye|pixi|conda|mamba|micromamba"
)
_FOR_PYTHON = """case ":$PYTHONPATH:" in
  *":{inject}:"*) ;;
  *) PYTHONPATH="{inject}${{PYTHONPATH:+:$PYTHONPATH}}"; export PYTHONPATH ;;
esac
PRECFIX_REHEARSAL="{settings}"; export PRECFIX_REHEARSAL
"""
_FOR_ENV = """case "$1 $2" in
  "-i -"*|"- -"*) ;;
  "-i "*|"- "*|"--ignore-environment "*) shift; set -- -i PYTHONPATH="{inject}" PRECFIX_REHEARSAL="{settings}" "$@" ;;
esac
"""
"""``env -i python`` starts with what is said here alone."""
_STAND_IN = """#!/bin/sh
{first}found=
IFS=:
for folder in $PATH; do
  [ "$folder" = "{own}" ] || [ -d "$folder/{name}" ] || [ ! -x "$folder/{name}" ] || {{ found=$folder/{name}; break; }}
done
unset IFS
exec "${{found:-{name}}}" "$@"
"""


def stand_ins(folder: Path, inject: Path, settings: Path, search: str) -> Path | None:
    """A folder to look for programs in first; None where the system runs no such scripts."""
    if os.name != "posix" or any(each in f"{folder}{inject}" for each in '"$`\\:'):
        return None
    own = folder / "bin"
    own.mkdir()
    for name in sorted(set(_names(search))):
        script = own / name
        first = (_FOR_ENV if name == "env" else _FOR_PYTHON).format(inject=inject, settings=settings)
        script.write_text(_STAND_IN.format(first=first, own=own, name=name), "utf-8")
        script.chmod(0o755)
    return own


def _names(search: str) -> Iterator[str]:
    for folder in search.split(os.pathsep):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        yield from filter(_STARTS_PYTHON.fullmatch, names)
