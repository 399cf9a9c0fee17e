"""``python -m tests.drawn_moves SEED COUNT [TARGET...]``: programs that are drawn, moved by safe edits and run again.

``python -m tests.drawn_moves show SEED/NUMBER TARGET`` prints the files of one, the patch, and what is wrong with it.
"""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from typing import Any

from .judging import TARGETS, Judged, judged, migrated
from .making import Program, drawn
from .running import Server


def main(arguments: list[str]) -> int:
    import precfix.codemod.cli.app
    import precfix.codemod.cli.migrate  # noqa: F401

    Server.warm()
    server = Server()
    migrated(drawn(0, 0).files, "fp32", here=True)
    try:
        if arguments[0] == "show":
            seed, number = map(int, arguments[1].split("/"))
            return _show(server, drawn(seed, number), arguments[2])
        targets = [each for each in arguments[2:] if each != "-v"] or [*TARGETS]
        return _all(server, int(arguments[0]), int(arguments[1]), targets)
    finally:
        server.close()


def _all(server: Server, seed: int, count: int, targets: list[str]) -> int:
    totals: Counter[str] = Counter()
    for number in range(count):
        program = drawn(seed, number)
        ran: dict[str, Any] = {}
        for target in targets:
            found = judged(server, program, target, ran)
            totals["pairs"] += 1
            totals["changed"] += found.is_changed
            totals[f"changed {target}"] += found.is_changed
            totals["moved"] += found.moved
            totals["lines that do not run"] += found.is_changed and any(ran[line]["status"] for line in program.given)
            totals["wrong"] += bool(found.wrong)
            totals[f"wrong {target}"] += bool(found.wrong)
            said = [
                f"{each.get('title')}: {each.get('before')} -> {each.get('after')} {each['state']}"
                for each in found.moves
            ]
            if found.wrong or (found.is_changed and "-v" in sys.argv):
                print(f"{program.name} {target}\n  " + "\n  ".join([*found.wrong, *said]), flush=True)
        if number % 10 == 9 or number + 1 == count:
            print(f"{number + 1} programs: {dict(totals)}", flush=True)
    return int(totals["wrong"] > 0)


def _show(server: Server, program: Program, target: str) -> int:
    before: dict[str, Any] = {}
    found: Judged = judged(server, program, target, before)
    print(program.choices)
    for name, text in program.files.items():
        print(f"--- {name}\n{text}")
        patch = difflib.unified_diff(text.splitlines(), found.files[name].splitlines(), name, name, n=1, lineterm="")
        print("\n".join(patch))
    for line, ran in before.items():
        print(line, program.typed.get(line, ""), ran["status"], ran["out"][-300:])
    print(*found.wrong, *found.moves, sep="\n")
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
