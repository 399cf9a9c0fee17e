"""Whether a tensor, or a place in the code, is 16-bit: what all rules about 16-bit numbers ask."""
