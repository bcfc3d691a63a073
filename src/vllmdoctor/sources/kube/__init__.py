"""`k8s://NAMESPACE/KIND/NAME`: the pods of a cluster, read through its API server."""
