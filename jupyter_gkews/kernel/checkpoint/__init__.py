"""The kernel checkpoint: a namespace written as files, and brought back in a new process.

Works on a bare dict, without IPython. Never imports the server, and never torch, numpy or
pandas unless the process already has (see docs/architecture.md, "kernel/checkpoint: the API").
"""
