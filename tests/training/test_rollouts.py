"""rollout_every=: which policies are evaluated beside training, and what becomes of the results."""

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import h5py
import psutil
import pytest
import torch

from act_policy import UserError
from act_policy.cli.training.rollouts import configure_rollouts
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.sim import rendering
from act_policy.training.callbacks.rollouts import Rollouts
from act_policy.training.rollouts.bounded_share import BoundedShare
from act_policy.training.rollouts.queue import RolloutConfig, RolloutQueue, choose_seeds
from act_policy.training.rollouts.records import Record, hash_weights, read_record, write_record
from act_policy.training.rollouts.simulated_tasks import SimulatedTask
from act_policy.training.run.metrics_file import MetricsFile
from tests.paths import ROOT
from tests.training.simulated_task import ENVIRONMENT, SAME_AGAIN
from tests.training.training_for_tests import make_data, run_training, write_demonstrations

# Stands for the process that simulates: the policy of step n succeeds at the first n % 5 seeds.
EVALUATE = """
import json, sys
path = sys.argv[1]
record = json.load(open(path))
assert open(path.replace('.json', '.ckpt'), 'rb').read(), 'no policy'
done = {episode['seed'] for episode in record['episodes']}
for seed in record['seeds']:
    if seed not in done:
        episode = {'seed': seed, 'success': seed < 70000 + record['step'] % 5, 'steps': 9}
        record['episodes'].append(episode)
        print(record['step'], seed, file=open('LOG', 'a'))
json.dump(record, open(path, 'w'))
"""


@pytest.fixture
def config(tmp_path: Path) -> RolloutConfig:
    script = EVALUATE.replace("LOG", str(tmp_path / "log"))
    return RolloutConfig((sys.executable, "-c", script), choose_seeds(4, ()), None, "fast")


def make_queue(run: Path, config: RolloutConfig, *steps: int) -> RolloutQueue:
    queue = RolloutQueue(run, config, [MetricsFile(run / "metrics.csv")])
    for step in steps:
        hand_over(queue, step)
    return queue


def hand_over(queue: RolloutQueue, step: int) -> None:
    queue.folder.folder.mkdir(parents=True, exist_ok=True)
    queue.folder.policy_path(step).write_text(f"policy of step {step}")
    queue.add(step, f"weights of step {step}")


