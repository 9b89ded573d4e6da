"""The command `act-policy compare`, from a checkout."""

from act_policy.cli.commands import run

if __name__ == "__main__":
    run("compare")
