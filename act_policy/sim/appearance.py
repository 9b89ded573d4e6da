"""Change how a scene looks for one episode: light, colours, cameras and distractors.

Only the drawing changes, never the physics: nothing can touch a distractor.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from act_policy.errors import UserError, check_number, check_whole_number

Vector = tuple[float, float, float]

PLACES = ((-0.35, 0.35), (0.35, 0.85))
"""Ranges of x and y in metres where distractors stand: on every task's table, within reach."""
APART = 0.12
"""Smallest distance in metres between a distractor and an object, or another distractor."""


def _read_three_numbers(name: str, value: Any) -> Vector:
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
    if len(values) != 3 or not all(type(one) in (int, float) for one in values):
        raise UserError(f"{name}={value}: expected three numbers")
    return (float(values[0]), float(values[1]), float(values[2]))


@dataclass(frozen=True)
class Appearance:
    """Changes to how a scene looks; by default nothing is changed.

    light: factors for red, green and blue of every light.
    table_colour, object_colour: RGB from 0 to 1, replaces the colours of the table, or of
        everything that is neither table nor robot nor surroundings.
    colour_share: 0 keeps the old colours, 1 replaces them, values between mix them.
    camera: name of the camera that is moved; None moves all of them.
    camera_shift: metres to its right, upwards in its image, and backwards.
    camera_turn: degrees about the same three axes: tilted up, panned left, rolled.
    distractors: number of coloured shapes that stand on the table; the seed places them.
    """

    light: Vector = (1.0, 1.0, 1.0)
    table_colour: Vector | None = None
    object_colour: Vector | None = None
    colour_share: int | float = 1.0
    camera: str | None = None
    camera_shift: Vector = (0.0, 0.0, 0.0)
    camera_turn: Vector = (0.0, 0.0, 0.0)
    distractors: int = 0

    def __post_init__(self) -> None:
        check_whole_number("distractors", self.distractors, 0)
        check_number("colour_share", self.colour_share, 0, 1)

    @classmethod
    def from_config(cls, values: Mapping[str, Any]) -> "Appearance":
        """Make an appearance from plain values; UserError where one has the wrong type."""
        vectors = ("light", "table_colour", "object_colour", "camera_shift", "camera_turn")
        checked: dict[str, Any] = {
            name: _read_three_numbers(name, value)
            if name in vectors and value is not None
            else value
            for name, value in values.items()
        }
        return cls(**checked)

    @property
    def moves_camera(self) -> bool:
        """Whether a camera is moved or turned."""
        return any(self.camera_shift) or any(self.camera_turn)


AS_IT_IS = Appearance()


class Parts(NamedTuple):
    """Names of the bodies that are robot, table and surroundings; all other bodies are objects.

    Everything attached to a body counts with it. Geometry without a body, like the floor, belongs
    to the surroundings.
    """

    robot: Sequence[str]
    table: str
    surroundings: Sequence[str] = ()


class Distractor(NamedTuple):
    """A coloured shape: MuJoCo's type of geometry, half sizes and position in metres, RGBA."""

    kind: int
    size: np.ndarray
    position: np.ndarray
    rgba: np.ndarray


