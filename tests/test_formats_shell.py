"""Shell texts: what is found, and that bash (when it is there) sees exactly the intended change."""

from __future__ import annotations

import contextlib
import shutil
import subprocess

import pytest
from precfix.codemod.formats.opening import kind_of, open_config, open_within
from precfix.codemod.formats.text import ConfigText, ConfigUnreadable, TextEntry
from precfix.codemod.model import EditRefused, ReplaceText

from .nightly import NIGHTLY

BASH = shutil.which("bash")
PROGRAMS = ("python", "torchrun", "accelerate", "deepspeed", "srun", "fairseq-train")
PRELUDE = "".join(f"{name}() {{ printf '<%s>' {name} \"$@\"; echo; }}\n" for name in PROGRAMS)


def applied(text: str, edit: ReplaceText) -> str:
    return text[: edit.start] + edit.text + text[edit.end :]


def one(config: ConfigText, name: str, position: int = 0) -> TextEntry:
    return config.find(name)[position]


def removed(text: str, name: str, kind: str = "shell", position: int = 0) -> str:
    config = open_config(text, kind)
    return applied(text, config.remove(one(config, name, position)))


def changed(text: str, name: str, value: str | bool, kind: str = "shell", position: int = 0) -> str:
    config = open_config(text, kind)
    return applied(text, config.set(one(config, name, position), value))


def words(script: str) -> list[list[str]]:
    """What the programs of ``script`` get, one list per call; only our own fixtures are ever run."""
    assert BASH
    done = subprocess.run([BASH, "-c", PRELUDE + script], capture_output=True, text=True, timeout=20, check=False)
    assert "syntax error" not in done.stderr, done.stderr
    return [line[1:-1].split("><") for line in done.stdout.splitlines() if line.startswith("<")]


LAYOUTS = {
    "one_line": "python train.py --a 1 --bf16 --b=2 --c '3 4' -d \"5\"\n",
    "continued": "torchrun --n 8 train.py \\\n  --a 1 \\\n  --b=2 \\\n  --c 3\necho done\n",
    "two_a_line": "accelerate launch --a 1 t.py --b 2 \\\n    --c 3 --d 4 \\\n    --e=5 --f 6  # note\n",
    "split_pair": "python t.py --a \\\n   1 \\\n   --b 2\n",
    "array": 'ARGS=(\n    --a 1\n    --b=2 # two\n    # --bf16\n    --c "3"\n)\npython t.py "${ARGS[@]}" --z 1\n',
    "array_inline": 'ARGS=( --a 1 --b )\npython t.py "${ARGS[@]}"\n',
    "string": 'X="--a=1 --b 2"\nX="${X} --c=3 --d"\npython t.py $X --z 1\n',
    "single_string": "CMD='python t.py --a 1 --b'\n$CMD\n",
    "nested": "python x.py --z 1 && bash -c 'true' ; python t.py --a '1 2' --b $((1<<2)) `echo --q`\n",
    "quoted_word": "python t.py \"--a=1\" '--b' --c\n",
    "no_final_newline": "python t.py \\\n  --a 1 \\\n  --b 2",
    "tabs": "python t.py\t--a\t1\t--b\t2\n",
    "compound": "for i in 1 2; do\n  if true; then python t.py --a $i --b; fi\ndone\n(python u.py --c 3)\n",
    "arithmetic": "for ((i=0; i<2; i++)); do python t.py --a $i --b; done\nif (( i << 1 )); then python u.py --c; fi\n",
    "negative": "python t.py --a -1 --b -1e-5 --c\n",
    "unicode": "python t.py --name '😀 é' --a 1 --b 2 # 😀\n",
}


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_removing_any_flag_removes_its_words_only(text: str) -> None:
    config = open_config(text, "shell")
    before = words(text)
    flags = [entry for entry in config.entries if (entry.kind == "flag" and entry.name != "-c") or entry.name == "--c"]
    assert flags
    for flag in flags:
        after = applied(text, config.remove(flag))
        left = words(after)
        assert len(left) == len(before)
        for old, new in zip(before, left, strict=True):
            assert new == without(old, flag) or new == old, after
        assert left != before, after
        gone = [line for line in text.splitlines() if line not in after.splitlines()]
        assert len(gone) <= 2 + flag.raw.count("\n") + text[flag.key_end : flag.start].count("\n")
        assert after.endswith("\n") == text.endswith("\n")


