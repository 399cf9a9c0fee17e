"""What a machine can do, as data and as a file."""
