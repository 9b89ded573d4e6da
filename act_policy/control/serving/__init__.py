"""A policy served to robots over a websocket, with a status page."""
