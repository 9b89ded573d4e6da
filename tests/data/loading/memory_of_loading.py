"""Load epochs in a separate process, and print the anonymous memory after each as JSON.

    python tests/data/loading/memory_of_loading.py FOLDER CACHE EPOCHS CGROUP

CACHE is "auto" or "none"; CGROUP is the memory cgroup to enter, or "none".
"""

import json
import os
import sys
from pathlib import Path


def anonymous_bytes() -> int:
    """Return the memory of this process tree that no file backs; shared pages count once."""
    processes, total = [os.getpid()], 0
    for pid in processes:  # the list grows by the children of each
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            processes += [int(child) for child in path.read_text().split()]
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                total += 1024 * int(line.split()[1])
    return total


def main(folder: str, cache: str, epochs: int, cgroup: str) -> None:
    from act_policy.data.loading.datamodule import DemonstrationDataModule  # not needed by workers

    if cgroup != "none":
        (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
    data = DemonstrationDataModule(
        folder, 100, 8, workers=4, cache=None if cache == "none" else cache
    )
    data.setup("fit")
    loader = data.train_dataloader()
    found, samples = [], 0
    for epoch in range(epochs):
        loader.order.set_epoch(epoch)
        for batch in loader:
            samples += len(batch.step)
        found.append(anonymous_bytes())
    print(json.dumps({"anonymous": found, "samples": samples}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
