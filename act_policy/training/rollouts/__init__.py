"""Success in simulation while a run trains: what is evaluated, by which process, at what cost."""
