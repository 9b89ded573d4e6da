"""Robots as the loop needs them, the binding of their names, and an arm without hardware."""
