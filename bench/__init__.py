"""Measurements against plain Jupyter and plain safetensors, each a ratio within one run."""
