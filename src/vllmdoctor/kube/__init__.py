"""Kubernetes as vllmdoctor sees it: names, objects, rights, and one door to the API server.

Nothing here changes anything in a cluster: the door knows GET, and the two streams (port-forward
and exec) that are opened only when they are asked for.
"""
