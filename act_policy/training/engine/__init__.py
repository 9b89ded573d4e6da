"""Lightning made to run here: trainer, loggers, processes, compilation, where time goes."""
