"""Engines that take and restore process snapshots."""
