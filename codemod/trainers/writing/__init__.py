"""How a stated precision is changed."""
