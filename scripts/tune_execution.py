"""The command `act-policy tune`, from a checkout."""

from act_policy.cli.commands import run

if __name__ == "__main__":
    run("tune")
