"""Choose what of the demonstrations is used: episodes, cameras, dimensions, mixtures."""
