"""Who started this process: torchrun, SLURM's srun, Lightning, or nobody but the user."""

import os
import threading
import time
from typing import NamedTuple

from act_policy.errors import UserError


class Launch(NamedTuple):
    """Processes that somebody else started for one training run.

    starter: "torchrun" or "srun".
    rank: number of this process among all of them.
    per_node: processes per machine.
    nodes: machines.
    """

    starter: str
    rank: int
    per_node: int
    nodes: int


def find_launch() -> Launch | None:
    """Read what torchrun or srun say in the environment; None if neither started several processes.

    Raises:
        UserError: srun does not say how many processes each machine has.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        size, per_node = _number("WORLD_SIZE", 1), _number("LOCAL_WORLD_SIZE", 1)
        return Launch("torchrun", _number("RANK", 0), per_node, size // per_node)
    # an interactive shell under srun, and sbatch with one task, start no processes for us
    interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    size = _number("SLURM_NTASKS", 1)
    if interactive or size == 1:
        return None
    if "SLURM_NTASKS_PER_NODE" not in os.environ:
        raise UserError(
            f"SLURM started {size} processes without saying how many per machine: give sbatch "
            "and srun --ntasks-per-node= in place of --ntasks="
        )
    per_node = _number("SLURM_NTASKS_PER_NODE", 1)
    return Launch("srun", _number("SLURM_PROCID", 0), per_node, size // per_node)


def is_first_process() -> bool:
    """Tell whether this process writes the files of a run."""
    if (launch := find_launch()) is not None:
        return launch.rank == 0
    # Lightning numbers the processes that it starts itself
    return _number("LOCAL_RANK", 0) == 0 and _number("NODE_RANK", 0) == 0


def end_with_starter() -> None:
    """End this process when the one that started it dies, if it is one of several.

    The others would wait for it forever, and keep their memory.
    """
    if find_launch() is not None or not is_first_process():
        end_when_orphaned()


def end_when_orphaned() -> None:
    """End this process at most a second after its parent, even where that was killed."""
    starter = os.getppid()

    def watch() -> None:
        while os.getppid() == starter:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _number(variable: str, otherwise: int) -> int:
    return int(os.environ.get(variable, otherwise))
