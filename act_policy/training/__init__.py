"""Training: optimizer (the learning rate), losses, policy_training, callbacks, run folder."""
