"""The log reader of `precfix explain`: what people paste, whatever surrounds it."""

from __future__ import annotations

import random
import time

import pytest
from precfix.codemod.diagnosis.catalog import load_catalog
from precfix.codemod.diagnosis.deciding import judge
from precfix.codemod.diagnosis.evidence import Evidence
from precfix.codemod.diagnosis.log import Log, read_log
from precfix.codemod.diagnosis.matching import matches, telling

from .nightly import examples

PLAIN = """Traceback (most recent call last):
  File "/home/me/project/train.py", line 41, in <module>
    main()
  File "/home/me/project/model.py", line 12, in forward
    return self.proj(x)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16
"""
ENTRIES = load_catalog()


def read(text: str | bytes) -> Log:
    return read_log(text.encode() if isinstance(text, str) else text, telling(ENTRIES))


def frames(log: Log) -> list[tuple[str, int, str]]:
    return [(frame.path, frame.row, frame.function) for frame in log.failures[0].frames]


EXPECTED = [
    ("/home/me/project/train.py", 41, "<module>"),
    ("/home/me/project/model.py", 12, "forward"),
    ("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 125, "forward"),
]


def prefixed(prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in PLAIN.splitlines())


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[rank0]: ",
        "[rank12]:",
        "0: [rank0]: ",
        "[default3]:",
        "(RayTrainWorker pid=4711, ip=10.0.0.3) ",
        "trainer-1  | ",
        "2024-05-01 12:00:01,123 - ERROR - ",
        "[2024-05-01 12:00:01] ",
        "2024-05-01T12:00:01.123456Z ",
        "12:00:01 | ERROR | ",
        "E0501 12:00:01.123456 4711 torch/distributed/elastic/api.py:140] ",
        "> ",
        "\x1b[31m",
    ],
)
def test_prefixes_colors_and_ranks_are_taken_off(prefix: str) -> None:
    log = read(prefixed(prefix))
    assert frames(log) == EXPECTED
    assert log.failures[0].message == "mat1 and mat2 must have the same dtype, but got Float and BFloat16"
    assert log.failures[0].frames[1].code == "return self.proj(x)"


def test_interleaved_ranks_are_kept_apart() -> None:
    ranks = [[f"[rank{rank}]: {line}" for line in PLAIN.splitlines()] for rank in range(4)]
    text = "\n".join(line for lines in zip(*ranks, strict=True) for line in lines)
    log = read(text)
    assert len(log.failures) == 1
    assert frames(log) == EXPECTED
    statement = next(each for each in log.statements if each.failure is not None)
    assert statement.streams == ("0", "1", "2", "3")


def test_windows_paths_and_line_ends() -> None:
    text = PLAIN.replace("/home/me/project/", "C:\\Users\\me\\project\\").replace("\n", "\r\n")
    assert frames(read(text))[:2] == [
        ("C:\\Users\\me\\project\\train.py", 41, "<module>"),
        ("C:\\Users\\me\\project\\model.py", 12, "forward"),
    ]


def test_the_rows_are_those_of_the_file_whatever_the_line_ends_are() -> None:
    for text in (PLAIN, PLAIN.replace("\n", "\r\n"), "x\r\n\n" + PLAIN):
        assert read(text).failures[0].row == text.encode().split(b"RuntimeError")[0].count(b"\n") + 1


def test_only_the_last_line() -> None:
    log = read("RuntimeError: expected scalar type Half but found Float")
    assert [match.entry.id for match in matches(log, ENTRIES)] == ["scalar-type"]
    assert log.failures[0].frames == ()


def test_a_head_that_was_cut_off() -> None:
    text = 'ject/model.py", line 12, in forward\n    return self.proj(x)\n' + PLAIN.splitlines()[-1]
    assert frames(read(text)) == [("ject/model.py", 12, "forward")]


def test_a_traceback_that_is_broken_off_belongs_to_the_message_above_it() -> None:
    text = "mat1 and mat2 must have the same dtype, but got Float and Half\n\n" + "".join(PLAIN.splitlines(True)[:5])
    log = read(text)
    assert [frame.row for frame in log.broken_off] == [41, 12]
    assert Evidence(matches(log, ENTRIES)[0], log).user_frame == log.broken_off[-1]
    assert read(PLAIN).broken_off == ()


def test_both_kinds_of_ipython() -> None:
    new = """RuntimeError                              Traceback (most recent call last)
Cell In[3], line 5
      3 model = Model()
----> 5 train(model)

File ~/project/model.py:12, in Model.forward(self, x)
     11 def forward(self, x):
---> 12     return self.proj(x)

RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16
"""
    old = """RuntimeError                              Traceback (most recent call last)
<ipython-input-3-abcdef> in <module>
      4 model = Model()
----> 5 train(model)

~/project/model.py in forward(self, x)
     11 def forward(self, x):
---> 12     return self.proj(x)

RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16
"""
    assert frames(read(new)) == [("<cell 3>", 5, ""), ("~/project/model.py", 12, "Model.forward")]
    assert [(row, name) for _, row, name in frames(read(old))] == [(5, "<module>"), (12, "forward")]
    assert read(new).failures[0].frames[1].code == "return self.proj(x)"


