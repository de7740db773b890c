"""GKE and Kubeflow Workspaces: the pod of this server, or one named from outside, seen and paused
as a whole. Nothing here imports the `kubernetes` package before a cluster is first asked.
"""
