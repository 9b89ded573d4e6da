"""Write demonstrations in another format; an interrupted conversion goes on by the same command."""

from act_policy.cli.convert import main
from act_policy.cli.entry import run

if __name__ == "__main__":
    run("convert_dataset", main)
