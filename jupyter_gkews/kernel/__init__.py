"""The half that runs in the kernel's process: checkpoint, session, magics.

Imports nothing of the server; needs only the standard library and IPython, and uses cloudpickle
and blake3 where they can be imported. Python >= 3.9.
"""
