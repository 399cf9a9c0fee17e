"""Which findings count: selected rules, suppression comments, per-file settings, a baseline, changed lines."""
