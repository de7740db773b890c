"""The state machine: operations, paused kernels, events. Knows kernels and engines by interface only."""
