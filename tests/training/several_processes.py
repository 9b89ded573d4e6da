"""`run_training` in processes of its own, as torchrun starts them, each a copy of one interpreter.

    python -m tests.training.several_processes PROCESSES OPTIONS.json

The options are those of `run_training`. Each process leaves FOLDER/seen_<rank>.pt: the samples and
the random seed of every batch.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning
import torch

from tests.paths import ROOT

PATIENCE = 900.0  # seconds, on a busy machine


@dataclass
class Seen(lightning.Callback):
    """What a process was given: samples that are learned from, and its random seed."""

    samples: list[list[tuple[int, int]]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    held_out: list[tuple[int, int]] = field(default_factory=list)

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        learned = ~batch.is_pad.all(dim=-1)
        episodes, steps = batch.episode[learned].tolist(), batch.step[learned].tolist()
        self.samples.append(list(zip(episodes, steps, strict=True)))
        self.seeds.append(torch.initial_seed())

    def on_validation_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, *indices: int
    ) -> None:
        self.held_out += zip(batch.episode.tolist(), batch.step.tolist(), strict=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def torchrun_environment(rank: int, processes: int, port: int) -> dict[str, str]:
    """What torchrun tells each process on one machine."""
    return {
        "TORCHELASTIC_RUN_ID": "none",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def srun_environment(rank: int, processes: int, port: int) -> dict[str, str]:
    """What SLURM tells each task of a job on one machine."""
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "train",
        "SLURM_NNODES": "1",
        "SLURM_NODELIST": "localhost",
        "SLURM_NODEID": "0",
        "SLURM_NTASKS": str(processes),
        "SLURM_NTASKS_PER_NODE": str(processes),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def run_in_processes(processes: int, folder: Path, **options: Any) -> list[dict[str, Any]]:
    """Train in several processes; returns what each of them saw."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder.with_suffix(".json")
    settings.write_text(json.dumps({"folder": str(folder), **options}, default=str))
    command = [sys.executable, "-m", "tests.training.several_processes"]
    done = subprocess.run(
        [*command, str(processes), str(settings)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"seen_{rank}.pt", weights_only=True) for rank in range(processes)]


def _train(rank: int, processes: int, port: int, options: dict[str, Any]) -> None:
    from act_policy.training.engine.launch import end_when_orphaned
    from tests.training.training_for_tests import run_training

    end_when_orphaned()
    if processes > 1:
        os.environ |= torchrun_environment(rank, processes, port)
    if options.pop("without_noise", False):  # of the CVAE, whose z has another shape per process
        torch.randn_like = torch.zeros_like
    seen, folder = Seen(), Path(options.pop("folder"))
    if options.get("checkpoint"):
        options["checkpoint"] = Path(options["checkpoint"])
    run_training(Path(options.pop("demonstrations")), folder, callbacks=[seen], **options)
    found = {"samples": seen.samples, "seeds": seen.seeds, "held_out": seen.held_out}
    torch.save(found, folder / f"seen_{rank}.pt")


def main(processes: int, options: dict[str, Any]) -> int:
    """Fork before anything is computed: the copies have nothing but imports in common."""
    import tests.training.training_for_tests  # noqa: F401

    port, children = free_port(), []
    for rank in range(processes):
        if (child := os.fork()) == 0:
            try:
                _train(rank, processes, port, options)
                os._exit(0)
            finally:
                sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
                os._exit(1)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())))