def without(call: list[str], flag: TextEntry) -> list[str]:
    for number, word in enumerate(call):
        if word == flag.name:
            return call[:number] + call[number + 1 + (flag.value is not None) :]
        if word.startswith(flag.name + "="):
            return call[:number] + call[number + 1 :]
    return call


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("value", ["bf16", "16-mixed"])
def test_setting_any_flag_sets_its_word_only(text: str, value: str) -> None:
    config = open_config(text, "shell")
    before = words(text)
    for flag in config.entries:
        if flag.kind != "flag" or flag.name == "-c":
            continue
        after = applied(text, config.set(flag, value))
        assert any(value in word for call in words(after) for word in call), after
        assert len(words(after)) == len(before)
        assert after.count("\n") == text.count("\n") - text[flag.start : flag.end].count("\n")
        reread = [entry for entry in open_config(after, "shell").entries if entry.key_start == flag.key_start]
        assert any(entry.value == value for entry in reread), after


STATEMENTS = [
    ("export A=b\n", "A", ""),
    ("x=1\nexport A=b # own\ny=2\n", "A", "x=1\ny=2\n"),
    ("export A=b C=d\n", "A", "export C=d\n"),
    ("export A=b C=d\n", "C", "export A=b\n"),
    ("A=1 B=2 python t.py\n", "A", "B=2 python t.py\n"),
    ("A=1; B=2\n", "A", "B=2\n"),
    ("A=1; B=2\n", "B", "A=1; :\n"),
    ("if true; then A=1; fi\n", "A", "if true; then :; fi\n"),
    ("if true; then\n  A=1\nfi\n", "A", "if true; then\n  :\nfi\n"),
    ("if true; then\n  A=1\n  B=1\nfi\n", "A", "if true; then\n  B=1\nfi\n"),
    ("f() {\n  local A=1\n}\n", "A", "f() {\n  :\n}\n"),
    ("(\n  A=1\n)\n", "A", "(\n  :\n)\n"),
    ("cd x && A=1\n", "A", "cd x && :\n"),
    ("A=1 && true\n", "A", ": && true\n"),
    ("case x in\n  x) A=1 ;;\nesac\n", "A", "case x in\n  x) : ;;\nesac\n"),
    ("for ((i=0; i<2; i++)); do\n  A=1\ndone\n", "A", "for ((i=0; i<2; i++)); do\n  :\ndone\n"),
    ("declare -x A=1\n", "A", ""),
    ("B=1\nA=2", "A", "B=1"),
    ("A=1\r\nB=2\r\n", "A", "B=2\r\n"),
    ("ARGS=(\n  --x\n)\nB=1\n", "ARGS", "B=1\n"),
]


@pytest.mark.parametrize(("text", "name", "after"), STATEMENTS)
def test_removing_assignments(text: str, name: str, after: str) -> None:
    assert removed(text, name) == after
    if BASH:
        checked = subprocess.run([BASH, "-n"], input=after, text=True, capture_output=True, timeout=20, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("text", "name", "value", "after"),
    [
        ("A=1\n", "A", "bf16", "A=bf16\n"),
        ('export A="1" # c\n', "A", "bf16", 'export A="bf16" # c\n'),
        ("A='1'\n", "A", "a b", "A='a b'\n"),
        ('A="1"\n', "A", 'a "$b"', 'A="a \\"\\$b\\""\n'),
        ("A=1\n", "A", "a b", "A='a b'\n"),
        ("A=\n", "A", "x", "A=x\n"),
        ("A=${X:-bf16}\n", "A", "fp16", "A=${X:-fp16}\n"),
        ('A="${A:-bf16}"\n', "A", "fp16", 'A="${A:-fp16}"\n'),
        ("A=${1:-bf16}\n", "A", "fp16", "A=${1:-fp16}\n"),
        ("A=${X:-$Y}\n", "A", "fp16", "A=fp16\n"),
        ("A=True\n", "A", False, "A=False\n"),
        ("A=1\n", "A", False, "A=0\n"),
        ("p --a x\n", "--a", "y", "p --a y\n"),
        ("p --a\n", "--a", "y", "p --a y\n"),
        ("p --a=\n", "--a", "y", "p --a=y\n"),
        ('p --a="x"\n', "--a", "y", 'p --a="y"\n'),
        ("p '--a=x y'\n", "--a", "y", "p '--a=y'\n"),
        ("p '--a=x --b=1'\n", "--a", "y", "p '--a=y --b=1'\n"),
        ("p '--a' b\n", "--a", "y", "p '--a' y\n"),
        ('X="--a=1 --b"\n', "--b", "y", 'X="--a=1 --b y"\n'),
        (
            "python t.py +trainer.precision=16 x\n",
            "trainer.precision",
            "bf16",
            "python t.py +trainer.precision=bf16 x\n",
        ),
    ],
)
def test_spellings(text: str, name: str, value: str | bool, after: str) -> None:
    assert changed(text, name, value) == after


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('X="--a=1"\n', "a b"),
        ('X="--a=1"\n', 'q"'),
        ("p --a 1\n", "x\ny"),
        ("p --a 1\n", "it's"),
        ("p --a 1\n", "\x07"),
    ],
)
def test_values_that_would_break_out_are_refused(text: str, value: str) -> None:
    with pytest.raises(EditRefused):
        changed(text, "--a", value)


