"""What torch does, as data: operations, layers, library objects, autocast policies, kernels."""
