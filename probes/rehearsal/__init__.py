"""``precfix rehearse``: the user's own program, run for a few steps with the dtype rules of the device it is for."""
