"""The commands of `python -m act_policy.control`: check, shadow, run and recover."""
