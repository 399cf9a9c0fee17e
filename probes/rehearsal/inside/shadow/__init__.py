"""The same steps beside a float64 shadow: what 16-bit numbers lose without an error, and where."""
