"""The plan of a run: every choice that the user leaves open, with its value and its reason."""
