"""Training loops that are drawn, with one mistake each: which of them `check` tells."""
