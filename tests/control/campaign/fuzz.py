"""Live random lives for a while: `python -m tests.control.campaign.fuzz --seconds 300`.

Prints the seed of each life in which a rule of `lives` was broken; such a seed becomes a test.
"""

import argparse
import sys
import time
import traceback
from itertools import count

from tests.control.campaign.lives import live, random_life


def main() -> int:
    parser = argparse.ArgumentParser(description="random lives of an arm, by seed")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    options = parser.parse_args()
    end, broken, ticks = time.monotonic() + options.seconds, 0, 0
    for seed in count(options.seed):
        if time.monotonic() > end:
            break
        config, moments = random_life(seed)
        ticks += sum(moment.ticks for moment in moments)
        try:
            live(config, moments)
        except Exception:
            broken += 1
            print(f"seed {seed}:\n{traceback.format_exc()}", flush=True)
    print(f"{seed - options.seed} lives, {ticks} ticks: {broken} broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
