"""`python -m jaxmbd` is the command `jaxmbd`."""

from .cli import main

if __name__ == "__main__":
    main()
