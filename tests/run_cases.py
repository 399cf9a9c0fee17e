"""Runs fixture scripts one after the other in one interpreter, so that torch is imported once.

Standard input: a JSON list of [key, folder, script]. Standard output: one JSON object per line, with what the script
printed and the error it died of. Not a test: test_runnable_fixtures.py starts it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import traceback


def run(folder: str, script: str) -> tuple[str, str]:
    """What the script printed, and its error ("" when it ended well)."""
    printed, error = io.StringIO(), ""
    known = set(sys.modules)
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.argv = [script]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(script, run_name="__main__")
    except Exception:  # whatever a fixture dies of is its result
        error = traceback.format_exc()
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - known:
            if not name.startswith("torch"):
                del sys.modules[name]
    return printed.getvalue(), error


def main() -> None:
    import torch

    torch.set_num_threads(1)
    for key, folder, script in json.load(sys.stdin):
        torch.manual_seed(0)
        torch.backends.mha.set_fastpath_enabled(True)  # a fixed script switches it off for the whole process
        torch.set_default_dtype(torch.float32)  # one script changes it on purpose
        torch.set_autocast_enabled("cpu", False)  # a script that dies in autocast.__exit__ leaves it on
        torch.clear_autocast_cache()
        printed, error = run(folder, script)
        if torch.distributed.is_initialized():  # a script that died has not closed its process group
            torch.distributed.destroy_process_group()
        print(json.dumps({"key": key, "printed": printed, "error": error}), flush=True)


if __name__ == "__main__":
    main()
