"""Any Gymnasium environment as a task, from a description of what it observes and of success."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float32

from act_policy.errors import UserError, check_fields, located
from act_policy.images.resize import crop_and_resize
from act_policy.sim.images import image_sizes
from act_policy.types import Camera, Schema

DRAWN: Final = "render"
"""The place of an image that is not observed: `render()` draws it."""

WHOLE: Final = "."
"""The place of an observation that is not a dictionary."""


@dataclass(frozen=True)
class SimulatorConfig:
    """What a policy has to know about an environment that was not made for it.

    environment: gymnasium id.
    package: is imported first, because that makes the id known to gymnasium.
    options: of `gymnasium.make`.
    images: camera -> place of its image in the observation, uint8 (h, w, 3); `render` is what
        `render()` draws.
    state: place of the state, or several that are joined; None where a policy sees images alone.
        A place is a key; dots lead into dictionaries, and `.` is an observation that is not one.
    state_names, state_units, action_names, action_units: by default numbers, and no units.
    success: a name in `info`, `terminated`, or a smallest reward like `reward>=0.95`.
    rate: steps per second; None takes the environment's `render_fps`.
    """

    environment: str
    images: Mapping[str, str]
    success: str
    package: str | None = None
    options: Mapping[str, Any] | None = None
    state: str | Sequence[str] | None = None
    state_names: Sequence[str] | None = None
    state_units: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    action_units: Sequence[str] | None = None
    rate: float | int | None = None

    @classmethod
    def from_config(cls, environment: str, values: Any) -> "SimulatorConfig":
        """Make it from the plain values under `simulator:` in a task's file."""
        if not isinstance(values, Mapping):
            raise UserError(f"simulator={values}: expected images, success and so on")
        check_fields("simulator", {"environment": environment, **values}, cls)
        return cls(environment, **values)

    def make(
        self, cameras: Mapping[str, Sequence[int]], max_steps: int | None = None
    ) -> "DescribedEnvironment":
        """Make the environment, its images scaled to the cameras' sizes.

        Raises:
            UserError: the environment is missing, or differs from its description.
        """
        with located(f"environment {self.environment}"):
            return DescribedEnvironment(self._make_bare(max_steps), self, image_sizes(cameras))

    def _make_bare(self, max_steps: int | None) -> gymnasium.Env[Any, Any]:
        try:
            if self.package is not None:
                import_module(self.package)
            return gymnasium.make(
                self.environment,
                max_episode_steps=max_steps,
                disable_env_checker=True,
                **(self.options or {}),
            )
        except ImportError as error:
            raise UserError(f"{error}; install what has it") from error
        except (gymnasium.error.Error, TypeError) as error:  # TypeError: an unknown option
            raise UserError(str(error)) from error


class DescribedEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that observes and ends like this package's tasks.

    Observation: {"pixels": camera -> uint8 (h, w, 3), "agent_pos": float32 (s,)}.
    Action: float32 (a,), as the environment takes it. `info["success"]` says whether it succeeded.
    """

    def __init__(
        self,
        environment: gymnasium.Env[Any, Any],
        config: SimulatorConfig,
        sizes: Mapping[str, tuple[int, int]],
    ) -> None:
        super().__init__(environment)
        self._config, self._sizes = config, dict(sizes)
        if unknown := sorted(set(sizes) - set(config.images)):
            raise UserError(
                f"camera {', '.join(unknown)}: simulator.images says where the images of "
                f"{', '.join(config.images)} are, and of no others"
            )
        actions = environment.action_space
        if not isinstance(actions, Box) or len(actions.shape) != 1:
            raise UserError(f"its actions are {actions}; expected a Box of one axis")
        self._succeeded = _read_success(config.success)
        observation, _ = environment.reset(seed=0)
        state = self._observe(observation)["agent_pos"]
        rate = config.rate or environment.metadata.get("render_fps")
        if not rate:
            raise UserError("it does not say how many steps a second has; give simulator.rate=")
        state_names, state_units = _name(
            "state", len(state), config.state_names, config.state_units
        )
        action_names, action_units = _name(
            "action", actions.shape[0], config.action_names, config.action_units
        )
        self.schema = Schema(
            cameras=tuple(Camera(name, *size) for name, size in sizes.items()),
            state_names=state_names,
            state_units=state_units,
            action_names=action_names,
            action_units=action_units,
            rate=float(rate),
            environment=config.environment,
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._observe(observation), {**info, "success": False}

    def step(self, action: Any) -> Any:
        """Do one step."""
        given = np.asarray(action, self.env.action_space.dtype)
        observation, reward, terminated, truncated, info = self.env.step(given)
        success = self._succeeded(float(reward), bool(terminated), info)
        info = {**info, "success": success}
        return self._observe(observation), reward, terminated, truncated, info

    def _observe(self, observation: Any) -> dict[str, Any]:
        places = self._config.state
        places = [] if places is None else [places] if isinstance(places, str) else places
        parts = [np.ravel(_find(observation, place)) for place in places]
        images = {name: self._image(observation, name, size) for name, size in self._sizes.items()}
        return {"pixels": images, "agent_pos": _join(parts)}

    def _image(self, observation: Any, camera: str, size: tuple[int, int]) -> np.ndarray:
        place = self._config.images[camera]
        image = self.env.render() if place == DRAWN else _find(observation, place)
        if image is None:
            raise UserError(
                f"camera {camera}: render() draws nothing; simulator.options: "
                "{render_mode: rgb_array} lets most environments draw"
            )
        with located(f"camera {camera}"):
            return crop_and_resize(np.array(image), None, *size)


def _join(parts: Sequence[np.ndarray]) -> Float32[np.ndarray, " s"]:
    return np.concatenate([np.zeros(0, np.float32), *parts]).astype(np.float32)


def _find(observation: Any, place: str) -> Any:
    """Return what an observation holds at a place."""
    found = observation
    for key in [] if place == WHOLE else place.split("."):
        if not isinstance(found, Mapping) or key not in found:
            holds = ", ".join(map(str, found)) if isinstance(found, Mapping) else "no names"
            raise UserError(f"its observation has no {place}: there is {holds} ({key} is not)")
        found = found[key]
    return found


def _read_success(text: str) -> Callable[[float, bool, Mapping[str, Any]], bool]:
    """Make the rule that says whether a step's reward, termination and info mean success."""
    if text == "terminated":
        return lambda reward, terminated, info: terminated
    if text.startswith("reward"):
        found = re.fullmatch(r"reward *>= *(-?[0-9.]+(?:e-?[0-9]+)?)", text)
        if found is None:
            raise UserError(f"simulator.success={text}: expected a number, like reward>=0.95")
        least = float(found[1])
        return lambda reward, terminated, info: reward >= least

    def from_info(reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        if text not in info:
            raise UserError(
                f"simulator.success={text}: info has {', '.join(info) or 'nothing'}; name one of "
                "these, or terminated, or a smallest reward like reward>=0.95"
            )
        return bool(info[text])

    return from_info


def _name(
    what: str, size: int, names: Sequence[str] | None, units: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a name and a unit of each dimension."""
    names = [f"{what}_{number}" for number in range(size)] if names is None else names
    units = [""] * size if units is None else units
    for field_name, given in ((f"{what}_names", names), (f"{what}_units", units)):
        if len(given) != size:
            raise UserError(f"simulator.{field_name}={list(given)}: expected {size}")
    return tuple(names), tuple(units)
