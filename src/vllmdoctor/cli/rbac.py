"""`rbac`: the rights that reading a cluster takes."""

import sys
from typing import Annotated

import typer


def rbac(
    features: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FEATURE]...", help="only for these; --list shows them all"),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="the namespace of the pods", metavar="NAME")
    ] = "",
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="one ClusterRole for every namespace")
    ] = False,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", help="besides the usual: exec, port-forward, ...", metavar="FEATURE"),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="list the features, and what each takes")] = False,
) -> None:
    """Print the least Role for reading a cluster, as YAML to apply; asks nobody, applies nothing."""
    from vllmdoctor.cli.terminal import look
    from vllmdoctor.errors import UsageError
    from vllmdoctor.kube.rights import FEATURES, chosen, roles

    if listed:
        from vllmdoctor.render.pages import features as page

        rows = [(f.name, "usual" if f.usual else "--with", f.what, f.words) for f in FEATURES.values()]
        sys.stdout.write(page(rows, **look()))
        return
    if features and with_:
        raise UsageError("features and --with were given", hint="name the features, or add to the usual ones")
    from vllmdoctor.launch_yaml import dump_all

    usual = [f.name for f in FEATURES.values() if f.usual]
    picked = chosen([*usual, *with_] if with_ else features or ())
    made = roles(picked, namespace, everywhere)
    head = f"# Rights to read: {', '.join(f.name for f in picked)}. Nothing in it can change anything"
    head += (
        ".\n"
        if not {"exec", "port-forward"} & {f.name for f in picked}
        else (
            ",\n# but exec and port-forward open streams into the pods (from 1.35 on with the verb create).\n"
        )
    )
    place = f" -n {namespace}" if namespace else ""
    for role in made:
        kind = "rolebinding" if role["kind"] == "Role" else "clusterrolebinding"
        where = place if role["kind"] == "Role" else ""
        head += (
            f"# bind: kubectl create {kind} vllmdoctor --{role['kind'].lower()}=vllmdoctor"
            f" --user=NAME{where}\n"
        )
    sys.stdout.write(head + dump_all(made))
