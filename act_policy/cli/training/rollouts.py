"""Rollouts during training: what the settings ask for, and the process that runs the episodes.

    python -m act_policy.cli.training.rollouts RUN/rollouts/step_00000500.json NICENESS

runs the episodes that a record lacks. It is started by training, reads from its input whether it
may run, and ends where the input does. Nothing is imported before it has lowered its priority.
"""

import os
import sys
import threading
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from act_policy.data.loading.datamodule import DemonstrationDataModule
    from act_policy.evaluation.rollouts.run import Environment, EpisodeResult, Rollout
    from act_policy.training.rollouts.queue import RolloutConfig

SIGN_OF_LIFE = 60.0
"""Seconds of rest after which one step is taken, so that the process does not seem to hang."""
GLANCE = 0.02
"""Seconds between two looks at the gate."""


class Gate(NamedTuple):
    """Lets the process that simulates run or rest.

    Bytes in shared memory and no locks, which a process that is killed would leave behind.

    is_open: whether it may run.
    is_reached: whether it can rest.
    """

    is_open: Any
    is_reached: Any

    def pass_through(self) -> None:
        """Wait until the gate is open, but not for ever."""
        self.is_reached.value = True
        until = time.monotonic() + SIGN_OF_LIFE
        while not self.is_open.value and time.monotonic() < until:
            time.sleep(GLANCE)


def configure_rollouts(
    config: Any, data: "DemonstrationDataModule", tries: bool = True
) -> "RolloutConfig":
    """Say how the policies of a run are evaluated.

    tries: whether to try first that the task can be simulated.

    Each task that the demonstrations show in simulation gets a share of the episodes.

    Raises:
        UserError: the demonstrations name no simulated task, or one that does not fit them, or more
            of them than there are episodes.
    """
    from act_policy.errors import UserError, check_whole_number, list_some, located

    asked = f"rollout_every={check_whole_number('rollout_every', config.rollout_every, 1)}"
    count = check_whole_number("rollout_episodes", config.rollout_episodes, 1)
    from act_policy.data.aloha.episode import read_recorded_config
    from act_policy.evaluation.evaluate import EvaluationConfig
    from act_policy.evaluation.rollouts.run import build_environment
    from act_policy.sim.rendering import choose_gl_backend
    from act_policy.system.processes import WorkerError, run_jobs
    from act_policy.training.rollouts.queue import RolloutConfig, choose_seeds
    from act_policy.training.rollouts.simulated_tasks import find_simulated_tasks

    with located(asked):
        found = find_simulated_tasks(data.dataset)
    if count < len(found):
        raise UserError(
            f"{asked}: the demonstrations show {len(found)} tasks in simulation, each of which "
            f"gets a share of rollout_episodes={count}; give rollout_episodes={len(found)} or more"
        )
    alike = {
        task: EvaluationConfig().like(
            read_recorded_config(data.dataset.episodes[episode].file), task.environment or ""
        )
        for task, episode in found.items()
    }
    first = next(iter(alike.values()))
    build = partial(build_environment, max_steps=first.max_steps, quality=first.quality or "fast")
    environments = list(dict.fromkeys(task.environment or "" for task in found))
    choose_gl_backend()  # once, here: the processes inherit it
    try:
        with located(asked):
            run_jobs(partial(_builder, build, data.schema), environments if tries else [], 1)
    except WorkerError as error:
        last = str(error).strip().splitlines()[-1]
        raise UserError(
            f"{asked}: {list_some(environments)} cannot be simulated here: {last}; the simulators "
            "come with pip install 'act_policy[sim]'"
        ) from None
    return RolloutConfig(
        (sys.executable, "-m", __name__),
        choose_seeds(count, data.demonstration_seeds),
        first.max_steps,
        first.quality or "fast",
        tuple(task._replace(max_steps=like.max_steps) for task, like in alike.items()),
    )