OWNERS = [
    ("accelerate launch --x 1 train.py --y 2", "accelerate", "train.py"),
    ("torchrun --nproc 2 --x 1 -m pkg.train --y 2", "torchrun", "pkg.train"),
    ("python -m torch.distributed.launch --x 1 main.py --y 2", "torchrun", "main.py"),
    ("python -m accelerate.commands.launch --x=1 a/b.py --y 2", "accelerate", "a/b.py"),
    ("deepspeed --x 1 --module pkg.mod --y 2", "deepspeed", "pkg.mod"),
    ("srun --ntasks 2 torchrun --x 1 t.py --y 2", "torchrun", "t.py"),
    ("sbatch --x=1 job.sh --y 2", "sbatch", "job.sh"),
    ("CUDA_VISIBLE_DEVICES=0 nohup accelerate launch --x 1 t.py --y 2 > log 2>&1 &", "accelerate", "t.py"),
    ("accelerate launch --x=1 $SCRIPT --y 2", "accelerate", "$SCRIPT"),
    ("env A=b torchrun --x 1 t.py --y 2", "torchrun", "t.py"),
    ("if ! accelerate launch --x 1 t.py --y 2; then exit 1; fi", "accelerate", "t.py"),
    ('bash -c "accelerate launch --x 1 t.py --y 2"', "accelerate", "t.py"),
    ('A=(accelerate launch --x 1 t.py --y 2)\n"${A[@]}"', "accelerate", "t.py"),
]


@pytest.mark.parametrize(("text", "launcher", "script"), OWNERS)
def test_owners(text: str, launcher: str, script: str) -> None:
    config = open_config(text, "shell")
    first, second = one(config, "--x"), one(config, "--y")
    assert (first.command, first.owner, first.value) == (launcher, "launcher", "1")
    assert (second.command, second.owner, second.value) == (script, "script", "2")


def test_programs_that_are_no_launchers_own_their_flags() -> None:
    config = open_config("fairseq-train data --fp16\ntune run lora --config x dtype=bf16\n", "shell")
    assert (one(config, "--fp16").command, one(config, "--fp16").owner) == ("fairseq-train", "script")
    assert (one(config, "dtype").kind, one(config, "--config").command) == ("override", "tune")


PIECES = """if [ "$1" ]; then
    CMD="torchrun --nproc_per_node $1"
else
    CMD="accelerate launch --mixed_precision fp16"
fi
CMD="$CMD train.py"
eval $CMD
"""
WHOLE = """if [ "$1" ]; then
    CMD="accelerate launch --mixed_precision fp16 large.py"
else
    CMD="python small.py"
fi
$CMD
"""


@pytest.mark.parametrize(("text", "starts"), [(PIECES, ["eval"]), (WHOLE, ["accelerate", "python"])])
def test_what_a_variable_holds_is_no_run_where_a_later_line_completes_it(text: str, starts: list[str]) -> None:
    opened = open_config(text, "shell")
    assert [command.written[0] for command in opened.commands] == starts
    assert one(opened, "--mixed_precision").call == 0


