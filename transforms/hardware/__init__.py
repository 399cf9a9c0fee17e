"""What a machine can do, and what the project asks of it."""
