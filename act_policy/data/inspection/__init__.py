"""Find what is wrong with demonstrations before a policy learns it."""
