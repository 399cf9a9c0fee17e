"""How floating-point types flow through a program: what operations and layers do to them, and what follows."""
