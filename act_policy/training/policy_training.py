"""PolicyTraining: one policy, its loss, its optimiser and its averaged weights, for Lightning."""

import time
from collections.abc import Sequence
from typing import Any, cast

import lightning
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from act_policy.checkpoints.bundle import to_checkpoint
from act_policy.data.loading.batches import Batch
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.loading.order import ResumableLoader
from act_policy.errors import UserError, check_whole_number
from act_policy.model.act import ACTOutput, Latent
from act_policy.model.policy import ACTPolicy
from act_policy.model.prefix import committed_rows
from act_policy.training.augmentation import Augmentation
from act_policy.training.averaged_weights import average_weights
from act_policy.training.engine.compilation import compile_network
from act_policy.training.losses import action_l1, gaussian_kl
from act_policy.training.non_finite import NonFiniteSteps
from act_policy.training.optimizer import OptimizerConfig, build_optimizer, parameter_groups
from act_policy.training.prefixes import draw_prefix
from act_policy.types import Observation


class PolicyTraining(lightning.LightningModule):
    """Trains a policy on chunks of demonstrated actions.

    loss = L1 over the valid elements, normalised by each dimension's standard deviation, plus
    kl_weight * KL when the policy has a CVAE.

    Apart from the weights, everything that a step depends on (learning rate, random numbers of
    dropout, z and augmentation) is a function of the step's number, so a resumed run continues
    exactly as if it had never stopped. A limit in minutes is the exception: the cosine then follows
    the clock.

    Args:
        policy: the policy to train.
        optimizer: learning rates, schedule, clipping and averaging.
        max_steps: where training ends; the cosine ends there too.
        max_minutes: ends training, and the cosine, if this limit is reached first.
        kl_weight: weight of the KL term; None without a CVAE.
        seed: of dropout, z and augmentation.
        episode_names: file names, to name the sample that stopped training.
        augmentation: changes what the policy sees in training; None changes nothing.
        skip_non_finite: steps of a run that may be left out; 0 stops at the first.
        compiles: whether to compile the network, where that works.
    """

    def __init__(
        self,
        policy: ACTPolicy,
        optimizer: OptimizerConfig,
        max_steps: int,
        max_minutes: float | None = None,
        kl_weight: float | None = None,
        seed: int = 0,
        episode_names: Sequence[str] = (),
        augmentation: Augmentation | None = None,
        skip_non_finite: int = 0,
        compiles: bool = False,
    ) -> None:
        super().__init__()
        check_whole_number("max_steps", max_steps, 1)
        for name, value in (("max_minutes", max_minutes), ("loss.kl_weight", kl_weight)):
            if value is not None and (not isinstance(value, int | float) or not value > 0):
                raise UserError(f"{name}: expected a positive number or null, found {value!r}")
        if policy.config.latent_size and kl_weight is None:
            raise UserError("loss.kl_weight: must be given with a CVAE (latent_size > 0), e.g. 10")
        if not policy.config.latent_size and kl_weight is not None:
            raise UserError(
                f"loss.kl_weight={kl_weight} does nothing without a CVAE (latent_size 0); "
                "set it to null"
            )
        self.policy = policy
        self.average = average_weights(policy, optimizer.ema_decay) if optimizer.ema_decay else None
        self.optimizer_config = optimizer
        self.max_steps = max_steps
        self.max_minutes = max_minutes
        self.kl_weight = kl_weight
        self.seed = seed
        self.non_finite = NonFiniteSteps(
            skip_non_finite, optimizer.gradient_clip > 0, episode_names
        )
        self.augmentation = augmentation
        self.compiles = compiles
        self._batches_per_step = 1
        self._parts = 1
        """Batches of all processes that make one step."""
        self._loader: ResumableLoader | None = None
        """Knows what a whole step learns from, if it has several parts."""
        self._is_first = True
        """Whether the current batch is the first of its step."""
        self.minutes = 0.0
        """Training time so far, including the earlier parts of a resumed run."""
        self.interrupted = False
        """Whether a signal ends training after this step, before its end."""
        self.measured: dict[str, Tensor] = {}
        """Measurements of the last step, for the callbacks that show and log them."""
        self.held_out: dict[str, float] = {}
        """The last held-out losses."""

    @property
    def best_policy(self) -> ACTPolicy:
        """The policy to judge, save and deploy: averaged weights where there are any."""
        return self.policy if self.average is None else cast(ACTPolicy, self.average.module)

    @property
    def step_is_complete(self) -> bool:
        """Whether the last batch was the last of its step, after which alone anything is saved."""
        loop = self.trainer.fit_loop.epoch_loop
        return (loop.batch_idx + 1) % self._batches_per_step == 0

    @property
    def validation_is_due(self) -> bool:
        """Whether held-out losses, or what takes their place, follow the step that has ended."""
        batches = self.trainer.fit_loop.epoch_loop.total_batch_idx + 1
        return batches % int(self.trainer.val_check_interval) == 0

    # -- one step ------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Store the brightness of the images in the policy: a robot compares its own with it."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        if data is None:  # the batches do not come from demonstrations
            return
        levels = data.image_levels
        for policy in (self.policy, self.best_policy):
            policy.statistics = policy.statistics._replace(image_levels=levels)
        if self.compiles:
            self._compile(data)

    def _compile(self, data: DemonstrationDataModule) -> None:
        samples = data.train_samples
        batch = samples.__getitems__(list(range(min(data.batch_size, len(samples)))))
        batch = self.transfer_batch_to_device(batch, self.device, 0)
        precision = self.trainer.precision_plugin

        def predict() -> Tensor:
            seen = self._commit(batch, batch.observation)
            return self.predict(self.policy, batch, "auto", seen)[0].actions

        said = compile_network(self.policy, predict, precision.train_step_context())
        if self.trainer.is_global_zero:
            print(f"compile=true: {said}", flush=True)

    def on_train_start(self) -> None:
        """Start the clock and put the averaged copy into evaluation mode."""
        self._clock = time.monotonic() - 60 * self.minutes
        self._batches_per_step = self.trainer.accumulate_grad_batches
        self._parts = self._batches_per_step * self.trainer.world_size
        loader = self.trainer.train_dataloader
        self._loader = loader if isinstance(loader, ResumableLoader) else None
        # torch restores the old settings of each group; those of the current config hold
        groups = parameter_groups(self.policy, self.optimizer_config)
        for group, wanted in zip(self.trainer.optimizers[0].param_groups, groups, strict=True):
            group["peak"], group["weight_decay"] = wanted["peak"], wanted["weight_decay"]
        if self.average is not None:
            self.average.eval()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Set learning rate and random seed, both functions of the step's number."""
        step, batches = self.global_step, self._batches_per_step
        self._is_first = batch_idx % batches == 0
        number = step * batches + batch_idx % batches
        torch.manual_seed(((self.seed * 1_000_003 + number) * 1_009 + self.global_rank) % 2**63)
        progress = step / self.max_steps
        if self.max_minutes is not None:
            progress = max(progress, self.minutes / self.max_minutes)
        factor = self.optimizer_config.factor(step, progress)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = group["peak"] * factor

    def training_step(self, batch: Batch, batch_idx: int) -> Float[Tensor, ""]:
        """Compute L1 plus weighted KL of one batch, as its share of the whole step's."""
        if self._is_first:
            self.measured = {}
            self.non_finite.begin_step(self.policy)
        self.non_finite.add_batch(batch)
        seen = batch.observation
        if self.augmentation is not None:
            seen = self.augmentation(seen, self.policy.normalizer.state_mean)
        l1, kl = self.losses(self.policy, batch, "auto", self._commit(batch, seen))
        of_rows, of_samples = self._shares(batch)
        self._measure("train_l1", l1 := l1 * of_rows)
        if kl is None or self.kl_weight is None:
            return l1
        self._measure("train_kl", kl := kl * of_samples)
        return l1 + self.kl_weight * kl

    def _commit(self, batch: Batch, seen: Observation[Tensor]) -> Observation[Tensor]:
        """Show the first actions as committed ones, if the policy knows of them."""
        if not (length := self.policy.prefix_length):
            return seen
        scale = self.policy.normalizer.action_scale
        return seen._replace(prefix=draw_prefix(batch.actions, batch.is_pad, length, scale))

    def _shares(self, batch: Batch) -> tuple[Tensor | float, Tensor | float]:
        """Compute the factors by which the mean of all batches' losses is that of one large batch.

        One is for means over valid rows, the other for means over samples. Lightning takes the mean
        over the batches of a step and over processes.
        """
        if self._parts == 1 or self._loader is None:
            return 1.0, 1.0
        rows, samples = self._loader.count_step(self.trainer.fit_loop.epoch_loop.total_batch_idx)
        valid, parts = ~batch.is_pad, self._parts
        return valid.sum() * (parts / rows), valid.any(dim=-1).sum() * (parts / samples)

    def _measure(self, name: str, loss: Tensor) -> None:
        """Add this batch's part of the step's loss; the mean over processes is the whole."""
        part = loss.detach() / self._batches_per_step
        self.measured[name] = self.measured[name] + part if name in self.measured else part

    def losses(
        self,
        policy: ACTPolicy,
        batch: Batch,
        latent: Latent,
        seen: Observation[Tensor] | None = None,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""] | None]:
        """Compute L1 and KL (None without a posterior) on a batch, in normalised units.

        Rows that are committed in what is seen do not count.
        """
        output, target = self.predict(policy, batch, latent, seen)
        left_out = batch.is_pad
        if seen is not None and seen.prefix is not None:
            free = policy.chunk_length - policy.prefix_length
            left_out = left_out | F.pad(committed_rows(seen.prefix), (0, free))
        l1 = action_l1(output.actions.float(), target, left_out)
        if output.latent_mean is None or output.latent_log_variance is None:
            return l1, None
        mean, log_variance = output.latent_mean.float(), output.latent_log_variance.float()
        return l1, gaussian_kl(mean, log_variance, batch.is_pad)

    def predict(
        self,
        policy: ACTPolicy,
        batch: Batch,
        latent: Latent,
        seen: Observation[Tensor] | None = None,
    ) -> tuple[ACTOutput, Float[Tensor, "b k a"]]:
        """Compute a policy's prediction for a batch, and its target, in normalised units.

        seen: what the policy sees in place of the batch's own observation; the target stays.
        """
        observation = policy.normalizer.observation(batch.observation if seen is None else seen)
        target = policy.normalizer.actions(batch.actions, batch.observation.state)
        output = policy.act(
            observation.images,
            observation.state,
            observation.environment_state,
            target,
            batch.is_pad,
            latent=latent,
            prefix=observation.prefix,
            task=observation.task,
        )
        return output, target

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradient's norm; stop at, or leave out, a step that is not finite."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        limit = self.optimizer_config.gradient_clip or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(parameters, limit)
        self.measured["gradient_norm"] = norm.detach()
        self.non_finite.check(self.trainer, self.policy, parameters, self.measured)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Step, update the averaged weights, and stop at either limit."""
        super().optimizer_step(*args, **kwargs)
        step = self.global_step + 1
        if self.average is not None and not self.non_finite.skips:
            self.average.update_parameters(self.policy)
        self.minutes = (time.monotonic() - self._clock) / 60
        if self.max_minutes is not None and self.trainer.world_size > 1:
            # every process must stop at the same step and follow the same cosine
            self.minutes = self.trainer.strategy.broadcast(self.minutes)
        time_is_up = self.max_minutes is not None and self.minutes >= self.max_minutes
        if step >= self.max_steps or time_is_up:
            self.trainer.should_stop = True  # after one more held-out loss and checkpoint

    # -- held out ------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        """Reset the sums; give every process the running statistics that the first one saves."""
        self._sums: dict[str, Tensor] = {}
        if self.trainer.world_size > 1:
            for buffer in self.best_policy.buffers():
                torch.distributed.broadcast(buffer, src=0)

    def validation_step(self, batch: Batch, batch_idx: int) -> Float[Tensor, "b k a"]:
        """Add up L1 of the averaged policy as it will act (z = 0), and with the posterior's mean.

        Returns the normalised |error| (b, k, a) for z = 0 for the callbacks; ignore padded rows.
        """
        output, target = self.predict(self.best_policy, batch, "zero")
        predicted = output.actions.float()
        losses = {"held_out_l1": action_l1(predicted, target, batch.is_pad)}
        if self.policy.config.latent_size:
            losses["held_out_l1_posterior"] = self.losses(self.best_policy, batch, "mean")[0]
        valid = (~batch.is_pad).sum()
        for name, l1 in losses.items():
            self._sums[name] = self._sums.get(name, 0) + torch.stack([l1 * valid, valid])
        return (predicted - target).abs()

    def on_validation_epoch_end(self) -> None:
        """Compute the mean per element over all processes."""
        self.held_out = {}
        for name, sums in self._sums.items():
            total = self.trainer.strategy.reduce(sums.double(), reduce_op="sum")
            self.held_out[name] = float(total[0] / total[1].clamp(min=1))
        self._sums = {}

    # -- Lightning -----------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Make AdamW over the policy's parameter groups."""
        return build_optimizer(self.policy, self.optimizer_config)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the policy, as ACTPolicy.load reads it, and the training time."""
        checkpoint.update(to_checkpoint(self.best_policy))
        checkpoint["training"] = {
            "minutes": self.minutes,
            "seed": self.seed,
            "skipped": self.non_finite.skipped,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the training time and the number of steps left out."""
        self.minutes = float(checkpoint["training"]["minutes"])
        self.non_finite.skipped = int(checkpoint["training"].get("skipped", 0))
        # checkpoints written by our own average do not hold its count
        steps = torch.tensor(checkpoint["global_step"] + 1)
        if self.average is not None:
            checkpoint["state_dict"].setdefault("average.n_averaged", steps)
