"""Expectations that can fail: what a rule, a manual or a table says, and what the device gives."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 600


def said(call: Callable[[], Any]) -> str:
    """What a call gives, or its error; with its warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            value = call()
            text = f"{value.dtype}" if type(value).__name__ in ("Tensor", "Parameter") else str(value)
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST]}"
    told = {str(each.message)[:150] for each in heard}
    return text + "".join(f" [warns: {each}]" for each in sorted(told))


@dataclass
class Expectations:
    """What is expected; asked in order, each written down as soon as it is known."""

    asked: list[tuple[str, str, Callable[[], Any], Sequence[str]]] = field(default_factory=list)

    def __call__(self, rule: str, what: str, *wanted: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """A decorator: what the function gives, or raises, is to match each pattern (``~`` first: to match not)."""

        def note(function: Callable[[], Any]) -> Callable[[], Any]:
            self.asked.append((rule, what, function, wanted))
            return function

        return note

    def ask(self, out: str, only: Sequence[str] = ()) -> None:
        """Writes one JSON row for each, and prints those that are not met."""
        met = 0
        asked = [row for row in self.asked if not only or any(word in f"{row[0]} {row[1]}" for word in only)]
        with open(out, "a", encoding="utf-8") as stream:
            for rule, what, function, wanted in asked:
                began = time.monotonic()
                got = said(function)
                plain = got.partition(" [warns:")[0]
                ok = all(bool(re.search(each.removeprefix("~"), plain)) != each.startswith("~") for each in wanted)
                row = {"rule": rule, "what": what, "wanted": wanted, "got": got, "met": ok}
                stream.write(json.dumps({**row, "seconds": round(time.monotonic() - began, 2)}) + "\n")
                stream.flush()
                met += ok
                if not ok:
                    print(f"NOT MET {rule}: {what}\n    wanted {wanted}\n    got {got}", flush=True)
        print(f"{met} of {len(asked)} expectations met", flush=True)
        sys.stdout.flush()
        os._exit(met != len(asked))
