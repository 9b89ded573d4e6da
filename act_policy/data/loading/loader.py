"""The order in which samples are loaded, also after an interruption."""

from collections.abc import Callable, Iterator

import numpy as np
from lightning import Trainer
from torch.utils.data import DataLoader, DistributedSampler

from act_policy.data.loading.order import Locality, Mix, arrange, draw_epoch
from act_policy.data.loading.samples import Batch
from act_policy.errors import UserError


class EpochOrder(DistributedSampler[int]):
    """Every sample once per epoch, in an order that depends only on seed and epoch.

    Several processes take turns (rank r takes r, r + n, ...), or one part each if samples must
    stay together. As in the base class, the order is padded with its own beginning so that all
    processes get the same number.

    Args:
        count: number of samples.
        seed: of the order.
        processes: number of processes that share an epoch.
        rank: of this process.
        mix: datasets with weights, which show samples more or less often than once.
        locality: samples that must stay together.
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
        """Number of samples per epoch."""
        super().__init__(range(self.count), processes, rank, shuffle=True, seed=seed)  # type: ignore[arg-type]
        self._sample_count = count
        self._mix, self._locality = mix, locality
        self.place: Callable[[], tuple[int, int]] | None = None
        """Returns where an iteration starts: its epoch, and how many of this process's samples of
        it were seen already. If None, an iteration is the whole epoch set by `set_epoch`."""

    def __iter__(self) -> Iterator[int]:
        epoch, seen = self.place() if self.place else (self.epoch, 0)
        blocks = self._locality.blocks if self._locality else None
        order = draw_epoch(self._sample_count, self.seed, epoch, self._mix, blocks)
        order = np.resize(order, self.total_size)
        if self._locality is None:
            mine = order[self.rank :: self.num_replicas]
        else:
            share = np.split(order, self.num_replicas)[self.rank]
            generator = np.random.default_rng((self.seed, epoch, self.rank))
            mine = arrange(share, self._locality, generator)
        return iter(mine[seen:].tolist())


class ResumableLoader(DataLoader[Batch]):
    """A DataLoader that continues where the trainer stands, even in the middle of an epoch.

    The place follows from the number of batches trained on, which the trainer's checkpoints hold.
    Batches that workers fetched ahead, or one that was interrupted, are therefore loaded again.
    The length stays that of the whole epoch.
    """

    order: EpochOrder

    def follow(self, trainer: Trainer) -> None:
        """Start every later iteration where this trainer stands."""

        def place() -> tuple[int, int]:
            limit = trainer.limit_train_batches  # a number of batches, or a share of the epoch
            an_epoch = min(len(self), limit) if isinstance(limit, int) else int(len(self) * limit)
            done = trainer.fit_loop.epoch_loop.batch_progress.total.processed  # type: ignore[attr-defined]
            epoch, batches = divmod(done, max(an_epoch, 1))
            return epoch, batches * (self.batch_size or 1)

        self.order.place = place

    def state_dict(self) -> dict[str, int]:
        """Return the sizes that must be equal to resume; Lightning saves them in checkpoints."""
        return {
            "samples": self.order.count,
            "batch_size": self.batch_size or 1,
            "seed": self.order.seed,
            "processes": self.order.num_replicas,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Raise UserError if the interrupted run had different batches."""
        for name, here in self.state_dict().items():
            if state[name] != here:
                raise UserError(
                    f"cannot resume: the interrupted run had {name} {state[name]}, this one has "
                    f"{here}; the order of samples would not continue"
                )
