"""Files, processes and versions: what the operating system gives."""
