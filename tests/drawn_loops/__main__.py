"""``python -m tests.drawn_loops SEED COUNT``: training loops that are drawn, right and with one mistake each.

Every right one must be silent. Of a mistake that raises, torch is the judge: the program runs on a CPU, and counts
where it dies as it should. The others are silent losses, whose rules measure them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ..project_tree import open_tree, write_tree
from ..rule_runs import TARGET
from .making import Loop, drawn, written

RIGHT = "none"
TWICE = ("has already been called", "is being called after step()")
FP16 = ("Attempting to unscale FP16 gradients",)
MISTAKES: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "no scaler": (frozenset({"PF102"}), ()),
    "loss not scaled": (frozenset({"PF108"}), ("AssertionError",)),
    "scaled loss unused": (frozenset({"PF108"}), ()),
    "second loss not scaled": (frozenset({"PF102", "PF108"}), ()),
    "plain step": (frozenset({"PF108"}), ()),
    "no update": (frozenset({"PF105"}), TWICE),
    "unscaled twice": (frozenset({"PF104"}), TWICE),
    "unscaled in each micro-batch": (frozenset({"PF104"}), TWICE),
    "clip of scaled": (frozenset({"PF103"}), ()),
    "clamp of scaled": (frozenset({"PF103"}), ()),
    "clip behind the step": (frozenset({"PF103"}), ()),
    "scaler in the loop": (frozenset({"PF110"}), ()),
    "scaler under bfloat16": (frozenset({"PF101"}), ()),
    "float16 weights": (frozenset({"PF107"}), FP16),
    "halved by the save": (frozenset({"PF107"}), FP16),
    "BCE under autocast": (frozenset({"PF212"}), ()),
    "bfloat16 to NumPy": (frozenset({"PF208"}), ("unsupported ScalarType BFloat16",)),
    "constant beyond float16": (frozenset({"PF209"}), ("without overflow",)),
}
"""The rules that tell a mistake, and words of errors with which torch refuses it on a CPU, if it does."""
Key: TypeAlias = tuple[int, str]
DEPRECATED = "PF301"
ALWAYS_ACCUMULATES = "unscaled in each micro-batch"


def main(arguments: list[str]) -> int:
    seed, count = int(arguments[0]), int(arguments[1])
    loops = [drawn(seed, number) for number in range(count)]
    asked = [(number, each) for number in range(count) for each in MISTAKES]
    shaped = {(number, each): _shaped(loops[number], each) for number, each in asked}
    harmless = _harmless({key: loop for key, loop in shaped.items() if MISTAKES[key[1]][1]})
    told, total, wrong = Counter[str](), Counter[str](), 0
    for number, loop in enumerate(loops):
        found = _rules(written(loop, RIGHT))
        wrong += bool(found)
        if found:
            print(f"{seed}/{number} {loop.shape}: right, and told {', '.join(sorted(found))}", flush=True)
        for mistake, (rules, _) in MISTAKES.items():
            if (number, mistake) in harmless:
                print(f"{seed}/{number} {loop.shape}: {mistake} does not raise", flush=True)
                continue
            total[mistake] += 1
            is_told = bool(rules & _rules(written(shaped[number, mistake], mistake)))
            told[mistake] += is_told
            if not is_told:
                print(f"{seed}/{number} {shaped[number, mistake].shape}: {mistake} is not told", flush=True)
    for mistake, number in total.items():
        print(f"{mistake:30} {told[mistake]} of {number}")
    print(
        f"told {told.total()} of {total.total()}; {wrong} of {count} right programs told; {len(harmless)} do not raise"
    )
    return int(wrong > 0)


def _shaped(loop: Loop, mistake: str) -> Loop:
    return replace(loop, accumulates=True) if mistake == ALWAYS_ACCUMULATES else loop


def _rules(files: dict[str, str]) -> frozenset[str]:
    """The rules that find something in a program, deprecations aside."""
    from precfix.codemod.engine import check
    from precfix.transforms import load
    from precfix.transforms.frameworks import load_frameworks

    with tempfile.TemporaryDirectory() as folder:
        report = check(open_tree(Path(folder), files).with_frameworks(load_frameworks()), load(), TARGET)
    assert not report.failed_rules
    return frozenset(item.code for item in report.findings) - {DEPRECATED}


def _harmless(programs: dict[Key, Loop]) -> set[Key]:
    """Those that do not die with the words of their mistake on a CPU. Notebooks run as the script of their cells."""
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for key, loop in programs.items():
            setting = "default" if loop.setting == "flag" else loop.setting
            layout = "flat" if loop.layout == "notebook" else loop.layout
            own = Path(folder, f"{len(lines)}")
            write_tree(own, written(replace(loop, device="cpu", setting=setting, layout=layout), key[1]))
            lines.append([list(key), str(own), "train.py"])
        runner = [sys.executable, str(Path(__file__).parents[1] / "run_cases.py")]
        done = subprocess.run(runner, input=json.dumps(lines), capture_output=True, text=True, check=True)
    ran = [json.loads(line) for line in done.stdout.splitlines()]
    died = {(number, name) for each in ran for number, name in [each["key"]] if _is(each["error"], MISTAKES[name][1])}
    return programs.keys() - died


def _is(error: str, words: tuple[str, ...]) -> bool:
    return any(word in error for word in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
