"""``python -m ikos``, the same as ``ikos``."""

from ikos.cli import main

if __name__ == "__main__":
    main()