def test_flags_in_variables_know_their_command() -> None:
    text = 'EXTRA="--a=1"\nALL=(--b "${EXTRA}")\naccelerate launch $LAUNCH_ARGS t.py "${ALL[@]}"\nLAUNCH_ARGS="--c"\n'
    config = open_config(text, "shell")
    assert [(one(config, name).command, one(config, name).inside) for name in ("--a", "--b", "--c")] == [
        ("t.py", "EXTRA"),
        ("t.py", "ALL"),
        ("accelerate", "LAUNCH_ARGS"),
    ]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            'L="accelerate launch --role \\$(hostname -s): --config_file a.yaml"\nsrun bash -c "$L t.py --bf16"\n',
            "accelerate launch --role $(hostname -s): --config_file a.yaml t.py --bf16",
        ),
        (
            'L="A=1 accelerate launch --n $(($W - 1)) --role \\$(hostname): --config_file a.yaml"\nCMD="t.py --bf16"\n'
            'srun $S bash -c "$L --role \\$NODE: $CMD"\n',
            "A=1 accelerate launch --n $(($W - 1)) --role $(hostname): --config_file a.yaml --role $NODE: t.py --bf16",
        ),
        ('C="python t.py ds=\\"a.json\\" --bf16"\neval $C\n', "eval python t.py ds=a.json --bf16"),
        ('C="python t.py --ds=\\"a.json\\" --bf16"\neval $C\n', "eval python t.py --ds=a.json --bf16"),
        ('C="python t.py --name \\"a b\\" --bf16"\neval $C\n', "eval python t.py --name a b --bf16"),
        ('C="python t.py --name $(n \\"a\\") --bf16"\neval $C\n', "eval python t.py --name $(n a) --bf16"),
    ],
)
def test_marks_that_are_escaped_in_a_string_count_for_its_reader(text: str, command: str) -> None:
    config = open_config(text, "shell")
    call = one(config, "--bf16").call
    assert call is not None
    assert " ".join(config.commands[call].words) == command
    for name in ("ds", "--ds"):
        for entry in config.find(name):
            assert entry.value == "a.json"
            assert applied(text, config.set(entry, "b.json")) == text.replace("a.json", "b.json")


@pytest.mark.parametrize(
    "text",
    [
        "# python t.py --bf16\n",
        "echo --bf16\n",
        "echo 'use --bf16 please'\n",
        "case $1 in\n  --bf16|--fp16) shift ;;\n  --bf16) shift ;;\nesac\n",
        'if [ "$1" == --bf16 ]; then x; fi\n',
        'MSG="please use --bf16 here"\n',
        "pip install --bf16 x\n",
        "x # --bf16\n",
        "python t.py 'a --bf16'\n",
    ],
)
def test_not_a_flag(text: str) -> None:
    assert not open_config(text, "shell").find("--bf16")


def test_ambiguous_values() -> None:
    text = "python t.py --bf16 data out\n"
    config = open_config(text, "shell")
    with pytest.raises(EditRefused):
        config.remove(one(config, "--bf16"))
    assert applied(text, config.remove(one(config, "--bf16"), with_value=False)) == "python t.py data out\n"
    assert one(open_config('p --bf16 "${ARGS[@]}"', "shell"), "--bf16").value is None
    assert one(open_config("p --bf16 $EXTRA_ARGS", "shell"), "--bf16").value is None
    assert one(open_config("p --bf16 $PREC", "shell"), "--bf16").value == "$PREC"


def test_no_flag_is_left_without_its_only_word() -> None:
    text = "python train.py --cfg-options a.b=1 --lr 2\n"
    with pytest.raises(EditRefused, match=r"before a\.b"):
        removed(text, "a.b")
    assert removed("python train.py --multirun a.b=1 -m c.d=2\n", "a.b") == "python train.py --multirun -m c.d=2\n"
    assert removed("python train.py --cfg-options a.b=1 \\\n  c.d=2\n", "a.b") == (
        "python train.py --cfg-options \\\n  c.d=2\n"
    )


