"""Adapters for real systems. Each module offers ``open_backend()``; each says what to install where something is missing."""
