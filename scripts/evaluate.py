"""Try a policy in simulation on initial states that no demonstration used, or on demonstrations."""

from act_policy.cli.entry import run
from act_policy.cli.evaluate import main

if __name__ == "__main__":
    run("evaluate", main)
