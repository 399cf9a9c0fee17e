"""Training programs that are drawn at random, moved by safe edits alone, and run before and after on a CPU."""
