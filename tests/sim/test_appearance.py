"""Each change of the looks changes the images it says, and neither physics nor anything else."""

from typing import Any

import numpy as np
import pytest

from act_policy.errors import UserError
from act_policy.sim.appearance import APART, PLACES, Appearance

METAWORLD, ALOHA = "act_policy/MetaWorld-dial-turn-v0", "act_policy/AlohaTransferCube-v0"
CAMERAS = {
    METAWORLD: {"topview": (84, 84), "corner3": (84, 84)},
    ALOHA: {"top": (96, 128), "angle": (96, 128)},
}
CHANGES = {
    "light": Appearance(light=(0.5, 0.5, 0.5)),
    "table": Appearance(table_colour=(0.2, 0.5, 0.3)),
    "object": Appearance(object_colour=(0.1, 0.3, 0.9)),
    "shift": Appearance(camera_shift=(0.03, 0.0, 0.0)),
    "turn": Appearance(camera_turn=(3.0, 0.0, 0.0)),
    "distractors": Appearance(distractors=3),
}


@pytest.fixture(scope="module")
def environments() -> Any:
    import gymnasium

    import act_policy.sim  # noqa: F401

    made = {name: gymnasium.make(name, cameras=cameras) for name, cameras in CAMERAS.items()}
    yield made
    for environment in made.values():
        environment.close()


def look(environment: Any, appearance: Appearance | None, seed: int = 3000) -> dict[str, Any]:
    """Images of the initial state as int arrays."""
    options = None if appearance is None else {"appearance": appearance}
    observation, _ = environment.reset(seed=seed, options=options)
    return {name: np.array(image, int) for name, image in observation["pixels"].items()}


def differing(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one != other).any(axis=2)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", CAMERAS)
def test_every_image_changes_and_no_state_does(environments: Any, name: str, change: str) -> None:
    environment = environments[name]
    random = np.random.default_rng(0)
    low, high = environment.action_space.low, environment.action_space.high
    actions = random.uniform(low, high, size=(8, len(low))).astype(np.float32) * 0.3
    seen = []
    for options in (None, {"appearance": CHANGES[change]}, None):
        observation, _ = environment.reset(seed=3000, options=options)
        states, rewards = [observation["agent_pos"]], []
        for action in actions:
            observation, reward, *_ = environment.step(action)
            states.append(observation["agent_pos"])
            rewards.append(reward)
        physics = environment.unwrapped._data.qpos.copy()
        seen.append((np.stack(states), rewards, physics, dict(observation["pixels"])))
    usual, changed, again = seen
    for part in range(3):
        np.testing.assert_array_equal(usual[part], changed[part])
    for camera, image in usual[3].items():
        assert (image != changed[3][camera]).any(), camera
        np.testing.assert_array_equal(image, again[3][camera])  # nothing is left of it


@pytest.mark.parametrize("name", CAMERAS)
def test_less_light_makes_everything_darker(environments: Any, name: str) -> None:
    usual, dark = (look(environments[name], one) for one in (None, CHANGES["light"]))
    for camera, image in usual.items():
        assert (dark[camera] <= image).all()
        assert dark[camera].mean() < 0.8 * image.mean()


def test_the_light_has_a_colour(environments: Any) -> None:
    red = look(environments[ALOHA], Appearance(light=(1.0, 0.0, 0.0)))["top"]
    assert not red[..., 1:].any()
    np.testing.assert_array_equal(red[..., 0], look(environments[ALOHA], None)["top"][..., 0])


def test_the_object_alone_has_another_colour(environments: Any) -> None:
    usual, changed = (look(environments[ALOHA], c)["top"] for c in (None, CHANGES["object"]))
    is_cube = (usual[..., 0] > 100) & (usual[..., 1] < 90)
    assert 4 < is_cube.sum() < 100
    np.testing.assert_array_equal(differing(usual, changed), is_cube)
    usual, changed = (
        look(environments[METAWORLD], c)["topview"] for c in (None, CHANGES["object"])
    )
    rows, columns = np.nonzero(differing(usual, changed))
    assert 4 < len(rows) < 100  # the dial, of 10 cm
    assert np.ptp(rows) < 14
    assert np.ptp(columns) < 14


def test_the_table_alone_has_another_colour(environments: Any) -> None:
    usual, changed = (look(environments[ALOHA], c)["top"] for c in (None, CHANGES["table"]))
    is_table = np.ptp(usual, axis=2) < 3
    is_table &= (usual[..., 0] > 50) & (usual[..., 0] < 90)
    assert is_table.mean() > 0.2
    assert differing(usual, changed)[is_table].mean() > 0.9  # the robot has a few such pixels
    assert not differing(usual, changed)[(usual[..., 0] > 100) | (usual[..., 0] == 0)].any()


