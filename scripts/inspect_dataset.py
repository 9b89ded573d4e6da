"""Say what a folder of demonstrations holds and what is wrong with it: tables and an HTML page."""

from act_policy.cli.entry import run
from act_policy.cli.inspect import main

if __name__ == "__main__":
    run("inspect_dataset", main)
