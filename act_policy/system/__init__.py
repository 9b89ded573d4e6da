"""Files, locks, processes and versions of software."""
