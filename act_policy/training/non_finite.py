"""Steps whose loss or gradient is not finite: training stops, or leaves out a bounded number."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import lightning
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from act_policy.data.loading.batches import Batch
from act_policy.errors import UserError, check_whole_number
from act_policy.training.callbacks.checkpoints import how_to_go_on


class NonFiniteSteps:
    """Decides what happens to a step that is not finite, and names its samples.

    Args:
        most_skipped: number of steps of a run that may be left out; 0 stops at the first.
        clips: whether gradients are clipped already.
        episode_names: file names, to name samples.
    """

    def __init__(self, most_skipped: int, clips: bool, episode_names: Sequence[str]) -> None:
        check_whole_number("skip_non_finite", most_skipped, 0)
        self.most_skipped = most_skipped
        self.skipped = 0
        """Steps left out so far, including the earlier parts of a resumed run."""
        self.skips = False
        """Whether the current step is left out."""
        self._clips = clips
        self._episode_names = list(episode_names)
        self._batches: list[Batch] = []
        self._buffers: list[Tensor] = []

    def begin_step(self, policy: nn.Module) -> None:
        """Forget the last step; keep what the forward pass changes, if the step may be left out."""
        self._batches, self.skips = [], False
        if self.most_skipped:
            self._buffers = [buffer.clone() for buffer in policy.buffers()]

    def add_batch(self, batch: Batch) -> None:
        """Keep a batch of the step without its images, which are large."""
        self._batches.append(batch._replace(observation=batch.observation._replace(images={})))

    def check(
        self,
        trainer: lightning.Trainer,
        policy: nn.Module,
        parameters: Iterable[nn.Parameter],
        measured: dict[str, Tensor],
    ) -> None:
        """Do nothing if the step is finite; else take back what it did, or raise UserError."""
        # one wait for the device per step; a NaN loss may have a finite gradient (sign(NaN) is 0)
        finite = bool(torch.isfinite(torch.stack(list(measured.values())).sum()))
        if trainer.world_size > 1:
            finite = trainer.strategy.reduce_boolean_decision(finite, all=True)
        if finite:
            return
        failure = self._describe(trainer, measured)
        if self.skipped >= self.most_skipped:
            if self.skipped:
                failure += f" (skip_non_finite={self.most_skipped} steps have been left out before)"
            raise UserError(f"{failure}; {how_to_go_on(Path(trainer.default_root_dir))}")
        self.skipped += 1
        self.skips = True
        for parameter in parameters:
            parameter.grad = None  # the optimiser leaves such parameters as they are
        with torch.no_grad():
            for buffer, before in zip(policy.buffers(), self._buffers, strict=True):
                buffer.copy_(before)
        measured.clear()
        if trainer.is_global_zero:
            left = f"{self.skipped} of at most {self.most_skipped} steps left out"
            print(f"warning: {failure}; {left}", file=sys.stderr, flush=True)

    def _describe(self, trainer: lightning.Trainer, measured: dict[str, Tensor]) -> str:
        loss = trainer.strategy.reduce(measured["train_l1"].clone(), reduce_op="mean")
        names = self._name_broken()
        if trainer.world_size > 1:
            everyone: list[list[str]] = [[]] * trainer.world_size
            torch.distributed.all_gather_object(everyone, names)
            names = [name for each in everyone for name in each]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            why = f"there are values that are not finite in {', '.join(names[:3])}{more}"
        else:
            why = (
                "every input is finite, so training has diverged: lower optim.learning_rate or "
                f"{'lower' if self._clips else 'set'} optim.gradient_clip"
            )
        step, norm = trainer.global_step + 1, float(measured["gradient_norm"])
        return f"training step {step}: L1 is {float(loss):.4g}, the gradient norm {norm:.4g}; {why}"

    def _name_broken(self) -> list[str]:
        """Name the samples of this process that are not finite."""
        names = []
        for batch in self._batches:
            for i in _broken(batch).nonzero().flatten().tolist():
                episode, step = int(batch.episode[i]), int(batch.step[i])
                known = episode < len(self._episode_names)
                file = f" ({self._episode_names[episode]})" if known else ""
                names.append(f"episode {episode}{file} step {step}")
        return names


def _broken(batch: Batch) -> Bool[Tensor, " b"]:
    valid = ~batch.is_pad[..., None]
    broken = ~torch.isfinite(batch.observation.state).all(dim=-1)
    return broken | ~torch.isfinite(torch.where(valid, batch.actions, 0.0)).all(dim=-1).all(dim=-1)
