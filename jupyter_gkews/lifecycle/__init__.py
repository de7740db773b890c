"""The state machine: operations, paused kernels, events; knows kernels by interface only."""
