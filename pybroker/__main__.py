"""`python -m pybroker`: the same as the command pybroker."""

from pybroker.cli.main import main

if __name__ == "__main__":
    main()
