"""The server of the profile `basic`: `python -m pytools_hybrid.basic` serves it over stdio."""

from pytools_hybrid.cli import main

if __name__ == "__main__":
    import sys

    main(["serve", "--profile", "basic", *sys.argv[1:]])
