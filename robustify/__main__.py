"""`python -m robustify` and the console script."""

from robustify.cli import main

if __name__ == "__main__":
    main()
