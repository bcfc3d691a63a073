"""A Prometheus, or what speaks its HTTP API, as a source of history.

settings   credentials and certificates, from the environment or a file
place      the address, taken apart
api        the requests, and what every way of failing means
matrix     answers, read series by series while they come in
names      which names are asked for
targets    which servers there are, what they are called and what stands around them
survey     what there is, found out cheaply
companions containers, GPUs and replicas, joined by labels
plan       the step, the budget, and one query with its halves
pieces     the questions of one reading
emit       from rows to observations
source     all of it in order
"""