def test_a_colour_is_mixed_in(environments: Any) -> None:
    usual = look(environments[ALOHA], None)["top"]
    mixed = [
        look(environments[ALOHA], Appearance(object_colour=(0.0, 0.0, 1.0), colour_share=share))
        for share in (0.0, 0.5, 1.0)
    ]
    np.testing.assert_array_equal(mixed[0]["top"], usual)
    is_cube = (usual[..., 0] > 100) & (usual[..., 1] < 90)
    red = [images["top"][is_cube, 0].mean() for images in mixed]
    assert red[0] > red[1] > red[2]


@pytest.mark.parametrize("name", CAMERAS)
def test_the_camera_that_is_named_moves_and_no_other(environments: Any, name: str) -> None:
    first, second = CAMERAS[name]
    usual = look(environments[name], None)
    for change in ({"camera_shift": (0.03, 0.0, 0.0)}, {"camera_turn": (0.0, 0.0, 3.0)}):
        moved = look(environments[name], Appearance(camera=first, **change))  # type: ignore[arg-type]
        assert (moved[first] != usual[first]).any()
        np.testing.assert_array_equal(moved[second], usual[second])


def test_directions_are_the_cameras_own(environments: Any) -> None:
    """A camera that goes to its right, or up, sees the cube further to the left, or down."""

    def cube(**change: Any) -> np.ndarray:
        image = look(environments[ALOHA], Appearance.from_config(change))["top"]
        rows, columns = np.nonzero((image[..., 0] > 100) & (image[..., 1] < 90))
        return np.array([rows.mean(), columns.mean(), len(rows)])

    usual = cube()
    assert cube(camera_shift=(0.03, 0, 0))[1] < usual[1] - 1
    assert cube(camera_shift=(0, 0.03, 0))[0] > usual[0] + 1
    assert cube(camera_shift=(0, 0, -0.3))[2] > usual[2]
    assert cube(camera_turn=(3, 0, 0))[0] > usual[0] + 1  # it tilts up
    assert cube(camera_turn=(0, 3, 0))[1] > usual[1] + 1  # it pans to the left


def test_distractors_stand_apart_where_the_seed_says(environments: Any) -> None:
    environment = environments[ALOHA]
    usual = look(environment, None)["top"]
    one, same = (look(environment, CHANGES["distractors"])["top"] for _ in range(2))
    np.testing.assert_array_equal(one, same)
    assert 15 < differing(one, usual).sum() < 400
    cube = (usual[..., 0] > 100) & (usual[..., 1] < 90)
    assert not differing(one, usual)[cube].any()
    other = look(environment, CHANGES["distractors"], seed=3001)["top"]
    assert (other != look(environment, None, seed=3001)["top"]).any()
    environment.reset(seed=3000, options={"appearance": Appearance(distractors=5)})
    things = environment.unwrapped._dressing._distractors
    places = np.array([thing.position[:2] for thing in things])
    places = np.concatenate([places, environment.unwrapped.object_poses[:, :2]])
    gaps = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(6, 1)]
    assert gaps.min() >= APART
    for axis, (low, high) in enumerate(PLACES):
        assert ((places[:5, axis] >= low) & (places[:5, axis] <= high)).all()


def test_a_late_read_shows_the_looks_of_its_episode(environments: Any) -> None:
    environment = environments[ALOHA]
    dark = look(environment, CHANGES["light"])["top"]
    late, _ = environment.reset(seed=3000, options={"appearance": CHANGES["light"]})
    environment.reset(seed=3001)
    np.testing.assert_array_equal(late["pixels"]["top"], dark)


def test_what_cannot_be_is_refused(environments: Any) -> None:
    with pytest.raises(UserError, match="camera=nose is unknown; this environment has left_pillar"):
        look(environments[ALOHA], Appearance(camera="nose", camera_shift=(1.0, 0.0, 0.0)))
    for wrong in ({"light": 0.5}, {"camera_turn": [1, 2]}, {"table_colour": "red"}):
        with pytest.raises(UserError, match=f"{next(iter(wrong))}=.*: expected three numbers"):
            Appearance.from_config(wrong)
    with pytest.raises(UserError, match="distractors=-1"):
        Appearance(distractors=-1)
    with pytest.raises(UserError, match="colour_share=2: expected a number from 0 to 1"):
        Appearance(colour_share=2)
