"""What safe edits made of a program: does each of its lines compute in the target, or exactly as before?"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutation.running import forked

from .making import Program
from .running import Server, launched

TARGETS = ("fp32", "fp16-mixed", "bf16-mixed", "bf16-true")
USED = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
HALVES = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}


@dataclass
class Judged:
    """A program and a target: the new texts, what precfix said, and what is wrong."""

    program: Program
    target: str
    files: dict[str, str]
    moves: list[dict[str, Any]]
    moved: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        return self.files != self.program.files


def migrated(files: Mapping[str, str], target: str, here: bool = False) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The files behind the safe edits of ``migrate``, with the rows of the moves."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / "project"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        output = Path(scratch) / "said"
        asked = ["--to", target] if target != "plain" else []
        command = ["migrate", str(folder), "--isolated", "--no-cache", *asked]
        said = _precfix(folder, output, command) if here else forked(lambda: _precfix(folder, output, command))
        after = {name: (folder / name).read_text("utf-8") for name in files}
        return after, json.loads(said).get("moves", []) if said.startswith("{") else [{"state": said}]


def _precfix(folder: Path, output: Path, arguments: list[str]) -> str:
    from precfix.codemod.cli.app import app

    with suppress(SystemExit):
        app([*arguments, "--output-format", "json", "-o", str(output)])
    return output.read_text("utf-8")


def judged(server: Server, program: Program, target: str, before: dict[str, Any]) -> Judged:
    """Move a program, and run each of its lines again."""
    files, moves = migrated(program.files, target)
    found = Judged(program, target, files, moves)
    if not found.is_changed:
        found.wrong += _said_there(server, found, before)
        return found
    for line in dict.fromkeys([*program.given, *program.typed]):
        before[line] = before.get(line) or launched(server, program.files, line)
        found.wrong += _compared(found, line, before[line], launched(server, files, line))
    return found


def _said_there(server: Server, found: Judged, before: dict[str, Any]) -> list[str]:
    """What is said to be at the target, and is not."""
    told = [each["state"] for each in found.moves if each["state"] not in ("apart", "loose")]
    is_open = any(";" in str(each.get("before")) for each in found.moves)  # ``fp32; fp16-mixed with amp``
    wrong = []
    for line in found.program.given if told and set(told) == {"there"} and not is_open else ():
        before[line] = before.get(line) or launched(server, found.files, line)
        computed = [regime_of(each) for each in before[line]["seen"] if each["steps"] and not before[line]["status"]]
        wrong += [
            f"{line}: is said to be there, and is {each}" for each in computed if not each.startswith(found.target)
        ]
    return wrong


def _compared(found: Judged, line: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old["status"]:
        return []
    if new["status"]:
        return [f"{line}: breaks: {new['out'].strip()[-300:]}"]
    wrong = []
    for was, now in zip(old["seen"], new["seen"], strict=False):
        wrong += [f"{line}: {each}" for each in _process(found, line, was, now)]
    if len(old["seen"]) != len(new["seen"]):
        wrong.append(f"{line}: {len(old['seen'])} programs became {len(new['seen'])}")
    if old["made"] != new["made"]:
        wrong.append(f"{line}: files {old['made']} became {new['made']}")
    kept = [[row for row in each["out"].splitlines() if row.startswith("keep")] for each in (old, new)]
    if kept[0] != kept[1]:
        wrong.append(f"{line}: {kept[0]} became {kept[1]}")
    return wrong


def _process(found: Judged, line: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    first, second = regime_of(was), regime_of(now)
    if _alike(was) == _alike(now):
        return []
    means = found.program.typed.get(line, "") if line not in found.program.given else ""
    if not was["steps"] and second == f"used in ['torch.{USED[found.target.split('-')[0]]}']":
        return []  # it takes the setting of the training
    if second == first and first != found.target:
        return [f"{first} stays, computed otherwise: {_alike(was)} {_alike(now)}"]
    if second != found.target:
        return [f"{first} became {second}, not {found.target}"]
    if means == "on" and found.target == "fp32":
        return [f"the switch that is on has no effect: {first} became {second}"]
    if means and means not in ("on", "off") and not second.startswith(means):
        return [f"asked for {means}, {first} became {second}"]
    if means == "off" or first == "fp32":
        return [f"is off, but {first} became {second}"]
    rest = [[(each["optimizer"], each["rest"]) for each in item["steps"]] for item in (was, now)]
    if rest[0] != rest[1]:
        return [f"optimizers {rest[0]} became {rest[1]}"]
    found.moved += line in found.program.given
    mapped = {**dict.fromkeys(HALVES, "half"), "torch.float32": "full"}
    for one, other in zip(was["products"], now["products"], strict=False):
        pair = [mapped.get(item.split()[1], "") for item in (one, other)]
        if (
            found.target != "fp32"
            and first.split("-")[1] == "mixed"
            and found.target.endswith("mixed")
            and pair[0] != pair[1]
        ):
            return [f"{one} became {other}"]
    return []


def _alike(item: Mapping[str, Any]) -> Any:
    return item["products"], item["steps"]


def regime_of(item: Mapping[str, Any]) -> str:
    """What the products, weights and scalers of a process say."""
    computed = {each.split()[1] for each in item["products"] if not item["steps"] or each.endswith("grad")}
    weights = {dtype for step in item["steps"] for dtype in step["weights"]}
    scaled = {step["scaled"] for step in item["steps"]}
    halves = {HALVES[each] for each in computed | weights if each in HALVES}
    if not item["steps"]:
        return f"used in {sorted(computed)}"
    if not halves:
        return "fp32" if scaled == {False} else "fp32, scaled"
    name = "+".join(sorted(halves))
    if weights & set(HALVES):
        full = "torch.float32" in computed | weights
        return f"{name}-true" + (", parts in float32" if full else "") + (", scaled" if True in scaled else "")
    is_right = scaled == {True} if name == "fp16" else True
    return f"{name}-mixed" + ("" if is_right else ", not scaled")