def evaluate_rest(run: Path, checkpoint: Path, configure: "Callable[[], RolloutConfig]") -> None:
    """Finish the rollouts of a run whose training is finished, if any are left.

    configure: says how the policies are evaluated.
    """
    from act_policy.checkpoints.bundle import WEIGHTS_KEY
    from act_policy.checkpoints.files import read_checkpoint
    from act_policy.system.atomic import link_or_copy
    from act_policy.training.rollouts.queue import RolloutQueue
    from act_policy.training.rollouts.records import RolloutFolder, hash_weights
    from act_policy.training.run.metrics_file import MetricsFile
    from act_policy.training.run.run_folder import METRICS_FILE

    saved = read_checkpoint(checkpoint)
    step, file = int(saved["global_step"]), MetricsFile(run / METRICS_FILE)
    records = RolloutFolder(run).read(step)
    if records and records[-1].step == step and all(record.logged for record in records):
        return
    file.continue_from(step)
    queue = RolloutQueue(run, configure(), [file])
    queue.go_on(step)
    link_or_copy(checkpoint, queue.folder.policy_path(step))
    queue.add(step, hash_weights(saved[WEIGHTS_KEY]))
    try:
        queue.evaluate_rest(step)
    finally:
        queue.stop()
        file.save()
    print(queue.describe(step), flush=True)


def _builder(build: Any, schema: Any) -> Any:
    """Prepare a process that tries to make an environment."""
    from act_policy.evaluation.rollouts.run import build_in

    def handle(name: str, alive: Any) -> None:
        build_in(name, build, schema).close()

    return handle


def build_gated(build: "Callable[..., Environment]", gate: Gate, *given: Any, **named: Any) -> Any:
    """Build an environment whose steps wait while the process is to rest."""
    import gymnasium

    class Gated(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            gate.pass_through()
            return super().step(action)

    return Gated(build(*given, **named))


def main(path: Path) -> None:
    """Run the episodes that a record lacks, and write down each."""
    messages = os.dup(sys.stdout.fileno())
    # keep what simulators print out of the messages
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    context = get_context("spawn")
    gate = Gate(context.RawValue("b", True), context.RawValue("b", False))
    threading.Thread(target=_obey, args=(gate,), daemon=True).start()
    threading.Thread(target=_announce, args=(gate, messages), daemon=True).start()

    from dataclasses import replace

    from act_policy.checkpoints.open import open_policy
    from act_policy.errors import UserError
    from act_policy.evaluation.rollouts.run import Rollout, build_environment, evaluate_policy
    from act_policy.system.processes import WorkerError
    from act_policy.system.stop_signals import ignore_stop_signals
    from act_policy.training.rollouts.records import read_record, write_record

    ignore_stop_signals()  # also those to a whole job: training decides
    record = read_record(path)
    build = partial(build_environment, max_steps=record.max_steps, quality=record.quality)

    def keep(rollout: "Rollout", result: "EpisodeResult") -> None:
        nonlocal record
        record = record.add(result.seed, result.success, result.steps)
        write_record(path, record)

    try:
        evaluate_policy(
            partial(open_policy, path.with_suffix(".ckpt")),
            partial(build_gated, build, gate),
            [
                Rollout(
                    seed, environment=task.environment, max_steps=task.max_steps, task=task.words
                )
                for seed, task in record.missing
            ],
            workers=1,
            on_result=keep,
        )
    except (UserError, WorkerError) as error:
        write_record(path, replace(record, failure=str(error)))


def _obey(gate: Gate) -> None:
    """Open and close the gate as training says; end with it."""
    from act_policy.training.rollouts.evaluator import RUN

    while word := os.read(sys.stdin.fileno(), 1):
        gate.is_open.value = word == RUN
    os._exit(1)


def _announce(gate: Gate, messages: int) -> None:
    """Tell training that the process can rest now."""
    from act_policy.training.rollouts.evaluator import READY

    while not gate.is_reached.value:
        time.sleep(GLANCE)
    os.write(messages, READY)


if __name__ == "__main__":
    os.nice(int(sys.argv[2]))
    main(Path(sys.argv[1]))
