"""Training: policy_training (a step), losses, optimizer; rooms plan, engine, callbacks, run."""
