"""The cluster, as the engines for workspaces and for pods ask it. Nothing here imports the
`kubernetes` package before a cluster is first asked.
"""
