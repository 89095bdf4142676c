"""Run the command line: `python -m littlestone`."""

from littlestone._cli.main import main

if __name__ == "__main__":
    main()
