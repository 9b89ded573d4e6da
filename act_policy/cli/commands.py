"""The commands of `act-policy`; each file in scripts/ calls one of them.

Nothing is imported before a command is chosen: `robot` needs neither Hydra nor torch.
"""

import difflib
import sys
from importlib import import_module
from typing import NoReturn

COMMANDS = {
    "record": ("record_demos", "record demonstrations of a scripted expert in simulation"),
    "inspect": ("inspect_dataset", "show what is in a dataset, and what is wrong with it"),
    "convert": ("convert_dataset", "write a dataset in another format"),
    "train": ("train", "train a policy on demonstrations"),
    "evaluate": ("evaluate", "measure a policy in simulation or on demonstrations"),
    "compare": ("compare_policies", "tell which of several policies is better"),
    "tune": ("tune_execution", "find how to execute a policy's chunks"),
    "export": ("export_policy", "write a policy for deployment, and check what was written"),
    "serve": ("serve_policy", "serve a policy over websockets"),
}
"""Name -> its file in configs/ and scripts/, what it does; `act_policy.cli.<name>` has `main`."""
ROBOT = "robot"


def main() -> NoReturn:
    """Run the command that the command line names; exit code 2 if there is no such command."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        sys.exit(0)
    if name == ROBOT:
        from act_policy.control.commands.command_line import main as robot

        sys.exit(robot(arguments, f"act-policy {ROBOT}"))
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, [*COMMANDS, ROBOT], 1, 0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        print(f"error: unknown command {name}{hint}; see act-policy --help", file=sys.stderr)
        sys.exit(2)
    run(name, arguments)


def run(name: str, arguments: list[str] | None = None) -> NoReturn:
    """Run a command with these arguments; None takes those of the process."""
    try:
        from act_policy.cli import entry
    except ModuleNotFoundError as error:
        if error.name not in ("hydra", "omegaconf"):
            raise
        other = "; an ONNX file is served by `act-policy robot serve`" if name == "serve" else ""
        print(
            f"error: {name} needs more: pip install 'act_policy[train,sim]'{other}", file=sys.stderr
        )
        sys.exit(2)
    module = import_module(f"act_policy.cli.{name}")
    saved_config = getattr(module, "saved_config", None)
    arguments = sys.argv[1:] if arguments is None else arguments
    config_name, _ = COMMANDS[name]
    entry.run(config_name, module.main, arguments, saved_config)


def usage() -> str:
    """List the commands."""
    rows = {name: does for name, (_, does) in COMMANDS.items()}
    rows[ROBOT] = "check and run a policy on a robot (without torch)"
    table = "\n".join(f"  {name:<10}{does}" for name, does in rows.items())
    return (
        f"usage: act-policy COMMAND [key=value ...]\n\n{table}\n\n"
        "act-policy COMMAND --help shows the settings of a command."
    )
