"""Behind `export`: targets are read and diagnosed on a schedule, and the answers are a metrics page.

settings   what a person chose
history    the last hours of live targets, in a memory that does not grow
reader     one live target on a thread of its own
stores     the targets that keep history themselves
presence   which engines are there now
troubles   what goes wrong, counted and told once
loop       the schedule: read, diagnose, publish
state      what is published, and for how long it holds
families   the table of every metric that is exported
metrics    the door to prometheus_client: what is published as a page
webconfig  TLS and users, from the file that Prometheus' own exporters take
passwords  the door to bcrypt
web        the page over HTTP
textfile   the page as a file for node_exporter
ending     SIGTERM and SIGINT
commands   what the command line calls
"""
