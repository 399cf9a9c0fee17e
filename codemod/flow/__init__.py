"""Which dtype each tensor has."""
