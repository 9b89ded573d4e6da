"""Train a policy on a folder of demonstrations."""

from act_policy.cli.entry import run
from act_policy.cli.train import main, saved_config

if __name__ == "__main__":
    run("train", main, saved_config)