def test_the_waiting_policy_gives_way_to_a_later_one_and_the_best_is_kept(
    tmp_path: Path,
    config: RolloutConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(BoundedShare, "may_start", lambda self: True)
    queue = make_queue(tmp_path, config, 3)
    best = tmp_path / "checkpoints" / "best_success.ckpt"
    queue.attend(3)
    for step in (4, 6):  # while that of step 3 is under way
        hand_over(queue, step)
    deadline = time.monotonic() + 60
    while not best.exists() and time.monotonic() < deadline:
        queue.attend(6)
    assert best.read_text() == "policy of step 3"
    hand_over(queue, 8)
    queue.evaluate_rest(8)
    # 3 of 4 at step 3, as at step 8, which is later; those of steps 4 and 6 were left out
    assert best.read_text() == "policy of step 8"
    assert [record.step for record in queue.folder.read(8)] == [3, 8]
    assert [path.name for path in queue.folder.folder.glob("*.ckpt")] == ["step_00000008.ckpt"]
    said = queue.describe(8)
    assert "2 of the run's policies in 4 episodes each" in said
    assert "that of step 8: 3 of 4 succeeded (75%, 95% interval 30% to 95%)" in said
    assert "2 left out" in said
    assert "step 3 in simulation: 3 of 4" in capsys.readouterr().err


def test_finished_episodes_are_neither_lost_nor_run_twice(
    tmp_path: Path, config: RolloutConfig
) -> None:
    make_queue(tmp_path, config, 4)
    path = tmp_path / "rollouts" / "step_00000004.json"
    record = read_record(path).add(70_002, False, 5).add(70_000, True, 6)
    write_record(path, record)
    queue = make_queue(tmp_path, config)  # of the run that was killed and resumed
    queue.go_on(4)
    hand_over(queue, 4)
    hand_over(queue, 5)  # which does not take the place of the one that was under way
    queue.folder.drop(5)
    queue = make_queue(tmp_path, config)
    queue.go_on(4)
    queue.evaluate_rest(4)
    assert (tmp_path / "log").read_text() == "4 70001\n4 70003\n"
    assert read_record(path).successes == 3
    # killed between the last episode and its result: it is logged when the run goes on
    write_record(path, replace(read_record(path), logged=False))
    best = tmp_path / "checkpoints" / "best_success.ckpt"
    best.unlink()
    queue = make_queue(tmp_path, config)
    queue.go_on(4)
    assert best.is_file()
    assert read_record(path).logged
    # killed between the result and the last checkpoint: step 4 is trained again
    queue = make_queue(tmp_path, config)
    queue.go_on(2)
    assert queue.folder.read(2) == []
    hand_over(queue, 4)
    queue.evaluate_rest(4)
    assert len((tmp_path / "log").read_text().splitlines()) == 2
    (metrics,) = queue._loggers
    assert isinstance(metrics, MetricsFile)
    assert [(row["step"], row["success_rate"]) for row in metrics.rows] == [("4", "0.75")]
    # with other settings it becomes another policy, which is evaluated from the beginning
    queue = make_queue(tmp_path, config)
    queue.folder.policy_path(4).write_text("another policy")
    queue.add(4, "other weights")
    queue.evaluate_rest(4)
    assert len((tmp_path / "log").read_text().splitlines()) == 6
    assert best.read_text() == "another policy"


def test_a_process_that_keeps_dying_costs_one_result_only(
    tmp_path: Path, config: RolloutConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    dying = replace(config, command=(sys.executable, "-c", "raise SystemExit(3)"))
    queue = make_queue(tmp_path, dying, 3)
    queue.evaluate_rest(3)
    assert "step 3 could not be evaluated: the process died 3 times" in capsys.readouterr().err
    assert not (tmp_path / "checkpoints").exists()
    queue = make_queue(tmp_path, config)
    queue.go_on(3)
    hand_over(queue, 4)
    queue.evaluate_rest(4)
    assert (tmp_path / "log").read_text().split()[::2] == ["4"] * 4


def test_fewer_episodes_do_not_win_by_luck(tmp_path: Path, config: RolloutConfig) -> None:
    queue = make_queue(tmp_path, config)
    queue.folder.folder.mkdir()
    for step, successes, count in ((2, 2, 2), (4, 19, 20)):
        record = Record(step, "w", tuple(range(count)), None, "fast")
        for seed in range(count):
            record = record.add(seed, seed < successes, 5)
        write_record(queue.folder.record_path(step), record)
        queue.folder.policy_path(step).write_text(f"policy of step {step}")
    best = queue.folder.keep_best(4)
    assert best is not None
    assert best.step == 4


def test_the_best_policy_of_a_training_is_a_checkpoint_that_goes_on(
    tmp_path: Path, config: RolloutConfig, demonstrations: Path
) -> None:
    run = run_training(demonstrations, tmp_path, max_steps=8, callbacks=[Rollouts(3, config)])
    # there was no time to evaluate during a second of training, so only the last one was
    with (tmp_path / "metrics.csv").open() as file:
        rows = {row["step"]: row["success_rate"] for row in csv.DictReader(file)}
    assert rows == {str(step): "0.75" if step == 8 else "" for step in range(1, 9)}
    best = run.checkpoints / "best_success.ckpt"
    saved = torch.load(best, weights_only=True)
    record = read_record(tmp_path / "rollouts" / "step_00000008.json")
    assert record.weights == hash_weights(saved["policy_weights"])
    resumed = run_training(
        demonstrations,
        tmp_path / "other",
        max_steps=10,
        callbacks=[Rollouts(4, config)],
        checkpoint=best,
    )
    assert resumed.recorder.steps == [9, 10]
    assert (tmp_path / "log").read_text().split()[::2] == ["8"] * 4 + ["10"] * 4


class Asked:
    """What the command line asks for."""

    rollout_every, rollout_episodes = 5, 4

    def __init__(self, path: Path) -> None:
        self.data = self
        self.path = path


def test_demonstrations_without_a_simulated_task_are_refused(
    demonstrations: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"rollout_every=5: .* names no simulated environment.*"):
        configure_rollouts(Asked(demonstrations), make_data(demonstrations))


def write_tasks(folder: Path, **environments: str) -> DemonstrationDataModule:
    """Write a folder of demonstrations for each task; "" is none."""
    for words, environment in environments.items():
        path = write_demonstrations(folder / words, environment=environment)
        for file in path.iterdir():
            with h5py.File(file, "a") as hdf5:
                hdf5.attrs["instruction"] = words
    first, *others = environments
    return make_data(folder / first, mix=[{"path": folder / words} for words in others])


def test_each_task_gets_its_share_of_the_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "choose_gl_backend", lambda: None)
    data = write_tasks(tmp_path, reach="Reach-v0", push="Push-v0", push_back="Push-v0")
    config = configure_rollouts(Asked(tmp_path), data, tries=False)
    tasks = (("Reach-v0", "reach"), ("Push-v0", "push"), ("Push-v0", "push_back"))
    assert config.tasks == tuple(SimulatedTask(*task) for task in tasks)
    queue = make_queue(tmp_path, config, 3)
    (record,) = queue.folder.read(3)
    assert record.tasks == config.tasks  # also from the file
    missing = record.add(70_001, True, 5).missing
    assert [(seed, task.words) for seed, task in missing] == [
        *((70_000, "reach"), (70_003, "reach")),
        (70_002, "push_back"),
    ]
    assert "in 4 episodes each, dealt out among 3 tasks" in queue.describe(3)
    told_none = make_data(
        tmp_path / "push", mix=[{"path": tmp_path / "reach"}], select={"tasks": False}
    )
    config = configure_rollouts(Asked(tmp_path), told_none, tries=False)
    assert config.tasks == (SimulatedTask("Push-v0"), SimulatedTask("Reach-v0"))


def test_more_tasks_than_episodes_and_a_real_robots_are_refused(tmp_path: Path) -> None:
    few = dict.fromkeys(("a", "b", "c", "d", "e"), "Reach-v0")
    with pytest.raises(UserError, match=r"5 tasks .*rollout_episodes=4; give rollout_episodes=5"):
        configure_rollouts(Asked(tmp_path), write_tasks(tmp_path / "few", **few))
    data = write_tasks(tmp_path / "real", a="Reach-v0", real="")
    with pytest.raises(UserError, match=r"real/episode_000000.hdf5.* names no simulated env"):
        configure_rollouts(Asked(tmp_path), data)


@pytest.mark.slow
def test_a_run_of_two_tasks_in_two_environments_is_evaluated_in_both(tmp_path: Path) -> None:
    write_tasks(tmp_path, one=ENVIRONMENT, other=SAME_AGAIN)

    def call(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, f"scripts/{script}.py", *arguments],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            text=True,
            capture_output=True,
        )

    data = (f"data.path={tmp_path / 'one'}", f"data.mix=[{{path: {tmp_path / 'other'}}}]")
    steps = ("max_steps=4", "validate_every=4", "rollout_every=4", "rollout_episodes=5")
    run = tmp_path / "run"
    done = call("train", "experiment=tiny", *data, *steps, f"out={run}")
    assert done.returncode == 0, done.stderr
    assert "1 of the run's policies in 5 episodes each, dealt out among 2 tasks" in done.stdout
    record = read_record(run / "rollouts" / "step_00000004.json")
    assert [(task.environment, task.words) for task in record.tasks] == [
        (ENVIRONMENT, "one"),
        (SAME_AGAIN, "other"),
    ]
    assert record.is_complete
    played = [episode["seed"] for episode in record.episodes]
    assert played == [70_000, 70_002, 70_004, 70_001, 70_003]  # one task after the other

    asked = (f"checkpoint={run}", "episodes=1", "baselines=false", "videos=0", "workers=1")
    refused = call("evaluate", *asked)
    assert refused.returncode == 2
    assert "task: the policy knows 2 tasks; say which: 'one', 'other'" in refused.stderr
    done = call("evaluate", *asked, "instruction=other")
    assert done.returncode == 0, done.stderr
    assert f"{SAME_AGAIN}, 'other', seeds from 1000" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_a_task_that_cannot_be_simulated_is_refused_before_training(tmp_path: Path) -> None:
    path = write_demonstrations(tmp_path, environment="act_policy/MetaWorld-reach-v0")
    with pytest.raises(UserError, match=r"rollout_every=5: camera 'front' is unknown; this task"):
        configure_rollouts(Asked(path), make_data(path))
    path = write_demonstrations(tmp_path, environment="Unknown-v0")
    with pytest.raises(UserError, match=r"rollout_every=5: environment 'Unknown-v0': .*exist"):
        configure_rollouts(Asked(path), make_data(path))


