"""Make a plan: each choice by its rule, from the facts; what the user set stays as it is."""

import math

from act_policy.training.plan.choices import (
    IMAGE_SIZES,
    ImageSize,
    choose_batch,
    choose_checks,
    choose_chunk,
    choose_device,
    choose_execution,
    choose_held_out,
    choose_images,
    choose_learning_rate,
    choose_network,
)
from act_policy.training.plan.costs import (
    NO_BUDGET,
    USED_FOR_STEPS,
    Decoding,
    choose_budget,
    choose_cache,
    choose_steps,
    enough_samples,
    estimate_step,
)
from act_policy.training.plan.facts import (
    NOTHING_BY_HAND,
    ByHand,
    DataFacts,
    MachineFacts,
    Measured,
    Workload,
)
from act_policy.training.plan.plan import Choice, Plan


def make_plan(
    data: DataFacts,
    machine: MachineFacts,
    by_hand: ByHand = NOTHING_BY_HAND,
    measured: Measured | None = None,
) -> Plan:
    """Decide everything that the user leaves open.

    Images are the largest for which budget and demonstrations give enough samples. How long a step
    takes is guessed until it is measured: measure the plan's `workload` and plan again, until the
    workload is one of those that were measured.

    Raises:
        UserError: a setting cannot be read.
    """
    budget = choose_budget(machine, by_hand)
    network = choose_network(machine, by_hand)
    chunk = choose_chunk(data, by_hand)
    held_out = choose_held_out(data, by_hand)
    enough = enough_samples(data, held_out.value)
    for size in reversed(IMAGE_SIZES):
        draft = _Draft(data, machine, by_hand, measured or {}, budget.value, network, chunk, size)
        if by_hand.has("data.select.resize") or min(enough, draft.samples) >= size.samples:
            break
    batch, step_seconds = draft.batch.value, draft.step_seconds
    steps = choose_steps(data, by_hand, held_out.value, batch, draft.samples, step_seconds)
    checks = choose_checks(data, by_hand, held_out.value, steps.value, batch)
    learning_rate = choose_learning_rate(network, batch, steps.value, by_hand)
    choices = (
        draft.images,
        draft.cache,
        network,
        chunk,
        choose_execution(data, by_hand, chunk.value),
        draft.batch,
        held_out,
        choose_device(machine, by_hand),
        budget,
        steps,
        learning_rate,
        checks,
    )
    return Plan(
        tuple(_without(choice, by_hand) for choice in choices),
        draft.workload,
        steps.value,
        step_seconds,
        draft.decoding.seconds,
        draft.decoding.bytes,
        None if budget.shown == NO_BUDGET else budget.value,
    )


def _without(choice: Choice, by_hand: ByHand) -> Choice:
    """Take the settings that the user gave out of a choice."""
    kept = {
        key: value
        for key, value in choice.settings.items()
        if not by_hand.has(key) or by_hand.get(key) == "auto"
    }
    return choice._replace(settings=kept)


class _Draft:
    """What follows from a size of images: batch, cache, and how many samples there is time for."""

    def __init__(
        self,
        data: DataFacts,
        machine: MachineFacts,
        by_hand: ByHand,
        measured: Measured,
        budget: float | None,
        network: Choice,
        chunk: Choice,
        size: ImageSize,
    ) -> None:
        self.images = choose_images(data, by_hand, size)
        sizes = self.images.value
        self.batch = choose_batch(data, machine, by_hand, sizes)
        self.cache = choose_cache(data, machine, by_hand, sizes, budget)
        self.workload = Workload(network.value, sizes, chunk.value, self.batch.value)
        computing = estimate_step(self.workload, machine, measured)
        self.decoding = self.cache.value or Decoding()
        self.step_seconds = computing
        if self.cache.value is None:
            decoding = self.batch.value * len(sizes) * data.decoding_seconds / machine.cores
            # a GPU computes while the cores decode
            self.step_seconds = max(computing, decoding) if machine.gpu else computing + decoding
        self.samples = math.inf
        if budget is not None:
            left = max(budget - self.decoding.seconds, 0.0) * USED_FOR_STEPS
            self.samples = left / self.step_seconds * self.batch.value
