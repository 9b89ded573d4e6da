"""In which order samples come, also after an interruption."""

from collections.abc import Callable, Iterator

import numpy as np
from lightning import Trainer
from torch.utils.data import DataLoader, DistributedSampler

from act_policy.data.loading.order import Locality, Mix, arrange, draw_epoch
from act_policy.data.loading.samples import Batch
from act_policy.errors import UserError


class EpochOrder(DistributedSampler[int]):
    """Every sample once an epoch, in an order that only seed and epoch decide.

    Several processes take turns (rank r takes r, r + n, ...), or a part each where samples must
    lie together; as in its base class the order is filled up from its own beginning so that all
    get the same number.

    Args:
        count: number of samples there are.
        seed: of the order.
        processes: that share an epoch.
        rank: which of them this is.
        mix: datasets with weights, by which some samples come more often than once, or less.
        locality: samples that must lie together.
    """

    def __init__(
        self,
        count: int,
        seed: int,
        processes: int = 1,
        rank: int = 0,
        mix: Mix | None = None,
        locality: Locality | None = None,
    ) -> None:
        self.count = sum(mix.drawn) if mix else count
        """How many samples an epoch shows."""
        super().__init__(range(self.count), processes, rank, shuffle=True, seed=seed)  # type: ignore[arg-type]
        self._there = count
        self._mix, self._locality = mix, locality
        self.place: Callable[[], tuple[int, int]] | None = None
        """Asks where an iteration starts: its epoch, and how many of this process's samples of
        that epoch were seen already. Without it an iteration is the whole epoch of `set_epoch`."""

    def __iter__(self) -> Iterator[int]:
        epoch, seen = self.place() if self.place else (self.epoch, 0)
        blocks = self._locality.blocks if self._locality else None
        order = draw_epoch(self._there, self.seed, epoch, self._mix, blocks)
        order = np.resize(order, self.total_size)
        if self._locality is None:
            mine = order[self.rank :: self.num_replicas]
        else:
            share = np.split(order, self.num_replicas)[self.rank]
            generator = np.random.default_rng((self.seed, epoch, self.rank))
            mine = arrange(share, self._locality, generator)
        return iter(mine[seen:].tolist())


class ResumableLoader(DataLoader[Batch]):
    """A DataLoader that continues where the trainer stands, also in the middle of an epoch.

    The place follows from the number of batches that the trainer has trained on, which its
    checkpoints hold. So batches that workers fetched ahead, or one that was interrupted, come
    again. The length stays that of the whole epoch.
    """

    order: EpochOrder

    def follow(self, trainer: Trainer) -> None:
        """Start every iteration from now on where this trainer stands."""

        def place() -> tuple[int, int]:
            limit = trainer.limit_train_batches  # a number of batches, or a share of the epoch
            an_epoch = min(len(self), limit) if isinstance(limit, int) else int(len(self) * limit)
            done = trainer.fit_loop.epoch_loop.batch_progress.total.processed  # type: ignore[attr-defined]
            epoch, batches = divmod(done, max(an_epoch, 1))
            return epoch, batches * (self.batch_size or 1)

        self.order.place = place

    def state_dict(self) -> dict[str, int]:
        """What must be equal to continue exactly; Lightning saves it in its checkpoints."""
        return {
            "samples": self.order.count,
            "batch_size": self.batch_size or 1,
            "seed": self.order.seed,
            "processes": self.order.num_replicas,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Refuse to continue a run whose batches were others."""
        for name, here in self.state_dict().items():
            if state[name] != here:
                raise UserError(
                    f"cannot resume: the interrupted run had {name} {state[name]}, this one has "
                    f"{here}; the order of samples would not continue"
                )