class Dressing:
    """Applies an appearance to the drawing of one episode.

    Args:
        appearance: the changes.
        mujoco: the module.
        model: MjModel that is drawn.
        data: MjData of the initial state; distractors keep away from its objects.
        parts: the model's robot, table and surroundings.
        seed: decides where the distractors stand.

    Raises:
        UserError: the model has no such camera.
    """

    def __init__(
        self,
        appearance: Appearance,
        mujoco: Any,
        model: Any,
        data: Any,
        parts: Parts,
        seed: int | None,
    ) -> None:
        known = [model.camera(i).name for i in range(model.ncam)]
        if appearance.camera is not None and appearance.camera not in known:
            raise UserError(
                f"camera={appearance.camera} is unknown; this environment has {', '.join(known)}"
            )
        self._appearance = appearance
        self._mujoco = mujoco
        moved = appearance.camera
        self._moved = [i for i, name in enumerate(known) if moved in (None, name)]
        self._turn = _make_rotation(appearance.camera_turn)
        tables, objects = _sort_geoms(model, parts)
        self._rgba = model.geom_rgba.copy()
        share = appearance.colour_share
        _mix(self._rgba, model, tables, appearance.table_colour, share)
        _mix(self._rgba, model, objects, appearance.object_colour, share)
        self._distractors = _place(
            appearance.distractors, mujoco, data.geom_xpos[objects, :2], np.random.default_rng(seed)
        )

    @contextmanager
    def dress(self, model: Any) -> Iterator[None]:
        """Change lights and colours of the model that is drawn, within the context."""
        headlight = model.vis.headlight
        changed = [model.light_ambient, model.light_diffuse, model.light_specular]
        changed += [headlight.ambient, headlight.diffuse, headlight.specular]
        before = [values.copy() for values in (*changed, model.geom_rgba)]
        for values in changed:
            values *= self._appearance.light
        model.geom_rgba[:] = self._rgba
        try:
            yield
        finally:
            for values, earlier in zip((*changed, model.geom_rgba), before, strict=True):
                values[:] = earlier

    def move_cameras(self, data: Any) -> None:
        """Move the cameras in the data that is drawn."""
        if not self._appearance.moves_camera:
            return
        for i in self._moved:
            axes = data.cam_xmat[i].reshape(3, 3)
            data.cam_xpos[i] += axes @ self._appearance.camera_shift
            data.cam_xmat[i] = (axes @ self._turn).ravel()

    def add_distractors(self, scene: Any) -> None:
        """Add the distractors to a scene before it is drawn."""
        for one in self._distractors:
            self._mujoco.mjv_initGeom(
                scene.geoms[scene.ngeom],
                one.kind,
                one.size,
                one.position,
                np.eye(3).ravel(),
                one.rgba,
            )
            scene.ngeom += 1


def _make_rotation(degrees: Vector) -> np.ndarray:
    """Return the matrix R_x R_y R_z of these angles, float64 (3, 3)."""
    turned = np.eye(3)
    for axis, angle in enumerate(np.radians(degrees)):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        one = np.eye(3)
        one[i, i] = one[j, j] = np.cos(angle)
        one[j, i], one[i, j] = np.sin(angle), -np.sin(angle)
        turned = turned @ one
    return turned


def _sort_geoms(model: Any, parts: Parts) -> tuple[list[int], list[int]]:
    """Return the indices of the geometry of the table and of the objects."""
    tables, objects = [], []
    others = {*parts.robot, *parts.surroundings}
    for geom in range(model.ngeom):
        root = model.body_rootid[model.geom_bodyid[geom]]
        name = model.body(root).name
        if name == parts.table:
            tables.append(geom)
        elif root != 0 and name not in others:
            objects.append(geom)
    return tables, objects


def _mix(
    rgba: np.ndarray, model: Any, geoms: Sequence[int], colour: Vector | None, share: float
) -> None:
    """Mix a colour into those of some geometry, in place."""
    if colour is None:
        return
    for geom in geoms:
        material = model.geom_matid[geom]
        # MuJoCo draws a material's colour unless the geometry has one of its own
        if material >= 0 and np.array_equal(rgba[geom], [0.5, 0.5, 0.5, 1.0]):
            rgba[geom] = model.mat_rgba[material]
        rgba[geom, :3] += share * (np.array(colour) - rgba[geom, :3])


def _place(
    number: int, mujoco: Any, objects: np.ndarray, random: np.random.Generator
) -> list[Distractor]:
    """Choose distractors at random; they keep their distance as long as there is room."""
    geoms = mujoco.mjtGeom
    kinds = (geoms.mjGEOM_BOX, geoms.mjGEOM_CYLINDER, geoms.mjGEOM_SPHERE)
    taken = [np.asarray(one) for one in objects]
    made = []
    for _ in range(number):
        size = random.uniform(0.02, 0.035)
        rgba = np.append(random.permutation([1.0, 0.1, random.uniform(0.1, 0.9)]), 1.0)
        kind = kinds[random.integers(len(kinds))]
        spots = np.column_stack([random.uniform(low, high, 100) for low, high in PLACES])
        free = [s for s in spots if all(np.linalg.norm(s - one) >= APART for one in taken)]
        spot = free[0] if free else spots[0]
        taken.append(spot)
        made.append(Distractor(int(kind), np.full(3, size), np.append(spot, size), rgba))
    return made
