"""What `python -m act_policy.control` runs: check, shadow and what they share with run."""
