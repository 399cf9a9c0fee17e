"""``python -m precfix.codemod`` equals ``precfix``."""

from .cli import main

if __name__ == "__main__":
    main()
