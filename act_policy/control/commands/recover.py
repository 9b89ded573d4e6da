"""Make episodes of what killed runs recorded."""

from collections.abc import Sequence

from act_policy.control.recording.recording import Recorded, recover


def recover_command(folder: str) -> int:
    """Recover a folder of recordings, print the episodes and return 0."""
    recovered = recover(folder)
    print_recovered(recovered)
    if not recovered:
        print(f"{folder}: nothing to recover")
    return 0


def print_recovered(recovered: Sequence[Recorded]) -> None:
    """Print a line per recovered episode."""
    for path, steps in recovered:
        print(f"recovered {path}: {steps} steps of a run that was killed", flush=True)