def test_simpletuner_line_keeps_every_other_byte() -> None:
    text = 'export TRAINER_EXTRA_ARGS="${TRAINER_EXTRA_ARGS} --max_grad_norm=1.0 --gradient_precision=fp32"   # note\n'
    for kind in ("env", "shell"):
        assert changed(text, "--gradient_precision", "unmodified", kind) == text.replace("fp32", "unmodified")
        assert removed(text, "--gradient_precision", kind) == text.replace(" --gradient_precision=fp32", "")
    spaced = 'X="--a 1 --gradient_precision fp32 --gradient_precision=fp32"\n'
    assert removed(spaced, "--gradient_precision", position=1) == 'X="--a 1 --gradient_precision fp32"\n'
    assert removed('X="--gradient_precision=fp32"\n', "--gradient_precision") == 'X=""\n'


HEREDOC = """#!/bin/bash
cat > conf/config.env <<EOF
export MIXED_PRECISION="bf16"
export TRAINER_EXTRA_ARGS="--gradient_precision=fp32 --r=4"
EOF
cat <<-'END' | sudo tee "ds.json"
\t{"bf16": {"enabled": true}}
\tEND
python - <<PY
print("--bf16")
PY
python t.py --a 1
"""


def test_heredocs() -> None:
    config = open_config(HEREDOC, "shell")
    assert [(body.target_name, body.quoted, body.command) for body in config.heredocs] == [
        ("conf/config.env", False, "cat"),
        ("ds.json", True, "cat"),
        ("", False, "python"),
    ]
    assert [entry.name for entry in config.entries] == ["--a"]
    first, second, _ = config.heredocs
    assert kind_of(first.target_name) == "env"
    inner = open_within(HEREDOC, first.start, first.end, "env", literal=first.quoted)
    edit = inner.set(inner.find("--gradient_precision")[0], "unmodified")
    assert applied(HEREDOC, edit) == HEREDOC.replace("fp32", "unmodified")
    nested = open_within(HEREDOC, second.start, second.end, "json", literal=second.quoted)
    assert nested.find("bf16", "enabled")[0].value is True


def test_crlf_and_comments_between() -> None:
    text = "python t.py \\\r\n  --a 1 \\\r\n  --b True\r\nX=1\r\n"
    assert removed(text, "--a") == text.replace("  --a 1 \\\r\n", "")
    assert removed(text, "--b") == text.replace(" \\\r\n  --b True", "")
    assert changed(text, "--b", "no") == text.replace("True", "no")
    text = "python t.py \\\n  --a 1 \\\n  # --x 2 \\\n  --b 3\n"
    assert removed(text, "--b") == text.replace("  --b 3\n", "")


def test_read_into_a_variable() -> None:
    text = "read -r -d '' cmds <<EOF\npkg.train \\\n   --a 1 \\\n   --bf16\nEOF\ndeepspeed --module $cmds\n"
    config = open_config(text, "shell")
    assert (one(config, "--bf16").command, one(config, "--bf16").inside) == ("pkg.train", "cmds")
    assert applied(text, config.remove(one(config, "--bf16"))) == text.replace(" \\\n   --bf16", "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1\nexport B = 'x y' # c\nC=a b c\nD=it's\n\n# E=1\n", {"A": "1", "B": "x y", "C": "a b c", "D": "it's"}),
        ('A="multi\nline"\r\nB="${A}/x"\nexport C=1 D=2\n', {"A": "multi\nline", "B": "${A}/x", "C": "1", "D": "2"}),
        ("A=\nB=# none\nC=a#b\nif x; then\n  export D=1\nfi\n", {"A": "", "B": "#", "C": "a#b", "D": "1"}),
        ("A=\nB= # none\n", {"A": "", "B": ""}),
        ("A=--bf16 --lr 1\n", {"A": "--bf16 --lr 1", "--bf16": None, "--lr": "1"}),
    ],
)
def test_env_files(text: str, found: dict[str, str | None]) -> None:
    assert {entry.name: entry.value for entry in open_config(text, "env").entries} == found


def test_env_edits() -> None:
    text = "A=1 # one\r\nexport B='x'\r\nC=3"
    assert removed(text, "A", "env") == "export B='x'\r\nC=3"
    assert removed(text, "C", "env") == "A=1 # one\r\nexport B='x'"
    config = open_config(text, "env")
    assert applied(text, config.insert(None, "D", "bf16")) == text + "\r\nD=bf16"
    assert applied(text, config.insert(one(config, "B"), "D", "bf16")) == text.replace("'x'", "'x'\r\nexport D='bf16'")
    assert applied("", open_config("", "env").insert(None, "D", "bf16")) == "D=bf16\n"
    with pytest.raises(EditRefused):
        config.set(one(config, "A"), "a b")


