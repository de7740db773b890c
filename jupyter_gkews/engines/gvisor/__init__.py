"""Process snapshots on one machine, by gVisor's `runsc`."""
