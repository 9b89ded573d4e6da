"""Find how to execute a policy's chunks: execute_steps and ensembling race in simulation.

    act-policy tune checkpoint=RUN
    act-policy tune checkpoint=RUN execute_steps=[32,8] ensemble_coefficients=[0.01,0.1]

Keeps the winner and the reason in RUN/execution.json (a bundle: in its config.json), where
evaluate, compare, export, serve and the robot's commands find it as the default. Writes report.html
(open it in a browser), tuning.json and the episodes to RUN/tuning, or to out=FOLDER. The same
command continues a race that was interrupted.
"""

from pathlib import Path
from typing import Any

from act_policy.cli.compare import find_all_demonstrations, print_policies
from act_policy.cli.entry import make_settings, plain
from act_policy.errors import UserError


def main(config: Any) -> None:
    """Check the settings, let the candidates race, print the winner and why."""
    from act_policy.checkpoints.locate import find_run
    from act_policy.checkpoints.source import Source
    from act_policy.evaluation.rollouts.contest import Contestant
    from act_policy.evaluation.tune import RESULT_FILE, TuningConfig, tune
    from act_policy.execution import Execution
    from act_policy.sim.rendering import choose_gl_backend

    settings = make_settings(TuningConfig, config)
    given = plain(config)
    for name in ("execute_steps", "ensemble_coefficients"):
        if not isinstance(given[name], list | None):
            raise UserError(f"{name}={given[name]}: expected a list of candidates, [{given[name]}]")
    contestant = Contestant("", Path(config.checkpoint), source=Source.from_config(config.source))
    run = find_run(contestant.checkpoint)
    if (out := config.out or (run and run / "tuning")) is None:
        raise UserError(
            f"out: checkpoint={config.checkpoint} belongs to no run; say where with out=FOLDER"
        )
    choose_gl_backend()  # once, here: the worker processes inherit it
    report = tune(
        contestant,
        Path(out),
        settings,
        given["execute_steps"],
        given["ensemble_coefficients"] or [],
        find_all_demonstrations([contestant], config.demonstrations, config.instruction),
        workers=None if config.workers == "auto" else config.workers,
        films=config.films,
    )
    print_policies(report, "candidate")
    chosen = Execution.from_dict(report["chosen"])
    print(f"{chosen} ({chosen.reason})")
    if (kept := report["kept_in"]) is not None:
        print(f"it is now the default: {kept}")
    else:
        print("nothing is kept in this kind of policy: give it to each command, or export a bundle")
    print(f"written: {Path(out) / RESULT_FILE} and report.html beside it")
