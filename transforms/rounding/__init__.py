"""Mistakes of the rounding family: numbers that 16 bits round away, in runs that raise nothing and learn too little."""
