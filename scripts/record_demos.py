"""Record demonstrations of a simulated task by its scripted expert."""

from act_policy.cli.entry import run
from act_policy.cli.record import main

if __name__ == "__main__":
    run("record_demos", main)