MAKE = """PREC ?= fp16 # c
ARGS := --a 1 \\
  --bf16
all: train

train: X = 1
\t@accelerate launch --mp=$(PREC) \\
\t  t.py --c
"""


def test_makefile() -> None:
    config = open_config(MAKE, "makefile")
    assert {entry.name: entry.value for entry in config.entries if entry.name != "ARGS"} == {
        "PREC": "fp16",
        "--a": "1",
        "--bf16": None,
        "X": "1",
        "--mp": "$(PREC)",
        "--c": None,
    }
    assert (one(config, "--mp").owner, one(config, "--c").command) == ("launcher", "t.py")
    assert changed(MAKE, "PREC", "bf16", "makefile") == MAKE.replace("?= fp16 #", "?= bf16 #")
    assert removed(MAKE, "--bf16", "makefile") == MAKE.replace(" \\\n  --bf16", "")
    assert removed(MAKE, "PREC", "makefile") == MAKE.partition("\n")[2]


DOCKER = """FROM x
ENV MIXED_PRECISION=bf16
ENV A=1 B="2"
ENV OLD some value
RUN --mount=type=cache,target=/x pip install x && \\
    # comment
    accelerate launch --mp fp16 t.py
CMD ["accelerate", "launch", "--mp", "fp16", "t.py", "--bf16", "--lr=1"]
"""


def test_dockerfile() -> None:
    config = open_config(DOCKER, "dockerfile")
    assert [(entry.name, entry.value, entry.owner) for entry in config.entries] == [
        ("MIXED_PRECISION", "bf16", ""),
        ("A", "1", ""),
        ("B", "2", ""),
        ("OLD", "some value", ""),
        ("--mp", "fp16", "launcher"),
        ("--mp", "fp16", "launcher"),
        ("--bf16", None, "script"),
        ("--lr", "1", "script"),
    ]
    assert removed(DOCKER, "MIXED_PRECISION", "dockerfile") == DOCKER.replace("ENV MIXED_PRECISION=bf16\n", "")
    assert removed(DOCKER, "A", "dockerfile") == DOCKER.replace("A=1 ", "")
    assert removed(DOCKER, "--mp", "dockerfile", 1) == DOCKER.replace('"--mp", "fp16", ', "")
    assert removed(DOCKER, "--bf16", "dockerfile") == DOCKER.replace('"--bf16", ', "")
    assert removed(DOCKER, "--lr", "dockerfile") == DOCKER.replace(', "--lr=1"', "")
    assert changed(DOCKER, "--mp", "bf16", "dockerfile", 1) == DOCKER.replace('"fp16"', '"bf16"')
    assert changed(DOCKER, "--bf16", "no", "dockerfile") == DOCKER.replace('"--bf16"', '"--bf16", "no"')


CELL = """import x
!accelerate launch --mp fp16 \\
   t.py --bf16
%env PREC=fp16
if a != b:
    !python u.py --c {v}
%run v.py --d 1
"""


def test_notebook_cells() -> None:
    config = open_config(CELL, "notebook")
    assert [(entry.name, entry.command) for entry in config.entries] == [
        ("--mp", "accelerate"),
        ("--bf16", "t.py"),
        ("PREC", ""),
        ("--c", "u.py"),
        ("--d", "v.py"),
    ]
    assert removed(CELL, "--bf16", "notebook") == CELL.replace(" --bf16", "")
    assert changed(CELL, "PREC", "bf16", "notebook") == CELL.replace("PREC=fp16", "PREC=bf16")
    cell = "%%bash\npython t.py --bf16 x\n"
    assert one(open_config(cell, "notebook"), "--bf16").value == "x"
    (body,) = open_config("%%writefile conf/a.yaml\nbf16: yes\n", "notebook").heredocs
    assert (body.target_name, body.start) == ("conf/a.yaml", 24)


