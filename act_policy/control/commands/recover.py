"""Make episodes of what killed runs recorded."""

from collections.abc import Callable, Sequence

from act_policy.control.recording.recording import Recorded, recover


def recover_command(folder: str, say: Callable[[str], None]) -> int:
    """Recover a folder of recordings, print the episodes and return 0."""
    recovered = recover(folder)
    say_recovered(recovered, say)
    if not recovered:
        say(f"{folder}: nothing to recover")
    return 0


def say_recovered(recovered: Sequence[Recorded], say: Callable[[str], None]) -> None:
    """Print a line per recovered episode."""
    for path, steps in recovered:
        say(f"recovered {path}: {steps} steps of a run that was killed")
