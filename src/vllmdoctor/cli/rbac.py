"""`rbac`: the rights that reading a cluster takes."""

import sys
from typing import Annotated

import typer


def rbac(
    features: Annotated[
        list[str] | None, typer.Argument(metavar="[FEATURE]...", help="only for these; --list shows all")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--with", help="beside the usual: exec, port-forward, ...", metavar="FEATURE"),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="of the pods, and of the service account", metavar="NAME")
    ] = "default",
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="for the pods of every namespace")
    ] = False,
    monitoring: Annotated[
        str, typer.Option("--monitoring", help="the namespace of the Prometheus", metavar="NAME")
    ] = "monitoring",
    user: Annotated[
        str, typer.Option("--user", help="bind a user, not a service account vllmdoctor", metavar="NAME")
    ] = "",
    listed: Annotated[bool, typer.Option("--list", help="list the features, and what each takes")] = False,
) -> None:
    """Print the least rights that reading a cluster takes, as YAML to look at and apply. Asks nobody."""
    from vllmdoctor.cli.terminal import look
    from vllmdoctor.errors import UsageError
    from vllmdoctor.kube.names import check_name
    from vllmdoctor.kube.rights import FEATURES, Subject, chosen, manifests

    if listed:
        from vllmdoctor.render.pages import features as page

        rows = [(f.name, "usual" if f.usual else "--with", f.what, f.words) for f in FEATURES.values()]
        sys.stdout.write(page(rows, **look()))
        return
    if features and more:
        raise UsageError("features and --with were given", hint="name the features, or add to the usual ones")
    for place in (namespace, monitoring):
        check_name("namespace", place)
    from vllmdoctor.launch_yaml import dump_all

    usual = [f.name for f in FEATURES.values() if f.usual]
    picked = chosen([*usual, *more] if more else features or ())
    subject = Subject(user) if user else Subject("vllmdoctor", namespace)
    made = manifests(picked, subject, namespace=namespace, monitoring=monitoring, everywhere=everywhere)
    streams = {"exec", "port-forward"} & {f.name for f in picked}
    also = "; exec and port-forward open streams into the pods, with the verb create" if streams else ""
    sys.stdout.write(f"# To read with vllmdoctor: {', '.join(f.name for f in picked)}.\n")
    sys.stdout.write(f"# Nothing here can change anything{also}.\n" + dump_all(made))
