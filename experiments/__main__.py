"""`python -m experiments NAME` runs an experiment; `python -m experiments --list` names them."""

from .runner import app

if __name__ == "__main__":
    app(prog_name="python -m experiments")
