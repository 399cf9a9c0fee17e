"""What only a rehearsal knows."""
