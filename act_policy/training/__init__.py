"""Losses, the LightningModule, optimiser groups and callbacks."""
