"""Episodes in simulation: running them, baselines, and replaying them for images and videos."""
