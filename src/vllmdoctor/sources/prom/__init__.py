"""A Prometheus, or what speaks its HTTP API, as a source of history.

settings   credentials and certificates, from the environment or a file
api        the requests, and what every way of failing means
matrix     answers, read series by series while they come in
names      which names are asked for
targets    which servers there are, what they are called and what stands around them
plan       the step, the budget and the pieces that are asked for
source     all of it in order
"""
