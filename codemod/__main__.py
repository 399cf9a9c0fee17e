"""``python -m precfix.codemod`` equals ``precfix``. Kept free of imports: ``--version`` has nothing else to wait for."""

import sys


def main() -> None:
    """Print the version, or hand over to the command line."""
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        print(f"precfix {version('precfix')}")
        return
    from .cli import main as run

    run()


if __name__ == "__main__":
    main()