def test_a_rich_traceback() -> None:
    text = """╭──────────── Traceback (most recent call last) ────────────╮
│ /home/me/project/model.py:12 in forward                    │
│                                                            │
│   11 │   def forward(self, x):                             │
│ ❱ 12 │   │   return self.proj(x)                           │
│   13                                                       │
╰────────────────────────────────────────────────────────────╯
RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16
"""
    log = read(text)
    assert frames(log) == [("/home/me/project/model.py", 12, "forward")]
    assert [match.entry.id for match in matches(log, ENTRIES)] == ["matmul-operands"]


def test_chained_exceptions_are_both_read_and_the_first_counts() -> None:
    text = PLAIN + "\nDuring handling of the above exception, another exception occurred:\n\n"
    text += 'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\n    go()\n'
    text += "ValueError: Attempting to unscale FP16 gradients.\n"
    log = read(text)
    assert [(each.kind, each.chained) for each in log.failures] == [("RuntimeError", False), ("ValueError", True)]
    assert [match.entry.id for match in matches(log, ENTRIES)] == ["matmul-operands", "unscale-fp16"]


def test_a_launcher_that_reports_its_child_hides_nothing() -> None:
    text = (
        PLAIN
        + """E0501 12:00:01.123456 4711 torch/distributed/elastic/api.py:140] failed (exitcode: 1) local_rank: 0
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 264, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
    )
    log = read(text)
    first = matches(log, ENTRIES)[0]
    assert first.entry.id == "matmul-operands"
    assert len(first.statement.failure.frames) == 3 if first.statement.failure else False


def test_warnings_without_a_traceback() -> None:
    text = (
        "/home/me/train.py:12: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use\n  with x:\n"
    )
    log = read(text)
    assert log.failures[0].is_warning
    assert (log.failures[0].frames[0].path, log.failures[0].frames[0].row) == ("/home/me/train.py", 12)
    assert [match.entry.id for match in matches(log, ENTRIES)] == ["old-amp-interface"]


def test_other_languages_around_it() -> None:
    text = "训练时报错\uff1aRuntimeError: expected scalar type Half but found Float 怎么解决\n\u0421\u043f\n"
    assert [match.entry.id for match in matches(read(text), ENTRIES)] == ["scalar-type"]
    assert [match.entry.id for match in matches(read(text.encode("utf-16")), ENTRIES)] == ["scalar-type"]


def test_progress_bars_are_passed_over_and_what_follows_on_their_line_is_not() -> None:
    bar = "\r".join(f"Epoch 1: {n}%|####      | {n}/100 [00:01<00:02, 9.1it/s]" for n in range(100))
    log = read(f"{bar}{PLAIN}")
    assert frames(log) == EXPECTED


def test_versions_are_read() -> None:
    log = read("torch==2.0.1+cu118\ntransformers version: 4.30.0\n- PyTorch version (GPU?): 2.1\naccelerate 0.20.3\n")
    assert log.versions == {"torch": "2.0.1", "transformers": "4.30.0", "accelerate": "0.20.3"}


def test_a_deep_recursion_keeps_both_ends() -> None:
    middle = "".join(f'  File "deep.py", line {n}, in f\n    f()\n' for n in range(5_000))
    lines = PLAIN.splitlines(keepends=True)
    log = read("".join([*lines[:1], middle, *lines[1:]]))
    assert len(log.failures[0].frames) == 200
    assert frames(log)[-3:] == EXPECTED


@pytest.mark.parametrize(
    "unit",
    [
        b"\rEpoch 1:  50%|#####     | 50/100 [00:01<00:02, 9.1it/s, loss=0.3]",
        b"2024-05-01 12:00:01 - INFO - step 12 loss 0.31 lr 1e-4\n",
        b'  File "a.py", line 3, in f\n',
        b"[rank0]: [rank0]: [rank0]: > > > \n",
        b"expected scalar type " * 40 + b"\n",
        b"a" * 50_000,
        b"\xff\xfe\x00\n",
        b"mat1 and mat2 must have the same dtype, but got " + b"torch." * 300 + b"\n",
        b"bf16 loss is not " * 100 + b"\n",
        b"\x1b[31m\x1b[0m" * 200 + b"\n",
    ],
)
def test_time_is_linear_in_the_bytes(unit: bytes) -> None:
    def seconds(size: int) -> float:
        data = unit * (size // len(unit) + 1)
        begun = time.process_time()
        matches(read(data), ENTRIES)
        return time.process_time() - begun

    small, large = seconds(100_000), seconds(800_000)
    assert large < 20 * small + 0.5


def test_any_bytes_are_read() -> None:
    """Pieces of logs in any order, cut anywhere: nothing raises, and a second reading gives the same."""
    draw = random.Random(5)
    pieces = [
        *(PLAIN, "[rank1]: ", "\r", "\n", "\x1b[", 'File "', ", line ", "\u2502 ", "Cell In[", "%|", "it/s", "](http"),
        *("Traceback (most recent call last):\n", "During handling of the above exception", "Warning: ", "\0", "`"),
        *("mat1 and mat2 must have the same dtype, but got ", "c10::Half", "Error: ", "\u2028", "\ud800"),
    ]
    for _ in range(examples(400)):
        parts = [piece[: draw.randint(0, len(piece))] for piece in draw.choices(pieces, k=draw.randint(1, 30))]
        data = "".join(parts).encode("utf-8", "surrogatepass")
        first = read(data)
        found = matches(first, ENTRIES)
        assert [(match.entry.id, match.statement.row) for match in found] == [
            (match.entry.id, match.statement.row) for match in matches(read(data), ENTRIES)
        ]
        for match in found:
            judge(Evidence(match, first))
