"""Programs moved to other regimes, and run: does each compute in what it was moved to?

``python -m tests.gpu.moves write FOLDER`` asks the rules: each program in its own regime, moved by safe fixes, by all
of them, and back. ``python -m tests.gpu.moves run FOLDER OUT.jsonl [WORKERS] [SECONDS] [WORD...]`` runs them, and needs
torch and what the programs import.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .moved_programs import PROGRAMS, Program

WATCHED = Path(__file__).with_name("watching")
REGIMES = ("fp32", "bf16-mixed", "fp16-mixed", "bf16-true")
LONGEST = 150.0


def write(folder: Path) -> None:
    jobs: list[dict[str, Any]] = []
    for program in PROGRAMS:
        versions = dict(_versions(program))
        for state, (wanted, files, unmoved) in versions.items():
            place = f"{len(jobs):04}"
            for name, text in files.items():
                path = folder / place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
            jobs.append({"key": f"{program.name} {state}", "place": place, "wanted": wanted, "unmoved": unmoved})
    (folder / "jobs.json").write_text(json.dumps(jobs, indent=1), "utf-8")
    for job in jobs:
        print(job["place"], job["key"], "->", job["wanted"], "(not moved)" if job["unmoved"] else "")


def _versions(program: Program) -> Iterator[tuple[str, tuple[str, Mapping[str, str], bool]]]:
    """State -> the regime that is wanted, files, whether the move left them as they were."""
    files = dict(program.files)
    yield "as it is", (program.regime, files, False)
    for regime in REGIMES:
        if regime == program.regime:
            continue
        seen = []
        for name, unsafe in (("safe", False), ("with leave", True)):
            after = _moved(files, regime, unsafe)
            if after in (files, *seen):
                continue
            seen.append(after)
            yield f"{name} to {regime}", (regime, after, False)
            back = _moved(after, program.regime, True)
            if back != files:
                yield f"{name} to {regime} and back", (program.regime, back, back == after)
        if not seen:
            yield f"left for {regime}", (program.regime, files, True)


def _moved(files: Mapping[str, str], regime: str, unsafe: bool) -> dict[str, str]:
    """The files behind ``migrate --to``."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in files.items():
            path = Path(scratch) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        command = [sys.executable, "-m", "precfix.codemod", "migrate", "--no-cache", "--to", regime, "."]
        subprocess.run([*command, *["--unsafe-fixes"] * unsafe], cwd=scratch, capture_output=True, check=False)
        return {name: (Path(scratch) / name).read_text("utf-8") for name in files}


def run(folder: Path, out: str, workers: int = 8, seconds: float = 300, words: tuple[str, ...] = ()) -> None:
    jobs = [
        job
        for job in json.loads((folder / "jobs.json").read_text("utf-8"))
        if not words or any(w in job["key"] for w in words)
    ]
    jobs = [job for job in jobs if not job["unmoved"]]
    ends, running, right, done = time.monotonic() + seconds, [], 0, 0
    with open(out, "w", encoding="utf-8") as stream:
        while (jobs and time.monotonic() < ends) or running:
            while jobs and len(running) < workers and time.monotonic() < ends:
                running.append(_started(folder, jobs.pop(0)))
            for each in list(running):
                job, process, said, saw, began = each
                if process.poll() is None and time.monotonic() - began < LONGEST:
                    continue
                if process.poll() is None:
                    with contextlib.suppress(OSError):
                        os.killpg(process.pid, 9)
                    process.wait()
                running.remove(each)
                row = _row(job, process.returncode, said, saw, time.monotonic() - began)
                stream.write(json.dumps(row) + "\n")
                stream.flush()
                done, right = done + 1, right + row["right"]
                if not row["right"]:
                    print(
                        f"WRONG {row['key']}: {row['wanted']}, {row['regime']} {row['seen']} {row['said'][-700:]}",
                        flush=True,
                    )
            time.sleep(0.05)
    print(f"{right} of {done} programs compute in what is wanted; {len(jobs)} not run")


def _started(folder: Path, job: Mapping[str, Any]) -> tuple[Any, ...]:
    scratch = Path(tempfile.mkdtemp())
    place = str((folder / job["place"]).resolve())
    paths = [str(WATCHED), *filter(None, [os.environ.get("PYTHONPATH")])]
    free = 20000 + int(job["place"])
    ranks = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free), "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    environment = {
        **os.environ,
        **ranks,
        "PYTHONPATH": ":".join(paths),
        "SEEN": str(scratch),
        "TQDM_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
    }
    with open(scratch / "said", "w", encoding="utf-8") as said:
        process = subprocess.Popen(
            ["bash", "run.sh"], cwd=place, env=environment, stdout=said, stderr=said, start_new_session=True
        )
    return job, process, scratch / "said", scratch, time.monotonic()


def _row(job: Mapping[str, Any], status: int, said: Path, saw: Path, seconds: float) -> dict[str, Any]:
    seen = [json.loads(each.read_text("utf-8")) for each in sorted(saw.glob("seen-*.json"))]
    seen = [each for each in seen if each["steps"]]
    merged: dict[str, Any] = seen[0] if seen else {}
    regime = regime_of(merged) if merged else "nothing trained"
    return {
        **{name: job[name] for name in ("key", "place", "wanted")},
        "status": status,
        "regime": regime,
        "right": status == 0 and regime == job["wanted"],
        "seen": merged,
        "seconds": round(seconds, 1),
        "said": said.read_text("utf-8", "replace")[-1500:],
    }


def regime_of(seen: Mapping[str, Any]) -> str:
    """What the layers, weights and scalers of a run say."""
    computed, weights = set(seen["computed"]), set(seen["weights"])
    halves = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}
    if weights & set(halves):
        names = {halves.get(each, "fp32") for each in weights | computed}
        return f"{names.pop()}-true" if len(names) == 1 else f"several: {sorted(names)}"
    if computed == {"torch.float32"}:
        return "fp32"
    (name, *more) = sorted(halves[each] for each in computed if each in halves)
    if more or (name == "fp16") != seen["scaled"]:
        return f"several: {sorted(computed)}, scaled {seen['scaled']}"
    return f"{name}-mixed"


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        run(
            Path(sys.argv[2]),
            sys.argv[3],
            int((sys.argv[4:5] or ["8"])[0]),
            float((sys.argv[5:6] or ["300"])[0]),
            tuple(sys.argv[6:]),
        )
