"""What a rehearsal saw of a program, as data and as a file."""
