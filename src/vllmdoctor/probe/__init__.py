"""A fixed set of requests against a server's OpenAI API: answers right or wrong, and how fast they came.

questions   the file of requests, and what their answers are held against
stream      server-sent events, out of bytes that came in pieces
answer      from what came over the wire to an answer, its times and its errors
traffic     order, arrivals, slots, time-outs and the budget
server      what is asked of the server beforehand: models and version
keep        from answers to a recording
summary     from answers to a report
run         all of it in order
"""
