"""``python -m rankd``: the command line."""

from rankd.cli import main

if __name__ == "__main__":
    main(prog_name="rankd")
