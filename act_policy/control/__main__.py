"""Run a command on a robot: `python -m act_policy.control check | shadow | run | ...`."""

import os
import sys

if __name__ == "__main__":
    # `python -m` puts the working directory first, where a file random.py would hide the standard
    # library's module.
    sys.path = [*(path for path in sys.path if path not in ("", os.getcwd())), os.getcwd()]

    from act_policy.control.commands.command_line import main

    sys.exit(main())
