"""The options of kubectl's that every command about a cluster has, and what they make of its targets."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vllmdoctor.cli.calling import is_plugin, program
from vllmdoctor.cli.terminal import progress
from vllmdoctor.errors import UsageError

if TYPE_CHECKING:
    from vllmdoctor.kube.nouns import Cluster
    from vllmdoctor.launch import Launch

_PANEL = "Kubernetes"


def _option(*names: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=_PANEL)


Namespace = Annotated[
    str, _option("--namespace", "-n", text="k8s: the namespace [that of the context]", metavar="NAME")
]
Context = Annotated[
    str, _option("--context", text="k8s: the kubeconfig's context [the current]", metavar="NAME")
]
Kubeconfig = Annotated[str, _option("--kubeconfig", text="k8s: the kubeconfig [KUBECONFIG]", metavar="FILE")]
ClusterName = Annotated[str, _option("--cluster", text="k8s: the kubeconfig's cluster", metavar="NAME")]
User = Annotated[str, _option("--user", text="k8s: the kubeconfig's user", metavar="NAME")]
Selector = Annotated[
    str, _option("--selector", "-l", text="k8s: pods with these labels, in place of a name", metavar="LABELS")
]
Everywhere = Annotated[bool, _option("--all-namespaces", "-A", text="k8s: pods of every namespace")]
Container = Annotated[
    str, _option("--container", "-c", text="k8s: the container [the one that runs vLLM]", metavar="NAME")
]
Since = Annotated[
    str, _option("--since", text="k8s: how far back logs are read, statistics too [1h]", metavar="DURATION")
]
Execute = Annotated[bool, _option("--exec", text="k8s: run nvidia-smi inside the containers, for the GPUs")]
Prometheus = Annotated[
    str,
    _option(
        "--prometheus",
        text="k8s: a Prometheus with the pods' history, or none [the cluster's own]",
        metavar="URL",
    ),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What kubectl's options said: which targets the words are, and how the cluster is read."""

    cluster: "Cluster"
    namespace: str
    selector: str
    everywhere: bool

    @property
    def chosen(self) -> bool:
        """Whether pods were chosen without a word: by labels, or of a whole place."""
        return bool(self.namespace or self.selector or self.everywhere)

    @property
    def watching(self) -> "Cluster":
        """The same without a Prometheus that nobody named: to see what the pods show by themselves."""
        from vllmdoctor.kube.nouns import NO_PROMETHEUS

        return replace(self.cluster, prometheus=self.cluster.prometheus or NO_PROMETHEUS)

    def targets(self, words: Sequence[str] | None, workload: bool = False) -> list[str]:
        """The targets of the words. UsageError where none was named and none can be meant.

        With `workload` a namespace and a container may be told of a server elsewhere, too.
        """
        from vllmdoctor.kube.kinds import kind_of
        from vllmdoctor.kube.names import SCHEME, targets_of

        words = list(words or ())
        if not words and not (is_plugin() or self.chosen):
            raise UsageError(
                f"no target: which server is to be looked at? See {program()} --help",
                hint="http://HOST:8000, a file, k8s://NAMESPACE/deploy/NAME, or example:kv-thrash to try it",
            )
        if is_plugin() or not words:
            found = targets_of(words, self.selector, self.everywhere, lambda w: Path(w).exists())
            return [self._placed(target) if target.startswith(SCHEME) else target for target in found]
        if not any(word.startswith(SCHEME) for word in words):
            self._only_for_clusters(words, workload)
            for word in words:
                kind, slash, name = word.partition("/")
                if slash and name and kind_of(kind) and not Path(word).exists():
                    raise UsageError(
                        f"no such file: {word}",
                        hint=f"in a cluster: kubectl vllmdoctor ... {word}, or k8s://NAMESPACE/{word}",
                    )
        return words

    def _placed(self, target: str) -> str:
        """A target with its namespace, where it names none: so that a report and a recording tell it."""
        from vllmdoctor.kube.names import parse

        named = parse(target)
        if named.namespace:
            return target
        from vllmdoctor.kube.door import current_namespace

        return str(replace(named, namespace=current_namespace(self.cluster.access)))

    def _only_for_clusters(self, words: Sequence[str], workload: bool) -> None:
        given = {
            "-n": self.namespace and not workload,
            "-c": self.cluster.container and not workload,
            "-l": self.selector,
            "-A": self.everywhere,
            "--since": self.cluster.since_s,
            "--exec": self.cluster.execute,
        }
        for option, value in given.items():
            if value:
                raise UsageError(
                    f"{option} is for pods of a cluster, not for {words[0]}",
                    hint="name them as k8s://NAMESPACE/KIND/NAME, or call it as kubectl vllmdoctor",
                )


