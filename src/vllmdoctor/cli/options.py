"""The options that several commands share, each declared once."""

from typing import Annotated

import typer

Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET...",
        help="http(s)://HOST:PORT, prom+http(s)://HOST:PORT (a Prometheus), k8s://NAMESPACE/KIND/NAME, "
        "a file, - for standard input, nvml: and host: (this machine's GPUs and processes), or "
        "example:NAME. Several make one case. As kubectl vllmdoctor also TYPE/NAME, or a pod's name.",
        show_default=False,
    ),
]
For = Annotated[str, typer.Option("--for", help="how long to watch a live server", metavar="DURATION")]
Every = Annotated[str, typer.Option("--every", help="time between two scrapes", metavar="DURATION")]
VllmVersion = Annotated[
    str,
    typer.Option("--vllm-version", help="the server's version, where nothing else tells it", metavar="X.Y.Z"),
]
FAIL_ON = ("never", "info", "warning", "critical")
Args = Annotated[
    str, typer.Option("--args", help="the server's command or arguments, as for a shell", metavar="TEXT")
]
ArgsFile = Annotated[
    str,
    typer.Option(
        "--args-file",
        help="a file with the command, vLLM's --config file, a Kubernetes manifest, chart values, or -",
        metavar="FILE",
    ),
]
Match = Annotated[
    str,
    typer.Option("--match", help='prom+: label matchers, as in namespace="inference"', metavar="MATCHERS"),
]
Span = Annotated[str, typer.Option("--window", help="prom+: how far back to look [24h]", metavar="DURATION")]
At = Annotated[
    str, typer.Option("--at", help="prom+: the time at which the window ends [now]", metavar="TIME")
]
MetricPrefix = Annotated[
    str, typer.Option("--metric-prefix", help="prom+: what relabelling put before the names", metavar="TEXT")
]
MaxPoints = Annotated[
    int | None,
    typer.Option("--max-points", min=1000, help="prom+: ask for no more points [5000000]", metavar="N"),
]