@pytest.mark.slow
def test_a_run_that_is_killed_while_it_evaluates_ends_like_one_that_was_not(
    tmp_path: Path,
) -> None:
    path = write_demonstrations(tmp_path / "demonstrations", environment=ENVIRONMENT)
    arguments = ["experiment=tiny", f"data.path={path}", "resume=auto", "max_steps=4"]
    arguments += ["validate_every=4", "rollout_every=4", "rollout_episodes=6"]

    log = tmp_path / "log"

    def start(name: str) -> subprocess.Popen[bytes]:
        with log.open("a") as file:
            return subprocess.Popen(
                [sys.executable, "scripts/train.py", *arguments, f"out={tmp_path / name}"],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                stdout=file,
                stderr=file,
            )

    assert start("straight").wait() == 0
    judged = "1 of the run's policies in 6 episodes each; best_success.ckpt is that of step 4"
    assert judged in log.read_text()
    end = signal.SIGTERM  # which is heeded while the last policy is evaluated, and then a kill
    codes, record = [], tmp_path / "run" / "rollouts" / "step_00000004.json"
    while not codes or codes[-1] != 0:
        process = start("run")
        known = len(read_record(record).episodes) if record.is_file() else 0
        while process.poll() is None:
            if record.is_file() and known < len(read_record(record).episodes) < 6:
                children = psutil.Process(process.pid).children(recursive=True)
                process.send_signal(end)
                process.wait()
                _, alive = psutil.wait_procs(children, timeout=30)
                assert alive == []
                end = signal.SIGKILL
            time.sleep(0.001)  # six short episodes are soon over
        codes.append(process.returncode)
    assert codes[0] == 75
    assert codes[1:-1].count(-signal.SIGKILL) == len(codes) - 2
    episodes = [
        read_record(tmp_path / name / "rollouts" / record.name).episodes
        for name in ("straight", "run")
    ]
    assert episodes[0] == episodes[1]
    tables = []
    for name in ("straight", "run"):
        with (tmp_path / name / "metrics.csv").open() as file:
            tables.append([(row["step"], row["success_rate"]) for row in csv.DictReader(file)])
        assert (tmp_path / name / "checkpoints" / "best_success.ckpt").is_file()
    assert tables[0] == tables[1]
    assert "leaked" not in log.read_text()
