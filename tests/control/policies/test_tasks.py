"""Which task is to be done crosses every way to a policy in words, and unknown ones are refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.control.commands.command_line import main
from act_policy.control.config import RobotConfig
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.robots.contract import Contract
from act_policy.control.serving.status_page import status_page
from tests.control import loop_for_tests, onnx_for_tests
from tests.control.server_for_tests import (
    IDENTITY,
    SCHEMA,
    SeeingPolicy,
    message,
    observe,
    remote_policy,
    serving,
)
from tests.control.serving.clients_for_tests import wait_until

TASKS = ("open it", "close it", "leave it")
SEVERAL = replace(SCHEMA, tasks=TASKS)


class ToldPolicy(SeeingPolicy):
    """Every action is the index of the task."""

    schema = SEVERAL

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        seen = self.schema.check(observation)
        ones = np.ones((self.chunk_length, 3), np.float32)
        chunk: np.ndarray = np.asarray(seen.task)[..., None, None] * ones
        return chunk.astype(np.float32)


@pytest.fixture(scope="module")
def process() -> Iterator[InferenceProcess]:
    inference = InferenceProcess(ToldPolicy)
    yield inference
    inference.close()


def test_words_cross_to_the_policys_process(process: InferenceProcess) -> None:
    for number, task in enumerate(TASKS):
        process.submit(observe()._replace(task=task), captured=0.0)
        answer = process.wait(60.0)
        assert answer is not None
        assert answer.chunk is not None
        assert (answer.chunk == number).all()
    with pytest.raises(UserError, match="'opn it' is unknown; the policy knows 'open it'"):
        process.submit(observe()._replace(task="opn it"), captured=0.0)
    assert not process.busy


def test_clients_ask_a_server_by_their_prompt() -> None:
    with serving(ToldPolicy(), largest_batch=4) as running, remote_policy(running.url) as remote:
        for number, task in enumerate(TASKS):
            assert (remote.predict_chunk(observe()._replace(task=task)) == number).all()
        with pytest.raises(UserError, match="task: the policy knows 3 tasks; say which: 'open it'"):
            remote.predict_chunk(observe())
        assert (remote.predict_chunk(observe()._replace(task="open it")) == 0).all()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, "key 'prompt': task: the policy knows 3 tasks; say which: 'open it', 'close it'"),
        ({"prompt": "opn it"}, "'opn it' is unknown; the policy knows 'open it', 'close it'"),
        ({"prompt": 1}, "prompt: int, expected words"),
    ],
)
def test_a_server_refuses_other_prompts_with_the_list(sent: dict[str, object], words: str) -> None:
    keys = ObservationKeys().for_schema(SEVERAL)
    with pytest.raises(UserError, match=words):
        keys.to_observation(message(observe()) | sent, SEVERAL)
    single = replace(SCHEMA, tasks=TASKS[:1])
    found = ObservationKeys().for_schema(single).to_observation(message(observe()) | sent, single)
    assert found.task is None


def test_the_key_of_the_task_may_be_another_and_older_servers_have_none() -> None:
    keys = ObservationKeys(task="language/instruction").for_schema(SEVERAL)
    assert ObservationKeys.from_dict(keys.to_dict()) == keys
    sent = message(observe()) | {"language": {"instruction": np.array("close it")}}
    assert keys.to_observation(sent, SEVERAL).task == "close it"
    usual = ObservationKeys(ignore=("prompt",)).for_schema(SCHEMA)
    assert "task" not in usual.to_dict()
    assert ObservationKeys.from_dict(usual.to_dict()) == usual
    with pytest.raises(UserError, match="prompt stands for two inputs"):
        ObservationKeys(ignore=("prompt",)).for_schema(SEVERAL)


def test_a_servers_page_lists_the_words_and_shows_the_last_ones() -> None:
    with serving(ToldPolicy()) as running, remote_policy(running.url) as remote:
        server = running.server
        page = status_page(server.status.snapshot(), SEVERAL, server.metadata, [])
        remote.predict_chunk(observe()._replace(task="close it"))
        wait_until(lambda: server.status.last is not None)  # written once the answer is sent
        asked = status_page(server.status.snapshot(), SEVERAL, server.metadata, [])
    assert "one of the 3 tasks below" in page
    assert all(f"<td>{task}</td>" in page for task in TASKS)
    assert "the task:" not in page
    assert "the task: <strong>close it</strong>." in asked
    assert server.metadata["policy"] == IDENTITY


def test_a_robots_observations_carry_the_task_and_an_unknown_one_is_refused_before() -> None:
    schema = replace(loop_for_tests.SCHEMA, tasks=TASKS)
    reading = loop_for_tests.Arm(loop_for_tests.Clock()).get_observation()

    def bind(task: str | None) -> Contract:
        return Contract(schema, loop_for_tests.RANGES, RobotConfig(), task)

    assert schema.check(bind("close it").observation(reading)).task == 1
    for task in ("opn it", None):
        with pytest.raises(UserError, match=r"task: .*'open it', 'close it', 'leave it'"):
            bind(task)


def test_the_command_line_refuses_an_unknown_task_with_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = replace(onnx_for_tests.SCHEMA, tasks=TASKS)
    policy = onnx_for_tests.write_calm_policy(tmp_path / "p.onnx", schema)
    words = ["check", "--policy", str(policy), "--robot", "simulated"]
    for asked, said in (([], "say which: 'open it'"), (["--task", "shut it"], "'shut it' is unk")):
        assert main([*words, *asked]) == 2
        error = capsys.readouterr().err
        assert f"--task, for {policy}: task: " in error
        assert said in error
