"""Export a policy for a robot, and prove that every format predicts what the policy predicts."""

from act_policy.cli.entry import run
from act_policy.cli.export import main

if __name__ == "__main__":
    run("export_policy", main)