def test_inserting_flags() -> None:
    text = "python t.py \\\n  --a 1 \\\n  --b=2 # c\n"
    config = open_config(text, "shell")
    assert applied(text, config.insert(one(config, "--a"), "--n", "x")) == text.replace("1 \\\n", "1 \\\n  --n x \\\n")
    assert applied(text, config.insert(one(config, "--b"), "--n", "x")) == text.replace("=2", "=2 --n=x")
    assert applied(text, config.insert(one(config, "--b"), "--n", None)) == text.replace("=2", "=2 --n")
    with pytest.raises(EditRefused):
        config.insert(None, "--n", "x")


@pytest.mark.parametrize(
    "text",
    ["p 'x\n", 'A="x\n', "A=$(x\n", "A=`x\n", "A=(1 2\n", "A=${x\n", "$(" * 100_000, "A=$'x\n", '"$(' * 50_000],
    ids=range(9),
)
def test_unclosed(text: str) -> None:
    with pytest.raises(ConfigUnreadable):
        open_config(text, "shell")


NONSENSE = ["(" * 100_000, "a=(" * 30_000 + ")" * 30_000, "x <<A <<B\n" * 1000, "'" * 100_000, "\\\n" * 100_000]
NONSENSE += ["--a " * 50_000, "A=" * 50_000, '"' * 99_999, "A=1\\\n" * 50_000, "# x \\\n" * 50_000, "if " * 50_000]
NONSENSE += [
    "sudo " * 50_000,
    "env " * 50_000,
    "export " + "A=1 " * 50_000,
    "cat <<A |" * 20_000,
    'A="it\'s"\n' * 20_000,
]
NONSENSE += ["RUN a \\\n" + "# c\n" * 50_000, "x '\n" * 20_000 + "y", "((" * 20_000, '-c "' * 20_001, "A=(" * 20_000]


@pytest.mark.parametrize("text", NONSENSE, ids=range(len(NONSENSE)))
@pytest.mark.parametrize("kind", ["shell", "env", "makefile", "dockerfile", "notebook"])
def test_large_nonsense_is_read_in_linear_time(text: str, kind: str) -> None:
    text = text if NIGHTLY else text[: len(text) // 4]
    with contextlib.suppress(ConfigUnreadable):
        assert all(entry.end <= len(text) for entry in open_config(text, kind).entries)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("config/config.env", "env"),
        (".env", "env"),
        (".env.local", "env"),
        ("Makefile", "makefile"),
        ("Dockerfile.gpu", "dockerfile"),
        ("a.YML", "yaml"),
        ("run.slurm", "shell"),
        ("x.jsonc", "json"),
        ("pyproject.toml", "toml"),
        ("environment", None),
        ("envs.py", None),
    ],
)
def test_kind_of(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_an_empty_word_in_quoted_code_is_no_program() -> None:
    config = open_config("python -c \"rows = []\nrows.append('')\"\npython t.py --a 1\n", "shell")
    assert one(config, "--a").value == "1"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            'run() {\n  python train.py --seed 1 "$@"\n}\nrun --mp fp16\nrun --mp bf16\n',
            [
                ("train.py", ("python", "train.py", "--seed", "1", "--mp", "fp16")),
                ("train.py", ("python", "train.py", "--seed", "1", "--mp", "bf16")),
            ],
        ),
        (
            "function go {\n  local name=$1\n  shift\n  torchrun train.py $@ &\n}\ngo a --fp16\n",
            [("train.py", ("torchrun", "train.py", "a", "--fp16"))],
        ),
        ("f() { python t.py ${@:2}; }\npython other.py f --b\n", [("t.py", None), ("other.py", None)]),
        ('run() {\n  python train.py "$@"\n}\n', [("train.py", ("python", "train.py", "$@"))]),
    ],
)
def test_functions_start_programs_with_what_they_are_given(
    text: str, lines: list[tuple[str, tuple[str, ...] | None]]
) -> None:
    config = open_config(text, "shell")
    assert [
        (command.script, command.words if said else None)
        for command, (_, said) in zip(config.commands, lines, strict=True)
    ] == lines
    flags = [
        (entry.name, entry.command, entry.call)
        for entry in config.entries
        if entry.kind == "flag" and entry.name == "--mp"
    ]
    assert flags == [("--mp", "train.py", number) for number in range(len(flags))]
