"""The command line: Hydra composes a configuration, the package does the work."""