def deployed(
    targets: Sequence[str], cluster: "Cluster", given: "Launch | None"
) -> "tuple[Launch | None, tuple[str, str]]":
    """(what the server was started with, (its Service, the Prometheus as pods see it)).

    The workload is that of a target in a cluster; the arguments those that were given, else its own.
    """
    from vllmdoctor.kube.names import SCHEME

    target = next((each for each in targets if each.startswith(SCHEME)), "")
    asked = "" if cluster.prometheus == "none" else cluster.prometheus
    if not target:
        return given, ("", asked)
    from vllmdoctor.sources.kube.workload import read_deployed

    found = read_deployed(target, cluster)
    launch = found.launch
    if given is not None:
        launch = replace(given, workload=launch.workload, image=given.image or launch.image)
    return launch, (found.service, found.prometheus)


def listed_instead(targets: Sequence[str], cluster: "Cluster") -> bool:
    """Whether nothing but a place was named: then what there is to choose from is shown."""
    from vllmdoctor.kube.names import is_choice

    if len(targets) != 1 or not is_choice(targets[0]):
        return False
    from vllmdoctor.cli.terminal import look, say
    from vllmdoctor.kube.listing import servers
    from vllmdoctor.render.pages import servers as page

    rows, gaps = servers(targets[0], cluster)
    told = [(r.namespace, r.name, f"{r.running}/{r.pods}", r.version, r.model, r.trouble) for r in rows]
    sys.stdout.write(page(told, **look()))
    for gap in gaps:
        say(f"{gap.what}: {gap.why}")
    first = rows[0]
    command = f"{program()} diagnose "
    command += (
        f"{first.name} -n {first.namespace}" if is_plugin() else f"k8s://{first.namespace}/{first.name}"
    )
    say(f"judge one with: {command}")
    return True


def for_clusters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `asked: Asked` kubectl's options in its place."""
    own, options = inspect.signature(command), _options()
    kept = [p for p in own.parameters.values() if p.name != "asked"]
    taken = {p.name for p in kept}
    added = [p for p in options.values() if p.name not in taken]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        told = {name: given[name] for name in options}
        rest = {name: value for name, value in given.items() if name in taken}
        command(asked=_asked(**told), **rest)

    called.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    return called


@functools.cache
def _options() -> Mapping[str, inspect.Parameter]:
    return inspect.signature(_asked).parameters


def _asked(
    namespace: Namespace = "",
    selector: Selector = "",
    everywhere: Everywhere = False,
    container: Container = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    cluster: ClusterName = "",
    user: User = "",
    since: Since = "",
    execute: Execute = False,
    prometheus: Prometheus = "",
) -> Asked:
    from vllmdoctor.kube.nouns import Access, Cluster
    from vllmdoctor.units import parse_duration

    access = Access(kubeconfig, context, cluster, user, namespace)
    how = Cluster(
        access,
        container=container,
        since_s=parse_duration(since) if since else None,
        execute=execute,
        prometheus=prometheus,
        tell=progress if sys.stderr.isatty() else None,
    )
    return Asked(how, namespace, selector, everywhere)
