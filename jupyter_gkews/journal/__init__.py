"""The journal: what happened when, on a disk that outlives the server. Append-only."""
