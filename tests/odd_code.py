# ruff: noqa: E501 - the lines are lists of texts
"""Pieces of text and of Python code that are rarely seen, to be put where they do not belong."""

from __future__ import annotations

PIECES: tuple[bytes, ...] = (
    *(b"\0", b"\r", b"\n", b"\r\n", b"\t", b" ", b"\x0c", b"\x1b[31m", b"\xef\xbb\xbf", b"\xff\xfe", b"\x85", b"\x80"),
    *("\u2028 \u00e9 \U0001f600 \ud7ff \u00a0 \u200b \u0661".encode().split(b" ")),
    *b"' \" ''' \"\"\" ( ) [ ] { } [[ ]] ${ $( ` \\ \\\n # ; & && | < > << <<EOF * & ! % @ , : = -- - ? ~ / .. ../".split(
        b" "
    ),
    *b"null true no 0 -1 1e999 nan .inf 0x1F 9999999999999999999999 1_0 00 '' {} [] {{x}} !!str !!binary *a &a".split(),
    *b"bf16 fp16 bfloat16 float16 16-mixed no_amp mixed_precision torch dtype None True lambda yield await *".split(),
    *b"\\u0000 \\ud800 \\x \\N{DASH} %s %(a)s %sql %%bash !ls ?x $HOME ${A:-b} $'a' f'{x' rb'".split(),
)
ODD_STATEMENTS = (
    "pass\n...\nglobal g\ndel x\nassert 0, x\nraise\nreturn\nimport torch as t, torch\nfrom . import *\nfrom .. import a\n"
    "x: int\nx, *y = z\nx = y = z\nx[0], x.a = 1, 2\nx += 1\nfrom torch import *\n@a\ndef f(): pass\nclass A: pass\n"
    "for x.y in z: pass\nfor x[0] in z: pass\nwhile 0: pass\nimport a.b.c\nx.y: int = 1\nawait x\nyield\nnonlocal q\n"
    "(x := 1)\nlambda *, a: (yield)\ntorch: None = None\ndel torch\nscaler = scaler\nself = None\nfrom __future__ import a\n"
)
ODD_EXPRESSIONS = (
    "None\n...\n''\nb''\n0\n1j\n1e400\n[]\n()\n{}\n{**a}\n[*a]\n(*a,)\nf(*a)\nf(**a)\nf(*a, **b)\nlambda: 0\nlambda *a, **k: a\n"
    "x[1:2, ::3]\nx[*a]\nx[()]\nx if y else z\nnot x\n-x\nx and y or z\na < b < c\nf'{x!r:{y}}'\nf''\n'a' 'b'\n(x := y)\n"
    "[x for x in y]\n{x: y for x in z if x}\n(x for x in x)\nawait x\nyield\nyield from x\nx.y.z\nx()()\nx().y()\nx[0](1)\n"
    "torch\ntorch.float16\ntorch.bfloat16\n'bf16'\n'fp16'\ntorch.float32 if x else torch.half\ngetattr(torch, 'half')\n"
    "getattr(torch, name)\n{'a': torch.half}['a']\ntorch.autocast\ntorch.autocast('cuda')\ntorch.autocast(*a)\nself\nsuper()\n"
    "True\nFalse\n-1\n10 ** 10 ** 10\n1 << 10 ** 10\n'a' * 10 ** 12\n9 ** 9 ** 9\n0.0 / 0\n1 % 0\n2 ** -1\n(-8) ** 0.5\n"
    "~x\nx @ y\nx is None\nx not in y\n'\\ud800'\n'%s' % x\n'{}'.format(x)\nint('9' * 9)\ndict(a=1, **b)\ndict([(1, 2)])\n"
)
FRAMES = [
    "f(X)",
    "f(a=X)",
    "f(*X)",
    "f(**X)",
    "X()",
    "X(1)",
    "X.a",
    "X.float()",
    "X.half()",
    "X.to(X)",
    "X[0]",
    "X[X]",
    "[X]",
    "(X,)",
    "{X}",
    "{X: X}",
    "{'a': X}",
    "not X",
    "-X",
    "X if X else X",
    "X or X",
    "X == X",
    "X < 1",
    "lambda: X",
    "lambda x=X: x",
    "[X for _ in X]",
    "(y := X)",
    "f'{X}'",
    "X @ X",
    "X * 2",
    "torch.autocast(X)",
    "X.to(torch.float16)",
    "bool(X)",
    "str(X)",
    "dict(a=X)",
    "{**X}",
    "getattr(X, 'a')",
    "getattr(torch, X)",
    "X is None",
]
"""Expressions around another one, ``X``."""
HEADERS = [
    "if x: pass",
    "while x: pass",
    "for x in y: pass",
    "with x as y: pass",
    "def g(*a, x=1): pass",
    "async def g(): pass",
    "class B(A, m=1): pass",
    "async def h():\n async with x: pass",
    "def k():\n with a, b as c: pass",
    "try: pass\nexcept x as e: pass\nelse: pass\nfinally: pass",
    "match x:\n case {'a': [1, *b], **c} if d: pass",
    "@d\ndef g(self): pass",
    "with torch.autocast('cuda', dtype=torch.float16): pass",
    "if not x: pass\nelse: pass",
]
"""Statements with a body to fill."""
