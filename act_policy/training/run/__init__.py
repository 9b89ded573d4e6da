"""A run on disk: what its folder holds, its numbers, and how it is continued."""
