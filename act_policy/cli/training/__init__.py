"""Training as a user starts it: what the plan decides before it, and what is said at its end."""
