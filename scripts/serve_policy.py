"""Serve a policy to robots and simulations over websockets, in openpi's protocol."""

from act_policy.cli.entry import run
from act_policy.cli.serve import main

if __name__ == "__main__":
    run("serve_policy", main)
