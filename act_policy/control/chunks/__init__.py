"""From chunks of actions to one action per tick: execution, blending, ensembling."""
