"""A vLLM server's log as a source: statistics lines, start-up lines and trouble become observations.

`shapes` is the table of every kind of line, `scan` finds the few lines that matter among millions,
`clock` tells when they were written, `startup` reads settings, `history` lays statistics on time,
and `reader` puts them together.
"""
