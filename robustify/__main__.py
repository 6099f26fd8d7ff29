"""Entry point of `python -m robustify` and the console script."""

from robustify import cli

main = cli.main

if __name__ == "__main__":
    main()
