"""A pod of a cluster that has GKE Pod Snapshots, but no Workspaces: snapshotted, stopped, brought
back. See docs/podsnapshot.md. What is asked of the API server, and how, is in ../workspaces.
"""
