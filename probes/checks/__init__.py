"""One module for each check: `steps` runs in a process of its own, `judge` says what the numbers mean."""
