"""What code is for: training, evaluation, tests, and which runs reach it."""
