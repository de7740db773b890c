"""GKE and Kubeflow Workspaces: the pod of this server, or one named from outside, seen and paused
as a whole.
"""
